#!/usr/bin/python3
"""The journal, as an operator sees it: read beside the server, short on the disk however long the server runs, and
enough for a start that knows every event and every position."""
import glob
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402

SEGMENT = 256 * 1024
EVERY = 2
KEPT = 4  # segments that retention asks for
SETTINGS = """snapshot:
  segments: %d
retention:
  segment_bytes: %d
  log_bytes: %d
""" % (EVERY, SEGMENT, KEPT * SEGMENT)


def journal(fleet, task, *words):
    """(exit code, standard output's lines, standard error)"""
    done = subprocess.run([fleet.server.program, "journal", task, "--state-dir", fleet.server.state, *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.splitlines(), done.stderr


def files(fleet, kind):
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(fleet.server.state, "journal", "*." + kind)))


def pairs(fleet, begin, count):
    for index in range(begin, begin + count):
        fleet.submit(fleet.open("%d" % index))
        fleet.submit(fleet.close("%d" % index))


def beside_the_server(fleet, checks):
    code, lines, err = journal(fleet, "verify")
    checks.true("verify: whole", code == 0 and lines[-1].endswith(": whole"), (code, lines[-1:], err))
    code, lines, err = journal(fleet, "dump", "-o", "json")
    records = [json.loads(line) for line in lines]
    types = {record["type"] for record in records}
    checks.true("dump: every record is understood", all(isinstance(record["content"], dict) for record in records), lines[:2])
    checks.true("dump: what happened is in it", {"BOOT", "FOLLOWER", "EVENT", "OUTCOME"} <= types, types)
    events = [record["content"]["id"] for record in records if record["type"] == "EVENT"]
    checks.true("dump: events by their ids", "open-0" in events and "close-0" in events, events[:5])
    code, lines, _ = journal(fleet, "dump", "--from", "2", "--count", "3")
    checks.equal("dump: from, count", (code, [line.split()[2] for line in lines[1:]]), (0, ["2", "3", "4"]))
    tail = subprocess.Popen([fleet.server.program, "journal", "tail", "--state-dir", fleet.server.state, "--count", "1",
                             "--for", "20s", "-o", "json"], stdout=subprocess.PIPE, text=True)
    tail.stdout.readline()
    pairs(fleet, 1000, 1)
    seen = []
    while "close-1000" not in seen:
        line = tail.stdout.readline()
        if not line:
            break
        record = json.loads(line)
        seen.append(record["content"].get("id"))
    tail.kill()
    tail.wait()
    checks.true("tail: what is appended comes", "close-1000" in seen, seen)


def is_short(fleet):
    """What retention asks for, the one in use, the next, and what filled while the last snapshot was made."""
    segments = files(fleet, "log")
    return len(segments) <= KEPT + EVERY + 3 and segments[0] > "00000001.log" and len(files(fleet, "snapshot")) == 2


def is_caught_up(fleet):
    """The newest snapshot stands where it has to. Snapshots are looked for once a second, and a fast machine fills
    a hundred of these small segments meanwhile: how many there are at a moment is no promise."""
    newest = [int(names[-1].split(".")[0]) if names else 0 for names in (files(fleet, "log"), files(fleet, "snapshot"))]
    return newest[0] - newest[1] <= EVERY + 2


def main(options, checks):
    with Fleet(options.program, 8, {"latency": "constant:0"}, config=CONFIG + SETTINGS) as fleet:
        fleet.submit(fleet.open("kept"))
        pairs(fleet, 0, 20)
        beside_the_server(fleet, checks)
        begin, end = 2000, time.monotonic() + 90
        while not is_short(fleet) and time.monotonic() < end:
            pairs(fleet, begin, 20)
            begin += 20
            wait_until(lambda: is_caught_up(fleet), 30, "a snapshot")
        checks.true("two snapshots, and the log behind the older one", is_short(fleet), (files(fleet, "log"), files(fleet, "snapshot")))
        checks.true("it begins after the first segment", files(fleet, "log")[0] > "00000001.log", files(fleet, "log"))
        code, lines, err = journal(fleet, "verify")
        checks.true("verify: whole, what is left of it", code == 0 and lines[-1].endswith(": whole"), (code, lines[-1:], err))

        fleet.server.kill()
        fleet.client.close()
        fleet.server.start()
        fleet.client = fleet.connect()
        wait_until(fleet.is_serving, 30, "health SERVING")
        wait_until(fleet.is_connected, 30, "every follower connected")
        last_start = fleet.server.log().split("journal.read")[-1]
        checks.true("the start reads a snapshot", "snapshot=" in last_start and "snapshot=00000000" not in last_start, last_start[:200])
        checks.true("an event of the removed part is known again", fleet.submit(fleet.open("0")).duplicate, "new")
        answer = fleet.submit(fleet.close("kept"))
        checks.equal("a position of the removed part is closed", [fleet.state(copy) for copy in answer.copies], ["DONE"] * 8)
        checks.equal("nothing is left", [len(fleet.book(follower_id).positions) for follower_id in fleet.ids], [0] * 8)

        fleet.server.kill()
        newest = files(fleet, "snapshot")[-1]
        with open(os.path.join(fleet.server.state, "journal", newest), "r+b") as file:
            file.seek(100)
            file.write(b"\xff\x00\xff")
        fleet.server.start()
        fleet.client.close()
        fleet.client = fleet.connect()
        wait_until(fleet.is_serving, 30, "health SERVING")
        checks.true("a damaged snapshot gives way to the older one, and is told",
                    "journal.snapshot_unusable snapshot=%s" % newest.split(".")[0] in fleet.server.log(), fleet.server.log()[-400:])
        checks.true("and all is known", fleet.submit(fleet.close("kept")).duplicate, "new")
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main)
