#!/usr/bin/python3
"""Calls that do not come back.

A call past its deadline is UNKNOWN at once, its thread counted and replaced; the position it is about waits,
the follower's other positions go on. What the call brings at last settles the copy, and no order is
there twice. With as many lost as the cap allows new positions are skipped, closes go on. A server
that is told to stop does not wait for them.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402

PAPER = {"latency": "constant:5ms", "call_timeout": "300ms", "settle": "100ms"}
CAP = 2


def configure(fleet, follower_id, faults):
    fleet.client.ask("PaperService/Configure", follower_id=follower_id, faults=faults)


def copy_of(fleet, event_id, follower_id):
    for copy in fleet.copies(follower_id=follower_id):
        if copy.event_id == event_id:
            return copy
    return None


def state_of(fleet, event_id, follower_id):
    copy = copy_of(fleet, event_id, follower_id)
    return (fleet.state(copy), fleet.reason(copy)) if copy is not None else None


def orders(fleet, follower_id):
    return [deal.client_order_id for deal in fleet.book(follower_id).deals]


def late_answer(options, checks):
    """The order was executed; the broker answers no question, so the late answer alone settles it."""
    with Fleet(options.program, 2, PAPER) as fleet:
        threads = fleet.executor().threads
        configure(fleet, "F000", "open#1=hang_executed:60s,lookup#*=busy")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: fleet.executor().threads_lost == 1, 10, "the thread lost")
        wait_until(lambda: state_of(fleet, "open-1", "F000") == ("UNKNOWN", "TIMEOUT"), 1, "the copy UNKNOWN")
        wait_until(lambda: fleet.executor().threads == threads + 1, 5, "a thread in its place")
        wait_until(lambda: fleet.executor().calls_in_flight == 0, 5, "no call in flight but questions")
        checks.equal("late: no thread was created because one was missing", fleet.executor().threads_created_late, 0)
        page = fleet.server.http("/metrics")[1]
        checks.true("late: it is on the metrics page", 'tradewake_executor_threads{kind="lost"} 1' in page,
                    [line for line in page.splitlines() if "executor_threads" in line])

        fleet.submit(fleet.close("1"), wait_for="WAIT_FOR_ACCEPTED")
        other = fleet.submit(fleet.open("2"))
        checks.equal("late: another position of the follower goes on", [fleet.state(copy) for copy in other.copies],
                     ["DONE", "DONE"])
        checks.equal("late: the position's own close waits", state_of(fleet, "close-1", "F000")[0], "QUEUED")

        configure(fleet, "F000", "lookup#*=busy")  # the call comes back, questions stay unanswered
        wait_until(fleet.is_idle, 20, "idle")
        checks.equal("late: what it brought settles the copy", state_of(fleet, "open-1", "F000")[0], "DONE")
        checks.equal("late: and then the close goes", state_of(fleet, "close-1", "F000")[0], "DONE")
        checks.equal("late: two opens, one close in the book", len(orders(fleet, "F000")), 3)
        checks.equal("late: no order twice", len(set(orders(fleet, "F000"))), 3)
        checks.equal("late: the thread is back at work", fleet.executor().threads_lost, 0)
        log = fleet.server.log()
        checks.true("late: the log tells of both", "executor.call_lost" in log and
                    wait_until(lambda: "executor.calls_back" in fleet.server.log(), 5, "the log line"), "no line")
        checks.equal("late: the server is well", fleet.server.faults(), None)


def never_sent_twice(options, checks):
    """Nothing was executed, and no look-up proves that while the call is still out."""
    with Fleet(options.program, 1, PAPER) as fleet:
        configure(fleet, "F000", "open#1=hang:60s")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: state_of(fleet, "open-1", "F000") == ("UNKNOWN", "TIMEOUT"), 10, "the copy UNKNOWN")
        time.sleep(2)  # the settle time and several look-ups: nothing may come of them
        checks.equal("open: it stays UNKNOWN while its call is out", state_of(fleet, "open-1", "F000"),
                     ("UNKNOWN", "TIMEOUT"))
        checks.equal("open: nothing was sent again", fleet.book("F000").calls, 1)
        configure(fleet, "F000", "none")
        wait_until(fleet.is_idle, 20, "idle")
        checks.equal("open: back, and settled", state_of(fleet, "open-1", "F000")[0] in ("DONE", "REJECTED"), True)
        done = state_of(fleet, "open-1", "F000")[0] == "DONE"
        checks.equal("open: at the broker once, or not at all", len(orders(fleet, "F000")), 1 if done else 0)

        configure(fleet, "F000", "close#1=hang:60s")
        position = "1" if done else "2"
        if not done:
            fleet.submit(fleet.open("2"))
        fleet.submit(fleet.close(position), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: state_of(fleet, "close-" + position, "F000") == ("UNKNOWN", "TIMEOUT"), 10, "UNKNOWN")
        configure(fleet, "F000", "none")
        wait_until(fleet.is_idle, 20, "idle")
        checks.equal("close: it is not given up", state_of(fleet, "close-" + position, "F000")[0], "DONE")
        checks.equal("close: the account is flat", len(fleet.book("F000").positions), 0)


def breaker(options, checks):
    with Fleet(options.program, 3, PAPER, config=CONFIG + "executor:\n  threads_lost_max: %d\n" % CAP) as fleet:
        fleet.submit(fleet.open("old"))
        for follower_id in fleet.ids[:CAP]:
            configure(fleet, follower_id, "open#1=hang:60s")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: fleet.executor().threads_lost == CAP, 10, "the cap reached")
        skipped = fleet.submit(fleet.open("2"))
        checks.equal("breaker: opens are skipped",
                     {(fleet.state(copy), fleet.reason(copy)) for copy in skipped.copies}, {("SKIPPED", "BREAKER_OPEN")})
        closed = fleet.submit(fleet.close("old"))
        wait_until(lambda: not any(position.comment == "old" for position in fleet.book("F002").positions) and
                   state_of(fleet, "close-old", "F002")[0] == "DONE", 20, "the close of the healthy one")
        checks.equal("breaker: closes go on, behind the probe", len(closed.copies), 3)
        wait_until(lambda: "breaker.open" in fleet.server.log(), 5, "the log line")
        for follower_id in fleet.ids[:CAP]:
            configure(fleet, follower_id, "none")
        wait_until(fleet.is_idle, 30, "idle")
        checks.equal("breaker: all is back", fleet.executor().threads_lost, 0)
        wait_until(lambda: "breaker.closed" in fleet.server.log(), 5, "the log line")
        again = fleet.submit(fleet.open("3"))
        checks.equal("breaker: opens go again", [fleet.state(copy) for copy in again.copies], ["DONE"] * 3)
        twice = {follower_id: len(orders(fleet, follower_id)) - len(set(orders(fleet, follower_id)))
                 for follower_id in fleet.ids}
        checks.equal("breaker: no order twice", set(twice.values()), {0})
        checks.equal("breaker: the server is well", fleet.server.faults(), None)


def deleted_meanwhile(options, checks, on_open, name):
    with Fleet(options.program, 2, PAPER) as fleet:
        configure(fleet, "F000", "open#1=hang:60s")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: fleet.executor().threads_lost == 1, 10, "the thread lost")
        checks.refused("deleted: not while its copy is UNKNOWN, unless one says so", lambda: fleet.client.ask(
            "FollowerService/DeleteFollower", follower_id="F000"), "FAILED_PRECONDITION", "HAS_OPEN_COPIES")
        fleet.client.ask("FollowerService/DeleteFollower", follower_id="F000", on_open=on_open)
        checks.equal("deleted, %s: the other one goes on" % name,
                     [fleet.state(copy) for copy in fleet.submit(fleet.open("2")).copies if copy.follower_id == "F001"],
                     ["DONE"])
        configure(fleet, "F000", "none")
        wait_until(lambda: fleet.executor().threads_lost == 0, 10, "the thread back")
        wait_until(fleet.is_idle, 20, "idle")
        wait_until(lambda: len(fleet.client.ask("FollowerService/ListFollowers").followers) == 1, 10, "it is gone")
        checks.equal("deleted, %s: the server is well" % name, fleet.server.faults(), None)


def stopped_meanwhile(options, checks):
    with Fleet(options.program, 2, PAPER) as fleet:
        configure(fleet, "F000", "open#1=hang_executed:60s,lookup#*=busy")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: fleet.executor().threads_lost == 1, 10, "the thread lost")
        wait_until(lambda: state_of(fleet, "open-1", "F001")[0] == "DONE", 5, "the other one done")
        checks.equal("stop: the server is well", fleet.server.faults(), None)
        fleet.client.close()
        start = time.monotonic()
        code = fleet.server.terminate()
        took_s = time.monotonic() - start
        checks.equal("stop: exit code", code, 0)
        checks.true("stop: in time", took_s < 9, took_s)
        fleet.server.start()
        fleet.client = fleet.connect()
        wait_until(fleet.is_serving, 30, "health SERVING")
        wait_until(fleet.is_connected, 30, "connected")
        configure(fleet, "F000", "none")
        wait_until(fleet.is_idle, 30, "idle")
        checks.equal("stop: the next start settles it", state_of(fleet, "open-1", "F000")[0], "DONE")
        checks.equal("stop: one order", len(orders(fleet, "F000")), 1)


def main(options, checks):
    late_answer(options, checks)
    never_sent_twice(options, checks)
    breaker(options, checks)
    deleted_meanwhile(options, checks, 1, "closing")
    deleted_meanwhile(options, checks, 2, "leaving")
    stopped_meanwhile(options, checks)


if __name__ == "__main__":
    prove(main)
