#!/usr/bin/python3
"""The server is killed with FIX orders on their way, again and again: by the venue's ledger no order was executed twice, no
number was used again or fell, and every copy reaches a final state. A test build (preset faults) dies at each place between
writing down, sending and taking up; any other at random moments. --rounds 50 for the long run."""
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../blackbox/lib"))
sys.path.insert(0, os.path.join(HERE, "lib"))

from blackbox import Broken, Fleet, prove, wait_until  # noqa: E402
from venue import Venue  # noqa: E402

FINAL = {"DONE", "REJECTED", "SKIPPED", "EXPIRED", "CANCELLED", "PARTIAL"}
FOLLOWERS, DELAY_MS = 4, 40
SYMBOL = "symbol EURUSD = 1 contract=100000 tick=0.00001 min=0.01 step=0.01 max=50\n"
MODES = {
    # A session each, whose numbers go on; and one session for all.
    "hedging": "[venue]\nprofile = ctrader\naddress = 127.0.0.1:%d\nsender = CLIENT{account}\ntarget = VENUE\nreset = never\n"
               "settle_ms = 200\ncurrency = USD\n" + SYMBOL,
    "netting": "[venue]\nprofile = generic44\naddress = 127.0.0.1:%d\nsender = CLIENT1\ntarget = VENUE\npositions = yes\n"
               "mass_status = yes\nsettle_ms = 200\ncurrency = USD\n" + SYMBOL,
}


def points_of(program):
    """Places of this build to die at; none of any build but that for faults."""
    listed = subprocess.run([program, "version"], env=dict(os.environ, TW_CRASH_LIST="1"), stdout=subprocess.PIPE, text=True,
                            check=False).stdout.split()
    return sorted(name for name in listed if name.startswith("fix."))


class Killer:
    """Where the server dies next."""

    def __init__(self, points, dice):
        self.points, self.dice, self.turn = points, dice, 0

    def arm(self, server):
        server.environment.pop("TW_CRASH_AT", None)
        if self.points:
            point = self.points[self.turn % len(self.points)]
            server.environment["TW_CRASH_AT"] = "%s:%d" % (point, self.dice.randrange(10, 40))
            self.turn += 1

    def strike(self, server):
        if self.points:
            end = time.monotonic() + 2
            while server.is_running() and time.monotonic() < end:
                time.sleep(0.002)
        else:
            time.sleep(self.dice.random() * 2.5 * DELAY_MS / 1000)
        server.kill()


def once(fleet, event):
    """Handed over until it is answered: the server may die under it."""
    def handed():
        try:
            fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED")
            return True
        except Exception:  # its end, at any moment
            return not fleet.server.is_running()
    wait_until(handed, 30, "the event is taken")


def unless_dead(fleet, holds, what):
    """It may die while it is waited for: at a Logon, or at an answer."""
    def looked():
        try:
            return holds()
        except Exception:
            return not fleet.server.is_running()
    wait_until(looked, 60, what)


def again(fleet):
    """A start may die, too, at the Logon."""
    for _ in range(5):
        try:
            fleet.server.start()
            fleet.client.close()
            fleet.client = fleet.connect()
            return
        except Broken:
            fleet.server.environment.pop("TW_CRASH_AT", None)
    raise Broken("it does not start any more")


def play(options, checks, mode, dice, points):
    folder = tempfile.mkdtemp(prefix="fix-kill-", dir="/tmp")
    try:
        with Venue(folder, "--sessions", str(FOLLOWERS), "--mode", mode, "--delay", str(DELAY_MS), "--duplicates", "execute",
                   "--store", os.path.join(folder, "store")) as venue:
            sessions = os.path.join(folder, "sessions.ini")
            with open(sessions, "w", encoding="utf-8") as file:
                file.write(MODES[mode] % venue.port)
            with Fleet(options.program, 0, server_arguments=["--fix-sessions", sessions]) as fleet:
                fleet.number = FOLLOWERS
                for number in range(1, FOLLOWERS + 1):
                    fleet.create("K%d" % number, adapter="fix:venue", config={"call_timeout": "1s", "account": str(number)})
                wait_until(fleet.is_connected, 30, "every follower connected")
                killer, events = Killer(points, dice), []
                for number in range(options.rounds):
                    events.append(fleet.open("%d" % number))
                    once(fleet, events[-1])
                    if number > 0:
                        events.append(fleet.close("%d" % (number - 1)))
                        once(fleet, events[-1])
                    killer.strike(fleet.server)
                    killer.arm(fleet.server)
                    again(fleet)
                    unless_dead(fleet, fleet.is_connected, "connected again")
                    unless_dead(fleet, fleet.is_idle, "every copy is final")
                fleet.server.kill()
                fleet.server.environment.pop("TW_CRASH_AT", None)
                again(fleet)
                wait_until(fleet.is_connected, 60, "connected again")
                for event in events:
                    once(fleet, event)
                once(fleet, fleet.close("%d" % (options.rounds - 1)))
                wait_until(fleet.is_idle, 120, "every copy is final")
                copies = fleet.copies()
                judge(checks, "%s, %d rounds, seed %d: " % (mode, options.rounds, options.seed), fleet, venue, copies, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judge(checks, name, fleet, venue, copies, rounds):
    states = collections.Counter(fleet.state(copy) for copy in copies)
    accepted = collections.Counter((session, values["id"]) for _, _, session, values in venue.ledger("accepted"))
    executed = {id_ for _, id_ in accepted}
    opens = [copy for copy in copies if copy.event_id.startswith("open-")]
    held = collections.defaultdict(float)
    for _, _, session, values in venue.ledger("fill"):
        held[(session, values.get("account", ""))] += float(values["last"]) * (1 if values["side"] == "1" else -1)
    checks.equal(name + "every copy is there", len(copies), FOLLOWERS * 2 * rounds)
    checks.equal(name + "each in a final state", set(states) - FINAL, set())
    checks.equal(name + "no order was executed twice", [key for key, times in accepted.items() if times > 1], [])
    checks.equal(name + "nor filled above itself", venue.executed_twice(), [])
    checks.equal(name + "no number was used again, none fell", venue.sent_numbers_fell(), [])
    checks.equal(name + "every open that is DONE was executed",
                 [copy.copy_id for copy in opens if fleet.state(copy) == "DONE" and copy.copy_id not in executed], [])
    checks.equal(name + "none that is not",
                 [copy.copy_id for copy in opens if fleet.state(copy) != "DONE" and copy.copy_id in executed], [])
    checks.equal(name + "everything is closed", {key: units for key, units in held.items() if units != 0}, {})
    checks.equal(name + "the server is well", fleet.server.faults(), None)
    reasons = collections.Counter((fleet.state(copy), fleet.reason(copy), copy.broker_message) for copy in copies)
    print("     %s, %d orders at the venue%s" % (dict(states), len(accepted), "".join("\n     %s: %d" % pair for pair in reasons.items())))


def main(options, checks):
    points = points_of(options.program)
    print("     dies at %s" % (" ".join(points) or "random moments"))
    for mode in MODES:
        play(options, checks, mode, random.Random(options.seed), points)


prove(main, rounds=6, seed=1)
