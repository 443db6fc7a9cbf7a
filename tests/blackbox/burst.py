#!/usr/bin/python3
"""27 positions close at once at 30 followers whose broker needs 130 ms: 810 copies through gRPC.

Own time is printed, not judged: a shared machine has its own mind. What is judged does not depend
on its speed: no copy waits for another, no thread is created for the burst, every copy has a sample.
"""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import grpc  # noqa: E402
from blackbox import Fleet, percentile, prove, wait_until  # noqa: E402


def watch(fleet, samples, ready):
    """Puts every sample into `samples` by copy id, on a thread of its own, until it is cancelled."""
    stream = fleet.client.watch("MetricsService/WatchOwnTime", fleet.new("WatchOwnTimeRequest", max_batch=4096))

    def read():
        try:
            for message in stream:
                if message.WhichOneof("payload") == "started":
                    ready.set()
                for sample in message.batch.samples:
                    samples[sample.copy_id] = sample
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.CANCELLED:
                print("WatchOwnTime ended: %s" % error.details())

    threading.Thread(target=read, daemon=True).start()
    return stream


def burst(options, checks, nonblocking):
    kind = "reactor" if nonblocking else "workers"
    paper = {"latency": "constant:130ms", **({"nonblocking": "true"} if nonblocking else {})}
    copies = options.positions * options.followers
    with Fleet(options.program, options.followers, paper, {"max_parallel": 32}) as fleet:
        positions = ["%d" % index for index in range(options.positions)]
        fleet.submit_all([fleet.open(position) for position in positions])
        samples, ready = {}, threading.Event()
        stream = watch(fleet, samples, ready)
        ready.wait(10)
        before = fleet.executor()
        answers = fleet.submit_all([fleet.close(position) for position in positions])
        closed = [copy for answer in answers for copy in answer.copies]
        wait_until(lambda: len(samples) >= copies, 10, "%d samples" % copies)
        after = fleet.executor()
        stream.cancel()

        done = [copy for copy in closed if fleet.state(copy) == "DONE"]
        checks.equal("%s: every close is DONE" % kind, len(done), copies)
        checks.equal("%s: a sample for each copy, and for no other" % kind, set(samples),
                     {copy.copy_id for copy in closed})
        held = [sample for sample in samples.values() if sample.times.held_ns]
        checks.equal("%s: no copy was held" % kind, len(held), 0)
        checks.equal("%s: as many threads after the burst as before" % kind, after.threads, before.threads)
        checks.equal("%s: no thread was created late" % kind, after.threads_created_late, 0)
        checks.equal("%s: nothing is left open" % kind,
                     sum(len(fleet.book(follower_id).positions) for follower_id in fleet.ids), 0)
        wrong = [sample.copy_id for sample in samples.values() if not is_ordered(sample.times)]
        checks.equal("%s: planned <= journaled <= started <= called <= answered" % kind, wrong, [])
        own = [sample.own_time_ns / 1e6 for sample in samples.values()]
        path = [(sample.times.upstream_ns + sample.times.called_ns) / 1e6 for sample in samples.values()]
        for name, times in (("own time", own), ("path time", path)):
            print("     %s %s of %d copies, ms: p50 %.3f, p95 %.3f, max %.3f; %d threads" % (
                kind, name, len(times), percentile(times, 50), percentile(times, 95), max(times), after.threads))
        checks.equal("%s: the server is well" % kind, fleet.server.faults(), None)


def is_ordered(times):
    stages = [times.planned_ns, times.journaled_ns, times.started_ns, times.called_ns, times.answered_ns]
    return stages == sorted(stages) and stages[0] > 0


def main(options, checks):
    for nonblocking in (False, True):
        burst(options, checks, nonblocking)


if __name__ == "__main__":
    prove(main, positions=27, followers=30)
