"""rounds.py - one life and death of a server: traffic, an end at a named point, recovery, and the verdict."""
import os
import random
import signal
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "../../blackbox/lib"))
sys.path.insert(0, FOLDER)

from blackbox import Broken, Fleet, Refused, wait_until  # noqa: E402,F401
from contract import Contract  # noqa: E402
from judge import Judge  # noqa: E402
from program import CONFIG, Server  # noqa: E402
from traffic import Traffic  # noqa: E402

# Two chunks of followers (a chunk is 4 in test builds), of every kind of account.
QUICK = {"call_timeout": "400ms", "settle": "200ms"}
FLEET = [
    {"latency": "constant:1ms"},
    {"latency": "constant:4ms", "max_parallel": 1},
    {"latency": "constant:3ms", "nonblocking": "true"},
    {"latency": "constant:1ms", "remainder": "new_ticket", "faults": "open#2=requote, close#2=busy, any#p0.03=off_quotes"},
    {"latency": "constant:2ms", "account_mode": "netting"},
    {"latency": "constant:2ms", "account_mode": "netting", "nonblocking": "true"},
    {"latency": "constant:2ms", "faults": "open#3=partial:0.10, close#2=partial:0.05, open#5=timeout_executed, "
                                          "close#4=hang, open#8=timeout_lost, any#p0.02=timeout_executed"},
    {"latency": "constant:1ms", "account_mode": "netting",
     "faults": "open#2=busy, close#3=busy, open#4=timeout_lost, any#p0.03=drop_reply"},
]
SEGMENT_BYTES = 65536
SNAPSHOTS = "snapshot:\n  segments: 1\nretention:\n  log_bytes: 0\n"
EVENTS_MAX = 400    # of a stream, until the point is reached
AFTER_EVENTS = 4    # of a stream, after recovery
IDLE_S = 90


class Failed(Exception):
    pass


class CrashFleet(Fleet):
    """The fleet above over a server that may be told where to die."""

    def __init__(self, program, contract, environment):  # not the other's: it makes a Contract each time
        self.contract = contract
        self.server = Server(program, config=CONFIG + SNAPSHOTS)
        self.base = dict(self.server.environment, TW_FAULT_SEGMENT_BYTES=str(SEGMENT_BYTES), TW_FAULT_SNAPSHOTS_HERE="1",
                         **environment)
        self.ids = ["F%03d" % index for index in range(len(FLEET))]
        self.number, self.paper, self.follower = len(FLEET), {}, {}
        self.netting = {self.ids[index] for index, paper in enumerate(FLEET) if paper.get("account_mode") == "netting"}
        self.client = None

    def start(self, **environment):
        self.server.environment = dict(self.base, **environment)
        self.server.start()
        self.client = self.connect()
        wait_until(self.is_serving, 30, "health SERVING")

    def create_all(self):
        for follower_id, paper in zip(self.ids, FLEET):
            paper = dict(QUICK, **paper)
            self.follower = {"maxParallel": paper.pop("max_parallel")} if "max_parallel" in paper else {}
            self.create(follower_id, paper)
        wait_until(self.is_connected, 30, "every follower connected")

    def die(self, what):
        """Waits for the end that was ordered, and asks the log whether it was that one."""
        try:
            wait_until(lambda: not self.server.is_running(), 20, what)
        except TimeoutError:
            return False
        self.client.close()
        code = self.server.process.wait()
        self.server.kill()
        if code != -signal.SIGKILL or "crash.point name=%s " % what not in self.server.log():
            raise Failed("it ended with %d, not at %s: %s" % (code, what, self.server.last_words()))
        return True

    def patiently(self, ask):
        """On a busy machine the history may be behind for a while."""
        end = time.monotonic() + IDLE_S
        while True:
            try:
                return ask()
            except Refused as refused:
                if refused.reason != "HISTORY_BEHIND" or time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def copies(self, **filters):
        return self.patiently(lambda: super(CrashFleet, self).copies(**filters))

    def is_idle(self):
        return self.patiently(super().is_idle)

    def faults_none(self):
        for follower_id in self.ids:
            self.client.ask("PaperService/Configure", follower_id=follower_id, faults="none")


class Round:
    """point: a row of tests/faults/points. Raises Failed with everything that is wrong."""

    def __init__(self, program, contract, point, seed, power):
        self.point, self.seed, self.power = point, seed, power
        self.random = random.Random("%s/%s/%s" % (point.name, seed, power))
        self.fleet = CrashFleet(program, contract, {})
        self.traffic = Traffic(contract, "%s/%s" % (point.name, seed), len(FLEET))
        self.boots = 0
        self.steps = []

    def boot(self, is_new_machine):
        self.boots += is_new_machine
        return "00000000-0000-0000-0000-%012d" % self.boots

    def order_to_die(self, name, n, waits, power):
        order = {"TW_CRASH_AT": "%s:%d" % (name, n), "TW_FAULT_BOOT_ID": self.boot(False)}
        if waits:
            order["TW_CRASH_WAITS"] = "1"
        if power:
            order["TW_CRASH_POWER"] = str(self.random.randrange(1, 2 ** 32))
        self.steps.append(" ".join("%s=%s" % item for item in sorted(order.items())))
        return order

    def die_in_traffic(self, name, n, power):
        self.fleet.start(**self.order_to_die(name, n, True, power))
        self.fleet.create_all()
        os.kill(self.fleet.server.process.pid, signal.SIGUSR2)
        self.traffic.run(self.fleet.server.address, lambda: not self.fleet.server.is_running(), EVENTS_MAX)
        if self.traffic.wrong and self.fleet.server.is_running():
            raise Failed("; ".join(self.traffic.wrong[:5]))
        if not self.fleet.die(name):
            raise Failed("%s was not reached %d times in %d events" % (name, n, len(self.traffic.answered)))

    def die_in_start(self, name, n, power, first):
        """first: the point of the crash before. The start may be over before the point is reached."""
        order = self.order_to_die(name, n, False, power)
        self.fleet.server.environment = dict(self.fleet.base, **order)
        try:
            self.fleet.server.start()
        except Broken:
            pass
        self.fleet.client = self.fleet.connect() if self.fleet.server.address else self.fleet.client
        if not self.fleet.die(name):
            raise Failed("%s was not reached %d times in the start after %s" % (name, n, first))

    def run(self):
        is_good = False
        try:
            self.crash()
            self.recover()
            is_good = True
        except (Broken, Refused, TimeoutError) as error:
            raise Failed("%s: %s" % (type(error).__name__, error))
        finally:
            if self.fleet.client is not None:
                self.fleet.client.close()
            keep = not is_good and os.environ.get("TW_FAULTS_KEEP") is not None
            if keep:
                self.steps.append("kept in %s" % self.fleet.server.folder)
            self.fleet.server.end(keep=keep)

    def crash(self):
        point, n = self.point, self.random.randint(1, self.point.n_max)
        if self.seed == 0:
            n = 1
        if point.first is None:
            self.die_in_traffic(point.name, n, self.power)
            return
        first = point.first or self.random.choice(["paper.executed", "paper.arrived", "copy.answered"])
        self.die_in_traffic(first, self.random.randint(1, 1 if point.first else 40), False)
        if self.seed % 2 == 1:  # three ends in a row
            early, n_max = self.random.choice([("recover.replaying", 15), ("recover.replayed", 1), ("recover.booted", 1)])
            self.die_in_start(early, self.random.randint(1, n_max), False, first)
            first = early
        self.die_in_start(point.name, n, self.power, first)

    def recover(self):
        fleet, traffic = self.fleet, self.traffic
        acknowledged = dict(traffic.answered)
        fleet.start(TW_FAULT_BOOT_ID=self.boot(self.power))
        wait_until(fleet.is_connected, 30, "every follower connected again")
        for event in acknowledged.values():
            answer = fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED", view="COPY_VIEW_COUNTS")
            if not answer.duplicate:
                traffic.wrong.append("%s was acknowledged and is not there" % event.event_id)
        traffic.run(fleet.server.address, lambda: False, AFTER_EVENTS)
        self.judge(traffic.unanswered())
        self.await_idle()
        judge = Judge(fleet)
        self.judge(judge.copies_complete(traffic.answered) + judge.orders_once() + judge.holds(traffic))
        fleet.faults_none()
        traffic.close_all(fleet.client)
        self.await_idle()
        judge = Judge(fleet)
        self.judge(judge.copies_complete(traffic.answered) + judge.orders_once() + judge.is_flat())

    def await_idle(self):
        """Until every copy has ended; what has not is named."""
        try:
            wait_until(self.fleet.is_idle, IDLE_S, "idle")
        except TimeoutError:
            left = self.fleet.copies(states=["COPY_STATE_QUEUED", "COPY_STATE_SENT", "COPY_STATE_UNKNOWN"])
            self.judge(["%s of %s is still %s %s after %d calls" % (
                copy.event_id, copy.follower_id, self.fleet.state(copy), self.fleet.reason(copy), copy.attempts)
                for copy in reversed(left)])

    def judge(self, wrong):
        wrong = self.traffic.wrong + wrong + [self.fleet.server.faults()] * (self.fleet.server.faults() is not None)
        if wrong:
            raise Failed("; ".join(wrong[:6]) + (" (and %d more)" % (len(wrong) - 6) if len(wrong) > 6 else ""))
