#!/usr/bin/python3
"""SIGTERM under load: readiness falls first, what was accepted is carried out or still known at the next start, nothing is
sent twice and no close is lost, every stream ends with SHUTTING_DOWN, a scraper that keeps its connection open holds
nothing up, and the exit code is 0 within drain.timeout."""
import http.client
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import grpc  # noqa: E402
from blackbox import Fleet, Refused, prove, wait_until  # noqa: E402

FOLLOWERS, POSITIONS, DRAIN_S = 8, 30, 9


class Fire(threading.Thread):
    """Opens and closes, one after the other, until the server goes; what it accepted. An open that would come too late is
    refused while it serves: that is not the end."""

    def __init__(self, fleet, name):
        super().__init__()
        self.fleet, self.label, self.accepted, self.ended_with = fleet, name, [], None
        self.refused_at = None
        self.client = fleet.connect()
        self.start()

    def run(self):
        for n in range(10 ** 6):
            position = "%s%d" % (self.label, n)
            for event in (self.fleet.open(position), self.fleet.close("held-%s-%d" % (self.label, n)) if n < POSITIONS else None):
                if event is None:
                    continue
                try:
                    answer = self.client.call("EventService/SubmitEvent", self.fleet.request(event, wait_for="WAIT_FOR_ACCEPTED"))
                    self.accepted.append((event.event_id, answer.accepted + answer.skipped))
                except Refused as refused:
                    if refused.code == "RESOURCE_EXHAUSTED":
                        time.sleep(0.02)
                        continue
                    self.ended_with, self.refused_at = refused, time.monotonic()
                    return


class Scraper(threading.Thread):
    """A Prometheus: one connection, kept; asks /readyz over and over, and notes when it first says no."""

    def __init__(self, fleet):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection(fleet.server.admin, timeout=10)
        self.not_ready_at = None
        self.start()

    def run(self):
        try:
            while self.not_ready_at is None:
                self.connection.request("GET", "/readyz")
                answer = self.connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self.not_ready_at = time.monotonic()
                time.sleep(0.01)
            # and leaves the connection as it is
        except OSError:
            pass


def follow(fleet, path, request, ended):
    stream = fleet.client.watch(path, request)

    def read():
        try:
            for _ in stream:
                pass
            ended[path] = "OK"
        except grpc.RpcError as error:
            ended[path] = "%s %s" % (error.code().name, (error.details() or "").split(" ")[0].rstrip(":"))
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def under_load(fleet, checks):
    held = ["held-%s-%d" % (label, n) for label in "ab" for n in range(POSITIONS)]
    answers = fleet.submit_all([fleet.open(position) for position in held])
    checks.equal("positions to close", {fleet.state(copy) for answer in answers for copy in answer.copies}, {"DONE"})
    slow = fleet.contract.new("ConfigureRequest", follower_id="")
    for follower_id in fleet.ids:
        slow.follower_id, slow.latency = follower_id, "constant:150ms"
        fleet.client.call("PaperService/Configure", slow)
    ended = {}
    threads = [follow(fleet, "CopyService/WatchCopies", fleet.new("WatchCopiesRequest"), ended),
               follow(fleet, "MetricsService/WatchOwnTime", fleet.new("WatchOwnTimeRequest"), ended)]
    scraper = Scraper(fleet)
    fires = [Fire(fleet, label) for label in "ab"]
    wait_until(lambda: all(len(fire.accepted) > POSITIONS for fire in fires), 60, "load")
    queued = len(fleet.copies(states=["COPY_STATE_QUEUED"]))

    start = time.monotonic()
    fleet.server.process.send_signal(signal.SIGTERM)
    code = fleet.server.process.wait(60)
    took_s = time.monotonic() - start
    for thread in threads + fires:
        thread.join(30)
    checks.true("there was load: copies were waiting", queued > FOLLOWERS, queued)
    checks.equal("exit code 0", code, 0)
    checks.true("within drain.timeout", took_s <= DRAIN_S + 1, "%.1f s" % took_s)
    checks.true("readiness fell, and before anything was refused", scraper.not_ready_at is not None and
                all(fire.refused_at is not None and scraper.not_ready_at < fire.refused_at for fire in fires))
    # CANCELLED is the core's word for what came at the very moment of its GOAWAY.
    checks.true("callers are told to come again", {fire.ended_with.code for fire in fires} <= {"UNAVAILABLE", "CANCELLED"},
                [fire.ended_with for fire in fires])
    checks.equal("and so do streams", set(ended.values()), {"UNAVAILABLE SHUTTING_DOWN"})
    print("     %d copies waited; drained in %.1f s" % (queued, took_s))
    scraper.connection.close()
    return [one for fire in fires for one in fire.accepted], held


def afterwards(fleet, accepted, held, checks):
    """The next start: everything that was accepted is there, once, and comes to its end."""
    fleet.client.close()
    fleet.server.start()
    fleet.client = fleet.connect()
    wait_until(fleet.is_connected, 30, "every follower connected")
    wait_until(fleet.is_idle, 120, "the end of everything")
    by_event = {}
    for copy in fleet.copies():
        by_event.setdefault(copy.event_id, []).append(copy)
    checks.equal("each accepted event has one copy per follower", [event_id for event_id, _ in accepted if sorted(
        copy.follower_id for copy in by_event.get(event_id, [])) != fleet.ids], [])
    checks.equal("as many as its caller was told", [event_id for event_id, n in accepted if n != FOLLOWERS], [])
    done = {follower_id: 0 for follower_id in fleet.ids}
    for copies in by_event.values():
        for copy in copies:
            done[copy.follower_id] += fleet.state(copy) == "DONE" and fleet.reason(copy) != "ALREADY_CLOSED"
    checks.equal("nothing went out twice: as many executions as copies that are DONE", fleet.deals(), done)
    closes = [copy for event_id, copies in by_event.items() if event_id.startswith("close-") for copy in copies]
    checks.equal("no close is lost", {fleet.state(copy) for copy in closes}, {"DONE"})
    closed = {copy.master_position_id for copy in closes}
    left = {position.comment for follower_id in fleet.ids for position in fleet.book(follower_id).positions}
    checks.true("and its position is gone", len(closed) > 0 and len(left) == sum(
        1 for event_id, copies in by_event.items() if event_id.startswith("open-") and event_id[5:] not in closed
        for copy in copies if fleet.state(copy) == "DONE"), "%d left" % len(left))


def main(options, checks):
    with Fleet(options.program, FOLLOWERS, {"latency": "constant:5ms"}, {"max_parallel": 4}) as fleet:
        accepted, held = under_load(fleet, checks)
        afterwards(fleet, accepted, held, checks)
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main)
