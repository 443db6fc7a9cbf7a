#!/usr/bin/python3
"""Bursts: SIGKILL in the middle of 810 orders, and a broker that drops replies at 32 orders at once.

Judged by the broker's ledger: no order twice, nothing left open. What was lost is found again in seconds."""
import os
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "lib"))
sys.path.insert(0, os.path.join(FOLDER, "../blackbox/lib"))

from blackbox import Fleet, Refused, prove, wait_until  # noqa: E402
from judge import Judge  # noqa: E402

POSITIONS, FOLLOWERS = 27, 30
QUICK = {"call_timeout": "1s", "settle": "200ms"}


def repeated(fleet, events):
    """Every event again, until it is answered."""
    for event in events:
        fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED", view="COPY_VIEW_COUNTS")


def judged(fleet, checks, name):
    judge = Judge(fleet)
    wrong = judge.orders_once() + judge.is_flat()
    checks.equal("%s: no order twice, nothing left open" % name, wrong[:5], [])


def killed_in_a_burst(options, checks, what, after_s):
    """what: the burst that the kill falls into."""
    name = "kill %g s into a burst of 810 %s" % (after_s, what)
    with Fleet(options.program, FOLLOWERS, dict(QUICK, latency="constant:130ms")) as fleet:
        fleet.netting = set()
        opens = [fleet.open("%d" % index) for index in range(POSITIONS)]
        closes = [fleet.close("%d" % index) for index in range(POSITIONS)]
        if what == "closes":
            fleet.submit_all(opens)
        for event in opens if what == "opens" else closes:
            fleet.client.start("EventService/SubmitEvent", fleet.request(event))
        time.sleep(after_s)
        fleet.server.kill()
        fleet.client.close()
        fleet.server.start()
        fleet.client = fleet.connect()
        wait_until(fleet.is_connected, 30, "every follower connected")
        start = time.monotonic()
        repeated(fleet, opens + closes)
        wait_until(fleet.is_idle, 60, "idle")
        print("     %s: all ended %.1f s after the start" % (name, time.monotonic() - start))
        copies = fleet.copies()
        checks.equal("%s: one copy per event and follower" % name,
                     len({(copy.event_id, copy.follower_id) for copy in copies if not copy.event_id.startswith("~")}),
                     2 * POSITIONS * FOLLOWERS)
        judged(fleet, checks, name)


def dropped_replies(options, checks, followers=3, positions=100):
    """One reply in twenty is lost, and the connection with it: whatever is on its way is then in doubt."""
    name = "a broker that drops 5 % of its replies"
    with Fleet(options.program, followers, dict(QUICK, latency="constant:20ms", seed="7")) as fleet:
        for follower_id in fleet.ids:
            fleet.client.ask("PaperService/Configure", follower_id=follower_id, faults="any#p0.05=drop_reply")
        start = time.monotonic()
        fleet.submit_all([fleet.open("%d" % index) for index in range(positions)], wait_for="WAIT_FOR_ACCEPTED",
                         view="COPY_VIEW_COUNTS")
        idle_within(fleet, checks, name + ", opens", start)
        start = time.monotonic()
        fleet.submit_all([fleet.close("%d" % index) for index in range(positions)], wait_for="WAIT_FOR_ACCEPTED",
                         view="COPY_VIEW_COUNTS")
        idle_within(fleet, checks, name + ", closes", start)
        judged(fleet, checks, name)


def idle_within(fleet, checks, name, start, limit_s=60):
    """It ends, and no follower stands still for long on its way there."""
    open_ones, since, longest_s = None, time.monotonic(), 0
    while time.monotonic() - start < limit_s:
        left = len(fleet.copies(states=["COPY_STATE_QUEUED", "COPY_STATE_SENT", "COPY_STATE_UNKNOWN"]))
        if left != open_ones:
            open_ones, since = left, time.monotonic()
        longest_s = max(longest_s, time.monotonic() - since)
        if left == 0:
            break
        time.sleep(0.05)
    print("     %s: %d left after %.1f s, at most %.1f s without progress" % (
        name, open_ones, time.monotonic() - start, longest_s))
    checks.equal("%s: everything ends" % name, open_ones, 0)


def main(options, checks):
    killed_in_a_burst(options, checks, "opens", 0.06)
    killed_in_a_burst(options, checks, "closes", 0.06)
    dropped_replies(options, checks)


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or ["--program", os.path.join(FOLDER, "../../build/faults/tradewake")]
    prove(main)
