#!/usr/bin/python3
"""ExplainEvent on twelve sizes: every figure of the arithmetic, in the order applied; nothing is done; and then the event
itself, which ends as it was foretold. The whole row comes in pages."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, prove, wait_until  # noqa: E402

QUOTES = json.dumps({"EURUSD": "1.08000/1.08010", "USDJPY": "150/150.02"})
EVENT = {"volume": "1.37", "price": "1.08", "stop_loss": "1.0751234", "contract_size": "100000"}

# Follower: its account, its rules, what the explanation says rule by rule (as far as it is about the size), and the end.
FOLLOWERS = [
    ("MULTIPLIER", {}, {"multiplier": "0.33"},
     [("multiplier", "1.37", "0.4521", "1.37 x 0.33"),
      ("rounding", "0.4521", "0.45", "0.4521 toward zero to a multiple of the step 0.01")], ("0.45", "")),
    ("NEAREST", {}, {"multiplier": "0.335", "rounding": "ROUNDING_NEAREST"},
     [("multiplier", "1.37", "0.45895", "1.37 x 0.335"),
      ("rounding", "0.45895", "0.46", "0.45895 to the nearest multiple of the step 0.01")], ("0.46", "")),
    ("TIERS", {}, {"tiers": [{"up_to": "1", "multiplier": "1"}, {"multiplier": "0.5"}]},
     [("tiers", "1.37", "0.685", "1.37 x 0.5, the tier without an end"),
      ("rounding", "0.685", "0.68", "0.685 toward zero to a multiple of the step 0.01")], ("0.68", "")),
    ("FIXED", {}, {"sizing": "SIZING_MODE_FIXED", "fixed_volume": "0.05"},
     [("fixed_volume", "1.37", "0.05", "fixed, whatever the master's volume is"),
      ("rounding", "0.05", "0.05", "0.05 is a multiple of the step 0.01")], ("0.05", "")),
    ("BALANCE", {"balance": "2500"}, {"sizing": "SIZING_MODE_BALANCE", "multiplier": "0.5"},
     [("multiplier", "1.37", "0.685", "1.37 x 0.5"),
      ("balance", "0.685", "0.14270833", "0.685 x 2500 USD / 12000 USD"),
      ("rounding", "0.14270833", "0.14", "0.14270833 toward zero to a multiple of the step 0.01")], ("0.14", "")),
    ("EURO", {"balance": "2500", "currency": "EUR"}, {"sizing": "SIZING_MODE_BALANCE"},
     [("multiplier", "1.37", "1.37", "1.37 x 1"),
      ("balance", "1.37", "0.30826427", "1.37 x 2500 EUR / (12000 USD / 1.08005 by EURUSD)"),
      ("rounding", "0.30826427", "0.3", "0.30826427 toward zero to a multiple of the step 0.01")], ("0.3", "")),
    ("RISK", {"balance": "800000", "currency": "JPY"}, {"sizing": "SIZING_MODE_RISK", "risk_fraction": "0.01"},
     [("risk_fraction", "800000", "0.10716106",
       "800000 JPY x 0.01 / (|ask 1.0801 - stop 1.0751234| x contract 100000 x 150.01 by USDJPY)"),
      ("rounding", "0.10716106", "0.1", "0.10716106 toward zero to a multiple of the step 0.01")], ("0.1", "")),
    ("CONTRACT", {"instruments": json.dumps({"EURUSD": {"min": "0.1", "step": "0.1", "max": "500", "contract": "1000",
                                                        "tick": "0.00001"}})},
     {"sizing": "SIZING_MODE_CONTRACT"},
     [("multiplier", "1.37", "1.37", "1.37 x 1"),
      ("contract_size", "1.37", "137", "1.37 x 100000 / 1000: the same notional"),
      ("rounding", "137", "137", "137 is a multiple of the step 0.1")], ("137", "")),
    ("CLAMPED", {}, {"multiplier": "3", "max_volume": "2"},
     [("multiplier", "1.37", "4.11", "1.37 x 3"), ("rounding", "4.11", "4.11", "4.11 is a multiple of the step 0.01"),
      ("max_volume", "4.11", "2", "clamped to 2, the largest order of the rules")], ("2", "CLAMPED_MAX")),
    ("FORCED", {}, {"multiplier": "0.005", "force_min": True},
     [("multiplier", "1.37", "0.00685", "1.37 x 0.005"),
      ("rounding", "0.00685", "0", "0.00685 toward zero to a multiple of the step 0.01"),
      ("force_min", "0", "0.01", "raised to the smallest order allowed")], ("0.01", "FORCED_MIN")),
    ("COEFFICIENT", {}, {"multiplier": "0.001", "force_min": True, "max_risk_coefficient": "3"},
     [("multiplier", "1.37", "0.00137", "1.37 x 0.001"),
      ("rounding", "0.00137", "0", "0.00137 toward zero to a multiple of the step 0.01"),
      ("max_risk_coefficient", "", "BELOW_MIN", "0.01, the smallest order, is more than 3 times the wanted 0.00137")],
     ("", "BELOW_MIN")),
    ("UNKNOWN", {}, {"sizing": "SIZING_MODE_EQUITY"},
     [("multiplier", "1.37", "1.37", "1.37 x 1"),
      ("equity", "", "MISSING_ACCOUNT", "the master's equity is not known")], ("", "MISSING_ACCOUNT")),
]
NOT_THE_SIZE = {"symbol", "open_window", "stop_loss", "take_profit", "order"}


def create(fleet, follower_id, paper, rules):
    fleet.create(follower_id, paper=dict({"quotes": QUOTES}, **paper), masters=())
    fleet.client.ask("FollowerService/CreateSubscription", subscription=fleet.contract.from_json(
        "Subscription", {"master_id": "M1", "follower_id": follower_id, "rules": rules}))


def event_of(fleet, event_id):
    event = fleet.open("1", event_id=event_id, **EVENT)
    event.master_account.CopyFrom(fleet.contract.from_json("AccountState", {"currency": "USD", "balance": "12000"}))
    return event


def pages(fleet, event, page_size):
    token, found, sizes = "", {}, []
    while True:
        answer = fleet.client.ask("EventService/ExplainEvent", event=event, page_size=page_size, page_token=token)
        sizes.append(len(answer.explanations))
        for one in answer.explanations:
            found[one.follower_id] = one
        token = answer.next_page_token
        if not token:
            return found, sizes


def end(fleet, outcome):
    return fleet.state(outcome), fleet.reason(outcome), outcome.symbol, outcome.side, outcome.volume


def main(options, checks):
    with Fleet(options.program, followers=0) as fleet:
        for follower_id, paper, rules, _, _ in FOLLOWERS:
            create(fleet, follower_id, paper, rules)
        fleet.number = len(FOLLOWERS)
        wait_until(fleet.is_connected, 30, "every follower connected")
        event = event_of(fleet, "open-1")
        explained, sizes = pages(fleet, event, 5)
        checks.equal("in pages of five", sizes, [5, 5, 2])
        for follower_id, _, _, steps, (volume, reason) in FOLLOWERS:
            one = explained[follower_id]
            told = [(step.rule, step.input, step.output, step.note) for step in one.steps
                    if step.rule not in NOT_THE_SIZE]
            checks.equal(follower_id + ": every figure", told, steps)
            checks.equal(follower_id + ": the end", (one.outcome.volume, fleet.reason(one.outcome)),
                         (volume, reason or "UNSPECIFIED"))
        single = fleet.client.ask("EventService/ExplainEvent", event=event, follower_id="RISK").explanations
        checks.equal("one follower alone", [(one.follower_id, end(fleet, one.outcome)) for one in single],
                     [("RISK", end(fleet, explained["RISK"].outcome))])
        checks.equal("nothing was done: no copy", len(fleet.copies()), 0)
        checks.equal("nothing was done: no order", sum(fleet.book(one).calls for one, *_ in FOLLOWERS), 0)

        answer = fleet.submit(event)
        for copy in answer.copies:
            foretold = end(fleet, explained[copy.follower_id].outcome)
            became = end(fleet, copy)
            checks.equal(copy.follower_id + ": it ends as foretold", became,
                         ("DONE",) + foretold[1:] if foretold[0] == "QUEUED" else foretold)
        for copy in fleet.copies():
            whole = explained[copy.follower_id].outcome.volume
            checks.true(copy.follower_id + ": the copy holds its arithmetic",
                        not whole or ("1.37" in copy.message and whole in copy.message), copy.message)


if __name__ == "__main__":
    prove(main)
