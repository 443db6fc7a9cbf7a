"""program.py - a tradewake server started for a test and always ended by its own pid.

Every server gets a state directory, free ports on 127.0.0.1 and a configuration file; it is ready
when it has logged `server.listening`. Its log is a file, so that it is whole after a kill.
"""
import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

START_S = 30
DRAIN_S = 15  # a graceful end takes under 9 s
CONFIG = "paper:\n  control: true\nmetrics:\n  warm_up: 0s\n"

LISTENING = re.compile(r"server\.listening\b.*?\blisten=(\S+)(?:.*?\badmin=(\S+))?")
SANITIZER = re.compile(r"Sanitizer:|runtime error:")

_running = set()
_lock = threading.Lock()


class Broken(Exception):
    """The server did not start, ended by itself, or did not end."""


class Server:
    def __init__(self, program, config=CONFIG, arguments=(), environment=None, folder=None):
        self.program = os.path.abspath(program)
        self.owns_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="tradewake-test-")
        self.state = os.path.join(self.folder, "state")
        self.config = os.path.join(self.folder, "tradewake.yaml")
        self.log_path = os.path.join(self.folder, "server.log")
        self.arguments = list(arguments)
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None
        self.address = self.admin = None
        os.makedirs(self.state, exist_ok=True)
        with open(self.config, "w") as file:
            file.write(config)

    def command(self):
        return [self.program, "serve", "--state-dir", self.state, "--listen", "127.0.0.1:0",
                "--admin", "127.0.0.1:0", "--config", self.config] + self.arguments

    def start(self):
        """Blocks until the server listens. Raises Broken with its last words otherwise."""
        log_from = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        log = open(self.log_path, "ab")
        try:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment, cwd=self.folder)
        except OSError as error:
            raise Broken("%s: %s" % (self.program, error.strerror))
        finally:
            log.close()
        with _lock:
            _running.add(self)
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            found = LISTENING.search(self.log(log_from))
            if found:
                self.address, self.admin = found.group(1), found.group(2)
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        self.kill()
        raise Broken("the server did not listen: " + (self.last_words() or "no log line"))

    def log(self, offset=0):
        try:
            with open(self.log_path, "rb") as file:
                file.seek(offset)
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def last_words(self):
        lines = self.log().strip().splitlines()
        return lines[-1] if lines else ""

    def faults(self):
        """What a sanitizer or a crash left behind, as one line; None when all is well."""
        for line in self.log().splitlines():
            if SANITIZER.search(line):
                return line.strip()
        if self.process is not None and self.process.poll() is not None:
            return "the server ended with %s: %s" % (how_it_ended(self.process.returncode), self.last_words())
        return None

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """kill -9, and waits until it is gone."""
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
        with _lock:
            _running.discard(self)

    def terminate(self, wait_s=DRAIN_S):
        """SIGTERM; answers its exit code. Raises Broken when it did not end in time."""
        if self.is_running():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Broken("the server did not end within %d s of SIGTERM: %s" % (wait_s, self.last_words()))
        with _lock:
            _running.discard(self)
        return self.process.returncode

    def end(self, keep=False):
        """Kills what still runs and removes the folder."""
        self.kill()
        if self.owns_folder and not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()

    # What the kernel knows about it.
    def proc(self, name):
        with open("/proc/%d/%s" % (self.process.pid, name)) as file:
            return file.read()

    def status(self, key):
        found = re.search(r"^%s:\s+(\d+)" % key, self.proc("status"), re.MULTILINE)
        return int(found.group(1)) if found else None

    def open_files(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def http(self, path, deadline_s=5):
        """(status, text) of a page of the admin port."""
        try:
            with urllib.request.urlopen("http://%s%s" % (self.admin, path), timeout=deadline_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def how_it_ended(code):
    if code is not None and code < 0:
        return "signal %d (%s)" % (-code, signal.Signals(-code).name)
    return "code %s" % code


def _end_all(*_):
    with _lock:
        left = list(_running)
    for server in left:
        server.end()


def end_servers_with_us():
    """Servers end with this program: at its end, on SIGTERM and on Ctrl-C."""
    atexit.register(_end_all)

    def on_signal(number, _):
        _end_all()
        os._exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
