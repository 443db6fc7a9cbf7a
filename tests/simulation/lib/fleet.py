"""fleet.py - random masters and followers: every sizing mode, filters, limits, symbols, both account models.

A fleet is a master with its followers. In a stepped fleet an event is answered before the next is sent, so every
copy's end can be told beforehand, limits included. In a streamed one events come without a pause: followers
have no limits that count what is on its way, and only what is left in the end is compared.
"""
from decimal import Decimal as D

from model import Follower, Instrument, Master, Rules

# The market: name -> (bid, ask, point). The calm ones never move and have no spread, so that nothing is won or
# lost on them and an account's money stays what it was; the others move.
CALM = {
    "EURUSD": (D("1.10000"), D("1.10000"), D("0.00001")),
    "USDJPY": (D("150.000"), D("150.000"), D("0.001")),
    "GBPJPY": (D("190.000"), D("190.000"), D("0.001")),
    "XAUUSD": (D("1900.00"), D("1900.00"), D("0.01")),
}
LIVELY = {
    "AUDUSD": (D("0.65000"), D("0.65004"), D("0.00001")),
    "NZDUSD": (D("0.60000"), D("0.60005"), D("0.00001")),
}
MARKET = dict(CALM, **LIVELY)
CURRENCIES = ["USD", "USD", "USD", "EUR", "JPY"]


def decimal_of(rng, low, high, step):
    """A random multiple of step."""
    steps = int((D(high) - D(low)) / D(step))
    return D(low) + D(step) * rng.randint(0, steps)


def instrument(rng, symbol, netting, adds):
    point = MARKET[symbol][2]
    step = rng.choice([D("0.01"), D("0.01"), D("0.1"), D("0.001"), D("0.05"), D("1")])
    # What was bought in parts is sold in parts, so the smallest order is one step there.
    smallest = step if adds else step * rng.choice([1, 1, 1, 2, 5])
    return Instrument(
        min=smallest, step=step, max=rng.choice([D(100), D(100), D(5), D("5.5")]),
        contract=rng.choice([D(100000), D(100000), D(1000), D(100)]) if symbol != "XAUUSD" else rng.choice([D(100), D(10)]),
        tick=point * rng.choice([1, 1, 1, 5, 10]),
        notional=rng.choice([D(0), D(0), D(0), D(500), D(20000)]) if symbol in CALM and not netting else D(0),
        stops=point * rng.choice([0, 0, 0, 30, 75]) if symbol in CALM else D(0))


def names_for(rng, follower, rules):
    """How this account names the market's symbols, and what has to be set for it to be found."""
    names = {symbol: symbol for symbol in MARKET}
    kind = rng.randrange(4)
    if kind == 1:
        follower.suffix = rng.choice([".r", "m", ".pro"])
        names = {symbol: symbol + follower.suffix for symbol in MARKET}
        if rng.random() < 0.5:
            names["XAUUSD"] = "XAUUSD"  # the plain name where the suffix is not
    elif kind == 2:
        names["XAUUSD"] = "GOLD"
        follower.symbol_map["XAUUSD"] = "GOLD"
    elif kind == 3:
        names["GBPJPY"] = "GBPJPY.x"
        rules.symbol_map["GBPJPY"] = "GBPJPY.x"
        if rng.random() < 0.5:
            names["EURUSD"] = "EU"
            rules.symbol_map["EURUSD"] = "EURUSDi"
            follower.symbol_map["EURUSDi"] = "EU"
    if rng.random() < 0.15:
        del names[rng.choice(["GBPJPY", "NZDUSD"])]  # the account does not trade it
    return names


def sizing(rng, rules, adds):
    modes = ["MULTIPLIER"] * 4 + ["FIXED", "BALANCE", "EQUITY", "FREE_MARGIN", "CONTRACT"] + ([] if adds else ["RISK"])
    rules.sizing = rng.choice(modes)
    if rules.sizing == "FIXED":
        rules.fixed_volume = decimal_of(rng, "0.01", "2", "0.01")
    elif rules.sizing == "RISK":
        rules.risk_fraction = decimal_of(rng, "0.001", "0.03", "0.0001")
    elif rng.random() < 0.3:
        rules.tiers = [(D("0.5"), decimal_of(rng, "0.1", "3", "0.01")), (D(2), decimal_of(rng, "0.1", "2", "0.01"))]
        if rng.random() < 0.6:
            rules.tiers.append((None, decimal_of(rng, "0.1", "1", "0.01")))
    elif rng.random() < 0.8:
        rules.multiplier = rng.choice([D("0.33"), D("0.1"), D("2"), D("0.5"), decimal_of(rng, "0.001", "3", "0.00000001")])
    rules.nearest = rng.random() < 0.3


def bounds(rng, rules):
    if rng.random() < 0.25:
        rules.min_volume = rng.choice([D("0.01"), D("0.05"), D("0.2")])
    if rng.random() < 0.25:
        rules.max_volume = rng.choice([D("0.5"), D("1"), D("2.05")])
    if rng.random() < 0.4:
        rules.force_min = True
        if rng.random() < 0.5:
            rules.max_risk_coefficient = rng.choice([D("1.5"), D(2), D(10)])


def filters(rng, rules):
    if rng.random() < 0.15:
        rules.included = rng.choice([["EUR*", "*JPY", "AUDUSD"], ["???USD"], ["XAU*", "N?DUSD", "EURUSD"]])
    if rng.random() < 0.2:
        rules.excluded = rules.excluded + rng.choice([["XAUUSD"], ["GBP*", "AUD*"]])
    if rng.random() < 0.15:
        rules.sides = [rng.choice(["BUY", "SELL"])]
    if rng.random() < 0.1:
        rules.magics_included = [(1, 3), (7, 7)]
    if rng.random() < 0.1:
        rules.magics_excluded = [(2, 2), (5, 9)]
    if rng.random() < 0.1:
        rules.max_price_deviation = D("0.0002")


def follower(rng, follower_id, master_id, netting, streamed, adds):
    rules = Rules()
    made = Follower(follower_id, master_id, rules, netting=netting, currency=rng.choice(CURRENCIES),
                    balance=decimal_of(rng, "500", "50000", "0.01"), new_tickets=not netting and rng.random() < 0.3)
    sizing(rng, rules, adds)
    if rules.sizing in ("BALANCE", "EQUITY", "FREE_MARGIN", "RISK"):
        rules.excluded = ["AUD*", "NZD*"]  # where money is won and lost, what it is depends on when one looks
    bounds(rng, rules)
    filters(rng, rules)
    rules.reverse = rng.random() < 0.2
    # The one position of a netting account has one pair of stops for all, a position in parts several.
    rules.ignore_stop_loss = adds or (rules.sizing != "RISK" and rng.random() < 0.1)
    rules.ignore_take_profit = adds or rng.random() < 0.1
    rules.pending = rng.choice(["SKIP", "MARKET_ON_TRIGGER"] if netting else ["COPY", "COPY", "COPY", "SKIP", "MARKET_ON_TRIGGER"])
    made.names = names_for(rng, made, rules)
    made.instruments = {name: instrument(rng, symbol, netting, adds) for symbol, name in made.names.items()}
    if not streamed:
        limits(rng, made)
    return made


def limits(rng, made):
    if rng.random() < 0.15:
        made.max_order_volume = rng.choice([D(1), D("2.5")])
    if rng.random() < 0.15:
        made.max_total_volume = rng.choice([D(2), D(6)])
    if rng.random() < 0.2:
        made.max_open_positions = rng.randint(2, 9)


def fleet(rng, number, followers, netting, streamed, adds):
    """(Master, [Follower])"""
    master_id = "M%d" % number
    master = Master(master_id, rng.choice(CURRENCIES))
    return master, [follower(rng, "F%d-%d" % (number, index), master_id, netting, streamed, adds)
                    for index in range(followers)]
