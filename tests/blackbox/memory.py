#!/usr/bin/python3
"""Many events: once as many copies are remembered as configured, memory no longer grows, and open files
and threads stay as they were. `--events 200000` is the long run; the default is shorter."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, POLL_S, Fleet, Refused, prove  # noqa: E402

STEPS = 12         # measurements
STEPS_MAX = 36     # where memory has not come to rest by then
# What stays of a forgotten event has its place from the start, and of its copies nothing stays. But an
# allocator keeps what a backlog once took, so memory rises in steps, and then no more: it stands still over
# REST measurements. A leak of 60 bytes an event would be seen.
REST, REST_KIB = 4, 1024
REWRITE_S = 3      # the paper broker writes its ledger anew now and then, on a thread of its own


def stream(fleet, first, begin, count):
    """`count` events over one call, a pair of open and close after the other; copies accepted."""
    def requests():
        for index in range(begin, begin + count):
            position = "%d" % (index // 2)
            event = first if index == 0 else fleet.close(position) if index % 2 else fleet.open(position)
            yield fleet.new("StreamEventsRequest", event=event)
    accepted = answers = 0
    for answer in fleet.client.converse("EventService/StreamEvents", requests(), deadline_s=1800):
        answers += answer.WhichOneof("answer") == "accepted"
        accepted += answer.accepted.accepted
    return answers, accepted


def settled(fleet, threads):
    """Waits until no ledger is being written anew: it takes a thread, a file and memory for a moment."""
    end = time.monotonic() + REWRITE_S
    while fleet.server.status("Threads") > threads and time.monotonic() < end:
        time.sleep(POLL_S)


def at_rest(resident):
    return max(resident[-REST:]) - min(resident[-REST:]) <= REST_KIB


def main(options, checks):
    config = CONFIG + "copies:\n  remembered: %d\n" % options.remembered
    step = options.events // STEPS // 2 * 2
    with Fleet(options.program, options.followers, {"latency": "constant:0", "nonblocking": "true"},
               {"max_parallel": 64}, config=config) as fleet:
        start = time.monotonic()
        first = fleet.open("0")  # kept: a repeat is the same event, with the time it had
        stream(fleet, fleet.open("before"), 0, 1)  # the network's own threads are there now
        idle_threads = fleet.server.status("Threads")
        resident, files, threads, copies, answered = [fleet.server.status("VmRSS")], [], [], 0, 0
        while len(files) < STEPS or (not at_rest(resident) and len(files) < STEPS_MAX):
            index = len(files)
            answers, accepted = stream(fleet, first, index * step, step)
            answered, copies = answered + answers, copies + accepted
            settled(fleet, idle_threads)
            resident.append(fleet.server.status("VmRSS"))
            files.append(fleet.server.open_files())
            threads.append(fleet.server.status("Threads"))
            print("     %7d events, %8d copies: %7.1f MiB, %d files, %d threads" % (
                (index + 1) * step, copies, resident[-1] / 1024, files[-1], threads[-1]))
        took_s = time.monotonic() - start
        checks.equal("every event was accepted", answered, step * len(files))
        # What is remembered is full when the first half is over; from there it comes to rest.
        checks.true("enough copies to fill what is remembered in the first half", copies / 2 > options.remembered,
                    copies)
        end = resident[-1]
        checks.true("memory no longer grows", at_rest(resident), resident)
        checks.true("open files are flat", max(files) - min(files) <= 2, files)
        checks.true("threads are flat", max(threads) - min(threads) <= 2, threads)
        checks.true("the first event of all is still known, or honestly forgotten", first_is_known(fleet, first), "neither")
        checks.equal("the server is well", fleet.server.faults(), None)
        print("     %.0f events/s; %.1f MiB in the end" % (
            step * len(files) / took_s, end / 1024))


def first_is_known(fleet, first):
    """The same event again sends nothing: it is a duplicate, or refused as older than the memory."""
    try:
        return fleet.submit(first).duplicate
    except Refused as refused:
        return refused.reason == "EVENT_TOO_OLD"


if __name__ == "__main__":
    prove(main, events=80000, followers=5, remembered=20000)
