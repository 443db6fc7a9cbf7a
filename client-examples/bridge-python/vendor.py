"""vendor.py - a broker's library, as vendors write them: it blocks, it numbers its errors, it gives the rest of a
partial close a new ticket. Simulated; yours takes its place.

Its ledger is a file of one JSON object a line, the broker's own truth: it stays when this process is killed.
"""
import json
import os
import random
import threading
import time
from decimal import Decimal

SYMBOLS = {  # tick, smallest, step, largest, contract, base, profit, bid, ask
    "EURUSD": ("0.00001", "0.01", "0.01", "100", "100000", "EUR", "USD", "1.10000", "1.10020"),
    "GBPUSD": ("0.00001", "0.01", "0.01", "100", "100000", "GBP", "USD", "1.27000", "1.27020"),
    "USDJPY": ("0.001", "0.01", "0.01", "100", "100000", "USD", "JPY", "150.000", "150.020"),
    "XAUUSD": ("0.01", "0.01", "0.01", "50", "100", "XAU", "USD", "2400.00", "2400.30"),
}

NO_MONEY, BAD_VOLUME, BAD_SYMBOL, GONE, NO_CHANGE, BUSY = 134, 131, 4106, 4108, 1, 137


class Refused(Exception):
    """The broker's own word that nothing was done."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


class NoAnswer(Exception):
    """Nobody knows whether it was done."""


class LineLost(Exception):
    """The connection dropped: nobody knows whether it was done."""


class Broker:
    """Every account of the broker, in one file."""

    def __init__(self, path):
        self.lock = threading.RLock()
        self.accounts = {}
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self.last_ticket = 1000
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # one that was cut was never done
                    self._apply(json.loads(line))
        size = os.fstat(self.file).st_size
        if size > 0 and os.pread(self.file, 1, size - 1) != b"\n":
            os.write(self.file, b"\n")

    def account(self, name):
        with self.lock:
            if name not in self.accounts:
                self.accounts[name] = Account(self, name)
            return self.accounts[name]

    def commit(self, entry):
        """Done is what is in the file."""
        os.write(self.file, (json.dumps(entry) + "\n").encode())
        self._apply(entry)

    def ticket(self):
        self.last_ticket += 1
        return str(self.last_ticket)

    def _apply(self, entry):
        account = self.account(entry["account"])
        for ticket in entry.get("gone", ()):
            account.positions.pop(ticket, None)
            account.orders.pop(ticket, None)
        for position in entry.get("positions", ()):
            account.positions[position["ticket"]] = position
        for order in entry.get("orders", ()):
            account.orders[order["ticket"]] = order
        if entry.get("tag"):
            account.deals.setdefault(entry["tag"], []).append(entry["deal"])
        self.last_ticket = max([self.last_ticket] + [int(one["ticket"]) for one in
                                                     entry.get("positions", []) + entry.get("orders", [])])


class Account:
    def __init__(self, broker, name):
        self.broker, self.name = broker, name
        self.positions, self.orders, self.deals = {}, {}, {}
        self.on_change = lambda position, closed: None
        self.on_line = lambda connected, why: None
        self.latency_s = 0.001
        self.faults, self.calls = {}, {}

    def set_up(self, latency_ms="1", faults=""):
        """faults: "open#1=no_money,close#2=no_answer": what the N-th call of an operation meets."""
        self.latency_s = float(latency_ms) / 1000
        self.faults, self.calls = {}, {}
        for rule in filter(None, faults.split(",")):
            call, fault = rule.split("=")
            operation, number = call.split("#")
            self.faults[operation, int(number)] = fault

    # ---- Questions: answered at once.

    def state(self):
        return {"currency": "USD", "balance": "10000", "equity": "10000", "free_margin": "10000", "leverage": 100}

    def find(self, tag):
        """Every deal that carries the tag; the broker keeps them for good."""
        with self.broker.lock:
            return list(self.deals.get(tag, ()))

    # ---- Orders: each blocks until the broker has answered.

    def open(self, symbol, side, volume, tag, stop_loss="0", take_profit="0"):
        def do():
            price = self._price(symbol, side)
            self._check_volume(symbol, volume)
            position = {"ticket": self.broker.ticket(), "symbol": symbol, "side": side, "volume": str(volume),
                        "price": price, "stop_loss": stop_loss or "0", "take_profit": take_profit or "0", "tag": tag,
                        "from": "", "at": time.time()}
            deal = {"ticket": position["ticket"], "volume": str(volume), "price": price}
            self._commit({"positions": [position]}, tag, deal, [(position, False)])
            return deal
        return self._call("open", do)

    def close(self, ticket, volume, tag):
        def do():
            position = self._position(ticket)
            part = Decimal(volume) if volume else Decimal(position["volume"])
            part = min(part, Decimal(position["volume"]))
            rest = Decimal(position["volume"]) - part
            side = "SELL" if position["side"] == "BUY" else "BUY"
            deal = {"ticket": ticket, "volume": str(part), "price": self._price(position["symbol"], side),
                    "rest": str(rest), "rest_ticket": ""}
            entry, told = {"gone": [ticket]}, [(dict(position, volume="0"), True)]
            if rest > 0:
                left = dict(position, ticket=self.broker.ticket(), volume=str(rest), **{"from": ticket})
                deal["rest_ticket"] = left["ticket"]
                entry["positions"] = [left]
                told = [(left, False)]
            self._commit(entry, tag, deal, told)
            return deal
        return self._call("close", do)

    def modify(self, ticket, stop_loss, take_profit, tag):
        def do():
            position = self._position(ticket)
            changed = dict(position, stop_loss=stop_loss or position["stop_loss"],
                           take_profit=take_profit or position["take_profit"])
            if all(Decimal(changed[key]) == Decimal(position[key]) for key in ("stop_loss", "take_profit")):
                raise Refused(NO_CHANGE, "no change")
            deal = {"ticket": ticket, "volume": "0", "price": "0"}
            self._commit({"positions": [changed]}, tag, deal, [(changed, False)])
            return deal
        return self._call("modify", do)

    def place(self, symbol, side, kind, volume, price, stop_price, tag, stop_loss, take_profit, expires_s):
        def do():
            self._price(symbol, side)
            self._check_volume(symbol, volume)
            order = {"ticket": self.broker.ticket(), "symbol": symbol, "side": side, "kind": kind, "volume": str(volume),
                     "price": price, "stop_price": stop_price, "stop_loss": stop_loss or "0",
                     "take_profit": take_profit or "0", "tag": tag, "expires_s": expires_s}
            deal = {"order": order["ticket"], "volume": "0", "price": "0"}
            self._commit({"orders": [order]}, tag, deal, [])
            return deal
        return self._call("place", do)

    def modify_order(self, ticket, price, stop_price, stop_loss, take_profit, expires_s, tag):
        def do():
            order = self._order(ticket)
            changed = dict(order, price=price or order["price"], stop_price=stop_price or order["stop_price"],
                           stop_loss=stop_loss or order["stop_loss"], take_profit=take_profit or order["take_profit"],
                           expires_s=order["expires_s"] if expires_s is None else expires_s)
            if changed == order:
                raise Refused(NO_CHANGE, "no change")
            deal = {"order": ticket, "volume": "0", "price": "0"}
            self._commit({"orders": [changed]}, tag, deal, [])
            return deal
        return self._call("modify", do)

    def cancel(self, ticket, tag):
        def do():
            self._order(ticket)
            deal = {"order": ticket, "volume": "0", "price": "0"}
            self._commit({"gone": [ticket]}, tag, deal, [])
            return deal
        return self._call("cancel", do)

    # ---- What they share.

    def _call(self, operation, do):
        with self.broker.lock:
            number = self.calls[operation] = self.calls.get(operation, 0) + 1
            fault = self.faults.get((operation, number), "")
        time.sleep(self.latency_s / 2)
        if fault == "no_money":
            raise Refused(NO_MONEY, "not enough money")
        if fault == "busy":
            raise Refused(BUSY, "broker is busy")
        if fault == "lost":
            time.sleep(0.4)
            raise NoAnswer()
        with self.broker.lock:
            done = do()
        if fault == "no_answer":
            time.sleep(0.4)
            raise NoAnswer()
        if fault == "line":
            self.on_line(False, "the broker hung up")
            threading.Timer(0.1, self.on_line, (True, "")).start()
            raise LineLost()
        time.sleep(self.latency_s / 2)
        return done

    def _commit(self, entry, tag, deal, told):
        self.broker.commit(dict(entry, account=self.name, tag=tag, deal=deal))
        for position, closed in told:
            self.on_change(position, closed)

    def _price(self, symbol, side):
        if symbol not in SYMBOLS:
            raise Refused(BAD_SYMBOL, "unknown symbol")
        return SYMBOLS[symbol][8 if side == "BUY" else 7]

    def _check_volume(self, symbol, volume):
        smallest, step = Decimal(SYMBOLS[symbol][1]), Decimal(SYMBOLS[symbol][2])
        if Decimal(volume) < smallest or Decimal(volume) % step != 0:
            raise Refused(BAD_VOLUME, "invalid volume")

    def _position(self, ticket):
        if ticket not in self.positions:
            raise Refused(GONE, "no such ticket")
        return self.positions[ticket]

    def _order(self, ticket):
        if ticket not in self.orders:
            raise Refused(GONE, "no such ticket")
        return self.orders[ticket]


def epoch():
    return "%016x" % random.SystemRandom().getrandbits(64)
