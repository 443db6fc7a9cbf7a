#!/usr/bin/python3
"""The test venue against a client of a few lines: what it promises the other tests. No initiator of ours in it."""
import sys
import tempfile
import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import checks
import venue
import wire


def order(line, id_, symbol="EURUSD", side=1, quantity=1000, type_=1, *more):
    line.send("D", (11, id_), (21, 1), (55, symbol), (54, side), (60, wire.now()), (38, quantity), (40, type_), *more)


def reports(line, n, limit_s=20):
    return [line.expect("8", limit_s) for _ in range(n)]


def of(report, *tags):
    return tuple(report.get(tag) for tag in tags)


def market_orders(check, market):
    line = wire.connect(market.port, "CLIENT1", "VENUE")
    order(line, "m1")
    first, second = reports(line, 2)
    check("a market order is acknowledged and filled",
          of(first, 150, 39, 151) == ("0", "0", "1000") and of(second, 150, 39, 14, 151, 32) == ("F", "2", "1000", "0", "1000"))
    order(line, "m1")
    check("a ClOrdID that comes again is a duplicate", of(line.expect("8"), 150, 39, 103) == ("8", "8", "6"))
    order(line, "m2", "THREE", 1, 1000)
    got = reports(line, 4)
    check("parts sum up", [r.get(14) for r in got] == ["0", "333", "666", "1000"] and got[-1].get(39) == "2")
    order(line, "m3", "HALF")
    got = reports(line, 3)
    check("what is not to be had is cancelled", of(got[1], 39, 14) == ("1", "500") and of(got[2], 150, 39, 14, 151) == ("4", "4", "500", "0"))
    order(line, "m4", "NO")
    check("a refusal has its code and words", of(line.expect("8"), 39, 103, 58) == ("8", "2", "MARKET_CLOSED"))
    order(line, "m5", "EURUSD", 1, 10, 1, (58, "noack,twice"))
    got = reports(line, 2)
    check("words in the order's text count; a report can come twice", got[0].get(150) == "F" and got[0].get(17) == got[1].get(17))
    line.send("H", (11, "m1"), (55, "EURUSD"), (54, 1))
    check("a status is told", of(line.expect("8"), 150, 39, 14) == ("I", "2", "1000"))
    line.send("H", (11, "nobody"), (55, "EURUSD"), (54, 1))
    check("so is that there is no such order", of(line.expect("8"), 150, 39, 103) == ("I", "8", "5"))
    order(line, "m6", "SILENT")
    line.send("H", (11, "m6"), (55, "SILENT"), (54, 1))
    check("one that says nothing is executed all the same", of(line.expect("8"), 150, 39, 14) == ("I", "2", "1000"))
    return line


def resting_orders(check, market, line):
    order(line, "r1", "EURUSD", 1, 1000, 2, (44, "1.05"), (59, 1))
    check("a limit order rests", line.expect("8").get(39) == "0")
    line.send("G", (11, "r2"), (41, "r1"), (55, "EURUSD"), (54, 1), (60, wire.now()), (38, 2000), (40, 2), (44, "1.06"))
    check("it is replaced", of(line.expect("8"), 150, 11, 41, 38, 44) == ("5", "r2", "r1", "2000", "1.06"))
    market.command("fill r2 500")
    check("it fills in part", of(line.expect("8"), 39, 14, 151) == ("1", "500", "1500"))
    line.send("AF", (584, "q"), (585, 7))
    check("it is in the list", of(line.expect("8"), 11, 584, 911, 912) == ("r2", "q", "1", "Y"))
    line.send("F", (11, "r3"), (41, "r2"), (55, "EURUSD"), (54, 1), (60, wire.now()))
    check("it is cancelled", of(line.expect("8"), 150, 39, 11, 41, 14) == ("4", "4", "r3", "r2", "500"))
    line.send("F", (11, "r4"), (41, "r3"), (55, "EURUSD"), (54, 1), (60, wire.now()))
    check("too late to cancel", of(line.expect("9"), 39, 102, 434) == ("4", "0", "1"))
    line.send("F", (11, "r5"), (41, "none"), (55, "EURUSD"), (54, 1), (60, wire.now()))
    check("no such order to cancel", of(line.expect("9"), 39, 102) == ("8", "1"))
    order(line, "s1", "EURUSD", 2, 1000, 3, (99, "1.01"))
    line.expect("8")
    market.command("price EURUSD 1.005")
    check("a stop order fills when its price is crossed", of(line.expect("8"), 11, 39) == ("s1", "2"))
    order(line, "s2", "EURUSD", 1, 1000, 4, (99, "1.2"), (44, "1.21"))
    line.expect("8")
    market.command("cancel s2")
    check("the venue cancels unasked", of(line.expect("8"), 150, 39, 41) == ("4", "4", None))


def disconnects(check, market, line):
    order(line, "c1", "CUT")
    try:
        line.expect("8")
        check("it hangs up in mid-order", False)
    except wire.Closed:
        check("it hangs up in mid-order", market.count("fill", id="c1") == 1)
    again = wire.connect(market.port, "CLIENT1", "VENUE")
    again.send("H", (11, "c1"), (55, "CUT"), (54, 1))
    check("and knows afterwards what became of it", of(again.expect("8"), 39, 14) == ("2", "1000"))
    check("no order twice in its ledger", market.executed_twice() == [])


def positions(check, folder):
    with venue.Venue(folder, "--mode", "hedging", "--delay", "130", ledger="hedging") as market:
        line = wire.connect(market.port, "CLIENT1", "VENUE")
        order(line, "p1", "1", 1, 1000, 1, (494, "p1"))
        position = reports(line, 2)[1].get(721)
        order(line, "p2", "1", 2, 400, 1, (721, position))
        check("a close names its position", reports(line, 2)[1].get(721) == position)
        line.send("AN", (710, "q1"))
        check("the rest of it is there", of(line.expect("AP"), 710, 721, 727, 728, 704, 494) == ("q1", position, "1", "0", "600", "p1"))
        order(line, "p3", "1", 2, 600, 1, (721, position))
        reports(line, 2)
        order(line, "p4", "1", 2, 600, 1, (721, position))
        check("what is gone is not found", of(line.expect("8"), 39, 58) == ("8", "POSITION_NOT_FOUND"))
        line.send("AN", (710, "q2"))
        check("nothing is left", of(line.expect("AP"), 727, 728) == ("0", "2"))
        took = [market.between(id_, "new", "fill") for id_ in ("p1", "p2", "p3")]
        check("the delay is held", min(took) >= 0.130)


def many(check, folder):
    with venue.Venue(folder, "--sessions", "30", "--delay", "130", ledger="many") as market:
        lines = [wire.connect(market.port, f"CLIENT{i + 1}", "VENUE") for i in range(30)]
        for i in range(27):
            for j, line in enumerate(lines):
                order(line, f"o{j}.{i}")
        full = sum(sum(r.get(39) == "2" for r in reports(line, 54)) for line in lines)
        check("30 sessions, 810 orders", full == 810)


def main():
    check = checks.Checks()
    with tempfile.TemporaryDirectory() as folder:
        with venue.Venue(folder, "--rule", "THREE:parts=3", "--rule", "HALF:fill=50", "--rule", "NO:reject=2,text=MARKET_CLOSED",
                         "--rule", "SILENT:silent", "--rule", "CUT:cut=after") as market:
            line = market_orders(check, market)
            resting_orders(check, market, line)
            disconnects(check, market, line)
        positions(check, folder)
        many(check, folder)
    check.end()


main()
