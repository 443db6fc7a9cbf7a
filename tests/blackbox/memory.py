#!/usr/bin/python3
"""Many events: memory stops growing once as many copies are remembered as configured, open files
and threads stay as they were. `--events 200000` is the long run; the default is shorter."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Checks, Fleet, arguments  # noqa: E402

STEPS = 10       # measurements
GROWTH_KIB = 4096  # noise of an allocator that is full, over the whole second half


def stream(fleet, first, count):
    """`count` events over one call, a pair of open and close after the other; copies accepted."""
    def requests():
        for index in range(first, first + count):
            position = "%d" % (index // 2)
            event = fleet.close(position) if index % 2 else fleet.open(position)
            yield fleet.new("StreamEventsRequest", event=event)
    accepted = answers = 0
    for answer in fleet.client.converse("EventService/StreamEvents", requests(), deadline_s=1800):
        answers += answer.WhichOneof("answer") == "accepted"
        accepted += answer.accepted.accepted
    return answers, accepted


def main():
    options = arguments(events=40000, followers=5, remembered=20000)
    checks = Checks()
    config = CONFIG + "copies:\n  remembered: %d\n" % options.remembered
    step = options.events // STEPS // 2 * 2
    with Fleet(options.program, options.followers, {"latency": "constant:0", "nonblocking": "true"},
               {"max_parallel": 64}, config=config) as fleet:
        start = time.monotonic()
        resident, files, threads, copies, answered = [fleet.server.status("VmRSS")], [], [], 0, 0
        for index in range(STEPS):
            answers, accepted = stream(fleet, index * step, step)
            answered, copies = answered + answers, copies + accepted
            resident.append(fleet.server.status("VmRSS"))
            files.append(fleet.server.open_files())
            threads.append(fleet.server.status("Threads"))
            print("     %7d events, %8d copies: %7.1f MiB, %d files, %d threads" % (
                (index + 1) * step, copies, resident[-1] / 1024, files[-1], threads[-1]))
        took_s = time.monotonic() - start
        checks.equal("every event was accepted", answered, step * STEPS)
        # The memory of copies is full when the first half is over; the second may only breathe.
        checks.true("enough copies to fill what is remembered in the first half", copies / 2 > options.remembered,
                    copies)
        full = max(resident[STEPS // 2:STEPS // 2 + 2])
        checks.true("memory stops growing", resident[-1] - full < GROWTH_KIB,
                    "%d KiB more in the second half" % (resident[-1] - full))
        checks.true("open files are flat", max(files) - min(files) <= 2, files)
        checks.true("threads are flat", max(threads) - min(threads) <= 2, threads)
        checks.true("the first event of all is still known, or honestly forgotten", first_is_known(fleet), "neither")
        checks.equal("the server is well", fleet.server.faults(), None)
        print("     %.0f events/s; about %.0f bytes per remembered copy" % (
            step * STEPS / took_s, (full - resident[0]) * 1024 / options.remembered))
    checks.close()


def first_is_known(fleet):
    """The same event again sends nothing: it is a duplicate, or refused as older than the memory."""
    from blackbox import Refused
    try:
        return fleet.submit(fleet.open("0")).duplicate
    except Refused as refused:
        return refused.reason == "EVENT_TOO_OLD"


if __name__ == "__main__":
    main()
