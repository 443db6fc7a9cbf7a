#!/usr/bin/python3
"""Real trade histories, replayed as a master's events against `tradewake dev`: every event is
accounted for at every follower, and at the end the books hold what the master still holds.

The histories are not ours to copy: they are read from ../shared/data, and without them there is
nothing to replay. What the master still holds is read here by other means than the program's.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile
from decimal import ROUND_FLOOR, Decimal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import REPOSITORY, Client, Contract, Server, enum_name, prove, wait_until  # noqa: E402

DATA = os.path.join(REPOSITORY, "../shared/data")
HISTORIES = ["mt4_statement_partials.htm", "mql5_mt5_positions_grid.csv", "mql5_mt4_history_pendings.csv"]
STEP = Decimal("0.01")


class Dev(Server):
    """`tradewake dev`: nothing to configure, a fleet of its own."""

    def command(self):
        return [self.program, "dev", "--state-dir", self.state, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


def still_held(path):
    """[(symbol, side, size)] of the open trades of an MT4 statement; the CSV formats have none."""
    if not path.endswith(".htm"):
        return []
    with open(path, encoding="latin-1") as file:
        text = file.read()
    part = text[text.index("<b>Open Trades:</b>"):text.index("<b>Working Orders:</b>")]
    found = re.findall(r"<td[^>]*nowrap>\d{4}\.\d\d\.\d\d [\d:]+</td><td>(buy|sell)</td><td[^>]*>([\d.]+)</td><td>(\S+?)</td>",
                       part)
    assert len(found) == len(re.findall(r"\d{4}\.\d\d\.\d\d [\d:]+", part)), "a row of another shape"
    return [(symbol, "SIDE_" + side.upper(), Decimal(size)) for side, size, symbol in found]


class Demo:
    def __init__(self, server):
        self.contract = Contract()
        self.client = Client(self.contract, server.address)

    def pages(self, path, field, **fields):
        token = ""
        while True:
            answer = self.client.ask(path, page_size=1000, page_token=token, **fields)
            yield from getattr(answer, field)
            token = answer.next_page_token
            if not token:
                return

    def multipliers(self):
        return {subscription.follower_id: Decimal(subscription.rules.multiplier or "1") for subscription in
                self.pages("FollowerService/ListSubscriptions", "subscriptions", master_id="M1")}

    def states(self):
        """Per event how many copies it has, and over all how many per action, state and reason."""
        per_event, kinds = collections.Counter(), collections.Counter()
        for copy in self.pages("CopyService/ListCopies", "copies", filter=self.contract.new(
                "CopyFilter", master_id="M1")):
            words = [enum_name(copy.DESCRIPTOR.fields_by_name[name].enum_type, getattr(copy, name))
                     for name in ("action", "state", "reason")]
            per_event[copy.event_id] += 1
            kinds[tuple(re.sub("^(COPY_ACTION|COPY_STATE|REASON)_", "", str(word)) for word in words)] += 1
        return per_event, kinds

    def is_idle(self):
        return not self.client.ask("CopyService/ListCopies", page_size=1, filter=self.contract.from_json(
            "CopyFilter", {"states": ["COPY_STATE_QUEUED", "COPY_STATE_SENT", "COPY_STATE_UNKNOWN"]})).copies

    def book(self, follower_id):
        side = {1: "SIDE_BUY", 2: "SIDE_SELL"}
        return sorted((position.symbol, side[position.side], Decimal(position.volume)) for position in
                      self.client.ask("PaperService/GetBook", follower_id=follower_id).positions)


def scaled(held, multiplier):
    sizes = [(symbol, side, (size * multiplier / STEP).to_integral_value(ROUND_FLOOR) * STEP)
             for symbol, side, size in held]
    return sorted(row for row in sizes if row[2] > 0)


def replay(options, checks, path):
    name = os.path.basename(path)
    server = Dev(options.program)
    try:
        server.start()
        demo = Demo(server)
        multipliers = wait_until(lambda: len(demo.multipliers()) >= 30 and demo.multipliers(), 30, "30 followers")
        command = [options.program, "replay", path, "--master", "M1", "--speed", "max", "--server", server.address]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=300)
        checks.equal("%s: exit code 0" % name, result.returncode, 0) or print(result.stdout[-2000:])
        wait_until(demo.is_idle, 60, "idle")
        per_event, kinds = demo.states()
        checks.true("%s: it has events" % name, len(per_event) > 100, len(per_event))
        checks.equal("%s: each event has a copy at every follower" % name, set(per_event.values()), {len(multipliers)})
        opens = sum(count for (action, _, _), count in kinds.items() if action == "OPEN")
        done = sum(count for (action, state, _), count in kinds.items() if (action, state) == ("OPEN", "DONE"))
        checks.true("%s: most opens are DONE" % name, done > 0.8 * opens > 0, "%d of %d" % (done, opens))
        lost = {kind: count for kind, count in kinds.items() if kind[1] not in ("DONE", "SKIPPED")}
        checks.equal("%s: every copy is DONE or SKIPPED" % name, lost, {})
        held = still_held(path)
        wrong = {follower_id: demo.book(follower_id) for follower_id, multiplier in multipliers.items()
                 if demo.book(follower_id) != scaled(held, multiplier)}
        checks.equal("%s: the books hold what the master holds, %d positions" % (name, len(held)),
                     dict(list(wrong.items())[:2]), {})
        checks.equal("%s: the server is well" % name, server.faults(), None)
        print("     %s: %d events, %s" % (name, len(per_event), ", ".join(
            "%s %d" % (" ".join(kind).replace(" UNSPECIFIED", ""), count) for kind, count in kinds.most_common(8))))
        demo.client.close()
    finally:
        server.end()


def quirks(options, checks):
    """A small history of our own with the quirks of the real ones: CRLF, a BOM, spaces in numbers,
    balance rows, a cancelled pending, two events in one second."""
    rows = ["\ufeffTime;Type;Volume;Symbol;Price;S/L;T/P;Time;Price;Commission;Swap;Profit;Comment",
            "2024.01.03 10:00:00;Buy Stop;0.01;XAUUSD;4 694.88;;;2024.01.03 10:30:00;4\u00a0432.41;;;;cancelled",
            "2024.01.02 12:00:00;Sell;0.02;XAUUSD;2 050.00;;;2024.01.02 12:00:01;2 049.00;;;2.00;[tp]",
            "2024.01.02 11:00:00;Balance;;;;;;;;;;100.00;",
            "2024.01.02 10:00:00;Buy;0.10;EURUSD;1.10000;1.09;;2024.01.02 12:00:00;1.10100;0;0;10;"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "quirks.csv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write("\r\n".join(rows) + "\r\n")
        server = Dev(options.program)
        try:
            server.start()
            demo = Demo(server)
            wait_until(lambda: len(demo.multipliers()) >= 30, 30, "30 followers")
            result = subprocess.run([options.program, "replay", path, "--master", "M1", "--speed", "max", "--server",
                                     server.address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=60)
            checks.equal("quirks: exit code 0", result.returncode, 0) or print(result.stdout[-2000:])
            wait_until(demo.is_idle, 30, "idle")
            per_event, _ = demo.states()
            checks.equal("quirks: two trades and a pending are six events", len(per_event), 6)
            checks.equal("quirks: nothing is held at the end", [demo.book(follower_id) for follower_id in
                                                                demo.multipliers() if demo.book(follower_id)], [])
            demo.client.close()
        finally:
            server.end()


def main(options, checks):
    quirks(options, checks)
    for name in HISTORIES:
        path = os.path.join(DATA, name)
        if os.path.exists(path) and options.history in name:
            replay(options, checks, path)


if __name__ == "__main__":
    prove(main, history="")
