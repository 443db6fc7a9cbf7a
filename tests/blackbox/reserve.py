#!/usr/bin/python3
"""What is kept for closes: while memory, or room for the log, is short opens are refused, with a time to come back, and closes are carried out; where
every thread that may make an open hangs in one, closes have threads of their own.

    reserve.py [--program FILE]
"""
import itertools
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, Refused, prove, wait_until  # noqa: E402

THREADS, RESERVED = 32, 4
MIB = 1 << 20
POSITIONS, LEFT_BYTES = 400, 4 << 20  # of 8 followers: 2 KiB and a quarter for each share are 8 MiB


def refusal(fleet, event):
    try:
        fleet.submit(event)
    except Refused as refused:
        return refused
    return None


def short_memory(options, checks):
    with Fleet(options.program, followers=3, paper={"latency": "zero"}) as fleet:
        for position in range(5):
            fleet.submit(fleet.open("%d" % position))
        pid, used = fleet.server.process.pid, fleet.server.status("VmSize") * 1024
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (used + 40 * MIB, before[1]))
        wait_until(lambda: "memory.short" in fleet.server.log(), 20, "the shortage is noticed")
        refused = refusal(fleet, fleet.open("late"))
        checks.equal("memory is short: opens are refused", refused and (refused.code, refused.reason), ("RESOURCE_EXHAUSTED", "OVERLOADED"))
        checks.true("memory is short: the refusal says why", refused and "memory" in refused.message, refused)
        answers = fleet.submit_all([fleet.close("%d" % position) for position in range(5)])
        checks.equal("memory is short: closes are carried out",
                     [fleet.state(copy) for answer in answers for copy in answer.copies], ["DONE"] * 15)
        resource.prlimit(pid, resource.RLIMIT_AS, before)
        wait_until(lambda: "memory.enough" in fleet.server.log(), 20, "there is enough again")
        checks.equal("memory is there again: opens are taken", refusal(fleet, fleet.open("late")), None)


def every_thread_taken(options, checks):
    """A fleet that fitted once and does no more: opens of one account hang in every thread that they may have."""
    with Fleet(options.program, followers=0, paper={"latency": "zero", "call_timeout": "60s"}, follower={"max_parallel": THREADS}) as fleet:
        for follower_id, master in (("F0", "M1"), ("F1", "M2")):
            fleet.create(follower_id, masters=(master,))
        fleet.number = 2
        wait_until(fleet.is_connected, 30, "both accounts")
        for position in range(RESERVED):
            fleet.submit(fleet.event("before-%d" % position, "M2", open={
                "position_id": "%d" % position, "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10", "price": "1.1"}))
        fleet.client.close()
        fleet.server.terminate()
        fleet.server.arguments = ["--executor-threads-max", str(THREADS), "--executor-threads-reserved", str(RESERVED)]
        fleet.server.start()
        fleet.client = fleet.connect()
        wait_until(fleet.is_serving, 30, "health SERVING")
        wait_until(fleet.is_connected, 30, "both accounts again")
        fleet.client.ask("PaperService/Configure", follower_id="F0", faults="open#*=hang:40s")
        opens = [fleet.client.start("EventService/SubmitEvent", fleet.request(fleet.open("o%d" % number), wait_for="WAIT_FOR_ACCEPTED"))
                 for number in range(2 * THREADS)]
        for future in opens:
            future.result()
        hanging = THREADS - RESERVED
        wait_until(lambda: fleet.executor().calls_in_flight >= hanging, 20, "the opens in their threads")
        for position in range(RESERVED):
            answer = fleet.submit(fleet.event("after-%d" % position, "M2", close={"position_id": "%d" % position, "price": "1.1"}))
            checks.equal("no thread is left to opens, and close %d is carried out" % position,
                         [fleet.state(copy) for copy in answer.copies], ["DONE"])
        checks.equal("meanwhile the opens hang on, in all threads but the reserve", fleet.executor().calls_in_flight, hanging)


def file_bytes(path):
    return sum(os.stat(os.path.join(path, name)).st_blocks * 512 for name in os.listdir(path) if name.endswith(".log"))


def short_disk(options, checks):
    """A disk that is not full yet, and has less room than the closes of all that is open may take."""
    fleet = Fleet(options.program, followers=8, paper={"latency": "zero"}, config=CONFIG + "retention:\n  segment_bytes: 1MiB\n")
    journal = os.path.join(fleet.server.state, "journal")
    os.makedirs(journal)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", journal], stderr=subprocess.DEVNULL).returncode != 0:
        print("     SKIPPED: mounting a tmpfs is not allowed here")
        return
    try:
        with fleet:
            for first in range(0, POSITIONS, 50):
                fleet.submit_all([fleet.open("%d" % number) for number in range(first, first + 50)], view="COPY_VIEW_COUNTS")
            checks.equal("with room, opens are taken", refusal(fleet, fleet.open("more")), None)
            free = os.statvfs(journal).f_bavail * os.statvfs(journal).f_frsize
            with open(os.path.join(journal, "ballast"), "wb") as file:
                file.write(bytes(free - LEFT_BYTES))
            late = itertools.count()
            refused = wait_until(lambda: refusal(fleet, fleet.open("late-%d" % next(late))), 20, "the shortage is noticed")
            checks.true("less is left than all closes may take: opens are refused", "disk" in refused.message, refused)
            left = os.statvfs(journal).f_bavail * os.statvfs(journal).f_frsize
            checks.true("though the disk is not full", left > LEFT_BYTES / 2, left)
            before, done = file_bytes(journal), 0
            for first in range(0, POSITIONS, 50):
                answers = fleet.submit_all([fleet.close("%d" % number) for number in range(first, first + 50)])
                done += sum(fleet.state(copy) == "DONE" for answer in answers for copy in answer.copies)
            checks.equal("and all that is open is closed", done, 8 * POSITIONS)
            checks.equal("the server is well", fleet.server.faults(), None)
            print("     %.2f KiB of the log's files for the close of a share" % ((file_bytes(journal) - before) / 1024 / done))
    finally:
        subprocess.run(["umount", "--lazy", journal], check=False)


def main(options, checks):
    short_memory(options, checks)
    short_disk(options, checks)
    every_thread_taken(options, checks)


prove(main)
