"""check_readmes.py - every command of every README and guide: those in fenced blocks are run as they stand, or have a reason here
why not; a program in a block is one command.

A command is a line of a block with `sh`, or of one without a language in which a line begins with a program; a line goes on where it ends in a backslash or within quotes. It
runs in bash, in the repository's root, with the program in PATH; ports and the folder of a state are told over the environment, so
that nothing of the machine is in the way. A command that no row matches is a failure, and so is a row that matches nothing.
"""
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

from support import REPOSITORY, WITHIN_S

ONCE = "once"        # runs to its end, exit code 0
SERVER = "server"    # goes on: its line comes, and it is there until the README's end
BESIDE = "beside"    # begun, and ends by itself once the commands behind it have run
SOME = "some"        # goes on for ever: its first line is enough
SQL = "sql"          # the block is asked of the history that the README's server keeps

IN_PART = "tests/run.sh %s runs it"
DOCKER = "needs a Docker engine; tests/run.sh container builds and runs the image with buildah and podman, and reads compose.yaml"
MEASURES = "measures, for minutes; by hand, or by tests/run.sh bench"

# README, what the command begins with (a regular expression), how, and more: `line` of a server, `replace`, `folder`.
ROWS = [
    ("README.md", r"client-examples/quickstart\.sh", IN_PART % "examples"),
    ("README.md", r"tests/run\.sh", "it is what runs this"),
    ("README.md", r"build/release/tradewake dev +#", SERVER, {"line": r"server\.listening"}),
    ("README.md", r"build/release/tradewake watch --count 30", BESIDE),
    ("README.md", r"build/release/tradewake submit open", ONCE),
    ("README.md", r"\(cd client-examples/dashboard && npm ci", ONCE),
    ("README.md", r"build/release/tradewake dev --dashboard", SERVER, {
        "line": r"dashboard: http", "replace": [("--dashboard ", "--dashboard --dashboard-listen 127.0.0.1:0 --listen 127.0.0.1:0 --admin 127.0.0.1:0 ")]}),
    ("adapters/README.md", r"tradewake followers create F1 .*secret:", ONCE, {"given": True}),
    ("adapters/README.md", r"tradewake adapter-check", "the reader's own bridge; tests/blackbox/adapter_check.py runs it against good and bad ones"),
    ("adapters/fix/README.md", r"tradewake (serve|followers create F1)", "the reader's own broker; tests/fix/kill.py runs it against a venue"),
    ("adapters/remote/README.md", r"tradewake followers create F1", "the reader's own bridge; those of the sample bridges run"),
    ("client-examples/bridge-node/README.md", r"node bridge\.mjs", SERVER, {
        "line": r"listening on", "folder": "client-examples/bridge-node", "before": "npm ci --ignore-scripts --no-audit --no-fund"}),
    ("client-examples/bridge-python/README.md", r"client-examples/bridge-python/bridge\.py", SERVER, {"line": r"listening on"}),
    ("client-examples/bridge-(node|python)/README.md", r"build/release/tradewake dev --bridges", SERVER, {"line": r"server\.listening"}),
    ("client-examples/bridge-(node|python)/README.md", r"build/release/tradewake followers create P1", ONCE),
    ("client-examples/(c|python|dashboard|node-backend)/README.md", r"cmake --workflow --preset release && build/release/tradewake dev", SERVER, {
        "line": r"server\.listening", "replace": [("cmake --workflow --preset release && ", "")]}),  # it is built: else nothing would run
    ("client-examples/c/README.md", r"build/release/c-client", ONCE),
    ("client-examples/dashboard/README.md", r"cd client-examples/dashboard", SERVER, {"line": r"dashboard: http"}),
    ("client-examples/node-backend/README.md", r"cd client-examples/node-backend", SERVER, {"line": r"backend\.listening"}),
    ("client-examples/node-backend/README.md", r"curl -i ", ONCE),
    ("client-examples/node-backend/README.md", r"curl -N ", SOME),
    ("client-examples/python/README.md", r"client-examples/python/submit\.py", ONCE),
    ("docker/README.md", r"docker (compose|build|run)", DOCKER),
    ("docker/README.md", r"docker/install-deps\.sh container|tests/container/base|buildah bud|podman ", IN_PART % "container"),
    ("server/access/README.md", r"tradewake token (key|issue)", ONCE),
    ("server/access/README.md", r"tradewake copies --token-file", "the reader's own server and CA; tests/security/access.py calls with tokens over TLS"),
    ("server/access/README.md", r"tradewake audit", ONCE, {"given": True}),
    ("server/journal/README.md", r"sqlite3 -readonly", "a program of its own; the queries below it are asked of the same file"),
    ("server/journal/README.md", r"-- what became of a position", SQL, {"given": True}),
    ("docs/backend.md", r"build/release/tradewake dev", SERVER, {"line": r"server\.listening"}),
    ("docs/backend.md", r"import grpc from", ONCE, {
        "program": "node --input-type=module -", "folder": "client-examples/node-backend", "before": "npm ci --ignore-scripts --no-audit --no-fund"}),
    ("docs/backend.md", r"import sys, time", ONCE, {"program": "/usr/bin/python3 -"}),
    ("docs/backend.md", r"conn, err|var channel|using var", "another language's tools; marked as not run"),
    ("docs/backend.md", r"tradewake explain open", ONCE),
    ("docs/dashboards.md", r"build/release/tradewake dev --dashboard", SERVER, {"line": r"dashboard: http", "replace": [("--dashboard", "--dashboard --dashboard-listen 127.0.0.1:0")]}),
    ("docs/dashboards.md", r"tradewake watch --summary", SOME),
    ("docs/dashboards.md", r"tradewake top --count", ONCE),
    ("docs/operator.md", r"tradewake (config|check)", ONCE),
    ("docs/operator.md", r"tradewake (doctor|copies|executor|halt|halts|resume)\b", ONCE, {"given": True}),
    ("tests/bench/README.md", r"cmake --workflow --preset release", "it is built"),
    ("tests/bench/README.md", r"build/release/tradewake-bench|tests/bench/", MEASURES),
    ("tests/cases/README.md", r"tests/cases/run", IN_PART % "cases"),
    ("tests/fix/README.md", r"build/release/fix_acceptor", "the reader's own ledger; tests/fix/acceptor_test.py runs it"),
    ("tests/property/README.md", r"tests/property/decimal_check\.py", IN_PART % "unit"),
    ("tests/schedules/README.md", r"tests/schedules/run|build/release/schedules", IN_PART % "faults"),
    ("tests/simulation/README.md", r"tests/simulation/run", IN_PART % "cases"),
]
# Lines that the command above says: README, and how they begin.
SAID = [
    ("tests/fix/README.md", r"ready port="),
]
BUILT_IN = {"cd", "export", "source", "tradewake"}


def blocks_of(path):
    """(language, lines) of the fenced blocks."""
    with open(os.path.join(REPOSITORY, path), encoding="utf-8") as file:
        return [(language, text.splitlines()) for language, text in re.findall(r"(?ms)^```(\w*)\n(.*?)^```", file.read())]


def commands_of(lines):
    """Lines put together where one goes on in the next."""
    command = ""
    for line in lines:
        command += ("\n" if command else "") + line
        if line.endswith("\\") or re.sub(r"\s#.*", "", command).count("'") % 2 == 1:
            continue
        if command.strip():
            yield command
        command = ""


def readmes():
    listed = subprocess.run(["git", "ls-files", "*README.md", "docs/*.md"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    return listed.stdout.split()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Reader:
    """Somebody who follows one README: a folder of his own, and what he has started."""

    def __init__(self, options):
        self.folder = tempfile.mkdtemp(prefix="tradewake-readme-")
        ports = [free_port() for _ in range(3)]
        self.program = os.path.abspath(options.program)
        self.http = "127.0.0.1:%d" % ports[2]
        self.state = os.path.join(self.folder, "state")
        self.environment = dict(
            os.environ, PATH=os.path.dirname(self.program) + ":" + os.environ["PATH"], LISTEN=self.http, TRADEWAKE_DRAIN_LAME_DUCK="0",
            TRADEWAKE_LISTEN="127.0.0.1:%d" % ports[0], TRADEWAKE_SERVER="127.0.0.1:%d" % ports[0], TRADEWAKE_ADMIN="127.0.0.1:%d" % ports[1])
        self.started, self.beside = [], []

    def text(self, command, more):
        """As it stands, but for what is this machine's: temporary files, a port that every README has."""
        for before, now in more.get("replace", []):
            command = command.replace(before, now)
        if "program" in more:
            command = "%s <<'the end of the program'\n%s\nthe end of the program" % (more["program"], command)
        return command.replace("/tmp/sample", self.folder + "/sample").replace("127.0.0.1:8080", self.http)

    def begin(self, command, folder, **environment):
        path = os.path.join(self.folder, "out-%d" % len(os.listdir(self.folder)))
        with open(path, "wb") as out:
            process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=dict(self.environment, **environment), stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=out, start_new_session=True)
        self.started.append(process)
        return process, path

    def said(self, path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, process, path, pattern):
        end = time.monotonic() + WITHIN_S
        while not re.search(pattern, self.said(path)):
            if process.poll() is not None or time.monotonic() > end:
                return "no line %r: %s" % (pattern, self.said(path)[-400:])
            time.sleep(0.05)
        return None

    def serve(self):
        """A server that the README takes as given."""
        process, path = self.begin("tradewake dev", REPOSITORY, TRADEWAKE_STATE_DIR=self.state)
        return self.wait_for(process, path, r"server\.listening")

    def run(self, command, how, more):
        """What is wrong with it; None when nothing is."""
        folder = os.path.join(REPOSITORY, more["folder"]) if "folder" in more else REPOSITORY
        if how == ONCE and ("./state" in command or "signer.pem" in command):
            folder = self.folder  # it writes there, or names what is there
        if "before" in more:
            subprocess.run(more["before"], shell=True, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process, path = self.begin(self.text(command, more), folder, **({"TRADEWAKE_STATE_DIR": self.state} if more.get("given") else {}))
        if how == SERVER:
            return self.wait_for(process, path, more["line"])
        if how == SOME:
            return self.wait_for(process, path, r"\S.*\n")
        if how == BESIDE:
            self.beside.append((command, process, path))
            return None
        return self.ended(process, path)

    def ended(self, process, path):
        try:
            code = process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            return "it does not end: %s" % self.said(path)[-400:]
        return None if code == 0 else "exit code %d: %s" % (code, self.said(path)[-400:])

    def ask(self, lines):
        """Each query of the block, at the history beside its server."""
        path = os.path.join(self.state, "history.db")
        end = time.monotonic() + WITHIN_S
        while not os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.05)
        with sqlite3.connect("file:%s?mode=ro" % path, uri=True) as connection:
            for query in "\n".join(lines).split(";"):
                connection.execute(re.sub(r"(?m)^--.*$", "", query)).fetchall()

    def close(self):
        for process in reversed(self.started):
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                    process.wait(20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        shutil.rmtree(self.folder, ignore_errors=True)


def matches(pattern, text):
    return re.match(pattern + r"\Z", text) is not None


def rows_for(readme, command):
    return [row for row in ROWS if matches(row[0].replace(".md", r"\.md"), readme) and re.match(row[1], command)]


def is_said(readme, text):
    return any(matches(path.replace(".md", r"\.md"), readme) and re.match(begin, text) for path, begin in SAID)


def is_program(line):
    """The line's first word is one: in PATH, or a file of ours or of our build that can be executed."""
    word = re.match(r"\s*\(?\s*([^\s()]*)", line).group(1)
    path = os.path.join(REPOSITORY, word)
    return word in BUILT_IN or bool(re.match(r"build/|tests/|client-examples/|docker/|proto/|docs/", word)) or (
        "/" not in word and bool(shutil.which(word))) or os.path.isfile(path) and os.access(path, os.X_OK)


def is_no_command(language, lines):
    """Pictures, and what is in a file."""
    return language in ("yaml", "c", "ini") or language == "" and not any(is_program(line) for line in lines)


def follow(checks, options, readme, used, reasons):
    """One README from its beginning to its end, as its reader would."""
    reader, is_given = None, False
    try:
        for language, lines in blocks_of(readme):
            if is_no_command(language, lines):
                continue
            for command in ["\n".join(lines)] if language not in ("", "sh") else commands_of(lines):
                if is_said(readme, command):
                    continue
                found = rows_for(readme, command)
                name = "%s: %s" % (readme, " ".join(command.split())[:100])
                if len(found) != 1:
                    checks.true("%s: is run, or has a reason not to" % name, False, "%d rows of check_readmes.py" % len(found))
                    continue
                used.append(found[0])
                how, more = found[0][2], found[0][3] if len(found[0]) > 3 else {}
                if how not in (ONCE, SERVER, BESIDE, SOME, SQL):
                    reasons.append((name, how))
                    continue
                reader = reader or Reader(options)
                if more.get("given") and not is_given:
                    is_given = True
                    checks.true("%s: a server" % readme, reader.serve() is None)
                if how == SQL:
                    reader.ask(lines)
                    checks.true(name, True)
                else:
                    wrong = reader.run(command, how, more)
                    checks.true(name, wrong is None, wrong)
        for command, process, path in reader.beside if reader else []:
            wrong = reader.ended(process, path)
            checks.true("%s: %s ends" % (readme, " ".join(command.split())[:60]), wrong is None, wrong)
    finally:
        if reader is not None:
            reader.close()


def broken_links(readme):
    """Links of a README, and files that it names in a table, to what is not there."""
    with open(os.path.join(REPOSITORY, readme), encoding="utf-8") as file:
        targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read())
    folder = os.path.dirname(os.path.join(REPOSITORY, readme))
    return [target for target in targets if not os.path.exists(os.path.join(folder, target))]


def check(checks, options):
    used, reasons = [], []
    current = subprocess.run([os.path.join(REPOSITORY, "proto/reference"), "--check"], stderr=subprocess.PIPE, text=True)
    checks.true("proto/REFERENCE.md is what the contract says", current.returncode == 0, current.stderr.strip())
    checks.equal("no README links to what is not there", [(readme, links) for readme in readmes() for links in [broken_links(readme)] if links], [])
    for readme in readmes():
        follow(checks, options, readme, used, reasons)
    checks.equal("readmes: no row without a command", [row[:2] for row in ROWS if row not in used], [])
    for reason in sorted({reason for _, reason in reasons}):
        names = [name for name, why in reasons if why == reason]
        print("     not run: %s%s; %s" % (names[0], " and %d more" % (len(names) - 1) if len(names) > 1 else "", reason))
