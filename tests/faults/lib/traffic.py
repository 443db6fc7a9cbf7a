"""traffic.py - a random master whose every event comes to be, however often the server dies.

    traffic = Traffic(contract, seed, streams=3)
    traffic.run(address, until)     # sends until a call fails or until() says so
    traffic.books                   # what the master holds, once everything is answered

Each stream owns positions and orders of its own and waits for each answer. An event whose answer did not
come is repeated, under its id and as it was, before anything else of that stream."""
import random
import threading
import time

from blackbox import Refused, set_time
from contract import Client

STEP = 100  # hundredths of a lot
SYMBOLS = ["EURUSD", "GBPUSD", "USDJPY"]
PRICES = {"EURUSD": "1.1", "GBPUSD": "1.27", "USDJPY": "150"}
FAR = {"EURUSD": "0.9", "GBPUSD": "0.9", "USDJPY": "90"}  # a buy limit that never fills
IN_DOUBT = ("UNAVAILABLE", "UNKNOWN", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL")


def lots(hundredths):
    return "%d.%02d" % (hundredths // STEP, hundredths % STEP)


class Position:
    def __init__(self, symbol, side, initial):
        self.symbol, self.side, self.initial, self.remaining = symbol, side, initial, initial
        self.event_id = None  # of its open


class Stream:
    def __init__(self, traffic, name, seed):
        self.traffic, self.name, self.random = traffic, name, random.Random(seed)
        self.positions, self.orders = {}, set()
        self.number = 0
        self.waiting = None  # the event that has no answer yet
        self.doubt = ""      # why

    def event(self, **action):
        self.number += 1
        event = self.traffic.contract.from_json("TradeEvent", action)
        event.event_id, event.master_id = "%s.%d" % (self.name, self.number), "M1"
        set_time(event.observed_at, time.time() + self.traffic.clock_s)
        return event

    def open(self):
        position_id = "%s-p%d" % (self.name, self.number)
        symbol, side = self.random.choice(SYMBOLS), self.random.choice(["BUY", "SELL"])
        position = Position(symbol, side, self.random.choice([20, 40, 60]))
        event = self.event(open={"position_id": position_id, "symbol": symbol, "side": "SIDE_" + side,
                                 "volume": lots(position.initial), "price": PRICES[symbol]})
        position.event_id = event.event_id
        self.positions[position_id] = position
        self.traffic.opened[position_id] = position
        return event

    def close(self, position_id=None):
        position_id = position_id or self.random.choice(sorted(self.positions))
        self.positions.pop(position_id).remaining = 0
        return self.event(close={"position_id": position_id})

    def reduce(self):
        open_ones = [name for name in sorted(self.positions) if self.positions[name].remaining > 10]
        if not open_ones:
            return self.open()
        position_id = self.random.choice(open_ones)
        position = self.positions[position_id]
        position.remaining = self.random.randrange(10, position.remaining, 10) if position.remaining > 10 else 10
        return self.event(close={"position_id": position_id, "remaining_volume": lots(position.remaining)})

    def modify(self):
        position_id = self.random.choice(sorted(self.positions))
        position = self.positions[position_id]
        low, high = ("0.%d" % self.random.randrange(500, 800), "%d.5" % self.random.randrange(200, 900))
        stops = (low, high) if position.side == "BUY" else (high, low)
        return self.event(modify={"position_id": position_id, "stop_loss": stops[0], "take_profit": stops[1]})

    def place(self):
        order_id, symbol = "%s-o%d" % (self.name, self.number), self.random.choice(SYMBOLS)
        self.orders.add(order_id)
        return self.event(place={"order_id": order_id, "symbol": symbol, "side": "SIDE_BUY",
                                 "type": "ORDER_TYPE_LIMIT", "volume": "0.10", "price": FAR[symbol]})

    def modify_order(self):
        order_id = self.random.choice(sorted(self.orders))
        return self.event(modifyOrder={"order_id": order_id, "price": "0.8%02d" % self.random.randrange(100)})

    def cancel(self, order_id=None):
        order_id = order_id or self.random.choice(sorted(self.orders))
        self.orders.remove(order_id)
        return self.event(cancel={"order_id": order_id})

    def next(self):
        kinds = [self.open] * (3 if len(self.positions) < 5 else 0) + [self.place] * (len(self.orders) < 2)
        if self.positions:
            kinds += [self.close] * 2 + [self.reduce] * 3 + [self.modify]
        if self.orders:
            kinds += [self.modify_order, self.cancel]
        return self.random.choice(kinds)()

    def send(self, client):
        """True: it was answered."""
        event = self.waiting = self.waiting or self.next()
        request = self.traffic.contract.new("SubmitEventRequest", event=event, wait_for=1, view=3)
        twice = client.start("EventService/SubmitEvent", request) if self.random.random() < 0.1 else None
        try:
            answer = client.call("EventService/SubmitEvent", request, deadline_s=10)
        except Refused as refused:
            if refused.code in IN_DOUBT:
                self.doubt = str(refused)
                return False
            self.traffic.wrong.append("%s was refused: %s" % (event.event_id, refused))
            return False
        if twice is not None:
            twice.exception()  # it may have come first, or never: its answer is nobody's
        with self.traffic.lock:
            self.traffic.answered[event.event_id] = event
        if answer.accepted + answer.skipped != self.traffic.followers:
            self.traffic.wrong.append("%s: accepted %d + skipped %d, not %d" % (
                event.event_id, answer.accepted, answer.skipped, self.traffic.followers))
        self.waiting = None
        return True


class Traffic:
    def __init__(self, contract, seed, followers, streams=3):
        self.contract, self.followers = contract, followers
        self.lock = threading.Lock()
        self.answered = {}  # events by id
        self.opened = {}    # every position that ever was
        self.wrong = []
        self.clock_s = 0    # what the server believes later than we
        self.streams = [Stream(self, "s%d" % index, "%s/%d" % (seed, index)) for index in range(streams)]

    def run(self, address, until, events_max):
        """Each stream sends up to events_max events, until a call fails or until()."""
        client = Client(self.contract, address)

        def send_all(stream):
            for _ in range(events_max):
                if until() or self.wrong or not stream.send(client):
                    return
        threads = [threading.Thread(target=send_all, args=(stream,)) for stream in self.streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()

    def unanswered(self):
        return ["%s has no answer: %s" % (stream.waiting.event_id, stream.doubt) for stream in self.streams
                if stream.waiting is not None]

    def close_all(self, client):
        for stream in self.streams:
            for position_id in sorted(stream.positions):
                stream.waiting = stream.close(position_id)
                stream.send(client)
            for order_id in sorted(stream.orders):
                stream.waiting = stream.cancel(order_id)
                stream.send(client)

    @property
    def orders(self):
        return sum(len(stream.orders) for stream in self.streams)
