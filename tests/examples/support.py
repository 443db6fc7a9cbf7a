"""support.py - what the checks of the examples share: servers at one address, the Node backend, programs.

A server here keeps its address and its state directory over a kill, because that is what its clients see
of a restart. Everything that is started is ended by its own pid.
"""
import collections
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import shutil
import tempfile
import threading
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "../blackbox/lib"))

from blackbox import CONFIG, REPOSITORY, Checks, Client, Contract, Fleet, Refused, Server, wait_until  # noqa: E402,F401

EXAMPLES = os.path.join(REPOSITORY, "client-examples")
NODE = os.path.join(EXAMPLES, "node-backend")
PYTHON = os.path.join(EXAMPLES, "python")
WITHIN_S = 30
# Below the ports that the kernel gives to clients: what is free now is still free after a restart.
PORTS = range(20000, 30000)

# A server that is back is found at once.
RECONNECT = [("grpc.%s_reconnect_backoff_ms" % which, 100) for which in ("initial", "min", "max")]

OPEN = {"symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10"}


def free_address():
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return "127.0.0.1:%d" % port
    raise RuntimeError("no free port")


class LastingServer(Server):
    """`tradewake serve`, or `dev` with its demo fleet, at one address for its whole life."""

    def __init__(self, program, config=CONFIG, is_dev=False):
        self.is_dev = is_dev
        folder = tempfile.mkdtemp(prefix="tradewake-examples-")
        super().__init__(program, config=config, arguments=["--listen", free_address()], folder=folder)
        self.owns_folder = True

    def command(self):
        words = super().command()
        if self.is_dev:
            words[1] = "dev"
        return words

    def restart(self, away_s=0, is_new=True):
        """kill -9 and start; is_new: with nothing of the old one's state, so that its journal is another."""
        self.kill()
        if is_new:
            shutil.rmtree(self.state, ignore_errors=True)
        time.sleep(away_s)
        return self.start()


class LastingFleet(Fleet):
    """A Fleet that may lose its server and be made anew on the next one."""

    def __init__(self, program, followers=3, paper=None, config=CONFIG):
        super().__init__(program, followers, paper, config=config)
        self.server.end()
        self.server = LastingServer(program, config)

    def connect(self, options=(), compression=None):
        return super().connect(list(options) + RECONNECT, compression)

    def restart(self, away_s=0):
        """kill -9 and start: the journal has its fleet and its events."""
        self.server.restart(away_s, is_new=False)
        wait_until(self.is_serving, WITHIN_S, "health SERVING")
        wait_until(self.is_connected, WITHIN_S, "every follower connected")

    def make(self):
        wait_until(self.is_serving, WITHIN_S, "health SERVING")
        for follower_id in self.ids:
            self.create(follower_id)
        wait_until(self.is_connected, WITHIN_S, "every follower connected")

    def configure(self, **fields):
        self.client.ask("PaperService/Configure", **fields)

    def deals_of(self, position_id):
        """Executions of that master position's open per follower, out of the broker's ledger."""
        copies = self.copies(master_position_id=position_id, actions=["COPY_ACTION_OPEN"])
        counts = {}
        for copy in copies:
            ids = set(copy.client_order_ids)
            counts[copy.follower_id] = sum(deal.client_order_id in ids for deal in self.book(copy.follower_id).deals)
        return counts


class Output:
    """A program's lines as they come; whoever waits for one is told."""

    def __init__(self, stream):
        self.lines = []
        self.news = threading.Condition()
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream):
        for line in stream:
            with self.news:
                self.lines.append(line.rstrip("\n"))
                self.news.notify_all()

    def wait_for(self, pattern, after=0, within_s=WITHIN_S):
        """The first line from `after` on that matches, and its number."""
        end = time.monotonic() + within_s
        with self.news:
            while True:
                for index in range(after, len(self.lines)):
                    if re.search(pattern, self.lines[index]):
                        return self.lines[index], index
                if not self.news.wait(max(0, end - time.monotonic())):
                    raise TimeoutError("no line %r within %g s; the last: %s" % (pattern, within_s, self.lines[-3:]))

    def text(self):
        with self.news:
            return "\n".join(self.lines)


class Running:
    """A program beside the test."""

    def __init__(self, words, folder=REPOSITORY, environment=None):
        self.process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=dict(os.environ, **(environment or {})))
        self.out, self.err = Output(self.process.stdout), Output(self.process.stderr)

    def wait(self, within_s=WITHIN_S):
        """Its exit code; None when it did not end in time (it is ended then)."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self.out.thread.join(5)
        self.err.thread.join(5)
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()


Ended = collections.namedtuple("Ended", "code out err")


def run(words, folder=REPOSITORY, within_s=60, environment=None):
    with Running(words, folder, environment) as program:
        code = program.wait(within_s)
        return Ended(code, program.out.text(), program.err.text())


Answer = collections.namedtuple("Answer", "status body headers")


class Backend(Running):
    """The Node backend, and HTTP calls to it."""

    def __init__(self, tradewake):
        super().__init__(["node", "backend.mjs", "--server", tradewake, "--listen", "127.0.0.1:0"], NODE)
        line, _ = self.err.wait_for(r"backend\.listening")
        self.address = re.search(r"http=(\S+)", line).group(1)

    def ask(self, method, path, body=None, headers=None, within_s=90):
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.address, timeout=within_s)
        try:
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, json.loads(response.read()), dict(response.getheaders()))
        finally:
            connection.close()

    def trade(self, event_id, action, query="", master_id="M1", **more):
        body = dict(more, master_id=master_id, event_id=event_id, **action)
        return self.ask("POST", "/trades" + query, body)

    def open(self, position_id, query="", **fields):
        return self.trade("open-" + position_id, {"open": dict(OPEN, position_id=position_id, **fields)}, query)

    def close(self, position_id, query=""):
        return self.trade("close-" + position_id, {"close": {"position_id": position_id}}, query)

    def stream(self, path, last_event_id=None):
        return EventSource(self.address, path, last_event_id)


Told = collections.namedtuple("Told", "event data id")


class EventSource:
    """A reader of server-sent events that keeps what it was told."""

    def __init__(self, address, path, last_event_id=None):
        self.connection = http.client.HTTPConnection(address, timeout=WITHIN_S)
        self.connection.request("GET", path, headers={} if last_event_id is None else {"Last-Event-ID": last_event_id})
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.told, self.news = [], threading.Condition()
        self.last_event_id = last_event_id or ""
        self.is_over = False
        self.body = None
        if self.status != 200:
            self.body = json.loads(self.response.read())
            self.is_over = True
            return
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        fields = {}
        try:
            for raw in self.response:
                line = raw.decode().rstrip("\n")
                if line == "":
                    self._take(fields)
                    fields = {}
                elif not line.startswith(":"):
                    key, _, value = line.partition(": ")
                    fields[key] = value
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        with self.news:
            self.is_over = True
            self.news.notify_all()

    def _take(self, fields):
        if "event" not in fields:
            return
        with self.news:
            if "id" in fields:
                self.last_event_id = fields["id"]
            self.told.append(Told(fields["event"], json.loads(fields["data"]), fields.get("id")))
            self.news.notify_all()

    def wait_for(self, holds, after=0, within_s=WITHIN_S):
        """The first event from `after` on for which holds(told), and its number."""
        end = time.monotonic() + within_s
        with self.news:
            while True:
                for index in range(after, len(self.told)):
                    if holds(self.told[index]):
                        return self.told[index], index
                if self.is_over or not self.news.wait(max(0, end - time.monotonic())):
                    raise TimeoutError("not told; heard %s" % [told.event for told in self.told])

    def event(self, name, after=0):
        return self.wait_for(lambda told: told.event == name, after)

    def copies(self):
        """The newest state of every copy it was told of."""
        newest = {}
        with self.news:
            for told in self.told:
                for copy in told.data if told.event == "copies" else ():
                    if copy["change_id"] >= newest.get(copy["copy_id"], {"change_id": 0})["change_id"]:
                        newest[copy["copy_id"]] = copy
        return list(newest.values())

    def close(self):
        # The reading thread is inside the socket: shut it down rather than waiting for its lock.
        sock = self.connection.sock or getattr(getattr(self.response.fp, "raw", None), "_sock", None)
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Stopped:
    """The server stands still (SIGSTOP): connected, and silent."""

    def __init__(self, server):
        self.pid = server.process.pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


def states(answer):
    return [copy["state"].replace("COPY_STATE_", "") for copy in answer.body.get("copies", [])]


def temporary_folder():
    return tempfile.TemporaryDirectory(prefix="tradewake-examples-")
