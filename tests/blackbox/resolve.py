#!/usr/bin/python3
"""ResolveCopy: an operator's word on a copy whose broker answers no question.

The word ends the copy as an answer would have, is there after kill -9, comes twice without harm, and is refused where it
makes no sense. What waits behind the copy goes on; a close that was not executed is sent again. It is heard also when the
session does not come back from a call.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, prove, wait_until  # noqa: E402

QUICK = {"latency": "constant:1ms", "call_timeout": "200ms", "settle": "100ms"}
SILENT = ", lookup#*=busy"  # no look-up says anything


def configure(fleet, faults):
    fleet.client.ask("PaperService/Configure", follower_id="F000", faults=faults)


def copy_of(fleet, event_id):
    return next((copy for copy in fleet.copies(follower_id="F000") if copy.event_id == event_id), None)


def words(fleet, copy):
    return fleet.state(copy), fleet.reason(copy)


def await_unknown(fleet, event_id):
    wait_until(lambda: copy_of(fleet, event_id) is not None and
               words(fleet, copy_of(fleet, event_id)) == ("UNKNOWN", "TIMEOUT"), 20, event_id + " UNKNOWN")
    return copy_of(fleet, event_id)


def unknown(fleet, event, faults):
    configure(fleet, faults + SILENT)
    fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED")
    return await_unknown(fleet, event.event_id)


def resolve(fleet, copy, state, **fields):
    """A question that is out at this moment is waited for: UNAVAILABLE with RetryInfo is asked again."""
    request = fleet.contract.from_json("ResolveCopyRequest", dict(fields, copy_id=copy.copy_id, state="COPY_STATE_" + state))
    return fleet.client.call("CopyService/ResolveCopy", request)


def position_of(fleet):
    return fleet.book("F000").positions[0].position_id


def executed_open(options, checks):
    with Fleet(options.program, 1, QUICK) as fleet:
        copy = unknown(fleet, fleet.open("1"), "open#1=timeout_executed")
        for name, field, state, fields in (
                ("a state that is none", "state", "QUEUED", {}),
                ("an open without its position", "broker_position_id", "DONE", {}),
                ("a part without its volume", "filled_volume", "PARTIAL", {"broker_position_id": "1"}),
                ("a part that is all", "filled_volume", "PARTIAL", {"broker_position_id": "1", "filled_volume": "0.1"}),
                ("all that is a part", "filled_volume", "DONE", {"broker_position_id": "1", "filled_volume": "0.05"}),
                ("more than there was", "filled_volume", "DONE", {"broker_position_id": "1", "filled_volume": "0.2"}),
                ("what was not executed and filled", "filled_volume", "REJECTED", {"filled_volume": "0.1"}),
                ("what was not executed and is there", "broker_position_id", "REJECTED", {"broker_position_id": "1"})):
            checks.refused("refused: " + name, lambda s=state, f=fields: resolve(fleet, copy, s, **f), "INVALID_ARGUMENT",
                           "INVALID_FIELD", field)
        checks.refused("refused: no such copy", lambda: fleet.client.ask(
            "CopyService/ResolveCopy", copy_id="T1AAAAAAAAAAAAAAAAAA"), "NOT_FOUND", "NOT_FOUND", "copy_id")
        checks.equal("a refused word changes nothing", words(fleet, copy_of(fleet, "open-1")), ("UNKNOWN", "TIMEOUT"))

        position = position_of(fleet)
        answer = resolve(fleet, copy, "DONE", broker_position_id=position, note="seen in the terminal")
        fleet.server.kill()  # right after the answer
        checks.equal("the answer is the copy", (words(fleet, answer), answer.filled_volume, answer.broker_position_id,
                                               answer.broker_message),
                     (("DONE", "OPERATOR"), "0.1", position, "seen in the terminal"))
        fleet.client.close()
        fleet.server.start()
        fleet.client = fleet.connect()
        wait_until(fleet.is_serving, 30, "health SERVING")
        wait_until(fleet.is_connected, 30, "connected")
        again = copy_of(fleet, "open-1")
        checks.equal("it is there after kill -9", (words(fleet, again), again.filled_volume), (("DONE", "OPERATOR"), "0.1"))
        checks.equal("the same word again is answered", words(fleet, resolve(
            fleet, copy, "DONE", broker_position_id=position)), ("DONE", "OPERATOR"))
        checks.refused("another word is refused", lambda: resolve(fleet, copy, "REJECTED"), "FAILED_PRECONDITION",
                       "COPY_NOT_UNKNOWN", None)
        configure(fleet, "none")
        closed = fleet.submit(fleet.close("1"))
        checks.equal("its close finds the position", words(fleet, closed.copies[0]), ("DONE", "UNSPECIFIED"))
        checks.equal("two orders, and nothing is left", (fleet.deals()["F000"], len(fleet.book("F000").positions)), (2, 0))
        checks.equal("the server is well", fleet.server.faults(), None)


def lost_open(options, checks):
    """Its close waits behind it, and goes on by the operator's word; said on the command line."""
    with Fleet(options.program, 1, QUICK) as fleet:
        copy = unknown(fleet, fleet.open("1"), "open#1=timeout_lost")
        fleet.submit(fleet.close("1"), wait_for="WAIT_FOR_ACCEPTED")
        checks.equal("lost: the close waits", fleet.state(copy_of(fleet, "close-1")), "QUEUED")
        command = [options.program, "copies", "resolve", copy.copy_id, "--state", "rejected", "--server", fleet.server.address]

        def said():
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=30)
            return done.returncode == 0 and done.stdout.decode()
        checks.true("lost: the command prints the copy", "OPERATOR" in wait_until(said, 20, "the command"))
        wait_until(fleet.is_idle, 20, "idle")
        checks.equal("lost: the open was not executed", words(fleet, copy_of(fleet, "open-1")), ("REJECTED", "OPERATOR"))
        checks.equal("lost: nothing to close", words(fleet, copy_of(fleet, "close-1")), ("SKIPPED", "NO_COPY_TO_ACT_ON"))
        checks.equal("lost: nothing was sent", fleet.deals()["F000"], 0)


def closes(options, checks):
    with Fleet(options.program, 1, QUICK) as fleet:
        for position_id in "123":
            fleet.submit(fleet.open(position_id))
        resolve(fleet, unknown(fleet, fleet.close("1"), "close#1=timeout_lost"), "REJECTED")
        configure(fleet, "none")
        wait_until(fleet.is_idle, 20, "idle")
        checks.equal("closes: one that was not executed is sent again", words(fleet, copy_of(fleet, "close-1")), ("DONE", "UNSPECIFIED"))
        checks.equal("closes: and closes its position", len(fleet.book("F000").positions), 2)

        answer = resolve(fleet, unknown(fleet, fleet.close("2"), "close#1=timeout_executed"), "DONE")
        checks.equal("closes: one that was executed is done", (words(fleet, answer), answer.filled_volume), (("DONE", "OPERATOR"), "0.1"))

        resolve(fleet, unknown(fleet, fleet.close("3"), "close#1=timeout_lost"), "PARTIAL", filled_volume="0.04")
        configure(fleet, "none")
        wait_until(fleet.is_idle, 20, "idle")
        checks.equal("closes: what a part leaves is closed", words(fleet, copy_of(fleet, "close-3")), ("DONE", "UNSPECIFIED"))
        checks.equal("closes: also of what the word was wrong about", len(fleet.book("F000").positions), 0)
        held = wait_until(lambda: fleet.client.ask("CopyService/CompareFollower", follower_id="F000"), 5)
        checks.equal("closes: nothing is believed to be held", len(held.positions), 0)


def other_kinds(options, checks):
    """A netting account's open needs no ticket; an order that waits has the broker's; a change has neither."""
    with Fleet(options.program, 1, dict(QUICK, account_mode="netting")) as fleet:
        copy = unknown(fleet, fleet.open("1"), "open#1=timeout_executed")
        checks.equal("netting: done", words(fleet, resolve(fleet, copy, "DONE")), ("DONE", "OPERATOR"))
        configure(fleet, "none")
        fleet.submit(fleet.close("1"))
        checks.equal("netting: and closed", len(fleet.book("F000").positions), 0)

        place = fleet.event("place-1", place={"order_id": "o1", "symbol": "EURUSD", "side": "SIDE_BUY",
                                              "type": "ORDER_TYPE_LIMIT", "volume": "0.10", "price": "0.9"})
        copy = unknown(fleet, place, "place#1=timeout_executed")
        order = fleet.book("F000").orders[0].order_id
        checks.refused("order: its id is needed", lambda: resolve(fleet, copy, "DONE"), "INVALID_ARGUMENT", "INVALID_FIELD",
                       "broker_position_id")
        checks.equal("order: it waits", words(fleet, resolve(fleet, copy, "DONE", broker_position_id=order)), ("DONE", "OPERATOR"))
        cancel = unknown(fleet, fleet.event("cancel-1", cancel={"order_id": "o1"}), "cancel#1=timeout_executed")
        checks.refused("cancel: not in part", lambda: resolve(fleet, cancel, "PARTIAL", filled_volume="0.1"),
                       "INVALID_ARGUMENT", "INVALID_FIELD", "state")
        checks.equal("cancel: done", words(fleet, resolve(fleet, cancel, "DONE")), ("DONE", "OPERATOR"))
        checks.equal("cancel: no order is left", len(fleet.book("F000").orders), 0)


def wedged(options, checks):
    """Neither the order's call nor a question comes back: the word is heard all the same."""
    with Fleet(options.program, 1, QUICK) as fleet:
        configure(fleet, "open#1=hang:60s, lookup#*=hang:60s")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        copy = await_unknown(fleet, "open-1")
        wait_until(lambda: fleet.executor().threads_lost == 2, 20, "call and question lost")
        checks.equal("wedged: rejected", words(fleet, resolve(fleet, copy, "REJECTED")), ("REJECTED", "OPERATOR"))
        configure(fleet, "none")
        wait_until(lambda: fleet.executor().threads_lost == 0, 20, "the threads back")
        checks.true("wedged: the account goes on", fleet.is_unharmed("2"), fleet.server.faults())
        checks.equal("wedged: one order", fleet.deals()["F000"], 1)


def main(options, checks):
    for part in (executed_open, lost_open, closes, other_kinds, wedged):
        part(options, checks)


prove(main)
