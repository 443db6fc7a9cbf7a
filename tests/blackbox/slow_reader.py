#!/usr/bin/python3
"""A reader of samples that takes one message a second while 10 000 copies a second go out.

received + dropped has to be the total for it, another reader beside it misses nothing, and the
copies do not notice either of them: own time is printed for the same run without and with it.
"""
import multiprocessing
import os
import queue
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import grpc  # noqa: E402
from blackbox import POLL_S, Client, Contract, Fleet, prove, wait_until  # noqa: E402

LAG = 50  # opens between an open and its close: its order is long done

# The kernel and the library read ahead for a reader; little enough here that slow is slow.
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16384)]


def read_samples(address, pause_s, started, load_ended, results):
    """A process of its own: reads until the load has ended and the stream is idle, and tells
    (received, dropped, how it ended, gaps in first_sample_id)."""
    contract = Contract()
    client = Client(contract, address, NARROW if pause_s else ())
    request = contract.new("WatchOwnTimeRequest", max_batch=4096 if not pause_s else 256)
    stream = client.watch("MetricsService/WatchOwnTime", request)
    received = dropped = gaps = 0
    expected_id, ended = None, "cancelled"
    try:
        for message in stream:
            kind = message.WhichOneof("payload")
            if kind == "started":
                started.set()
            elif kind == "dropped":
                dropped += message.dropped.count
                expected_id = None if expected_id is None else expected_id + message.dropped.count
            elif kind == "batch":
                gaps += expected_id is not None and message.batch.first_sample_id != expected_id
                expected_id = message.batch.first_sample_id + len(message.batch.samples)
                received += len(message.batch.samples)
            elif kind == "heartbeat" and load_ended.is_set():
                break
            results.put((received, dropped, None, gaps))
            if pause_s and not load_ended.is_set():
                time.sleep(pause_s)
    except grpc.RpcError as error:
        ended = "%s: %s" % (error.code().name, error.details())
    stream.cancel()
    results.put((received, dropped, ended, gaps))


class Reader:
    def __init__(self, address, pause_s):
        context = multiprocessing.get_context("spawn")
        self.started, self.load_ended, self.results = context.Event(), context.Event(), context.Queue()
        self.process = context.Process(target=read_samples, daemon=True, args=(
            address, pause_s, self.started, self.load_ended, self.results))
        self.process.start()
        self.last = (0, 0, None, 0)
        if not self.started.wait(20):
            raise TimeoutError("no WatchStarted")

    def wait(self, total, within_s):
        """Blocks until it has accounted for `total` samples, or ended, or time is up."""
        self.load_ended.set()
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            try:
                self.last = self.results.get(timeout=0.2)
            except queue.Empty:
                pass
            if self.last[2] is not None or self.last[0] + self.last[1] >= total:
                break
        self.process.terminate()
        self.process.join()
        return self.last


def load(fleet, copies_per_s, seconds):
    """Opens, and closes of what was opened LAG opens before, paced over one stream: (copies, rate)."""
    events_per_s = copies_per_s / fleet.number
    count = int(events_per_s * seconds)

    def requests():
        start = time.monotonic()
        for index in range(count):
            ahead = start + index / events_per_s - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            closes = index % 2 and index > 2 * LAG
            event = fleet.close("%d" % (index - 2 * LAG)) if closes else fleet.open("%d" % (index + 1))
            yield fleet.new("StreamEventsRequest", event=event)

    start, accepted = time.monotonic(), 0
    for answer in fleet.client.converse("EventService/StreamEvents", requests(), deadline_s=seconds * 4 + 30):
        accepted += answer.accepted.accepted
    rate = accepted / (time.monotonic() - start)
    return accepted, rate


def totals(fleet):
    """(samples since start, own time, samples lost in a ring)."""
    summary = fleet.client.ask("MetricsService/GetOwnTimeSummary")
    group = summary.groups[0]
    return group.own_time.count + group.held, group.own_time, summary.samples_lost


def samples_of(fleet, accepted):
    """How many samples there are when all is done. A close that overtook its open makes fewer than
    there are copies, so they are counted where they are made."""
    wait_until(fleet.is_idle, 30, "idle")
    end = time.monotonic() + 3
    while totals(fleet)[0] < accepted and time.monotonic() < end:
        time.sleep(POLL_S)
    return totals(fleet)[0]


def run(options, checks, slow):
    name = "with a slow reader" if slow else "without one"
    paper = {"latency": "constant:0", "nonblocking": "true"}
    with Fleet(options.program, 30, paper, {"max_parallel": 64}) as fleet:
        fast = Reader(fleet.server.address, 0)
        laggard = Reader(fleet.server.address, 1.0) if slow else None
        threads = fleet.server.status("Threads")
        resident_kib = fleet.server.status("VmRSS")
        accepted, rate = load(fleet, options.rate, options.seconds)
        grown_kib = fleet.server.status("VmRSS") - resident_kib
        total = samples_of(fleet, accepted)
        received, dropped, ended, gaps = fast.wait(total, 20)
        checks.equal("%s: the other reader misses nothing" % name, (received, dropped, ended, gaps),
                     (total, 0, None, 0))
        checks.true("%s: nearly every copy was called" % name, total > 0.9 * accepted, "%d of %d" % (total, accepted))
        if laggard:
            received, dropped, ended, gaps = laggard.wait(total, 60)
            checks.equal("the slow reader: received + dropped = total (%d + %d)" % (received, dropped),
                         (received + dropped, ended), (total, None))
            checks.true("the slow reader was slow: it was told what it missed", dropped > 0, dropped)
            checks.equal("the slow reader: sample ids count what was dropped", gaps, 0)
        _, histogram, lost = totals(fleet)
        checks.equal("%s: no ring overflowed" % name, lost, 0)
        checks.equal("%s: no more threads than before" % name, fleet.server.status("Threads"), threads)
        checks.equal("%s: the server is well" % name, fleet.server.faults(), None)
        print("     %s: %d copies at %.0f/s; own time p50 %.3f ms, p99 %.3f ms; memory grew by %.1f MiB" % (
            name, accepted, rate, histogram.p50_ns / 1e6, histogram.p99_ns / 1e6, grown_kib / 1024))
        return histogram.p50_ns


def main(options, checks):
    alone = run(options, checks, slow=False)
    beside = run(options, checks, slow=True)
    print("     own time p50 with / without the slow reader: %.2f" % (beside / max(1, alone)))


if __name__ == "__main__":
    prove(main, rate=10000, seconds=15)
