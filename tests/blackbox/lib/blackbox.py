"""blackbox.py - what the programs in tests/blackbox share: checks, a fleet, events.

    def main(options, checks):
        with Fleet(options.program, followers=30, paper={"latency": "constant:130ms"}) as fleet:
            answer = fleet.submit(fleet.open("1"))
            checks.equal("every follower has it", answer.accepted, 30)

    prove(main)                         # prints `N passed, N failed` and ends the program
"""
import argparse
import os
import sys
import time
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "../../cases/lib"))

from contract import REPOSITORY, Client, Contract, Refused, refused_from, set_time  # noqa: E402,F401
from match import enum_name  # noqa: E402
from program import CONFIG, Broken, Server, end_servers_with_us  # noqa: E402,F401

POLL_S = 0.01


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def true(self, name, holds, got=""):
        print("%s %s%s" % ("ok  " if holds else "FAIL", name, "" if holds else ": got %s" % (got,)), flush=True)
        self.passed += bool(holds)
        self.failed += not holds
        return holds

    def equal(self, name, got, expected):
        return self.true(name, got == expected, "%r, expected %r" % (got, expected))

    def refused(self, name, call, code, reason=None, field=None):
        """`call` is refused with that code, and reason and field where they are named."""
        try:
            call()
        except Refused as refused:
            got = (refused.code, refused.reason if reason is not None else None,
                   refused.field if field is not None else None)
            return self.true(name, got == (code, reason, field), refused)
        return self.true(name, False, "an answer")

    def close(self):
        print("%d passed, %d failed" % (self.passed, self.failed), flush=True)
        sys.exit(1 if self.failed else 0)


def prove(main, **more):
    """The program: main(options, checks). Options are --program FILE and `more` by name with their
    default. An error that nobody expected is one failed check, and the others still count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=os.path.join(REPOSITORY, "build/release/tradewake"))
    for name, default in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    options, checks = parser.parse_args(), Checks()
    end_servers_with_us()
    try:
        main(options, checks)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        checks.true("the program came to its end", False, type(error).__name__)
    checks.close()


def wait_until(holds, within_s, what="it"):
    """Asks `holds` again until it answers something true, which is returned."""
    end = time.monotonic() + within_s
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError("%s: not within %g s" % (what, within_s))
        time.sleep(POLL_S)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else 0


class Fleet:
    """A server with `followers` paper accounts that follow M1, connected, and a client."""

    def __init__(self, program, followers=1, paper=None, follower=None, config=CONFIG, server_arguments=()):
        self.contract = Contract()
        self.server = Server(program, config=config, arguments=server_arguments)
        self.number = followers
        self.paper = paper or {}
        self.follower = follower or {}
        self.ids = ["F%03d" % index for index in range(followers)]
        self.client = None

    def __enter__(self):
        self.server.start()
        self.client = self.connect()
        try:
            wait_until(self.is_serving, 30, "health SERVING")
            for follower_id in self.ids:
                self.create(follower_id)
            wait_until(self.is_connected, 30, "every follower connected")
        except BaseException:
            self.server.end()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None and self.server.faults():
            print("     " + self.server.faults())
        self.client.close()
        self.server.end()

    def connect(self, options=(), compression=None):
        """One more connection."""
        return Client(self.contract, self.server.address, options, compression)

    def new(self, name, **fields):
        return self.contract.new(name, **fields)

    def is_serving(self):
        try:
            return self.client.ask("Health/Check").status == 1
        except Refused:
            return False

    def create(self, follower_id, paper=None, masters=("M1",), adapter="paper", config=None):
        """`config`: what another adapter is told in the place of the paper settings."""
        follower = self.contract.from_json("Follower", self.follower)
        follower.follower_id, follower.adapter = follower_id, adapter
        for key, value in (dict(self.paper, **(paper or {})) if adapter == "paper" else config or {}).items():
            follower.adapter_config[key] = value
        self.client.ask("FollowerService/CreateFollower", follower=follower)
        for master_id in masters:
            self.client.ask("FollowerService/CreateSubscription", subscription=self.new(
                "Subscription", master_id=master_id, follower_id=follower_id))

    def is_connected(self):
        answer = self.client.ask("FollowerService/ListFollowers", page_size=1000)
        return len(answer.followers) >= self.number and all(
            follower.connected and follower.HasField("account") for follower in answer.followers)

    # Events.
    def event(self, event_id, master_id="M1", **action):
        event = self.contract.from_json("TradeEvent", action)
        event.event_id, event.master_id = event_id, master_id
        set_time(event.observed_at, time.time())
        return event

    def open(self, position_id, event_id=None, **fields):
        return self.event(event_id or "open-" + position_id, open=dict({
            "position_id": position_id, "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10",
            "price": "1.1"}, **fields))

    def close(self, position_id, event_id=None):
        return self.event(event_id or "close-" + position_id, close={"position_id": position_id, "price": "1.1"})

    def request(self, event, wait_for="WAIT_FOR_DONE", view="COPY_VIEW_ALL"):
        request = self.contract.from_json("SubmitEventRequest", {"wait_for": wait_for, "view": view})
        request.event.CopyFrom(event)
        return request

    def submit(self, event, **how):
        return self.client.call("EventService/SubmitEvent", self.request(event, **how))

    def submit_all(self, events, client=None, **how):
        """All of them at once over one connection; the answers in their order."""
        requests = [self.request(event, **how) for event in events]
        futures = [(client or self.client).start("EventService/SubmitEvent", request) for request in requests]
        return [future.result() for future in futures]

    # What became of it.
    def state(self, copy):
        return enum_name(copy.DESCRIPTOR.fields_by_name["state"].enum_type, copy.state).replace("COPY_STATE_", "")

    def reason(self, copy):
        name = enum_name(copy.DESCRIPTOR.fields_by_name["reason"].enum_type, copy.reason)
        return str(name).replace("REASON_", "")

    def copies(self, **filters):
        """Every copy that the filter (proto3 JSON) lets through."""
        token, found = "", []
        while True:
            answer = self.client.ask("CopyService/ListCopies", page_size=1000, page_token=token,
                                     filter=self.contract.from_json("CopyFilter", filters))
            found.extend(answer.copies)
            token = answer.next_page_token
            if not token:
                return found

    def is_idle(self):
        return not self.client.ask("CopyService/ListCopies", page_size=1, filter=self.contract.from_json(
            "CopyFilter", {"states": ["COPY_STATE_QUEUED", "COPY_STATE_SENT", "COPY_STATE_UNKNOWN"]})).copies

    def book(self, follower_id):
        return self.client.ask("PaperService/GetBook", follower_id=follower_id)

    def deals(self):
        """Executions per follower, out of the broker's ledger."""
        return {follower_id: len(self.book(follower_id).deals) for follower_id in self.ids}

    def executor(self):
        return self.client.ask("MetricsService/GetExecutorStatus")

    def is_unharmed(self, event_id):
        """A good event still reaches every follower, and nothing was logged that should not be."""
        answer = self.submit(self.open(event_id))
        done = [copy for copy in answer.copies if self.state(copy) == "DONE"]
        return len(done) == self.number and self.server.faults() is None
