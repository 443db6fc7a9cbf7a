#!/usr/bin/python3
"""A disk that fails under a running server, and a clock that jumps over a restart.

EIO from a sync, ENOSPC from a write: the process ends with a line that says what to do, answers nothing that
is not on the disk, and goes on after a start. Writes that come back short, and slow syncs, change nothing."""
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "lib"))
sys.path.insert(0, os.path.join(FOLDER, "../blackbox/lib"))

from blackbox import prove, wait_until  # noqa: E402
from contract import Contract  # noqa: E402
from judge import Judge  # noqa: E402
from rounds import FLEET, CrashFleet  # noqa: E402
from traffic import Traffic  # noqa: E402

EVENTS_MAX = 60


class Story:
    """A fleet, traffic until it stops, and the verdict after a start without faults."""

    def __init__(self, options, name, contract):
        self.fleet = CrashFleet(options.program, contract, {})
        self.traffic = Traffic(contract, name, len(FLEET))
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.fleet.client is not None:
            self.fleet.client.close()
        self.fleet.server.end()

    def live(self, events=EVENTS_MAX, **environment):
        self.fleet.start(**environment)
        self.fleet.create_all()
        self.go_on(events)

    def go_on(self, events=EVENTS_MAX):
        self.traffic.run(self.fleet.server.address, lambda: not self.fleet.server.is_running(), events)

    def end(self, checks):
        """Starts again where it ended, goes on, closes all, and asks the ledger."""
        fleet, traffic = self.fleet, self.traffic
        if not fleet.server.is_running():
            fleet.server.kill()
            fleet.client.close()
            fleet.start()
            wait_until(fleet.is_connected, 30, "every follower connected again")
        lost = [event.event_id for event in list(traffic.answered.values())
                if not fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED", view="COPY_VIEW_COUNTS").duplicate]
        checks.equal("%s: no answered event is lost" % self.name, lost, [])
        traffic.run(fleet.server.address, lambda: False, 3)
        fleet.faults_none()
        traffic.close_all(fleet.client)
        wait_until(fleet.is_idle, 60, "idle")
        judge = Judge(fleet)
        wrong = traffic.wrong + traffic.unanswered() + judge.copies_complete(traffic.answered) + judge.orders_once() \
            + judge.is_flat()
        checks.equal("%s: no order twice, no close lost" % self.name, wrong[:5], [])

    def died(self, checks, *words):
        wait_until(lambda: not self.fleet.server.is_running(), 20, "its end")
        checks.equal("%s: it ends with code 1" % self.name, self.fleet.server.process.poll(), 1)
        said = [line for line in self.fleet.server.log().splitlines() if "journal.died" in line]
        checks.equal("%s: one line" % self.name, len(said), 1)
        missing = [word for word in words if not said or word not in said[0]]
        checks.true("%s: it says what and what to do" % self.name, not missing, said)


def main(options, checks):
    contract = Contract()
    with Story(options, "a sync that fails", contract) as story:
        story.live(TW_FAULT_SYNC_EIO="60")
        story.died(checks, "Input/output error", "check the disk", "start again")
        story.end(checks)
    with Story(options, "a write without room", contract) as story:
        story.live(TW_FAULT_WRITE_ENOSPC="90")
        story.died(checks, "No space left", "make room on the disk", "start again")
        story.end(checks)
    with Story(options, "writes that come back short", contract) as story:
        story.live(events=30, TW_FAULT_WRITE_SHORT="1")
        checks.true("%s: it goes on" % story.name, story.fleet.server.is_running())
        story.end(checks)
    with Story(options, "syncs of 50 ms", contract) as story:
        story.live(events=10, TW_FAULT_SYNC_DELAY_MS="50")
        checks.true("%s: it goes on" % story.name, story.fleet.server.is_running())
        story.end(checks)
    for step_ms in ("-300000", "300000"):
        with Story(options, "a clock that is %s s off after a kill" % (int(step_ms) // 1000), contract) as story:
            story.live(events=10)
            story.fleet.server.kill()
            story.fleet.client.close()
            story.fleet.start(TW_FAULT_CLOCK_STEP_MS=step_ms)
            wait_until(story.fleet.is_connected, 30, "every follower connected again")
            closes_only(story, checks)


def closes_only(story, checks):
    """An open may be too old or from the future by such a clock; what is held is closed all the same."""
    fleet, traffic = story.fleet, story.traffic
    there = {copy.event_id for copy in fleet.copies()}
    lost = [event_id for event_id in traffic.answered if event_id not in there]
    checks.equal("%s: no answered event is lost" % story.name, lost, [])
    fleet.faults_none()
    step_s = int(fleet.server.environment["TW_FAULT_CLOCK_STEP_MS"]) / 1000
    traffic.clock_s = step_s
    traffic.close_all(fleet.client)
    wait_until(fleet.is_idle, 60, "idle")
    judge = Judge(fleet)
    checks.equal("%s: no order twice, no close lost" % story.name,
                 (traffic.wrong + judge.orders_once() + judge.is_flat())[:5], [])


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or ["--program", os.path.join(FOLDER, "../../build/faults/tradewake")]
    prove(main)
