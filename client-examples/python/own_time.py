#!/usr/bin/python3
"""Watches each copy's own time as it is measured, and prints percentiles.

    ./own_time.py --samples 300          # until so many have come, or Ctrl-C
    ./own_time.py --seconds 60

Own time: from the event's receipt to the moment the follower's order call is made. Path time counts from
the moment the upstream saw the event: it cannot be made to look better by reading events late. Copies that
had to wait for something that is not Tradewake's to hurry are counted apart (held).
"""
import sys
import time

import grpc

import client
from client import metrics_pb2

HEADER = "%-10s %8s %9s %9s %9s %9s" % ("ms", "copies", "p50", "p95", "p99", "max")


def percentile(ordered, share):
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else 0


def row(label, times_ns):
    ordered = sorted(times_ns)
    values = [percentile(ordered, share) for share in (50, 95, 99, 100)]
    return "%-10s %8d %9.3f %9.3f %9.3f %9.3f" % ((label, len(ordered)) + tuple(value / 1e6 for value in values))


class Figures:
    def __init__(self):
        self.own_ns, self.path_ns = [], []
        self.held = self.dropped = self.interruptions = 0

    def add(self, sample):
        if sample.times.held_ns > 0:
            self.held += 1
            return
        self.own_ns.append(sample.own_time_ns)
        self.path_ns.append(sample.times.upstream_ns + sample.times.called_ns)

    def seen(self):
        return len(self.own_ns) + self.held

    def __str__(self):
        return "\n".join([HEADER, row("own time", self.own_ns), row("path time", self.path_ns),
                          "held %d, dropped %d, interruptions %d" % (self.held, self.dropped, self.interruptions)])


def watch(metrics, options, figures, backoff):
    """One stream, until there are enough samples. Raises grpc.RpcError when it breaks or the time is over."""
    request = metrics_pb2.WatchOwnTimeRequest()
    request.filter.master_id = options.master
    # A stream's deadline is simply how long one wants to watch.
    stream = metrics.WatchOwnTime(request, timeout=client.left_s(options.until))
    try:
        for message in stream:
            kind = message.WhichOneof("payload")
            if kind == "started":
                backoff.reset()
                print("watching %s" % message.started.instance_id, file=sys.stderr, flush=True)
            elif kind == "batch":
                for sample in message.batch.samples:
                    figures.add(sample)
            elif kind == "dropped":
                figures.dropped += message.dropped.count  # we read too slowly; nobody else was slowed down
            if figures.seen() >= options.samples:
                return
    finally:
        stream.cancel()


def main():
    parser = client.arguments(__doc__)
    parser.add_argument("--samples", type=int, default=sys.maxsize, help="end after so many")
    parser.add_argument("--seconds", type=float, help="end after this time")
    options = parser.parse_args()
    options.until = options.seconds and time.monotonic() + options.seconds

    metrics = client.metrics_pb2_grpc.MetricsServiceStub(client.channel(options.server))
    figures, backoff = Figures(), client.Backoff()
    try:
        while figures.seen() < options.samples:
            try:
                watch(metrics, options, figures, backoff)
            except grpc.RpcError as error:
                refused = client.Refused(error)
                if refused.code == "DEADLINE_EXCEEDED":
                    break
                if not refused.is_away:
                    raise refused
                # Samples cannot be resumed: what is measured until we are back is missed, and said so.
                figures.interruptions += not backoff.is_told
                backoff.wait(refused, "watching again")
    except KeyboardInterrupt:
        pass
    print(figures)
    return client.DONE if figures.seen() else client.NOT_SETTLED


client.run(main)
