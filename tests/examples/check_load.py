"""check_load.py - the Node backend under 50 requests a second while Tradewake is killed twice (-9).

Every request gets a clear answer: settled, not settled and how to find out, refused and why, or nobody there
and the event_id to come back with. Afterwards each that was not settled is sent again with the same
event_id until it is. No order may stand twice in the brokers' own ledger: the journal knows what went out
before a kill.
"""
import collections
import concurrent.futures
import os
import threading
import time

import check_node
from support import NODE, OPEN, Backend, LastingFleet, wait_until

PER_SECOND = 50
FOLLOWERS = 5
WAITING_MAX = 400  # callers at once: 50 a second through an outage of 8 s
HURRIED_EVERY, HURRIED_MS = 5, 1500  # these callers do not wait until the server is back
OVER = {"COPY_STATE_" + state for state in ("DONE", "PARTIAL", "REJECTED", "SKIPPED", "EXPIRED", "CANCELLED")}
AWAY_S = (0, 3)    # gRPC's own retries bridge the first outage, the second needs the backend's


def is_clear(answer, event_id):
    """Whether the caller knows what to do next."""
    if isinstance(answer, Exception):
        return False
    status, body = answer.status, answer.body
    error = body.get("error", {})
    if status in (200, 202):
        is_over = {copy["state"] for copy in body["copies"]} <= OVER
        return body["event_id"] == event_id and body["settled"] == is_over == (status == 200) and (is_over or "next" in body)
    if status in (503, 504):
        return body.get("event_id") == event_id and "this event_id" in body.get("next", "")
    return status in (400, 404, 409, 429) and bool(error.get("reason")) and bool(error.get("message"))


def kind_of(answer):
    if isinstance(answer, Exception):
        return type(answer).__name__
    if answer.status in (200, 202):
        states = collections.Counter(copy["state"].replace("COPY_STATE_", "") for copy in answer.body["copies"])
        words = "+".join(sorted(states)) + (" duplicate" if answer.body["duplicate"] else "")
        return "%d %s" % (answer.status, words)
    error = answer.body["error"]
    return "%d %s" % (answer.status, error.get("reason") or error["code"])


class Load:
    """Opens and closes at a fixed pace, whoever answers or not."""

    def __init__(self, backend, seconds):
        self.backend = backend
        self.total = PER_SECOND * seconds
        self.answers = {}  # event_id -> the last answer
        self.first = {}    # event_id -> the first one
        self.lock = threading.Lock()

    def trade(self, index):
        position = "load-%d" % (index // 2)
        action = {"open": dict(OPEN, position_id=position)} if index % 2 == 0 else {"close": {"position_id": position}}
        event_id = "load-%d" % index
        query = "?timeout_ms=%d" % HURRIED_MS if index % HURRIED_EVERY == 0 else ""
        try:
            answer = self.backend.trade(event_id, action, query)
        except Exception as error:
            answer = error
        with self.lock:
            self.first.setdefault(event_id, answer)
            self.answers[event_id] = answer
        return answer

    def run(self):
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(WAITING_MAX) as callers:
            waiting = []
            for index in range(self.total):
                time.sleep(max(0, start + index / PER_SECOND - time.monotonic()))
                waiting.append(callers.submit(self.trade, index))
            concurrent.futures.wait(waiting)

    def is_settled(self, index):
        answer = self.answers["load-%d" % index]
        return not isinstance(answer, Exception) and (
            answer.status == 200 or (answer.status < 500 and answer.status not in (202, 429)))

    def again_until_settled(self):
        """Sends what is not settled again, in order, with the same ids."""
        left = [index for index in range(self.total) if not self.is_settled(index)]
        repeated = len(left)
        for _ in range(20):
            for index in left:
                self.trade(index)
            left = [index for index in left if not self.is_settled(index)]
            if not left:
                break
        return repeated, left


def doubles(fleet):
    """Executions in the ledger, and how many are one too many: a client order id is one order."""
    deals = twice = 0
    for follower_id in fleet.ids:
        counts = collections.Counter(deal.client_order_id for deal in fleet.book(follower_id).deals)
        deals += sum(counts.values())
        twice += sum(count - 1 for count in counts.values())
    return deals, twice


def check(checks, options):
    seconds = options.seconds
    if not os.path.isdir(os.path.join(NODE, "node_modules")) and not check_node.installed(checks):
        return
    paper = {"latency": "lognormal:20ms:0.30"}
    with LastingFleet(options.program, FOLLOWERS, paper) as fleet, Backend(fleet.server.address) as backend:
        load = Load(backend, seconds)
        kills, broken = [], []

        def killer():
            start = time.monotonic()
            try:
                for number, away_s in enumerate(AWAY_S, 1):
                    time.sleep(max(0, start + seconds * number / 3 - time.monotonic()))
                    kills.append(time.monotonic())
                    fleet.restart(away_s)
            except Exception as error:
                broken.append(error)
        thread = threading.Thread(target=killer)
        thread.start()
        load.run()
        thread.join()

        if not checks.equal("load: the server was killed twice, and came back", (len(kills), broken), (2, [])):
            return
        checks.equal("load: %d requests in %d s, each with an answer" % (load.total, seconds), len(load.first), load.total)
        unclear = {event_id: answer for event_id, answer in load.first.items() if not is_clear(answer, event_id)}
        checks.equal("load: every answer is clear", list(unclear.items())[:3], [])
        kinds = collections.Counter(map(kind_of, load.first.values()))
        for kind, count in sorted(kinds.items()):
            print("     %6d  %s" % (count, kind))
        checks.true("load: most are DONE at once", kinds["200 DONE"] > load.total // 2, dict(kinds))
        log = backend.err.text()
        retried = {line.split("event_id=")[1].split()[0] for line in log.splitlines() if "trade.retry" in line}
        checks.true("load: requests that met an outage were tried again", len(retried) > 0, "none")
        checks.true("load:   with the event_id that their caller gave", retried <= set(load.first), sorted(retried - set(load.first))[:3])

        repeated, left = load.again_until_settled()
        checks.equal("load: what was not settled (%d) is, after the same event_id again" % repeated,
                     [(index, load.answers["load-%d" % index]) for index in left[:3]], [])
        wait_until(fleet.is_idle, 30, "idle")
        deals, twice = doubles(fleet)
        print("     no order twice, by the ledger: %d orders executed, %d of them twice" % (deals, twice))
        checks.equal("load: no order twice", twice, 0)
        filled = [copy for copy in fleet.copies() if copy.filled_volume not in ("", "0")]
        checks.equal("load: one execution for each copy that was filled", deals, len(filled))
        print("     %d requests went through an outage inside the backend; %d were sent again by their caller" % (
            len(retried), repeated))
        checks.equal("load: the backend and the server are well", (backend.process.poll(), fleet.server.faults()), (None, None))
