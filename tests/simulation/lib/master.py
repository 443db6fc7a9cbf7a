"""master.py - a random master: opens, adds, moves stops, closes in part and in full, places, moves and cancels
orders, and now and then does what should not be done.

    trader = Trader(rng, master, market, adds)
    event = trader.next()   # a dict as the model and the wire want it

It keeps its own books of what it holds, and knows nothing of followers.
"""
from decimal import Decimal as D

from fleet import CALM, LIVELY, decimal_of

POSITIONS_MAX = 25
ORDERS_MAX = 12
STOP_POINTS = (80, 400)   # a stop is so far from the price: farther than the market moves at once, and any tick
ORDER_POINTS = (40, 200)


class Trader:
    def __init__(self, rng, master, market, adds):
        self.rng = rng
        self.master = master
        self.market = market  # name -> (bid, ask), moved by whoever moves it
        self.adds = adds
        self.positions = {}   # id -> {"symbol", "side", "volume"}
        self.orders = {}      # id -> {"symbol", "side", "type", "price", "volume"}
        self.closed = []      # ids that were
        self.marks = set()    # closed before they were opened
        self.number = 0       # of ids
        self.events = 0

    def id(self, word):
        self.number += 1
        return "%s%d" % (word, self.number)

    def volume(self):
        return self.rng.choice([decimal_of(self.rng, "0.01", "0.3", "0.01"), decimal_of(self.rng, "0.1", "3", "0.1"),
                                decimal_of(self.rng, "0.01", "9.99", "0.01")])

    def point(self, symbol):
        return dict(CALM, **LIVELY)[symbol][2]

    def base(self, kind, **fields):
        event = dict(kind=kind, event_id="e%d" % self.event_number(), stop_loss=None, take_profit=None, account=None)
        event.update(fields)
        if self.rng.random() < 0.3:
            event["account"] = {"currency": self.master.currency, "balance": decimal_of(self.rng, "1000", "90000", "0.01"),
                                "equity": decimal_of(self.rng, "1000", "90000", "0.01"),
                                "free_margin": decimal_of(self.rng, "0", "90000", "0.01")}
        return event

    def event_number(self):
        self.events += 1
        return self.events

    def next(self):
        choices = [(30, self.open)]
        if self.positions:
            choices += [(18, self.close), (18, self.close_part), (12, self.modify)]
            if self.adds:
                choices += [(6, self.increase)]
        choices += [(10, self.place)]
        if self.orders:
            choices += [(6, self.modify_order), (5, self.cancel), (6, self.trigger)]
        choices += [(3, self.odd)]
        if len(self.positions) >= POSITIONS_MAX:
            choices = [(1, self.close)]
        elif len(self.orders) >= ORDERS_MAX:
            choices = [(1, self.cancel)]
        weights, makes = zip(*choices)
        return self.rng.choices(makes, weights)[0]()

    # ---- Positions ----

    def stops(self, symbol, side, price, chance, other=None):
        """Random stops on their own sides of a price, and of another one where there are two; each may be absent."""
        point, sign = self.point(symbol), 1 if side == "BUY" else -1
        low, high = sorted([price, price if other is None else other], reverse=side == "SELL")
        stop_loss = take_profit = None
        if self.rng.random() < chance:
            stop_loss = low - sign * point * self.rng.randint(*STOP_POINTS)
        if self.rng.random() < chance:
            take_profit = high + sign * point * self.rng.randint(*STOP_POINTS)
        return stop_loss, take_profit

    def deal(self, symbol, side):
        """What an opening says beside its ids: at the price of the moment, or nearly."""
        bid, ask = self.market[symbol]
        quoted = ask if side == "BUY" else bid
        stop_loss, take_profit = self.stops(symbol, side, bid if side == "BUY" else ask, 0.6)
        price = self.rng.choice([quoted, quoted, quoted + self.point(symbol) * self.rng.randint(-40, 40), None])
        return {"symbol": symbol, "side": side, "price": price, "stop_loss": stop_loss, "take_profit": take_profit,
                "magic": self.rng.choice([0, 0, 1, 2, 5, 7]),
                "contract_size": self.rng.choice([None, D(100000), D(100000), D(10)])}

    def open(self):
        symbol, side = self.rng.choice(list(self.market)), self.rng.choice(["BUY", "SELL"])
        again = [one for one in self.closed[-20:] if one not in self.positions]
        position_id = self.rng.choice(again) if again and self.rng.random() < 0.1 else self.id("p")
        volume = self.volume()
        was_marked = position_id in self.marks
        self.marks.discard(position_id)
        too_old = self.rng.random() < 0.02
        if not was_marked:
            self.positions[position_id] = {"symbol": symbol, "side": side, "volume": volume}
        return self.base("open", position_id=position_id, volume=volume, increase=False, too_old=too_old,
                         **self.deal(symbol, side))

    def increase(self):
        position_id = self.rng.choice(list(self.positions))
        position, volume = self.positions[position_id], self.volume()
        position["volume"] += volume
        return self.base("open", position_id=position_id, volume=volume, increase=True,
                         **self.deal(position["symbol"], position["side"]))

    def modify(self):
        position_id = self.rng.choice(list(self.positions))
        position = self.positions[position_id]
        bid, ask = self.market[position["symbol"]]
        stop_loss, take_profit = self.stops(position["symbol"], position["side"], bid if position["side"] == "BUY" else ask,
                                            0.6, position.get("order_price"))
        if self.rng.random() < 0.2:
            stop_loss = D(0)
        if self.rng.random() < 0.2:
            take_profit = D(0)
        return self.base("modify", position_id=position_id, stop_loss=stop_loss, take_profit=take_profit)

    def close(self):
        position_id = self.rng.choice(list(self.positions))
        volume = self.positions.pop(position_id)["volume"]
        self.closed.append(position_id)
        return self.base("close", position_id=position_id,
                         volume=self.rng.choice([None, None, volume, volume + 1]),
                         remaining_volume=self.rng.choice([None, D(0)]), new_position_id="")

    def close_part(self):
        ready = [one for one in self.positions if self.positions[one]["volume"] > D("0.01")]
        if not ready:
            return self.close()
        position_id = self.rng.choice(ready)
        position = self.positions[position_id]
        part = decimal_of(self.rng, "0.01", position["volume"] - D("0.01"), "0.01")
        position["volume"] -= part
        says_volume = self.rng.random() < 0.5
        event = self.base("close", position_id=position_id, volume=part if says_volume else None,
                          remaining_volume=position["volume"] if not says_volume or self.rng.random() < 0.3 else None,
                          new_position_id="")
        if self.rng.random() < 0.4:
            event["new_position_id"] = self.id("p")
            self.positions[event["new_position_id"]] = self.positions.pop(position_id)
        return event

    # ---- Orders ----

    def order_price(self, symbol, side, type_):
        bid, ask = self.market[symbol]
        away = self.point(symbol) * self.rng.randint(*ORDER_POINTS)
        below = (side == "BUY") == (type_ == "LIMIT")
        return bid - away if below else ask + away

    def place(self):
        symbol, side = self.rng.choice(list(self.market)), self.rng.choice(["BUY", "SELL"])
        type_ = self.rng.choice(["LIMIT", "STOP"] + (["STOP_LIMIT"] if symbol in CALM else []))
        price = self.order_price(symbol, side, type_)
        stop_price = None
        if type_ == "STOP_LIMIT":  # reached first, and then the limit nearer to the market
            stop_price = price
            price = stop_price + self.point(symbol) * self.rng.randint(5, 15) * (-1 if side == "BUY" else 1)
        stop_loss, take_profit = self.stops(symbol, side, price, 0.5)
        order_id, volume = self.id("o"), self.volume()
        expired = self.rng.random() < 0.03
        if not expired:
            self.orders[order_id] = {"symbol": symbol, "side": side, "type": type_, "price": price, "volume": volume,
                                     "stops": [stop_loss, take_profit], "part": False}
        return self.base("place", order_id=order_id, symbol=symbol, side=side, type=type_, volume=volume, price=price,
                         stop_price=stop_price, stop_loss=stop_loss, take_profit=take_profit, expired=expired,
                         magic=self.rng.choice([0, 1, 2, 5]), contract_size=self.rng.choice([None, D(100000)]))

    def modify_order(self):
        order_id = self.rng.choice(list(self.orders))
        order = self.orders[order_id]
        if order["type"] == "STOP_LIMIT" or order["part"]:
            return self.cancel()
        point = self.point(order["symbol"])
        order["price"] += point * self.rng.choice([-15, -10, 10, 15])
        bid, ask = self.market[order["symbol"]]
        below = (order["side"] == "BUY") == (order["type"] == "LIMIT")
        order["price"] = min(order["price"], bid - 25 * point) if below else max(order["price"], ask + 25 * point)
        stop_loss, take_profit = self.stops(order["symbol"], order["side"], order["price"], 0.7)
        order["stops"] = [stop_loss or order["stops"][0], take_profit or order["stops"][1]]
        return self.base("modify_order", order_id=order_id, price=order["price"], stop_price=None,
                         stop_loss=stop_loss, take_profit=take_profit)

    def is_clear(self, order):
        """No stop of it is so near to the price that rounding it to a tick could make it fire."""
        near = self.point(order["symbol"]) * 15
        return all(abs(stop - price) > near for stop in order["stops"] if stop for price in self.market[order["symbol"]])

    def cancel(self):
        order_id = self.rng.choice(list(self.orders))
        del self.orders[order_id]
        return self.base("cancel", order_id=order_id)

    def reached(self):
        """Orders that the market has reached; a broker of the master's fills these first."""
        found = []
        for order_id, order in self.orders.items():
            bid, ask = self.market[order["symbol"]]
            price = ask if order["side"] == "BUY" else bid
            from_above = (order["side"] == "BUY") == (order["type"] == "LIMIT")
            if order["type"] != "STOP_LIMIT" and not order["part"] and (price <= order["price"] if from_above else price >= order["price"]):
                found.append(order_id)
        return found

    def trigger(self):
        """Those the market has reached, mostly; now and then one of the master's broker alone."""
        reached = self.reached()
        whole = [one for one in self.orders if not self.orders[one]["part"]]
        if not whole:
            return self.cancel()
        order_id = self.rng.choice(reached or whole)
        order = self.orders[order_id]
        if not self.is_clear(order):
            return self.open()
        is_part = self.rng.random() < 0.2 and order["volume"] > D("0.02")
        volume = decimal_of(self.rng, "0.01", order["volume"] - D("0.01"), "0.01") if is_part else order["volume"]
        position_id = self.id("p")
        self.positions[position_id] = {"symbol": order["symbol"], "side": order["side"], "volume": volume,
                                       "order_price": order["price"]}  # where a follower's order may wait still
        event = self.base("trigger", order_id=order_id, position_id=position_id,
                          volume=volume if is_part or self.rng.random() < 0.5 else None,
                          price=self.rng.choice([None, order["price"]]))
        if is_part:  # what is left of it is only ever cancelled
            order["part"] = True
        else:
            del self.orders[order_id]
        return event

    # ---- What should not be done ----

    def odd(self):
        kind = self.rng.randrange(6)
        if kind == 0:  # closes what nobody has seen: its open will come too late
            position_id = self.id("p")
            self.marks.add(position_id)
            self.closed.append(position_id)
            return self.base("close", position_id=position_id, volume=None, remaining_volume=None, new_position_id="")
        closed = [one for one in self.closed[-50:] if one not in self.positions]
        if kind == 1 and closed:  # closes once more
            return self.base("close", position_id=self.rng.choice(closed), volume=None, remaining_volume=None,
                             new_position_id="")
        if kind == 2 and self.positions:  # opens what is open
            position_id = self.rng.choice(list(self.positions))
            return self.base("open", position_id=position_id, volume=self.volume(), increase=False,
                             **self.deal("EURUSD", "BUY"))
        if kind == 3:  # part of something unknown
            return self.base("close", position_id=self.id("p"), volume=D("0.1"), remaining_volume=None, new_position_id="")
        if kind == 4:  # an order nobody has seen
            return self.base("modify_order", order_id=self.id("o"), price=D(1), stop_price=None)
        return self.base("modify", position_id=self.id("p"), stop_loss=D(1), take_profit=None)
