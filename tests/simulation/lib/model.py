"""model.py - what followers must hold after what a master did: slow, whole, and obviously right.

Written from the published rules, not from the service's code: every number is a Decimal or a Fraction, every
follower is worked out by itself, nothing is kept that could be worked out again. It knows no time: whatever it
predicts is what is left when everything on its way has arrived.

    model = Model(masters, followers, quotes)
    outcomes = model.apply(master_id, event)   # {follower_id: Outcome}, or a Refused
    model.positions(follower), model.orders(follower)
"""
import fnmatch
from dataclasses import dataclass, field
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 60

BUY, SELL = "BUY", "SELL"
LIMIT, STOP, STOP_LIMIT = "LIMIT", "STOP", "STOP_LIMIT"
ZERO = Decimal(0)


def opposite(side):
    return SELL if side == BUY else BUY


def down(value, step):
    """A Fraction to a multiple of step, toward zero."""
    return Decimal(int(Fraction(value) / Fraction(step))) * step


def up(value, step):
    low = down(value, step)
    return low if Fraction(low) == Fraction(value) else low + step


def nearest(value, step):
    """Half away from zero; sizes are not below zero."""
    return down(Fraction(value) + Fraction(step) / 2, step)


@dataclass
class Instrument:
    min: Decimal
    step: Decimal
    max: Decimal
    contract: Decimal
    tick: Decimal
    notional: Decimal = ZERO
    stops: Decimal = ZERO

    def profit_currency(self, name, account):
        return name[3:] if len(name) == 6 else account


@dataclass
class Rules:
    """As CopyRules; None = not set."""
    sizing: str = "MULTIPLIER"
    multiplier: Decimal = None
    fixed_volume: Decimal = None
    risk_fraction: Decimal = None
    tiers: list = field(default_factory=list)  # (up_to or None, multiplier)
    nearest: bool = False
    min_volume: Decimal = None
    max_volume: Decimal = None
    force_min: bool = False
    max_risk_coefficient: Decimal = None
    reverse: bool = False
    ignore_stop_loss: bool = False
    ignore_take_profit: bool = False
    pending: str = "COPY"
    symbol_map: dict = field(default_factory=dict)
    included: list = field(default_factory=list)
    excluded: list = field(default_factory=list)
    sides: list = field(default_factory=list)
    magics_included: list = field(default_factory=list)  # (first, last)
    magics_excluded: list = field(default_factory=list)
    max_price_deviation: Decimal = None


@dataclass
class Follower:
    follower_id: str
    master_id: str
    rules: Rules
    netting: bool = False
    currency: str = "USD"
    balance: Decimal = Decimal(10000)
    instruments: dict = field(default_factory=dict)  # the account's name -> Instrument
    names: dict = field(default_factory=dict)        # the market's name -> the account's
    suffix: str = ""
    symbol_map: dict = field(default_factory=dict)
    max_order_volume: Decimal = None
    max_total_volume: Decimal = None
    max_open_positions: int = 0
    new_tickets: bool = False
    close_only: bool = False
    halted: bool = False


@dataclass(eq=False)
class Leg:
    """One follower's share of one master position, or of one pending order."""
    symbol: str  # the account's name
    side: str
    reversed: bool
    ignores_stop_loss: bool
    ignores_take_profit: bool
    from_order: bool = False
    type: str = "MARKET"
    waits: bool = False      # an order at the broker that has not filled
    wanted: Decimal = ZERO   # what waits
    price: Decimal = None
    stop_price: Decimal = None
    filled: Decimal = ZERO
    held: Decimal = ZERO
    stop_loss: Decimal = ZERO
    take_profit: Decimal = ZERO
    was_open: bool = False
    closed: bool = False
    born: list = field(default_factory=list)  # event, subject and action of each copy that opened some of it


@dataclass(eq=False)
class Subject:
    """A position of the master, or an order of its."""
    id: str
    state: str = "OPEN"  # OPEN, CLOSED or MARK
    initial: Decimal = ZERO
    remaining: Decimal = ZERO
    order: dict = None   # what was placed, as last changed; of an order that filled, too
    legs: dict = field(default_factory=dict)  # follower_id -> Leg


@dataclass
class Outcome:
    state: str
    reason: str = "UNSPECIFIED"
    volume: Decimal = None  # of the order; None = it does not matter


class Refused(Exception):
    pass


class Skip(Exception):
    def __init__(self, reason, state="SKIPPED"):
        super().__init__(reason)
        self.outcome = Outcome(state, reason)


@dataclass
class Master:
    master_id: str
    currency: str = "USD"
    account: dict = None  # the last one seen
    positions: dict = field(default_factory=dict)
    orders: dict = field(default_factory=dict)


class Model:
    def __init__(self, masters, followers, quotes):
        self.masters = {master.master_id: master for master in masters}
        self.followers = {follower.follower_id: follower for follower in followers}
        self.quotes = dict(quotes)  # the market's name -> (bid, ask)
        self.legs = {follower.follower_id: [] for follower in followers}  # not closed

    # ---- What is there ----

    def market_name(self, follower, name):
        for market, own in follower.names.items():
            if own == name:
                return market
        return None

    def quote(self, follower, name):
        """(bid, ask) of the account's symbol; None without."""
        return self.quotes.get(self.market_name(follower, name))

    def open_legs(self, follower):
        return self.legs[follower.follower_id]

    def positions(self, follower):
        """What the broker's book must show: [(symbol, side, volume, stop loss, take profit)]."""
        legs = [leg for leg in self.open_legs(follower) if leg.held > 0]
        if not follower.netting:
            return sorted((leg.symbol, leg.side, leg.held, *self.shown_stops(leg)) for leg in legs)
        net = {}
        for leg in legs:
            net[leg.symbol] = net.get(leg.symbol, ZERO) + (leg.held if leg.side == BUY else -leg.held)
        return sorted((symbol, BUY if volume > 0 else SELL, abs(volume), ZERO, ZERO)
                      for symbol, volume in net.items() if volume)

    def shown_stops(self, leg):
        """What was opened in several parts has them in several places, and is compared without."""
        return (leg.stop_loss, leg.take_profit) if len(leg.born) == 1 else (ZERO, ZERO)

    def orders(self, follower):
        return sorted((leg.symbol, leg.side, leg.type, leg.wanted, leg.price, leg.stop_price or ZERO,
                       leg.stop_loss, leg.take_profit)
                      for leg in self.open_legs(follower) if leg.waits)

    # ---- The end of a leg ----

    def close_leg(self, follower, leg):
        leg.held = leg.wanted = ZERO
        leg.waits = False
        leg.closed = True
        self.legs[follower.follower_id] = [other for other in self.open_legs(follower) if other is not leg]

    # ---- What the market does ----

    def move(self, symbol, bid, ask):
        """The followers that have something to reduce now: it takes a moment."""
        self.quotes[symbol] = (bid, ask)
        self.settling = set()
        for follower in self.followers.values():
            name = follower.names.get(symbol)
            while any(self.happens(follower, leg, bid, ask) for leg in self.open_legs(follower)
                      if leg.symbol == name):
                pass
        return self.settling

    def happens(self, follower, leg, bid, ask):
        """One thing that the quote sets off at one leg. False: nothing."""
        if leg.waits:
            price = ask if leg.side == BUY else bid
            from_above = (leg.side == BUY) == (leg.type == LIMIT)
            if leg.type == STOP_LIMIT or not (price <= leg.price if from_above else price >= leg.price):
                return False
            leg.waits = False
            leg.was_open = True
            leg.filled = leg.held = leg.wanted
            self.settle(follower, leg)
            return True
        if leg.held == 0 or follower.netting:
            return False
        price, low, high = (bid, leg.stop_loss, leg.take_profit) if leg.side == BUY \
            else (ask, leg.take_profit, leg.stop_loss)
        if (low and price <= low) or (high and price >= high):
            self.close_leg(follower, leg)
            return True
        return False

    def settle(self, follower, leg):
        """What the master has closed of it while it waited."""
        for position in self.masters[follower.master_id].positions.values():
            if position.legs.get(follower.follower_id) is leg and position.state == "OPEN" \
                    and position.remaining < position.initial:
                try:
                    self.reduce(follower, position, leg)
                    self.settling.add(follower.follower_id)
                except Skip:
                    pass

    def by_hand(self, follower, leg):
        self.close_leg(follower, leg)

    # ---- Events ----

    def apply(self, master_id, event):
        """event: {"kind": ..., fields as Decimal, str, None}. {follower_id: Outcome}; raises Refused."""
        master = self.masters[master_id]
        decide = getattr(self, "on_" + event["kind"])(master, event)
        if event.get("account"):
            master.account = event["account"]
        outcomes = {}
        for follower in self.followers.values():
            if follower.master_id != master_id:
                continue
            try:
                outcomes[follower.follower_id] = decide(follower)
            except Skip as skip:
                outcomes[follower.follower_id] = skip.outcome
        finish = getattr(self, "after_" + event["kind"], None)
        if finish:
            finish(master, event)
        return outcomes

    # Opening.
    def on_open(self, master, event):
        position = master.positions.get(event["position_id"])
        is_open = position is not None and position.state == "OPEN"
        if is_open and not event["increase"]:
            raise Refused("POSITION_EXISTS")
        if position is not None and position.state == "MARK":
            position.state = "CLOSED"
            return self.marked
        if not is_open:
            position = master.positions[event["position_id"]] = Subject(event["position_id"])
        position.initial += event["volume"]
        position.remaining += event["volume"]
        return lambda follower: self.open_here(master, follower, event, position, adds=is_open)

    def marked(self, follower):
        raise Skip("ALREADY_CLOSED")

    def open_here(self, master, follower, event, position, adds=False):
        leg = position.legs.get(follower.follower_id)
        if adds and (leg is None or leg.waits):
            raise Skip("NO_COPY_TO_ACT_ON")
        if adds and leg.closed:
            raise Skip("ALREADY_CLOSED")
        made, volume, remark = self.decide_open(master, follower, event, adds)
        if event["kind"] != "place" and not self.broker_takes_stops(follower, made):
            position.legs[follower.follower_id] = made
            made.closed = True
            return Outcome("REJECTED", "INVALID_STOPS", volume)
        if leg is None or leg.closed:
            leg = position.legs[follower.follower_id] = made
            self.open_legs(follower).append(leg)
        leg.born.append((event["event_id"], event.get("order_id") or event["position_id"],
                         "PLACE" if event["kind"] == "place" else "OPEN"))
        if event["kind"] != "place":
            leg.was_open = True
            leg.filled += volume
            leg.held += volume
        else:
            leg.waits = True
            leg.wanted = volume
        return Outcome("DONE", remark, volume)

    def decide_open(self, master, follower, event, adds):
        """(Leg, volume, remark); raises Skip. In the order in which the reasons win."""
        rules = follower.rules
        is_pending = event["kind"] == "place"
        if follower.halted:
            raise Skip("HALTED")
        if follower.close_only:
            raise Skip("CLOSE_ONLY")
        if rules.included and not any(fnmatch.fnmatchcase(event["symbol"], one) for one in rules.included) \
                or any(fnmatch.fnmatchcase(event["symbol"], one) for one in rules.excluded):
            raise Skip("SYMBOL_FILTERED")
        name = self.resolve(follower, event["symbol"])
        instrument = follower.instruments[name]
        if rules.sides and event["side"] not in rules.sides:
            raise Skip("SIDE_FILTERED")
        magic = event["magic"]
        if rules.magics_included and not any(a <= magic <= b for a, b in rules.magics_included) \
                or any(a <= magic <= b for a, b in rules.magics_excluded):
            raise Skip("MAGIC_FILTERED")
        if event.get("too_old"):
            raise Skip("TOO_OLD", "EXPIRED")
        if event.get("expired"):
            raise Skip("INVALID_EXPIRY", "EXPIRED")
        if is_pending and rules.pending != "COPY":
            raise Skip("PENDING_SKIPPED")
        side, type_, price, stop_price = event["side"], event.get("type", "MARKET"), event["price"], event.get("stop_price")
        if rules.reverse:
            if type_ == STOP_LIMIT:
                raise Skip("UNSUPPORTED_REVERSE")
            side = opposite(side)
            type_ = {LIMIT: STOP, STOP: LIMIT}.get(type_, type_)
        if is_pending:
            price, stop_price = self.pending_prices(instrument, side, type_, price, stop_price)
        volume, remark = self.size(master, follower, event, name, instrument, side, price if is_pending else None)
        self.check_limits(follower, name, volume, adds)
        self.check_deviation(follower, event, name, side, is_pending)
        leg = Leg(name, side, rules.reverse, rules.ignore_stop_loss, rules.ignore_take_profit, is_pending, type_,
                  price=price if is_pending else None, stop_price=stop_price)
        stop_loss, take_profit = self.stops(follower, leg, event["stop_loss"], event["take_profit"],
                                            price if is_pending else None)
        leg.stop_loss, leg.take_profit = stop_loss or ZERO, take_profit or ZERO
        return leg, volume, remark

    def resolve(self, follower, symbol):
        name, mapped = symbol, False
        for table in (follower.rules.symbol_map, follower.symbol_map):
            if name in table:
                name, mapped = table[name], True
        candidates = [name, name + follower.suffix] if mapped else [name + follower.suffix, name]
        for candidate in candidates:
            if candidate in follower.instruments:
                return candidate
        raise Skip("SYMBOL_NOT_FOUND")

    def pending_prices(self, instrument, side, type_, price, stop_price):
        """Limits below the market go down and above it up; stops the other way round."""
        def place(is_limit, value):
            return (down if (side == BUY) == is_limit else up)(value, instrument.tick)
        return place(type_ != STOP, price), place(False, stop_price) if stop_price else None

    # Size.
    def rate(self, follower, one, other):
        """What one unit of a currency is worth in another at this account."""
        if one == other:
            return Fraction(1)
        for pair, is_inverse in ((one + other, False), (other + one, True)):
            for name in (pair, pair + follower.suffix):
                quote = self.quote(follower, name)
                if quote:
                    mid = (Fraction(quote[0]) + Fraction(quote[1])) / 2
                    return 1 / mid if is_inverse else mid
        raise Skip("MISSING_ACCOUNT")

    def multiplied(self, follower, volume):
        rules = follower.rules
        if not rules.tiers:
            return Fraction(volume) * Fraction(rules.multiplier if rules.multiplier is not None else 1)
        for up_to, multiplier in rules.tiers:
            if up_to is None or volume <= up_to:
                return Fraction(volume) * Fraction(multiplier)
        raise Skip("RISK_LIMIT")

    def entry(self, follower, event, name, side, pending_price):
        if pending_price is not None:
            return pending_price
        quote = self.quote(follower, name)
        return (quote[1] if side == BUY else quote[0]) if quote else event["price"]

    def wanted(self, master, follower, event, name, instrument, side, pending_price):
        rules = follower.rules
        if rules.sizing == "FIXED":
            return Fraction(rules.fixed_volume)
        if rules.sizing == "CONTRACT":
            if not event.get("contract_size"):
                raise Skip("MISSING_SPEC")
            return self.multiplied(follower, event["volume"]) * Fraction(event["contract_size"]) / Fraction(instrument.contract)
        if rules.sizing == "RISK":
            stop = event["take_profit"] if rules.reverse else event["stop_loss"]
            entry = self.entry(follower, event, name, side, pending_price)
            if rules.ignore_stop_loss or not stop or entry == stop:
                raise Skip("NO_STOP_LOSS")
            loss = abs(Fraction(entry) - Fraction(stop)) * Fraction(instrument.contract) \
                * self.rate(follower, instrument.profit_currency(name, follower.currency), follower.currency)
            return Fraction(follower.balance) * Fraction(rules.risk_fraction) / loss
        wanted = self.multiplied(follower, event["volume"])
        if rules.sizing in ("BALANCE", "EQUITY", "FREE_MARGIN"):
            account = event.get("account") or master.account  # the master before this event
            figure = account and account[rules.sizing.lower()]
            if not figure or figure <= 0:
                raise Skip("MISSING_ACCOUNT")
            wanted *= Fraction(follower.balance) / (Fraction(figure) * self.rate(follower, master.currency, follower.currency))
        return wanted

    def size(self, master, follower, event, name, instrument, side, pending_price):
        """(volume, remark)."""
        rules = follower.rules
        wanted = self.wanted(master, follower, event, name, instrument, side, pending_price)
        volume, remark = (nearest if rules.nearest else down)(wanted, instrument.step), "UNSPECIFIED"
        smallest = max(instrument.min, rules.min_volume or ZERO)
        largest = down(min(instrument.max, rules.max_volume or instrument.max), instrument.step)
        price = self.entry(follower, event, name, side, pending_price)

        def force(reason):
            if not rules.force_min:
                raise Skip(reason)
            forced = up(smallest, instrument.step)
            if instrument.notional:
                forced = max(forced, up(Fraction(instrument.notional) / Fraction(instrument.contract) / Fraction(price), instrument.step))
            if forced > largest:
                raise Skip(reason)
            if rules.max_risk_coefficient is not None and Fraction(forced) > wanted * Fraction(rules.max_risk_coefficient):
                raise Skip("BELOW_MIN")
            return forced, "FORCED_MIN"

        if volume < smallest or volume == 0:
            volume, remark = force("BELOW_MIN")
        if volume > largest:
            if largest < smallest or largest == 0:
                raise Skip("BELOW_MIN")
            volume, remark = largest, "CLAMPED_MAX"
        if instrument.notional and volume * instrument.contract * price < instrument.notional:
            before = remark
            volume, remark = force("BELOW_MIN_NOTIONAL")
            remark = before if before != "UNSPECIFIED" else remark  # the first remark is the one shown
        return volume, remark

    def check_limits(self, follower, name, volume, adds):
        legs = self.open_legs(follower)
        there = sum((leg.wanted if leg.waits else leg.held for leg in legs if leg.symbol == name), ZERO)
        if follower.max_order_volume is not None and volume > follower.max_order_volume:
            raise Skip("RISK_LIMIT")
        if follower.max_total_volume is not None and there + volume > follower.max_total_volume:
            raise Skip("RISK_LIMIT")
        if follower.max_open_positions and not adds and len(legs) >= follower.max_open_positions:
            raise Skip("MAX_POSITIONS")

    def check_deviation(self, follower, event, name, side, is_pending):
        allowed = follower.rules.max_price_deviation
        if allowed is None or is_pending:
            return
        if not event["price"]:
            raise Skip("MISSING_SPEC")
        bid, ask = self.quote(follower, name)
        if abs((ask if side == BUY else bid) - event["price"]) > allowed:
            raise Skip("PRICE_DEVIATION")

    # Stops.
    def turned(self, leg, stop_loss, take_profit):
        """The master's as this leg means them; None = not said."""
        if leg.reversed:
            stop_loss, take_profit = take_profit, stop_loss
        return None if leg.ignores_stop_loss else stop_loss, None if leg.ignores_take_profit else take_profit

    def stops(self, follower, leg, stop_loss, take_profit, pending_price):
        """Where they are to stand: on the tick toward the entry, outside the stops distance."""
        instrument = follower.instruments[leg.symbol]
        quote = self.quote(follower, leg.symbol)
        base = pending_price if pending_price is not None else quote and quote[0 if leg.side == BUY else 1]

        def place(value, is_stop_loss):
            if not value:
                return value
            is_below = (leg.side == BUY) == is_stop_loss
            value = (up if is_below else down)(value, instrument.tick)
            if instrument.stops and base:
                edge = base - instrument.stops if is_below else base + instrument.stops
                if value > edge if is_below else value < edge:
                    value = (down if is_below else up)(edge, instrument.tick)
            return value
        stop_loss, take_profit = self.turned(leg, stop_loss, take_profit)
        return place(stop_loss, True), place(take_profit, False)

    def broker_takes_stops(self, follower, leg):
        """A stop on the wrong side of the price would fire at once: no broker takes it with a market order. Such are
        those of an order that the master's broker alone has filled, away from our market."""
        quote = self.quote(follower, leg.symbol)
        price, low, high = (quote[0], leg.stop_loss, leg.take_profit) if leg.side == BUY \
            else (quote[1], leg.take_profit, leg.stop_loss)
        return not (low and low > price) and not (high and high < price)

    def on_modify(self, master, event):
        position = master.positions.get(event["position_id"])
        return lambda follower: self.modify_here(follower, position, event)

    def modify_here(self, follower, position, event):
        leg = position and position.legs.get(follower.follower_id)
        if leg is None:
            raise Skip("NO_COPY_TO_ACT_ON")
        if leg.closed:
            raise Skip("ALREADY_CLOSED" if leg.was_open else "NO_COPY_TO_ACT_ON")
        stop_loss, take_profit = self.stops(follower, leg, event["stop_loss"], event["take_profit"],
                                            leg.price if leg.waits else None)
        stop_loss = leg.stop_loss if stop_loss is None else stop_loss
        take_profit = leg.take_profit if take_profit is None else take_profit
        if (stop_loss, take_profit) == (leg.stop_loss, leg.take_profit):
            raise Skip("NO_CHANGE")
        if not self.is_tighter(leg, stop_loss, take_profit):
            if follower.halted:
                raise Skip("HALTED")
            if follower.close_only:
                raise Skip("CLOSE_ONLY")
        leg.stop_loss, leg.take_profit = stop_loss, take_profit
        return Outcome("DONE")

    def is_tighter(self, leg, stop_loss, take_profit):
        """Nearer to the price, or there at all; both of them, or unchanged."""
        def nearer(now, then, is_above_better):
            if then == now:
                return True
            if not then:
                return False
            return not now or (then > now if is_above_better else then < now)
        return nearer(leg.stop_loss, stop_loss, leg.side == BUY) and nearer(leg.take_profit, take_profit, leg.side == SELL)

    # Closing.
    def on_close(self, master, event):
        position = master.positions.get(event["position_id"])
        names_rest = event["remaining_volume"] > 0 if event["remaining_volume"] is not None else event["volume"] is not None
        if position is None:
            if not names_rest:
                master.positions[event["position_id"]] = Subject(event["position_id"], "MARK")
            return lambda follower: self.close_here(follower, None, not names_rest)
        if position.state != "OPEN":
            return lambda follower: self.close_here(follower, position, not names_rest)
        if event["remaining_volume"] is not None:
            left = event["remaining_volume"]
        elif event["volume"] is not None:
            left = max(ZERO, position.remaining - event["volume"])
        else:
            left = ZERO
        position.remaining = min(left, position.remaining)
        return lambda follower: self.close_here(follower, position, position.remaining == 0)

    def after_close(self, master, event):
        position = master.positions.get(event["position_id"])
        if position.state != "OPEN" if position else True:
            return
        if position.remaining == 0:
            position.state = "CLOSED"
        elif event["new_position_id"]:
            del master.positions[position.id]
            position.id = event["new_position_id"]
            master.positions[position.id] = position

    def close_here(self, follower, position, is_full):
        leg = position and position.legs.get(follower.follower_id)
        if leg is None:
            raise Skip("NO_COPY_TO_ACT_ON")
        if leg.closed:
            if leg.was_open:
                return Outcome("DONE", "ALREADY_CLOSED")
            raise Skip("NO_COPY_TO_ACT_ON")
        if is_full:
            self.close_leg(follower, leg)
            return Outcome("DONE")
        if leg.waits:  # what fills later is reduced then
            raise Skip("NO_CHANGE")
        return self.reduce(follower, position, leg)

    def reduce(self, follower, position, leg):
        """To the share of the master: floor(filled x remaining / initial) to the step, at least the minimum."""
        instrument = follower.instruments[leg.symbol]
        smallest = up(instrument.min, instrument.step)
        target = down(Fraction(leg.filled) * Fraction(position.remaining) / Fraction(position.initial), instrument.step)
        remark = "UNSPECIFIED"
        if target < smallest:
            target, remark = smallest, "KEPT_MIN"
        if leg.held <= target:
            raise Skip("KEPT_MIN" if remark == "KEPT_MIN" else "NO_CHANGE")
        volume = down(leg.held - target, instrument.step)
        if volume < smallest:
            raise Skip("BELOW_MIN")
        leg.held -= volume
        return Outcome("DONE", remark, volume)

    # Pending orders.
    def on_place(self, master, event):
        order = master.orders.get(event["order_id"])
        if order is not None and order.state == "OPEN":
            raise Refused("POSITION_EXISTS")
        if order is not None and order.state == "MARK":
            order.state = "CLOSED"
            return self.marked
        order = master.orders[event["order_id"]] = Subject(event["order_id"], order=dict(event))
        order.initial = order.remaining = event["volume"]
        return lambda follower: self.open_here(master, follower, event, order)

    def no_order(self, follower):
        raise Skip("NO_COPY_TO_ACT_ON" if follower.rules.pending == "COPY" else "PENDING_SKIPPED")

    def on_modify_order(self, master, event):
        order = master.orders.get(event["order_id"])
        if order is not None and order.order is not None:
            order.order.update({key: event[key] for key in ("price", "stop_price", "stop_loss", "take_profit")
                                if event.get(key) is not None})
        return lambda follower: self.modify_order_here(follower, order, event)

    def modify_order_here(self, follower, order, event):
        leg = order and order.legs.get(follower.follower_id)
        if leg is None:
            self.no_order(follower)
        if leg.closed or not leg.waits:
            raise Skip("NO_CHANGE")
        if follower.halted:
            raise Skip("HALTED")
        if follower.close_only:
            raise Skip("CLOSE_ONLY")
        instrument = follower.instruments[leg.symbol]
        before = (leg.price, leg.stop_price, leg.stop_loss, leg.take_profit)
        price, stop_price = self.pending_prices(instrument, leg.side, leg.type, event["price"] or leg.price,
                                                event.get("stop_price") or leg.stop_price)
        leg.price, leg.stop_price = price, stop_price
        stop_loss, take_profit = self.stops(follower, leg, event["stop_loss"], event["take_profit"], price)
        leg.stop_loss = leg.stop_loss if stop_loss is None else stop_loss
        leg.take_profit = leg.take_profit if take_profit is None else take_profit
        same = before == (leg.price, leg.stop_price, leg.stop_loss, leg.take_profit)
        return Outcome("DONE", "NO_CHANGE" if same else "UNSPECIFIED")

    def on_cancel(self, master, event):
        order = master.orders.get(event["order_id"])
        if order is None:
            master.orders[event["order_id"]] = Subject(event["order_id"], "MARK")
        elif order.state == "OPEN":
            order.state = "CLOSED"
        return lambda follower: self.cancel_here(follower, order)

    def cancel_here(self, follower, order):
        leg = order and order.legs.get(follower.follower_id)
        if leg is None:
            self.no_order(follower)
        if leg.closed:
            if leg.was_open:
                return Outcome("DONE", "ALREADY_CLOSED")
            raise Skip("NO_CHANGE")
        self.close_leg(follower, leg)  # what waits is cancelled, what it became is closed
        return Outcome("DONE")

    def on_trigger(self, master, event):
        order = master.orders.get(event["order_id"])
        placed = order is not None and order.order is not None
        position = Subject(event["position_id"])
        master.positions[event["position_id"]] = position
        if not placed:
            position.initial = position.remaining = event["volume"] or ZERO
            return lambda follower: self.trigger_here(master, follower, position, None)
        volume = event["volume"] or (order.remaining if order.remaining > 0 else order.initial)
        if order.state == "OPEN":
            position.legs, order.legs = order.legs, {}
            order.remaining = max(ZERO, order.remaining - volume)
            if order.remaining == 0:
                order.state = "CLOSED"
        position.initial = position.remaining = volume
        market = dict(order.order, kind="open", event_id=event["event_id"], volume=volume, increase=False, type="MARKET",
                      price=event["price"] or order.order["price"], account=event.get("account"),
                      too_old=event.get("too_old"))
        return lambda follower: self.trigger_here(master, follower, position, market)

    def trigger_here(self, master, follower, position, market):
        leg = position.legs.get(follower.follower_id)
        if leg is not None and leg.from_order:
            return Outcome("DONE")
        if follower.rules.pending == "COPY":
            raise Skip("NO_COPY_TO_ACT_ON")
        if follower.rules.pending == "SKIP":
            raise Skip("PENDING_SKIPPED")
        if market is None:
            raise Skip("MISSING_SPEC")
        return self.open_here(master, follower, market, position)
