#!/usr/bin/python3
"""What an operator changes while the server runs: a configuration read again (SIGHUP), where a bad one keeps all of the one
before; the log level over the admin port, from this machine alone. And a trace that comes with an event (traceparent): in
samples, copies and the log, and at a bridge."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, REPOSITORY, Fleet, prove, wait_until  # noqa: E402

BRIDGE = os.path.join(REPOSITORY, "client-examples/bridge-python/bridge.py")
WITHIN_S = 60
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00-%s-00f067aa0ba902b7-01" % TRACE


def admin(fleet, method, path, body=None, host=None):
    port = fleet.server.admin.rsplit(":", 1)[1]
    connection = http.client.HTTPConnection(host or "127.0.0.1", int(port), timeout=WITHIN_S)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().strip()
    finally:
        connection.close()


def reloaded(fleet, text, expected):
    """The file is `text` from now on; the log of the server from here to the line that has `expected` in it."""
    log_from = os.path.getsize(fleet.server.log_path)
    with open(fleet.server.config, "w", encoding="utf-8") as file:
        file.write(text)
    fleet.server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: expected in fleet.server.log(log_from), WITHIN_S, expected)
    return fleet.server.log(log_from)


def level(fleet):
    return admin(fleet, "GET", "/loglevel")[1]


def configuration(fleet, checks):
    said = reloaded(fleet, CONFIG + "log: {level: warn}\nstreams: {hopeless_after: 7s}\n", "setting=log.level")
    wait_until(lambda: level(fleet) == "warn", WITHIN_S, "the level of the file")
    checks.true("SIGHUP: what takes effect without a restart does, and is told", 'before="info" now="warn"' in said, said)
    said = reloaded(fleet, CONFIG + "log: {level: debug}\nlisten: 127.0.0.1:1\nlog.levle: info\n", "config.refused")
    checks.true("a bad file keeps all of the one before", level(fleet) == "warn" and "keeps=the_one_before" in said, (level(fleet), said))
    checks.true("and says where and what was meant", "tradewake.yaml:" in said and "did you mean log.level?" in said, said)
    said = reloaded(fleet, CONFIG + "log: {level: info}\nexecutor: {threads_max: 4000}\n", "config.reloaded")
    checks.true("what needs a restart says so", 'config.waits setting=executor.threads_max before="4096" file="4000"' in said, said)
    os.rename(fleet.server.config, fleet.server.config + ".away")
    fleet.server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "cannot read the configuration" in fleet.server.log(), WITHIN_S, "a file that is gone")
    os.rename(fleet.server.config + ".away", fleet.server.config)
    checks.equal("a file that is gone changes nothing", (level(fleet), fleet.server.process.poll()), ("info", None))


def outside_address():
    """An address of this machine that is none of the loopback's; "" where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            address = probe.getsockname()[0]
        except OSError:
            return ""
    return "" if address.startswith("127.") else address


def log_level(options, fleet, checks):
    checks.equal("PUT /loglevel", admin(fleet, "PUT", "/loglevel", "debug"), (200, "debug"))
    checks.equal("as forms have it", admin(fleet, "PUT", "/loglevel", "level=error"), (200, "error"))
    checks.equal("it holds", level(fleet), "error")
    checks.equal("another word is refused, and names those that are not", admin(fleet, "PUT", "/loglevel", "loud"),
                 (400, "expected debug, info, warn, error or none"))
    checks.true("both are in the log", "log.level level=debug before=info by=admin" in fleet.server.log()
                and "log.level level=error before=debug" in fleet.server.log(), fleet.server.last_words())
    reloaded(fleet, CONFIG, "config.reloaded")
    checks.equal("SIGHUP brings back what the file says", level(fleet), "info")
    outside = outside_address()
    if not outside:
        print("     this machine has no address of its own beside the loopback: who comes from outside is not tried")
        return
    with Fleet(options.program, 0, server_arguments=["--admin", "0.0.0.0:0"]) as open_fleet:
        checks.equal("from elsewhere: read", admin(open_fleet, "GET", "/loglevel", host=outside), (200, "info"))
        checks.equal("but not changed", (admin(open_fleet, "PUT", "/loglevel", "debug", outside)[0], level(open_fleet)), (403, "info"))


class Bridge:
    def __init__(self, folder):
        self.address, self.state = "unix:%s/s" % folder, os.path.join(folder, "state")
        self.process = subprocess.Popen(["/usr/bin/python3", BRIDGE, "--listen", self.address, "--state", self.state],
                                        stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline().startswith("listening on "):
            raise RuntimeError("the bridge does not start")

    def traces(self):
        """What each order call brought along."""
        with open(os.path.join(self.state, "journal"), encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines if line.endswith("\n") and line != "\n"]
        return [entry["trace"] for entry in entries if "trace" in entry]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def submit_traced(fleet, event, parent):
    stub = fleet.client.stub("EventService/SubmitEvent")
    return stub(fleet.request(event), timeout=WITHIN_S, metadata=(("traceparent", parent),))


def trace(options, checks):
    folder = tempfile.mkdtemp(prefix="trace-", dir="/tmp")
    bridge = None
    try:
        bridge = Bridge(folder)
        with Fleet(options.program, 0, server_arguments=["--bridges", "sample=" + bridge.address]) as fleet:
            fleet.number = 2
            fleet.create("B0", adapter="remote:sample")
            fleet.create("P0", paper={"latency": "constant:1ms"})
            wait_until(fleet.is_connected, WITHIN_S, "both connected")
            watch = fleet.client.watch("MetricsService/WatchOwnTime", fleet.new("WatchOwnTimeRequest"))
            next(watch)  # started
            submit_traced(fleet, fleet.open("t"), PARENT)
            samples = {}
            while len(samples) < 2:
                samples.update({sample.follower_id: sample.trace_id for sample in next(watch).batch.samples})
            watch.cancel()
            checks.equal("a trace is in every sample", samples, {"B0": TRACE, "P0": TRACE})
            checks.equal("in every copy", {copy.trace_id for copy in fleet.copies()}, {TRACE})
            checks.equal("and at the bridge, as it came", bridge.traces(), [PARENT])
            submit_traced(fleet, fleet.open("u"), PARENT.replace("-01", "-1"))
            fleet.submit(fleet.open("v"))
            checks.equal("what is no traceparent counts as none", (bridge.traces(), {
                copy.trace_id for copy in fleet.copies() if copy.event_id != "open-t"}), ([PARENT, "", ""], {""}))
            fleet.server.kill()
            fleet.server.start()
            fleet.client.close()
            fleet.client = fleet.connect()
            wait_until(fleet.is_serving, WITHIN_S, "serving again")
            checks.equal("a restart knows the trace of a copy", {
                copy.trace_id for copy in fleet.copies() if copy.event_id == "open-t"}, {TRACE})
    finally:
        if bridge is not None:
            bridge.close()
        shutil.rmtree(folder, ignore_errors=True)


def main(options, checks):
    with Fleet(options.program, followers=1) as fleet:
        configuration(fleet, checks)
        log_level(options, fleet, checks)
        checks.equal("the server is unharmed", fleet.server.faults(), None)
    trace(options, checks)


prove(main)
