#!/usr/bin/python3
"""What Prometheus and Grafana are given is good: promtool has nothing to say about /metrics, the alert rules and their tests;
Debian's Prometheus scrapes a running server; and every metric that a rule or a panel names is one that the server has."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import REPOSITORY, Fleet, prove, wait_until  # noqa: E402

DOCKER = os.path.join(REPOSITORY, "docker")
BOARD = os.path.join(DOCKER, "grafana/dashboards/tradewake.json")
WITHIN_S = 60
KEYWORDS = set("""abs absent absent_over_time and avg avg_over_time bool bottomk by ceil changes clamp clamp_max clamp_min count delta
deriv floor group group_left group_right histogram_quantile ignoring increase irate label_join label_replace label_values last_over_time
max max_over_time min min_over_time offset on or quantile rate resets round scalar sort sum sum_over_time time timestamp topk unless
vector without""".split())


def text_of(url):
    with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
        return answer.read().decode()


def names_in(expression):
    """The metrics that an expression names: words that are neither functions nor labels nor text."""
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    bare = re.sub(r"\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    return {word for word in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare) if word not in KEYWORDS}


def board_expressions():
    """Of every panel and variable of the dashboard, by title."""
    with open(BOARD, encoding="utf-8") as file:
        board = json.load(file)
    found = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
    for variable in board["templating"]["list"]:
        found.append((variable["name"], re.sub(r"label_values\(([^,]*),.*\)", r"\1", variable["query"])))
    return found


def rule_expressions():
    """Of the alerts, by name: `expr:` is one line of the file."""
    with open(os.path.join(DOCKER, "alerts.yml"), encoding="utf-8") as file:
        return re.findall(r"alert: (\w+)\n\s*expr: (.*)", file.read())


def served_names(metrics):
    """What the page has: samples, and families that have none yet."""
    return set(re.findall(r"(?m)^([a-zA-Z_:][a-zA-Z0-9_:]*)[ {]", metrics)) | {
        name for name, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", metrics) if kind != "histogram"}


def labels_of(expression):
    """Values that a selector asks for, by metric: {"tradewake_executor_threads": {("kind", "lost")}}."""
    return [(name, label, value) for name, inside in re.findall(r"([a-z_:]+)\{([^}]*)\}", expression)
            for label, value in re.findall(r'(\w+)="([^"$]*)"', inside)]


def promtool(checks, what, *words, stdin=None):
    ended = subprocess.run(["promtool", *words], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WITHIN_S)
    checks.true(what, ended.returncode == 0, ended.stdout[-600:])
    return ended.stdout


def names_exist(checks, metrics):
    has = served_names(metrics) | {"up"}
    expressions = board_expressions() + rule_expressions()
    checks.true("panels and alerts were found", len(board_expressions()) > 25 and len(rule_expressions()) > 10, len(expressions))
    missing = sorted((where, name) for where, expression in expressions for name in names_in(expression) if name not in has)
    checks.equal("every metric that they name is served", missing, [])
    always = {"reason", "job", "instance"}  # a reason comes with its first copy; the others are Prometheus's own
    absent = sorted((where, name, label, value) for where, expression in expressions for name, label, value in labels_of(expression)
                    if label not in always and not re.search(r'(?m)^%s\{[^}]*\b%s="%s"' % (name, label, value), metrics))
    checks.equal("and every label value", absent, [])
    checks.equal("the check is alive: a name is told from functions, labels and text",
                 names_in('sum by (le) (rate(tradewake_no{a="b"}[5m])) > 2'), {"tradewake_no"})


class Prometheus:
    """Debian's, with the demo's configuration; only the target is another."""

    def __init__(self, target):
        self.folder = tempfile.mkdtemp(prefix="tradewake-prometheus-")
        with open(os.path.join(DOCKER, "prometheus.yml"), encoding="utf-8") as file:
            configuration = file.read().replace("tradewake:9464", target).replace(": 5s", ": 250ms")
        shutil.copy(os.path.join(DOCKER, "alerts.yml"), self.folder)
        self.path = os.path.join(self.folder, "prometheus.yml")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(configuration)
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=" + self.path, "--storage.tsdb.path=" + os.path.join(self.folder, "data"),
             "--web.listen-address=127.0.0.1:0"], stdout=self.log, stderr=self.log, env=dict(os.environ, GOMAXPROCS="1"))
        self.address = wait_until(self.listening, WITHIN_S, "Prometheus listens")

    def listening(self):
        """The port that it took, as /proc tells it: its log has the one that was asked for."""
        if self.process.poll() is not None:
            raise RuntimeError(self.said())
        inodes = set()
        for name in os.listdir("/proc/%d/fd" % self.process.pid):
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" % (self.process.pid, name))))
            except OSError:
                pass
        with open("/proc/net/tcp", encoding="utf-8") as lines:
            for fields in map(str.split, lines):
                if fields[3] == "0A" and fields[9] in inodes:
                    return "127.0.0.1:%d" % int(fields[1].split(":")[1], 16)
        return None

    def said(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()[-800:]

    def ask(self, path, **parameters):
        return json.loads(text_of("http://%s/api/v1/%s?%s" % (self.address, path, urllib.parse.urlencode(parameters))))["data"]

    def value(self, query):
        result = self.ask("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def is_there(self):
        try:
            return self.value('up{job="tradewake"}') == 1
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def scraped(checks, fleet, prometheus):
    wait_until(prometheus.is_there, WITHIN_S, "a scrape that is good: " + prometheus.said())
    counted = wait_until(lambda: prometheus.value('sum(tradewake_copies_total{state="DONE"})') == fleet.sent, WITHIN_S, "every copy is counted")
    checks.true("Prometheus has scraped every copy", counted)
    checks.equal("and each of them in the histogram", prometheus.value("sum(tradewake_own_time_seconds_count)"), fleet.sent)
    groups = wait_until(lambda: [group for group in prometheus.ask("rules")["groups"]
                                 if all(rule["health"] == "ok" for rule in group["rules"])], WITHIN_S, "every rule was evaluated")
    checks.equal("every rule is evaluated without an error", len(groups[0]["rules"]), len(rule_expressions()))
    fires = {rule["name"]: rule["state"] for rule in groups[0]["rules"] if rule["state"] != "inactive"}
    checks.equal("nothing fires at a server that is well", fires, {})
    wrong = []
    for where, expression in board_expressions():
        for unknown, value in (("$__rate_interval", "1m"), ("$instance", ".*")):
            expression = expression.replace(unknown, value)
        try:
            prometheus.ask("query", query=expression)
        except OSError as error:
            wrong.append((where, str(error)))
    checks.equal("every panel's query is one", wrong, [])


def alarmed(checks, fleet, prometheus):
    """An order that its broker carried out without an answer: counted while nobody knows, and somebody is about to be woken."""
    fleet.client.ask("PaperService/Configure", follower_id=fleet.ids[0], faults="open#1=timeout_executed, lookup#*=busy")
    fleet.submit(fleet.open("lost"), wait_for="WAIT_FOR_ACCEPTED")
    wait_until(lambda: prometheus.value("tradewake_copies_unknown") == 1, WITHIN_S, "the unknown copy is scraped")
    state = wait_until(lambda: [alert["state"] for alert in prometheus.ask("alerts")["alerts"]
                                if alert["labels"]["alertname"] == "TradewakeCopiesUnknown"], WITHIN_S, "an alert")
    checks.true("an unknown copy is an alert, pending for its minute", state[0] in ("pending", "firing"), state)
    fleet.client.ask("PaperService/Configure", follower_id=fleet.ids[0], faults="none")
    wait_until(lambda: prometheus.value("tradewake_copies_unknown") == 0, WITHIN_S, "it is known again")
    checks.true("and none any more once its broker has said what became of it", True)


def main(options, checks):
    promtool(checks, "the alert rules are clean", "check", "rules", os.path.join(DOCKER, "alerts.yml"))
    promtool(checks, "and wake whom they should", "test", "rules", os.path.join(DOCKER, "alerts_test.yml"))
    promtool(checks, "the configuration is good", "check", "config", os.path.join(DOCKER, "prometheus.yml"))
    with Fleet(options.program, followers=3, paper={"latency": "constant:1ms", "call_timeout": "200ms", "settle": "100ms"}) as fleet:
        fleet.sent = 0
        for index in range(5):
            fleet.sent += fleet.submit(fleet.open("%d" % index)).accepted
        wait_until(lambda: "tradewake_own_time_seconds_count %d\n" % fleet.sent in text_of("http://%s/metrics" % fleet.server.admin),
                   WITHIN_S, "every sample is counted")
        metrics = text_of("http://%s/metrics" % fleet.server.admin)
        said = promtool(checks, "promtool has nothing against /metrics", "check", "metrics", stdin=metrics)
        checks.equal("not a word", said.strip(), "")
        names_exist(checks, metrics)
        prometheus = Prometheus(fleet.server.admin)
        try:
            scraped(checks, fleet, prometheus)
            alarmed(checks, fleet, prometheus)
        finally:
            prometheus.close()
        checks.equal("the server is unharmed", fleet.server.faults(), None)


prove(main)
