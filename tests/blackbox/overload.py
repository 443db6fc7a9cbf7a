#!/usr/bin/python3
"""Five times as many opens as the brokers can carry out, with closes between them on a connection of their own: every close is
sent, opens are refused before they are taken or expire, each with its reason, what was sent is what was accepted and refused,
and the server's memory does not grow with the load.

    overload.py [--program FILE] [--seconds N] [--long 1] [--quiet 1]

--long 1: a minute of it. --quiet 1: the machine does nothing else, so that the path times of closes are judged (p99 at most 3 x
what it is without load), not only printed.
"""
import collections
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, percentile, prove, wait_until  # noqa: E402

FOLLOWERS, PARALLEL, LATENCY_MS = 4, 4, 20
SUSTAINABLE = PARALLEL * 1000 // LATENCY_MS  # opens a second: each follower has them all
TIMES, WINDOW_S = 5, 1.0
GROWN_MIB_MAX, COPY_KIB_MAX = 64, 2  # beside the copies that are remembered, copies.remembered of them at most
CLOSE_EVERY_S = 0.05


class Flood(threading.Thread):
    """Opens at a rate over one stream, and what was answered to each."""

    def __init__(self, fleet, seconds):
        super().__init__()
        self.fleet, self.seconds, self.sent = fleet, seconds, 0
        self.client = fleet.connect()
        self.accepted, self.refused, self.hints, self.copies = set(), collections.Counter(), 0, 0

    def requests(self):
        start = time.monotonic()
        while time.monotonic() < start + self.seconds:
            ahead = start + self.sent / (TIMES * SUSTAINABLE) - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            self.sent += 1
            yield self.fleet.new("StreamEventsRequest", event=self.fleet.open("L%d" % self.sent))

    def run(self):
        for answer in self.client.converse("EventService/StreamEvents", self.requests(), deadline_s=self.seconds * 4 + 60):
            if answer.WhichOneof("answer") == "accepted":
                self.accepted.add(answer.event_id)
                self.copies += answer.accepted.accepted + answer.accepted.skipped
            else:
                self.refused[answer.refused.reason] += 1
                self.hints += answer.refused.HasField("retry_after")


class Closer:
    """Closes of positions that were opened before, and how long the way of each copy to its broker was."""

    def __init__(self, fleet):
        self.fleet, self.n, self.copies, self.path_ns = fleet, 0, [], []
        self.client = fleet.connect()

    def one(self):
        answer = self.fleet.submit_all([self.fleet.close("C%d" % self.n)], client=self.client, wait_for="WAIT_FOR_SENT")[0]
        self.n += 1
        self.copies += [copy.copy_id for copy in answer.copies]

    def paths(self, from_copy):
        """Path times of the copies from this one on, once they are over."""
        found = []
        for copy_id in self.copies[from_copy:]:
            times = self.fleet.client.ask("CopyService/GetCopy", copy_id=copy_id).times
            found.append(times.upstream_ns + times.called_ns)
        return found

    def states(self):
        return collections.Counter(self.fleet.state(self.fleet.client.ask("CopyService/GetCopy", copy_id=copy_id)) for copy_id in self.copies)


def behind(fleet):
    return int(re.search(r"^tradewake_history_behind_records (\d+)$", fleet.server.http("/metrics")[1], re.M).group(1))


def windows_set(fleet):
    for subscription in fleet.client.ask("FollowerService/ListSubscriptions", page_size=100).subscriptions:
        fleet.client.call("FollowerService/UpdateSubscription", fleet.contract.from_json("UpdateSubscriptionRequest", {
            "subscription": {"subscription_id": subscription.subscription_id, "rules": {"open_window": "%gs" % WINDOW_S}},
            "update_mask": "rules.openWindow"}))


def main(options, checks):
    seconds = 60 if options.long else options.seconds
    paper = {"latency": "constant:%dms" % LATENCY_MS}
    unloaded = 20
    loaded_max = int(seconds / CLOSE_EVERY_S)
    with Fleet(options.program, FOLLOWERS, paper, {"max_parallel": PARALLEL}) as fleet:
        fleet.submit_all([fleet.open("C%d" % n) for n in range(unloaded + loaded_max)])
        wait_until(fleet.is_idle, 60, "the positions that are to be closed")
        windows_set(fleet)
        closer, flood = Closer(fleet), Flood(fleet, seconds)
        for _ in range(unloaded):
            closer.one()
        resident_kib, beside = fleet.server.status("VmRSS"), len(closer.copies)
        most_kib = resident_kib
        flood.start()
        while flood.is_alive() and closer.n < unloaded + loaded_max:
            closer.one()
            most_kib = max(most_kib, fleet.server.status("VmRSS"))
            time.sleep(CLOSE_EVERY_S)
        flood.join()
        wait_until(lambda: behind(fleet) == 0, 300, "the history, which lists wait for")
        wait_until(fleet.is_idle, 60, "the end of what was accepted")

        checks.equal("every close is sent and done", dict(closer.states()), {"DONE": closer.n * FOLLOWERS})
        refused = sum(flood.refused.values())
        checks.equal("accepted + refused = sent (%d + %d)" % (len(flood.accepted), refused), len(flood.accepted) + refused, flood.sent)
        checks.true("some are refused, all of them for load and with a time to come back",
                    refused > 0 and set(flood.refused) == {"OVERLOADED"} and flood.hints == refused, (flood.refused, flood.hints))
        ends, copies, strangers = collections.Counter(), 0, []
        for copy in fleet.copies(master_id="M1"):
            if copy.event_id.startswith("open-L"):
                copies += 1
                ends[fleet.state(copy), fleet.reason(copy)] += 1
                if copy.event_id not in flood.accepted:
                    strangers.append(copy.event_id)
        checks.equal("what was refused has no copy", strangers, [])
        checks.equal("each accepted one has a copy at every follower", copies, flood.copies)
        allowed = {("DONE", "UNSPECIFIED"), ("EXPIRED", "TOO_OLD"), ("SKIPPED", "QUEUE_FULL")}
        checks.true("carried out, expired or told apart: %s" % dict(ends), set(ends) <= allowed and ends["DONE", "UNSPECIFIED"] > 0, ends)
        grown_mib = (most_kib - resident_kib) / 1024
        allowed_mib = GROWN_MIB_MAX + flood.copies * COPY_KIB_MAX / 1024
        checks.true("memory is bounded: it grew by less than %d MiB" % allowed_mib, grown_mib < allowed_mib, grown_mib)
        before, during = closer.paths(0)[:beside], closer.paths(beside)
        ratio = percentile(during, 99) / max(1, percentile(before, 99))
        print("     %.0f opens/s sent, %.0f/s sustainable; path p99 of closes: %.1f x of that without load; memory +%.1f MiB" % (
            flood.sent / seconds, SUSTAINABLE, ratio, grown_mib))
        if options.quiet:
            checks.true("path p99 of closes is at most 3 x", ratio <= 3, ratio)
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main, seconds=4, long=0, quiet=0)
