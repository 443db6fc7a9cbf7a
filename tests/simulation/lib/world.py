"""world.py - a running server with random followers, and what the model says they must hold.

    world = World(contract, program, seed)
    world.run(events)          # raises Differs with what was expected and what there is
"""
import os
import random
import sys
import time
from collections import Counter
from decimal import Decimal as D

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cases", "lib"))

from case import copy_id  # noqa: E402
from contract import Client, Refused as RefusedCall, set_time  # noqa: E402
from program import CONFIG, Server  # noqa: E402

import fleet as fleets  # noqa: E402
from master import Trader  # noqa: E402
from model import Model, Refused  # noqa: E402

READY_S = 30
IDLE_S = 60
SETTLE_S = 10  # what the master closed of an order that waited is closed when it fills
SIDES = {"BUY": 1, "SELL": 2}
SIDE_NAMES = {1: "BUY", 2: "SELL"}
TYPES = {"LIMIT": 2, "STOP": 3, "STOP_LIMIT": 4}
TYPE_NAMES = {2: "LIMIT", 3: "STOP", 4: "STOP_LIMIT"}
WAIT_FOR_DONE = 3
VIEW_ALL, VIEW_COUNTS = 1, 3
NOT_IDLE = ["COPY_STATE_QUEUED", "COPY_STATE_SENT", "COPY_STATE_UNKNOWN"]
MODES = {False: "FOLLOWER_MODE_ACTIVE", True: "FOLLOWER_MODE_CLOSE_ONLY"}
LAST_EVENTS = 12


class Differs(Exception):
    pass


def text(value):
    """A Decimal, or None, as the wire has it."""
    return "" if value is None else format(value, "f")


def number(value):
    return D(value) if value else D(0)


class Fleet:
    def __init__(self, rng, index, followers, netting, streamed):
        self.netting = netting
        self.streamed = streamed
        self.adds = netting or rng.random() < 0.5  # its master scales in
        self.master, self.followers = fleets.fleet(rng, index, followers, netting, streamed, self.adds)
        self.trader = None


class World:
    def __init__(self, contract, program, seed, followers=6, check_every=250, trace=False):
        self.contract = contract
        self.rng = random.Random(seed)
        self.check_every = check_every
        self.trace = trace
        self.market = {symbol: quote[:2] for symbol, quote in fleets.MARKET.items()}
        self.fleets = [Fleet(self.rng, index + 1, followers, netting, streamed)
                       for index, (netting, streamed) in enumerate([(False, False), (True, False), (False, True), (True, True)])]
        self.followers = [follower for fleet in self.fleets for follower in fleet.followers]
        self.model = Model([fleet.master for fleet in self.fleets], self.followers, self.market)
        for fleet in self.fleets:
            fleet.trader = Trader(self.rng, fleet.master, self.market, fleet.adds)
        self.server = Server(program, config=CONFIG)
        self.client = None
        self.last = []
        self.events = self.copies = self.books = 0

    # ---- Life ----

    def run(self, events):
        """Blocks until so many events have been sent and compared."""
        self.server.start()
        try:
            self.client = Client(self.contract, self.server.address)
            self.create()
            next_check = self.check_every
            while self.events < events:
                self.step(events - self.events)
                if self.events >= next_check:
                    self.check_books()
                    next_check = self.events + self.check_every
            self.check_books()
        finally:
            if self.client:
                self.client.close()
            fault = self.server.faults() if self.server.is_running() else self.server.last_words()
            self.server.end()
            if fault:
                raise Differs("the server: %s" % fault)

    def create(self):
        for follower in self.followers:
            self.client.ask("FollowerService/CreateFollower", follower=self.follower_message(follower))
            self.client.ask("FollowerService/CreateSubscription", subscription=self.contract.new(
                "Subscription", master_id=follower.master_id, follower_id=follower.follower_id,
                rules=self.rules_message(follower.rules)))
        end = time.monotonic() + READY_S
        while not all(one.connected and one.HasField("account") for one in
                      self.client.ask("FollowerService/ListFollowers", page_size=1000).followers):
            if time.monotonic() > end:
                raise Differs("followers are not connected within %d s" % READY_S)
            time.sleep(0.01)

    def follower_message(self, follower):
        def instrument(one):
            return '{"min":"%s","step":"%s","max":"%s","contract":"%s","tick":"%s","min_notional":"%s","stops":"%s"}' % tuple(
                text(value) for value in (one.min, one.step, one.max, one.contract, one.tick, one.notional, one.stops))
        config = {
            "account_mode": "netting" if follower.netting else "hedging", "currency": follower.currency,
            "balance": text(follower.balance), "latency": "constant:0", "nonblocking": "true",
            "instruments": "{%s}" % ",".join('"%s":%s' % (name, instrument(one)) for name, one in follower.instruments.items()),
            "quotes": "{%s}" % ",".join('"%s":"%s/%s"' % ((follower.names[symbol],) + tuple(map(text, self.market[symbol])))
                                        for symbol in follower.names),
        }
        if follower.new_tickets:
            config["remainder"] = "new_ticket"
        message = self.contract.new("Follower", follower_id=follower.follower_id, adapter="paper", symbol_suffix=follower.suffix)
        for key, value in config.items():
            message.adapter_config[key] = value
        for one, other in follower.symbol_map.items():
            message.symbol_map.add(from_symbol=one, to_symbol=other)
        message.risk.max_order_volume = text(follower.max_order_volume)
        message.risk.max_total_volume = text(follower.max_total_volume)
        message.risk.max_open_positions = follower.max_open_positions
        return message

    def rules_message(self, rules):
        message = self.contract.from_json("CopyRules", {
            "sizing": "SIZING_MODE_" + rules.sizing, "pending": "PENDING_POLICY_" + rules.pending,
            "rounding": "ROUNDING_NEAREST" if rules.nearest else "ROUNDING_DOWN",
            "sides": ["SIDE_" + side for side in rules.sides]})
        for name in ("multiplier", "fixed_volume", "risk_fraction", "min_volume", "max_volume", "max_risk_coefficient",
                     "max_price_deviation"):
            setattr(message, name, text(getattr(rules, name)))
        for name in ("force_min", "reverse", "ignore_stop_loss", "ignore_take_profit"):
            setattr(message, name, getattr(rules, name))
        for up_to, multiplier in rules.tiers:
            message.tiers.add(up_to=text(up_to), multiplier=text(multiplier))
        for one, other in rules.symbol_map.items():
            message.symbol_map.add(from_symbol=one, to_symbol=other)
        message.symbols_included.extend(rules.included)
        message.symbols_excluded.extend(rules.excluded)
        for name in ("magics_included", "magics_excluded"):
            for first, last in getattr(rules, name):
                getattr(message, name).add(first=first, last=last)
        return message

    # ---- Steps ----

    def step(self, events_left):
        kind = self.rng.random()
        fleet = self.rng.choice(self.fleets)
        if kind < 0.05:
            self.move_quotes()
        elif kind < 0.06:
            self.close_by_hand(self.rng.choice(self.followers))
        elif kind < 0.075:
            self.change(self.rng.choice(self.followers))
        elif fleet.streamed:
            self.burst(fleet, min(events_left, self.rng.randint(1, 40)))
        else:
            self.one(fleet)

    def note(self, word, value):
        self.last = self.last[-LAST_EVENTS:] + ["%s %s" % (word, value)]
        if self.trace:
            print(self.last[-1], flush=True)

    def one(self, fleet):
        """One event, answered when every copy has ended; each as foretold."""
        event = fleet.trader.next()
        self.note(fleet.master.master_id, event)
        self.events += 1
        request = self.contract.new("SubmitEventRequest", event=self.message(fleet, event), wait_for=WAIT_FOR_DONE,
                                    view=VIEW_ALL)
        try:
            wanted = self.model.apply(fleet.master.master_id, event)
        except Refused as refused:
            self.refused(request, str(refused))
            return
        answer = self.client.call("EventService/SubmitEvent", request)
        self.copies += len(answer.copies)
        got = {copy.follower_id: copy for copy in answer.copies}
        if set(got) != set(wanted):
            raise Differs("copies of %s, but there are copies of %s" % (sorted(wanted), sorted(got)))
        for follower_id, outcome in wanted.items():
            self.check_copy(follower_id, outcome, got[follower_id])
        if self.rng.random() < 0.02:
            again = self.client.call("EventService/SubmitEvent", request)
            if not again.duplicate:
                raise Differs("the same event again is a duplicate, but it is not")

    def refused(self, request, reason):
        try:
            self.client.call("EventService/SubmitEvent", request)
        except RefusedCall as refused:
            if refused.reason == reason:
                return
            raise Differs("refused with %s, but it is %s" % (reason, refused))
        raise Differs("refused with %s, but it was accepted" % reason)

    def check_copy(self, follower_id, outcome, copy):
        state = copy.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number[copy.state].name[len("COPY_STATE_"):]
        reason = copy.DESCRIPTOR.fields_by_name["reason"].enum_type.values_by_number[copy.reason].name[len("REASON_"):]
        if (state, reason) != (outcome.state, outcome.reason):
            raise Differs("%s: %s %s, but it is %s %s" % (follower_id, outcome.state, outcome.reason, state, reason))
        if outcome.volume is not None and number(copy.volume) != outcome.volume:
            raise Differs("%s: a volume of %s, but it is %s" % (follower_id, text(outcome.volume), copy.volume))

    def burst(self, fleet, n):
        """Many events without a pause; what is left in the end is compared."""
        requests, refusals, changed = [], [], set()
        for _ in range(n):
            event = fleet.trader.next()
            if event["kind"] == "modify":
                # Where only what tightens is done, it matters whether the change before was sent or
                # taken over by this one: both are right.
                if event["position_id"] in changed and any(one.close_only or one.halted for one in fleet.followers):
                    self.send_burst(requests, refusals)
                    requests, refusals, changed = [], [], set()
                changed.add(event["position_id"])
            self.note(fleet.master.master_id, event)
            requests.append(self.contract.new("StreamEventsRequest", event=self.message(fleet, event)))
            try:
                self.copies += len(self.model.apply(fleet.master.master_id, event))
                refusals.append("")
            except Refused as refused:
                refusals.append(str(refused))
        self.events += n
        self.send_burst(requests, refusals)

    def send_burst(self, requests, refusals):
        answers = list(self.client.converse("EventService/StreamEvents", iter(requests)))
        got = [answer.refused.reason if answer.WhichOneof("answer") == "refused" else "" for answer in answers]
        if got != refusals:
            raise Differs("refusals %s, but they are %s" % (refusals, got))
        self.wait_idle()

    def wait_idle(self):
        states = self.contract.from_json("CopyFilter", {"states": NOT_IDLE})
        end = time.monotonic() + IDLE_S
        while True:
            left = self.client.ask("CopyService/ListCopies", filter=states, page_size=3).copies
            if not left:
                return
            if time.monotonic() > end:
                raise Differs("idle within %d s, but there is still %s" % (IDLE_S, left))
            time.sleep(0.001)

    def message(self, fleet, event):
        action = {}
        for key in ("position_id", "order_id", "symbol", "new_position_id", "magic", "increase"):
            if event.get(key) is not None:
                action[key] = event[key]
        for key in ("volume", "remaining_volume", "price", "stop_price", "stop_loss", "take_profit", "contract_size"):
            if event.get(key) is not None:
                action[key] = text(event[key])
        if "side" in event:
            action["side"] = SIDES[event["side"]]
        if "type" in event:
            action["type"] = TYPES[event["type"]]
        message = self.contract.new("TradeEvent", event_id=event["event_id"], master_id=fleet.master.master_id,
                                    **{event["kind"]: action})
        now = time.time()
        set_time(message.observed_at, now - (120 if event.get("too_old") else 0))
        if event.get("expired"):
            set_time(message.place.expires_at, now - 10)
        if event["account"]:
            for key, value in event["account"].items():
                setattr(message.master_account, key, value if isinstance(value, str) else text(value))
        return message

    # ---- What happens at the brokers ----

    def move_quotes(self):
        symbol = self.rng.choice(list(fleets.LIVELY))
        bid, ask = self.market[symbol]
        by = fleets.LIVELY[symbol][2] * self.rng.choice([-20, -15, -10, -5, 5, 10, 15, 20])
        self.market[symbol] = (bid + by, ask + by)
        self.note("quote", "%s %s/%s" % (symbol, bid + by, ask + by))
        settling = self.model.move(symbol, bid + by, ask + by)
        for follower in self.followers:
            if symbol in follower.names:
                self.client.call("PaperService/Configure", self.contract.new(
                    "ConfigureRequest", follower_id=follower.follower_id,
                    quotes=[{"symbol": follower.names[symbol], "bid": text(bid + by), "ask": text(ask + by)}]))
        for follower in self.followers:
            if follower.follower_id in settling:
                self.await_belief(follower)
        if settling:
            self.wait_idle()

    def await_belief(self, follower):
        end = time.monotonic() + SETTLE_S
        while True:
            try:
                self.check_belief(follower)
                return
            except Differs:
                if time.monotonic() > end:
                    raise
            time.sleep(0.002)

    def ids_of(self, follower, leg):
        """Of the copies that opened it: the broker's positions carry them."""
        return [copy_id(follower.master_id, event_id, follower.follower_id, subject_id, action)
                for event_id, subject_id, action in leg.born]

    def close_by_hand(self, follower):
        legs = [leg for leg in self.model.open_legs(follower) if leg.held > 0]
        if follower.netting or not legs:
            return
        leg = self.rng.choice(legs)
        wanted = self.ids_of(follower, leg)
        self.note("hand", "%s closes %s of %s" % (follower.follower_id, wanted, leg.born))
        found = [one for one in self.client.ask("PaperService/GetBook", follower_id=follower.follower_id).positions
                 if one.client_order_id in wanted]
        for position in found:
            self.client.call("PaperService/ActByHand", self.contract.from_json("ActByHandRequest", {
                "follower_id": follower.follower_id, "close": {"position_id": position.position_id}}))
        if not found:
            raise Differs("%s holds %s of %s, but its book does not" % (follower.follower_id, wanted, leg.born))
        self.model.by_hand(follower, leg)

    # ---- What callers change ----

    def change(self, follower):
        kind = self.rng.randrange(4)
        if kind == 0:
            follower.close_only = not follower.close_only
            self.note("mode", "%s %s" % (follower.follower_id, MODES[follower.close_only]))
            self.client.call("FollowerService/UpdateFollower", self.contract.from_json("UpdateFollowerRequest", {
                "follower": {"follower_id": follower.follower_id, "mode": MODES[follower.close_only]}, "update_mask": "mode"}))
        elif kind == 1:
            follower.halted = not follower.halted
            self.note("halted", "%s %s" % (follower.follower_id, follower.halted))
            self.client.ask("FollowerService/Halt" if follower.halted else "FollowerService/Resume",
                            follower_id=follower.follower_id)
        else:
            self.change_rules(follower)

    def change_rules(self, follower):
        rules = follower.rules
        if self.rng.random() < 0.5:
            rules.reverse, path = not rules.reverse, "rules.reverse"
        else:
            rules.max_volume, path = self.rng.choice([None, D("0.4"), D(3)]), "rules.max_volume"
            if rules.min_volume and rules.max_volume and rules.min_volume > rules.max_volume:
                rules.max_volume = None
        self.note("rules", "%s %s" % (follower.follower_id, path))
        found = self.client.ask("FollowerService/ListSubscriptions", follower_id=follower.follower_id).subscriptions
        request = self.contract.new("UpdateSubscriptionRequest")
        request.subscription.subscription_id = found[0].subscription_id
        request.subscription.rules.CopyFrom(self.rules_message(rules))
        request.update_mask.paths.append(path)
        self.client.call("FollowerService/UpdateSubscription", request)

    # ---- The truth ----

    def check_books(self):
        for follower in self.followers:
            self.check_book(follower)
            self.check_belief(follower)
        self.books += len(self.followers)

    def check_book(self, follower):
        book = self.client.ask("PaperService/GetBook", follower_id=follower.follower_id)
        self.same("%s, positions" % follower.follower_id, self.model.positions(follower), self.shown(follower, book.positions))
        got = sorted((one.symbol, SIDE_NAMES[one.side], TYPE_NAMES[one.type], number(one.volume), number(one.price),
                      number(one.stop_price), number(one.stop_loss), number(one.take_profit)) for one in book.orders)
        self.same("%s, orders" % follower.follower_id, self.model.orders(follower), got)

    def shown(self, follower, positions):
        """The broker's positions as the model has them: on a hedging account those of one leg together."""
        if follower.netting:
            return sorted((one.symbol, SIDE_NAMES[one.side], number(one.volume), D(0), D(0)) for one in positions)
        owners = {name: leg for leg in self.model.open_legs(follower) for name in self.ids_of(follower, leg)}
        sums, rows = {}, []
        for one in positions:
            leg = owners.get(one.client_order_id)
            stops = (number(one.stop_loss), number(one.take_profit))
            if leg is None or len(leg.born) == 1:
                rows.append((one.symbol, SIDE_NAMES[one.side], number(one.volume), *stops))
            else:
                key = (one.symbol, SIDE_NAMES[one.side], id(leg))
                sums[key] = sums.get(key, D(0)) + number(one.volume)
        return sorted(rows + [(symbol, side, volume, D(0), D(0)) for (symbol, side, _), volume in sums.items()])

    def check_belief(self, follower):
        """What the service itself believes, position by position of the master."""
        wanted = sorted((subject.id, leg.symbol, leg.side, leg.held)
                        for subject in self.subjects(follower) for leg in [subject.legs.get(follower.follower_id)]
                        if leg is not None and leg.held > 0)
        held = self.client.ask("CopyService/CompareFollower", follower_id=follower.follower_id)
        got = sorted((one.master_position_id, one.symbol, SIDE_NAMES[one.side], number(one.volume)) for one in held.positions)
        self.same("%s, as believed" % follower.follower_id, wanted, got)
        if held.drifts:
            raise Differs("%s: no drift, but there is %s" % (follower.follower_id, held.drifts))

    def subjects(self, follower):
        master = self.model.masters[follower.master_id]
        return list(master.positions.values()) + list(master.orders.values())

    def same(self, what, wanted, got):
        if wanted == got:
            return
        missing = list((Counter(wanted) - Counter(got)).elements())
        strange = list((Counter(got) - Counter(wanted)).elements())
        raise Differs("%s: missing %s, strange %s (%d expected, %d there)" % (
            what, [tuple(map(str, one)) for one in missing[:4]], [tuple(map(str, one)) for one in strange[:4]],
            len(wanted), len(got)))
