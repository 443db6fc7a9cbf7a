#!/usr/bin/python3
"""Damaged, foreign, locked and full: each its own clear line, and nothing made worse.

A log is written and left by SIGKILL; each case has a copy of it, spoils it, and starts a server. What is
refused leaves every file as it was, byte for byte. Mounts need root; without it they are skipped, loudly."""
import hashlib
import os
import shutil
import struct
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "../blackbox/lib"))

from blackbox import CONFIG, Broken, Fleet, Refused, Server, prove, wait_until  # noqa: E402

SEGMENT_BYTES = 65536
HEADER_BYTES = 64
RECORD_MAGIC = b"TWJL"


def small_segments(size=SEGMENT_BYTES):
    os.environ["TW_FAULT_SEGMENT_BYTES"] = str(size)


# ---- Files ----

def bytes_of(folder):
    """Every file's hash."""
    return {name: hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest()
            for name in sorted(os.listdir(folder)) if os.path.isfile(os.path.join(folder, name))}


def change(path, spoil):
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        spoiled = spoil(content)
        file.seek(0)
        file.write(spoiled)
        file.truncate(len(spoiled))


def records_of(path):
    """Offsets of the records in a segment."""
    content, offsets, at = open(path, "rb").read(), [], HEADER_BYTES
    while content[at:at + 4] == RECORD_MAGIC:
        size = struct.unpack_from("<I", content, at + 12)[0]
        offsets.append(at)
        at += (48 + size + 7) // 8 * 8
    return offsets, at


def segments_begun(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".log") and open(os.path.join(folder, name), "rb").read(8) == b"TWJOURNL"]


def crc32c(content):
    crc = 0xffffffff
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


# ---- A log to be spoiled ----

def has_records_enough(fleet):
    return len(records_of(segments_begun(os.path.join(fleet.server.state, "journal"))[-1])[0]) > 8


def log_make(options):
    """A folder with the state of a server that was killed. Without a snapshot: what one stands for is not read again, and
    whether there is one yet is a matter of the machine."""
    fleet = Fleet(options.program, followers=6, paper={"latency": "zero"}, config=CONFIG + "snapshot:\n  segments: 0\n")
    fleet.server.owns_folder = False
    with fleet:
        index = 0
        while index < 60 or not has_records_enough(fleet):  # the last segment may have just begun
            fleet.submit(fleet.open("%d" % index))
            if index % 2:
                fleet.submit(fleet.close("%d" % index))
            wait_until(fleet.is_idle, 20, "idle")
            index += 1
        fleet.server.kill()
    return fleet


class Copy:
    """A copy of the log, to be spoiled and started."""

    def __init__(self, options, log, name):
        self.server = Server(options.program, config=CONFIG)
        shutil.rmtree(self.server.state)
        shutil.copytree(log.server.state, self.server.state)
        self.journal = os.path.join(self.server.state, "journal")
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.end()

    def refused(self, checks, *words):
        before = bytes_of(self.journal)
        refused_start(checks, self.name, self.server, *words)
        checks.equal("%s: no byte was changed" % self.name, bytes_of(self.journal), before)

    def starts(self, checks, *words):
        try:
            self.server.start()
        except Broken as broken:
            return checks.true("%s: it starts" % self.name, False, broken)
        checks.true("%s: it starts" % self.name, True)
        missing = [word for word in words if word not in self.server.log()]
        return checks.true("%s: it says so" % self.name, not missing, "no %s in %s" % (missing, self.server.log()))


def refused_start(checks, name, server, *words, **how):
    """It ends by itself with code 1 and one line that says these words."""
    process = subprocess.Popen(server.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=server.environment, cwd=server.folder, **how)
    try:
        said = process.communicate(timeout=20)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()[0] + "(it went on)"
    errors = [line for line in said.splitlines() if " E " in line[:40]]
    checks.equal("%s: code 1" % name, process.returncode, 1)
    checks.equal("%s: one line" % name, len(errors), 1) or print("     " + said)
    missing = [word for word in words if word not in said]
    checks.true("%s: it says what, where and what to do" % name, not missing, "no %s in %s" % (missing, said))


# ---- Damage ----

def damaged_logs(options, checks):
    small_segments()
    log = log_make(options)
    try:
        spoil_all(options, checks, log)
    finally:
        shutil.rmtree(log.server.folder, ignore_errors=True)


def spoil_all(options, checks, log):
    segments = [os.path.basename(path) for path in segments_begun(os.path.join(log.server.state, "journal"))]
    checks.true("the log has several segments", len(segments) > 2, segments)
    first, last = segments[0], segments[-1]

    with Copy(options, log, "a flipped byte in the middle") as copy:
        offsets, _ = records_of(os.path.join(copy.journal, first))
        at = offsets[len(offsets) // 2] + 60
        change(os.path.join(copy.journal, first), lambda content: content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        copy.refused(checks, "damage in", first, "offset %d" % offsets[len(offsets) // 2], "Nothing was changed")

    with Copy(options, log, "a hole in the tail with valid records behind it") as copy:
        path = os.path.join(copy.journal, last)
        offsets, _ = records_of(path)
        checks.true("the last segment has records enough", len(offsets) > 4, offsets)
        start, end = offsets[-4], offsets[-3]
        change(path, lambda content: content[:start] + bytes(end - start) + content[end:])
        copy.refused(checks, "damage in", last, "offset %d" % start, "a hole")

    with Copy(options, log, "a cut tail") as copy:
        path = os.path.join(copy.journal, last)
        offsets, end = records_of(path)
        change(path, lambda content: content[:end - 9])
        copy.starts(checks, "journal.cut", "segment=%s" % last.partition(".")[0], "offset=%d" % offsets[-1])
        checks.equal("a cut tail: a second start finds nothing to cut", again_log(copy).count("journal.cut"), 0)

    with Copy(options, log, "a log of another version") as copy:
        def newer(content):
            struct.pack_into("<I", content, 8, 77)
            struct.pack_into("<I", content, 60, crc32c(content[:60]))
            return content
        change(os.path.join(copy.journal, first), newer)
        copy.refused(checks, first, "is of version 77", "Nothing was changed")

    with Copy(options, log, "the oldest segment without its bytes") as copy:
        change(os.path.join(copy.journal, first), lambda content: b"")
        copy.refused(checks, "damage in", first, "without its header")

    with Copy(options, log, "a segment that is missing") as copy:
        os.unlink(os.path.join(copy.journal, segments[1]))
        copy.refused(checks, segments[1], "is missing")

    with Copy(options, log, "an empty directory") as copy:
        shutil.rmtree(copy.journal)
        os.mkdir(copy.journal)
        for name in os.listdir(copy.server.state):
            path = os.path.join(copy.server.state, name)
            if name.startswith("history"):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        copy.starts(checks, "clean_stop=first_start")


def again_log(copy):
    copy.server.kill()
    offset = len(copy.server.log())
    copy.server.start()
    return copy.server.log(offset)


# ---- Directories ----

def second_server(options, checks):
    small_segments()
    with Fleet(options.program, followers=2) as fleet:
        fleet.submit(fleet.open("1"))
        second = Server(options.program, config=CONFIG, folder=fleet.server.folder)
        refused_start(checks, "a second server on the same directory", second, "in use by another server", "its own")
        checks.true("a second server: the first one is unharmed", fleet.is_unharmed("2"), fleet.server.faults())


class Mount:
    """A tmpfs of so many MiB at a path; None where that is not allowed."""

    def __init__(self, path, size_mib):
        self.path, self.size_mib = path, size_mib
        self.is_there = False

    def __enter__(self):
        os.makedirs(self.path, exist_ok=True)
        self.is_there = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=%dm" % self.size_mib, "tmpfs", self.path],
            stderr=subprocess.DEVNULL, check=False).returncode == 0
        return self if self.is_there else None

    def __exit__(self, *_):
        if self.is_there:
            subprocess.run(["umount", "--lazy", self.path], check=False)

    def again(self, how):
        subprocess.run(["mount", "-o", "remount,%s" % how, self.path], check=True)


def skipped(what):
    print("     SKIPPED: %s: mounting a tmpfs is not allowed here" % what, flush=True)


def read_only(options, checks):
    small_segments()
    server = Server(options.program, config=CONFIG)
    try:
        with Mount(server.state, 16) as mount:
            if mount is None:
                skipped("a read-only directory")
                return
            server.start()
            server.kill()
            mount.again("ro")
            journal = os.path.join(server.state, "journal")
            before = bytes_of(journal)
            refused_start(checks, "a read-only directory", server, "Read-only")
            checks.equal("a read-only directory: no byte was changed", bytes_of(journal), before)
            mount.again("rw")
            server.start()
            checks.true("a read-only directory: it starts when it can write again", server.is_running())
            server.kill()
    finally:
        server.end()


def ballast(path, leave):
    """Fills the file system of `path` but for so many bytes."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))


def is_refused(fleet, event):
    try:
        fleet.submit(event)
    except Refused as refused:
        return (refused.code, refused.reason) == ("RESOURCE_EXHAUSTED", "OVERLOADED") and "disk" in refused.message
    return False


def full_disk(options, checks):
    """Only the log's directory is full; the broker's ledger is not on it."""
    small_segments(1 << 20)
    fleet = Fleet(options.program, followers=4, paper={"latency": "zero"})
    with Mount(os.path.join(fleet.server.state, "journal"), 8) as mount:
        if mount is None:
            skipped("a full disk")
            return
        with fleet:
            for index in range(40):
                fleet.submit(fleet.open("%d" % index))
            filler = os.path.join(mount.path, "ballast")
            ballast(filler, 0)
            fill_until_refused(fleet, checks)
            answers = fleet.submit_all([fleet.close("%d" % index) for index in range(20)])
            checks.equal("a full disk: closes go on", {fleet.state(copy) for answer in answers for copy in answer.copies},
                         {"DONE"})
            checks.true("a full disk: opens are still refused", is_refused(fleet, fleet.open("late")))
            os.unlink(filler)
            wait_until(lambda: not is_refused(fleet, fleet.open("again")), 20, "opens are taken again")
            checks.true("a full disk: with room, opens are taken again", fleet.is_unharmed("room"), fleet.server.faults())
            until_the_end(fleet, checks, filler)


def fill_until_refused(fleet, checks):
    """Opens until the space ahead is used: from there on they are refused."""
    taken = 0
    while taken < 2000 and not is_refused(fleet, fleet.open("fill-%d" % taken)):
        taken += 1
    checks.true("a full disk: opens are refused", taken < 2000, "%d were taken" % taken)


def until_the_end(fleet, checks, filler):
    """When the reserve is used up too, the process ends and says so; with room it goes on."""
    ballast(filler, 0)
    fill_until_refused(fleet, checks)
    open_ones, sent = list(range(20, 40)), 0
    for index in range(20000):
        event = fleet.event("stops-%d" % index, modify={"position_id": "%d" % open_ones[index % 20],
                                                        "stop_loss": "0.%d" % (10000 + index)})
        try:
            fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED", view="COPY_VIEW_COUNTS")
            sent += 1
        except Refused:
            break
    try:
        wait_until(lambda: not fleet.server.is_running(), 20, "its end")
    except TimeoutError:
        pass
    checks.equal("a full reserve: it ends with code 1", fleet.server.process.poll(), 1)
    checks.true("a full reserve: it says what to do", "make room on the disk" in fleet.server.last_words(),
                fleet.server.last_words())
    fleet.server.kill()
    os.unlink(filler)
    fleet.client.close()
    fleet.server.start()
    fleet.client = fleet.connect()
    wait_until(fleet.is_connected, 30, "every follower connected")
    last = fleet.event("stops-%d" % (sent - 1), modify={"position_id": "%d" % open_ones[(sent - 1) % 20],
                                                        "stop_loss": "0.%d" % (10000 + sent - 1)})
    answer = fleet.submit(last)
    checks.true("a full reserve: the last event that was answered is there", answer.duplicate, answer)
    for index in open_ones:
        fleet.submit(fleet.close("%d" % index))
    wait_until(fleet.is_idle, 30, "idle")
    held = {position.client_order_id for follower_id in fleet.ids for position in fleet.book(follower_id).positions}
    ours = {copy.copy_id for index in open_ones for copy in fleet.copies(eventId="open-%d" % index)}
    checks.equal("a full reserve: with room, closes are done", held & ours, set())


def main(options, checks):
    damaged_logs(options, checks)
    second_server(options, checks)
    read_only(options, checks)
    full_disk(options, checks)


if __name__ == "__main__":
    sys.argv[1:] = sys.argv[1:] or ["--program", os.path.join(FOLDER, "../../build/faults/tradewake")]
    prove(main)
