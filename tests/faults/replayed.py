#!/usr/bin/python3
"""A log that is read by a program whose rules are others: nothing is decided anew.

The test build can be one that plans three times the volume (TW_FAULT_RULES). A log written by the one is
read by the other: copies, plans, volumes, states, books are the same, and no broker is called."""
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "lib"))
sys.path.insert(0, os.path.join(FOLDER, "../blackbox/lib"))

from blackbox import prove, wait_until  # noqa: E402
from contract import Contract  # noqa: E402
from rounds import FLEET, CrashFleet  # noqa: E402
from traffic import Traffic  # noqa: E402

# Of each copy; when it was read, and what is numbered anew with every start, may differ.
FIELDS = ["copy_id", "event_id", "follower_id", "action", "state", "reason", "symbol", "side", "type", "volume", "price",
          "stop_loss", "take_profit", "filled_volume", "average_price", "attempts", "broker_order_id", "broker_position_id",
          "master_position_id", "client_order_ids", "remarks"]


def copies_of(fleet):
    return sorted(tuple(str(getattr(copy, field)) for field in FIELDS) for copy in fleet.copies())


def books_of(fleet):
    return [(follower_id, book.calls, [str(part) for part in (book.positions, book.orders, book.deals)])
            for follower_id, book in ((follower_id, fleet.book(follower_id)) for follower_id in fleet.ids)]


def volume_of(fleet, name):
    answer = fleet.submit(fleet.open(name, volume="0.10"))
    return {copy.volume for copy in fleet.copies(eventId="open-" + name)} if answer.copies else set()


def read_by_another(options, checks, contract, sealed):
    name = "after a clean stop" if sealed else "after kill -9"
    fleet = CrashFleet(options.program, contract, {})
    traffic = Traffic(contract, name, len(FLEET))
    try:
        fleet.start()
        fleet.create_all()
        traffic.run(fleet.server.address, lambda: False, 30)
        wait_until(fleet.is_idle, 30, "idle")
        checks.equal("%s: the master's answers" % name, traffic.wrong + traffic.unanswered(), [])
        copies, books = copies_of(fleet), books_of(fleet)
        fleet.client.close()
        fleet.server.terminate() if sealed else fleet.server.kill()
        fleet.start(TW_FAULT_RULES="others")
        wait_until(fleet.is_connected, 30, "every follower connected again")
        wait_until(fleet.is_idle, 30, "idle")
        again = copies_of(fleet)
        checks.true("%s: there are copies to compare" % name, len(copies) > 200, len(copies))
        checks.equal("%s: every copy is as it was" % name, [copy for copy in again if copy not in copies][:3], [])
        checks.equal("%s: as many copies" % name, len(again), len(copies))
        checks.equal("%s: the books are as they were, and no broker was called" % name, books_of(fleet), books)
        checks.equal("%s: the rules are others indeed" % name, volume_of(fleet, "new"), {"0.3"})
    finally:
        fleet.server.end()


def main(options, checks):
    contract = Contract()
    read_by_another(options, checks, contract, sealed=True)
    read_by_another(options, checks, contract, sealed=False)


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or ["--program", os.path.join(FOLDER, "../../build/faults/tradewake")]
    prove(main)
