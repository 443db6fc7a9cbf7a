#!/usr/bin/python3
"""The machine stands still for a while, as a paused virtual machine does, with orders on their way.

Calls time out that were never late by their own fault. Whatever they are taken for meanwhile, in the
end every open is at its broker once or not at all, what is believed is what the books have, and a
close that comes after closes all of it.
"""
import collections
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, prove, wait_until  # noqa: E402


def tickets(fleet, follower_id):
    """(as believed, in the book), by the broker's position ids."""
    held = fleet.client.ask("CopyService/CompareFollower", follower_id=follower_id).positions
    return (sorted(ticket for position in held for ticket in position.broker_position_ids),
            sorted(position.position_id for position in fleet.book(follower_id).positions))


def is_agreed(fleet):
    return all(believed == truth for believed, truth in (tickets(fleet, follower_id) for follower_id in fleet.ids))


def stall(options, checks, seconds, latency, nonblocking):
    name = "%s still for %g s at %s" % ("reactor" if nonblocking else "workers", seconds, latency)
    paper = {"latency": latency, "settle": "200ms", **({"nonblocking": "true"} if nonblocking else {})}
    with Fleet(options.program, options.followers, paper, {"max_parallel": 8}) as fleet:
        positions = ["%d" % index for index in range(options.positions)]
        fleet.submit_all([fleet.open(position) for position in positions], wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: fleet.copies(states=["COPY_STATE_SENT"]), 5, "orders on their way")
        fleet.server.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            fleet.server.process.send_signal(signal.SIGCONT)
        wait_until(fleet.is_idle, 60, "idle")
        opened = collections.Counter((fleet.state(copy), fleet.reason(copy)) for copy in fleet.copies())
        orders = [deal.client_order_id for follower_id in fleet.ids for deal in fleet.book(follower_id).deals]
        checks.equal("%s: no order twice" % name, len(orders) - len(set(orders)), 0)
        checks.true("%s: what is believed is in the books" % name, eventually(lambda: is_agreed(fleet), 10),
                    [tickets(fleet, follower_id) for follower_id in fleet.ids[:2]])
        done = sum(count for (state, _), count in opened.items() if state == "DONE")
        checks.equal("%s: every order in a book is an open that is DONE" % name, len(orders), done)

        answers = fleet.submit_all([fleet.close(position) for position in positions])
        wait_until(fleet.is_idle, 60, "idle")
        left = {follower_id: len(fleet.book(follower_id).positions) for follower_id in fleet.ids
                if fleet.book(follower_id).positions}
        checks.equal("%s: closes close all of it" % name, left, {})
        closed = collections.Counter(fleet.state(copy) for answer in answers for copy in answer.copies)
        checks.equal("%s: as many closes DONE as opens" % name, closed["DONE"], done)
        checks.equal("%s: the server is well" % name, fleet.server.faults(), None)
        print("     %s: opens %s" % (name, ", ".join("%s %s %d" % (*kind, count) for kind, count in opened.items())))


def stall_and_close(options, checks, seconds, latency, executed):
    """The master closes while nobody knows yet what became of his opens: they have executed and the
    answer is on its way back, or have not got there yet."""
    name = "still for %g s with opens %s, closes follow at once" % (seconds, "executed" if executed else "under way")
    with Fleet(options.program, options.followers, {"latency": latency, "settle": "200ms"},
               {"max_parallel": 32}) as fleet:
        positions = ["%d" % index for index in range(options.positions)]
        fleet.submit_all([fleet.open(position) for position in positions], wait_for="WAIT_FOR_SENT")
        if executed:
            wait_until(lambda: all(count == len(positions) for count in fleet.deals().values()), 5, "orders in the books")
        fleet.server.process.send_signal(signal.SIGSTOP)
        try:
            closes = [fleet.client.start("EventService/SubmitEvent", fleet.request(
                fleet.close(position), wait_for="WAIT_FOR_ACCEPTED")) for position in positions]
            time.sleep(seconds)
        finally:
            fleet.server.process.send_signal(signal.SIGCONT)
        for close in closes:
            close.result()
        wait_until(fleet.is_idle, 60, "idle")
        agreed = eventually(lambda: is_agreed(fleet), 10)
        outcomes = collections.Counter((fleet.state(copy), fleet.reason(copy)) for copy in fleet.copies())
        checks.true("%s: what is believed is in the books" % name, agreed,
                    [tickets(fleet, follower_id) for follower_id in fleet.ids[:2]])
        left = sum(len(fleet.book(follower_id).positions) for follower_id in fleet.ids)
        checks.equal("%s: nothing is left open" % name, left, 0)
        opened = {copy.copy_id for copy in fleet.copies(actions=["COPY_ACTION_OPEN"]) if fleet.state(copy) == "DONE"}
        sent = {deal.client_order_id for follower_id in fleet.ids for deal in fleet.book(follower_id).deals}
        missed = [fleet.state(copy) + " " + fleet.reason(copy) for copy in fleet.copies(actions=["COPY_ACTION_OPEN"])
                  if copy.copy_id in sent and copy.copy_id not in opened]
        checks.equal("%s: an open that executed is DONE" % name, dict(collections.Counter(missed)), {})
        checks.equal("%s: the server is well" % name, fleet.server.faults(), None)
        print("     %s: %s" % (name, ", ".join("%s %s %d" % (*kind, count) for kind, count in outcomes.items())))


def stall_closing(options, checks, seconds, latency, partial):
    """Closes are on their way, and have not executed, when everything stands still."""
    name = "still for %g s with %s under way" % (seconds, "partial closes" if partial else "closes")
    with Fleet(options.program, options.followers, {"latency": latency, "settle": "200ms"},
               {"max_parallel": 32}) as fleet:
        positions = ["%d" % index for index in range(options.positions)]
        fleet.submit_all([fleet.open(position) for position in positions])
        closes = [fleet.close(position) for position in positions]
        if partial:
            for close in closes:
                close.close.volume, close.close.remaining_volume = "0.04", "0.06"
        fleet.submit_all(closes, wait_for="WAIT_FOR_SENT")
        fleet.server.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        fleet.server.process.send_signal(signal.SIGCONT)
        wait_until(fleet.is_idle, 60, "idle")
        left = collections.Counter(position.volume for follower_id in fleet.ids
                                   for position in fleet.book(follower_id).positions)
        wanted = {"0.06": options.followers * options.positions} if partial else {}
        checks.equal("%s: the books hold what the master holds" % name, dict(left), wanted)
        checks.true("%s: what is believed is in the books" % name, eventually(lambda: is_agreed(fleet), 10),
                    [tickets(fleet, follower_id) for follower_id in fleet.ids[:2]])
        outcomes = collections.Counter((fleet.state(copy), fleet.reason(copy)) for copy in fleet.copies(
            actions=["COPY_ACTION_CLOSE", "COPY_ACTION_PARTIAL_CLOSE"]))
        print("     %s: %s" % (name, ", ".join("%s %s %d" % (*kind, count) for kind, count in outcomes.items())))


def eventually(holds, within_s):
    try:
        return wait_until(holds, within_s)
    except TimeoutError:
        return False


def main(options, checks):
    for nonblocking in (False, True):
        stall(options, checks, 2.5, "constant:800ms", nonblocking)  # past the call's time-out
        stall(options, checks, 5, "constant:800ms", nonblocking)    # past its deadline, too
    for partial in (False, True):
        stall_closing(options, checks, 3, "constant:300ms", partial)
    for executed in (False, True):
        stall_and_close(options, checks, 3, "constant:800ms", executed)


if __name__ == "__main__":
    prove(main, followers=6, positions=12)
