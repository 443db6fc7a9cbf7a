#!/usr/bin/python3
"""No order is sent twice: one event from a hundred clients at once, and a halt in the middle of a burst."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402


def one_event_from_many_clients(options, checks, clients=100, followers=30):
    with Fleet(options.program, followers, {"latency": "constant:50ms"}) as fleet:
        data = fleet.request(fleet.open("1")).SerializeToString()
        connections = [fleet.connect() for _ in range(clients)]
        for connection in connections:  # connected before the start, so that all begin together
            connection.ask("Health/Check")
        gate, answers, faults = threading.Barrier(clients), [], []

        def send(connection):
            gate.wait()
            try:
                answers.append(connection.call("EventService/SubmitEvent", data))
            except Exception as error:
                faults.append(str(error))
        threads = [threading.Thread(target=send, args=(connection,)) for connection in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for connection in connections:
            connection.close()

        checks.equal("%d clients, one event: everyone is answered" % clients, (len(answers), faults), (clients, []))
        checks.equal("one of them is not a duplicate", sum(not answer.duplicate for answer in answers), 1)
        checks.equal("all tell of the same copies",
                     len({tuple(sorted(copy.copy_id for copy in answer.copies)) for answer in answers}), 1)
        checks.equal("one order at each follower", set(fleet.deals().values()), {1})
        checks.equal("one call to each broker", {fleet.book(follower_id).calls for follower_id in fleet.ids}, {1})
        checks.equal("the server is well", fleet.server.faults(), None)


def halt_in_mid_burst(options, checks, after_s, positions=27, followers=30, max_parallel=4):
    """At halt time some opens are done, some are at a broker, most still wait. The broker needs
    1500 ms, so that nothing gets from one of these to the next while we look."""
    name = "halt after %g s" % after_s
    with Fleet(options.program, followers, {"latency": "constant:1500ms", "call_timeout": "5s"},
               {"max_parallel": max_parallel}) as fleet:
        start = time.monotonic()
        answers = fleet.submit_all([fleet.open("%d" % index) for index in range(positions)],
                                   wait_for="WAIT_FOR_ACCEPTED")
        total = sum(answer.accepted for answer in answers)
        time.sleep(max(0, start + after_s - time.monotonic()))
        halt = fleet.client.ask("FollowerService/Halt", everything=True)
        done_then = len(fleet.copies(states=["COPY_STATE_DONE"]))
        late = fleet.submit(fleet.open("late"))
        wait_until(fleet.is_idle, 20, "idle")
        copies = [copy for copy in fleet.copies() if copy.event_id != "open-late"]
        done = [copy for copy in copies if fleet.state(copy) == "DONE"]
        cancelled = [copy for copy in copies if fleet.state(copy) == "CANCELLED"]
        orders = sum(fleet.deals().values())

        print("     %s: %d opens: %d done, %d in flight, %d cancelled" % (
            name, total, done_then, halt.in_flight, halt.cancelled))
        checks.equal("%s: all opens were accepted" % name, total, positions * followers)
        checks.true("%s: it came in the middle" % name, 0 < halt.in_flight < total and halt.cancelled > 0, halt)
        checks.equal("%s: orders in the ledger = opens done + in_flight when it answered" % name, orders,
                     done_then + halt.in_flight)
        checks.equal("%s: orders in the ledger = opens DONE at the end" % name, orders, len(done))
        checks.equal("%s: every other open is CANCELLED" % name, len(cancelled), total - len(done))
        checks.equal("%s: as many as it said" % name, len(cancelled), halt.cancelled)
        checks.equal("%s: because of the halt" % name, {fleet.reason(copy) for copy in cancelled}, {"HALTED"})
        checks.equal("%s: an open after it is skipped" % name,
                     {(fleet.state(copy), fleet.reason(copy)) for copy in late.copies}, {("SKIPPED", "HALTED")})
        fleet.client.ask("FollowerService/Resume", everything=True)
        checks.true("%s: resumed, opens go out again" % name, fleet.is_unharmed("again"), "not everywhere")


def forgotten_event(options, checks, followers=20, positions=100):
    """Its copies are forgotten, itself it is not: after a kill neither."""
    with Fleet(options.program, followers, {"latency": "zero"},
               config=CONFIG + "copies:\n  remembered: 1000\n") as fleet:
        first = fleet.open("0")
        fleet.submit(first)
        fleet.submit(fleet.close("0"))
        for index in range(1, positions):
            fleet.submit(fleet.open("%d" % index))
            fleet.submit(fleet.close("%d" % index))
        wait_until(lambda: not fleet.submit(first).copies, 20, "forgotten")
        deals = sum(fleet.deals().values())
        again = fleet.submit(first)
        checks.equal("an event whose copies are forgotten is a duplicate",
                     (again.duplicate, again.accepted, len(again.copies)), (True, followers, 0))
        other = fleet.open("0", volume="0.77")
        checks.refused("other content under its id is refused", lambda: fleet.submit(other), "ALREADY_EXISTS",
                       "EVENT_ID_REUSED")
        checks.equal("no order went out again", sum(fleet.deals().values()), deals)


def main(options, checks):
    forgotten_event(options, checks)
    one_event_from_many_clients(options, checks)
    halt_in_mid_burst(options, checks, after_s=0.5)
    halt_in_mid_burst(options, checks, after_s=2.1)


if __name__ == "__main__":
    prove(main)
