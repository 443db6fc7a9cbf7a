#!/usr/bin/python3
"""Sends many events over one StreamEvents call, with back-pressure, and loses none when the call breaks.

    ./stream.py --count 1000 --window 200

At most --window events are unanswered at any time: when the service answers slowly, sending slows down
by itself. Answers come in the order of the events. After a break what was not answered is sent again
first, with the same ids; a refusal that says "later" is sent again then, too. Any other refusal is final.
"""
import collections
import queue
import sys
import time

import grpc

import client
from client import events_pb2, types_pb2


def opens_and_closes(options):
    """What a master does: opens a position, closes it, and so on."""
    run = "stream-%d" % time.time_ns()
    for index in range(options.count):
        position = "%s-%d" % (run, index // 2)
        event = events_pb2.TradeEvent(event_id="%s-%d" % (run, index), master_id=options.master)
        event.observed_at.FromNanoseconds(time.time_ns())
        if index % 2 == 0:
            event.open.MergeFrom(events_pb2.OpenPosition(
                position_id=position, symbol="EURUSD", side=types_pb2.SIDE_BUY, volume="0.10"))
        else:
            event.close.position_id = position
        yield event


class Publisher:
    """Events on their way. `window` of them may be unanswered."""

    def __init__(self, stub, events, window):
        self.stub = stub
        self.events = events
        self.window = window
        self.unanswered = collections.OrderedDict()  # event_id -> event, oldest first
        self.again = collections.deque()             # to be sent before anything new
        self.answers = collections.Counter()
        self.breaks = 0

    def run(self):
        backoff = client.Backoff()
        while not self._one_call(backoff):
            self.again = collections.deque(self.unanswered.values())

    def _one_call(self, backoff):
        """One StreamEvents call. True: everything is answered; False: it broke."""
        outbox = queue.SimpleQueue()  # None ends the call
        call = self.stub.StreamEvents(iter(outbox.get, None))
        try:
            self._fill(outbox)
            while self.unanswered:
                self._take(next(call))
                backoff.reset()  # it works: the next break is a new one
                self._fill(outbox)
            outbox.put(None)
            for _ in call:
                raise RuntimeError("an answer to nothing")
            return True
        except grpc.RpcError as error:
            outbox.put(None)
            refused = client.Refused(error)
            if not refused.is_away:
                raise refused
            self.breaks += not backoff.is_told
            backoff.wait(refused, "%d events are sent again" % len(self.unanswered))
            return False

    def _fill(self, outbox):
        """Hands out events until `window` are unanswered."""
        for event in list(self.again):
            outbox.put(events_pb2.StreamEventsRequest(event=event))
            self.unanswered[event.event_id] = event
        self.again.clear()
        while len(self.unanswered) < self.window:
            event = next(self.events, None)
            if event is None:
                return
            self.unanswered[event.event_id] = event
            outbox.put(events_pb2.StreamEventsRequest(event=event))

    def _take(self, answer):
        event = self.unanswered.pop(answer.event_id)
        if answer.WhichOneof("answer") == "accepted":
            self.answers["duplicate" if answer.accepted.duplicate else "accepted"] += 1
            return
        refused = answer.refused
        if refused.HasField("retry_after"):
            self.answers["sent again later"] += 1
            time.sleep(refused.retry_after.seconds + refused.retry_after.nanos / 1e9)
            self.again.append(event)
            return
        self.answers["refused: " + refused.reason] += 1
        print(refused.message, file=sys.stderr)


def main():
    parser = client.arguments(__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--window", type=int, default=200, help="events unanswered at once, at most 1024")
    options = parser.parse_args()
    if not 1 <= options.window <= 1024:
        parser.error("--window is %d, expected 1 to 1024: the service stops reading there" % options.window)

    stub = client.events_pb2_grpc.EventServiceStub(client.channel(options.server))
    publisher = Publisher(stub, opens_and_closes(options), options.window)
    start = time.monotonic()
    publisher.run()
    took_s = time.monotonic() - start
    print("%d events in %.2f s, %.0f a second; the call broke %d times" % (
        options.count, took_s, options.count / took_s, publisher.breaks))
    for what, number in publisher.answers.most_common():
        print("  %-24s %d" % (what, number))
    return client.REFUSED if any(what.startswith("refused") for what in publisher.answers) else client.DONE


client.run(main)
