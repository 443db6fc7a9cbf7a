#!/usr/bin/python3
"""A reader that takes nothing for `streams.hopeless_after` is ended with SUBSCRIBER_TOO_SLOW, whichever stream it is: copies,
samples, or the answers to its own events. Whoever reads goes on beside it, what such an upstream sent was taken and known again
when it is repeated, and there are never more than `streams.watchers_max` streams that watch copies.
"""
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import grpc  # noqa: E402
from blackbox import CONFIG, Fleet, prove, refused_from, wait_until  # noqa: E402

# What the kernel and the library would read ahead, so that a reader that stops is soon one that takes nothing.
NARROW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16384)]
LIMITS = CONFIG + "streams:\n  hopeless_after: 5s\n  watchers_max: 3\n"
ENDED_S = 60


def evicted(fleet):
    return int(re.search(r"^tradewake_streams_evicted_total (\d+)$", fleet.server.http("/metrics")[1], re.M).group(1))


def how_it_ended(fleet, stream):
    """The Refused that a stream nobody reads ends with; what the library still holds of it is read when it has ended."""
    try:
        for _ in stream:
            pass
    except grpc.RpcError as error:
        return refused_from(fleet.contract, error)
    return None


def is_too_slow(refused):
    return refused is not None and refused.code == "RESOURCE_EXHAUSTED" and "SUBSCRIBER_TOO_SLOW" in refused.message


class Upstream:
    """Sends opens for as long as they are taken, and reads no answer."""

    def __init__(self, fleet, client):
        self.fleet, self.sent = fleet, 0
        self.stream = client.converse("EventService/StreamEvents", self.requests(), deadline_s=300)

    def requests(self):
        while True:
            self.sent += 1
            request = self.fleet.contract.from_json("StreamEventsRequest", {"view": "COPY_VIEW_ALL"})
            request.event.CopyFrom(self.fleet.open("U%d" % self.sent))
            yield request


def keep_busy(fleet, is_over):
    """Copies and samples without end, from a client that reads its answers."""
    number = 0
    while not is_over.is_set():
        number += 1
        fleet.submit(fleet.open("B%d" % number), wait_for="WAIT_FOR_ACCEPTED", view="COPY_VIEW_COUNTS")
        fleet.submit(fleet.close("B%d" % number), wait_for="WAIT_FOR_ACCEPTED", view="COPY_VIEW_COUNTS")


def read_all(stream, seen):
    try:
        for message in stream:
            seen.append(message.WhichOneof("payload"))
    except grpc.RpcError:
        pass  # cancelled in the end


def too_many(fleet, checks):
    streams = [fleet.client.watch("CopyService/WatchCopies", fleet.new("WatchCopiesRequest")) for _ in range(3)]
    for stream in streams:
        next(stream)

    def one_more():
        try:
            next(fleet.client.watch("CopyService/WatchCopies", fleet.new("WatchCopiesRequest")))
        except grpc.RpcError as error:
            raise refused_from(fleet.contract, error)

    checks.refused("one more than may watch copies is refused", one_more, "RESOURCE_EXHAUSTED", "TOO_MANY_STREAMS")
    for stream in streams:
        stream.cancel()

    def is_free():
        stream = fleet.client.watch("CopyService/WatchCopies", fleet.new("WatchCopiesRequest"))
        try:
            next(stream)
            return True
        except grpc.RpcError:
            return False
        finally:
            stream.cancel()

    checks.true("where one has ended another finds a place", wait_until(is_free, ENDED_S, "a place"))


def main(options, checks):
    paper = {"latency": "constant:0", "nonblocking": "true"}
    with Fleet(options.program, 30, paper, {"max_parallel": 64}, config=LIMITS) as fleet:
        too_many(fleet, checks)
        is_over, reads = threading.Event(), fleet.connect()
        busy = threading.Thread(target=keep_busy, args=(fleet, is_over), daemon=True)
        good = reads.watch("CopyService/WatchCopies", fleet.new("WatchCopiesRequest"))
        seen = []
        reader = threading.Thread(target=read_all, args=(good, seen), daemon=True)
        reader.start()
        stuck = [fleet.connect(NARROW) for _ in range(3)]
        copies = stuck[0].watch("CopyService/WatchCopies", fleet.new("WatchCopiesRequest"))
        samples = stuck[1].watch("MetricsService/WatchOwnTime", fleet.new("WatchOwnTimeRequest", max_batch=4096))
        upstream = Upstream(fleet, stuck[2])
        busy.start()
        wait_until(lambda: evicted(fleet) >= 3, ENDED_S, "the end of three streams that nobody reads")
        checks.true("who watches copies and reads none is ended", is_too_slow(how_it_ended(fleet, copies)))
        checks.true("who watches samples and reads none is ended", is_too_slow(how_it_ended(fleet, samples)))
        checks.true("who sends events and reads no answer is ended", is_too_slow(how_it_ended(fleet, upstream.stream)))
        is_over.set()
        busy.join()
        checks.equal("nobody else was ended", evicted(fleet), 3)
        checks.true("who reads goes on beside them", good.is_active() and len(seen) > 10, len(seen))
        again = fleet.submit(fleet.open("U1"), wait_for="WAIT_FOR_ACCEPTED")
        checks.true("what was sent is known when it is sent again", again.duplicate, again)
        good.cancel()
        reader.join()
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main)
