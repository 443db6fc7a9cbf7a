"""judge.py - the broker's ledger against what the service says of itself, and against the master's books.

Everything here answers a list of sentences: what is wrong. An empty list is a verdict."""
import hashlib
from collections import Counter, defaultdict
from decimal import Decimal

from traffic import STEP

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
LEGS, ATTEMPTS = 2, 24


def order_id(master_id, event_id, follower_id, subject_id, action, leg, attempt):
    """The public formula of a copy's client order ids."""
    text = "".join("%s\n" % part for part in (master_id, event_id, follower_id, subject_id, action, leg, attempt))
    bits = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big") >> (256 - 90)
    return "T1" + "".join(ALPHABET[bits >> (85 - 5 * index) & 31] for index in range(18))


def hundredths(text):
    return int(Decimal(text or "0") * STEP)


class Judge:
    def __init__(self, fleet):
        self.fleet = fleet
        self.copies = fleet.copies()
        self.books = {follower_id: fleet.book(follower_id) for follower_id in fleet.ids}

    def action(self, copy):
        value = copy.DESCRIPTOR.fields_by_name["action"].enum_type.values_by_number[copy.action].name
        return value.replace("COPY_ACTION_", "")

    def orders_once(self):
        """No client order id executed twice, and none that belongs to no copy."""
        wrong, owner = [], {}
        for copy in self.copies:
            for leg in range(LEGS):
                for attempt in range(ATTEMPTS):
                    owner[order_id(copy.master_id, copy.event_id, copy.follower_id, copy.master_position_id,
                                   self.action(copy), leg, attempt)] = copy
        filled = defaultdict(int)
        for follower_id, book in self.books.items():
            for client_id, times in Counter(deal.client_order_id for deal in book.deals).items():
                if times > 1:
                    wrong.append("%s: order %s was executed %d times" % (follower_id, client_id, times))
            for deal in book.deals:
                copy = owner.get(deal.client_order_id)
                if copy is None or copy.follower_id != follower_id:
                    wrong.append("%s: order %s of %s belongs to no copy" % (
                        follower_id, deal.client_order_id, deal.symbol))
                    continue
                filled[copy.copy_id] += hundredths(deal.volume)
        for copy in self.copies:
            got, said = filled[copy.copy_id], hundredths(copy.filled_volume)
            if self.action(copy) == "OPEN" and got != said:
                wrong.append("%s of %s: opened %d hundredths, %d said (%s %s)" % (
                    copy.event_id, copy.follower_id, got, said, self.fleet.state(copy), self.fleet.reason(copy)))
            if got > hundredths(copy.volume) and self.action(copy) == "OPEN":
                wrong.append("%s of %s: more than planned" % (copy.event_id, copy.follower_id))
        return wrong

    def copies_complete(self, answered):
        """Every event has one copy per follower, and everything ended."""
        wrong, seen = [], Counter()
        for copy in self.copies:
            seen[copy.event_id, copy.follower_id] += 1
            if self.fleet.state(copy) in ("QUEUED", "SENT", "UNKNOWN"):
                wrong.append("%s of %s: %s %s" % (copy.event_id, copy.follower_id, self.fleet.state(copy),
                                                 self.fleet.reason(copy)))
        for event_id in answered:
            for follower_id in self.fleet.ids:
                if seen[event_id, follower_id] != 1:
                    wrong.append("%s of %s: %d copies" % (event_id, follower_id, seen[event_id, follower_id]))
        return wrong

    def holds(self, traffic):
        """What each follower holds is what its opens filled, brought down by the master's closes."""
        wrong, expected, is_netting = [], defaultdict(int), self.fleet.netting
        filled = {(copy.event_id, copy.follower_id): hundredths(copy.filled_volume) for copy in self.copies
                  if self.action(copy) == "OPEN"}
        for position in traffic.opened.values():
            for follower_id in self.fleet.ids:
                opened = filled.get((position.event_id, follower_id), 0)
                target = opened * position.remaining // position.initial
                target = max(target, 1) if position.remaining and opened else target
                if follower_id in is_netting:
                    expected[follower_id, position.symbol, "NET"] += target if position.side == "BUY" else -target
                else:
                    expected[follower_id, position.symbol, position.side] += target
        got = defaultdict(int)
        for follower_id, book in self.books.items():
            for position in book.positions:
                volume, side = hundredths(position.volume), "BUY" if position.side == 1 else "SELL"
                if follower_id in is_netting:
                    got[follower_id, position.symbol, "NET"] += volume if side == "BUY" else -volume
                else:
                    got[follower_id, position.symbol, side] += volume
            if len(book.orders) > traffic.orders:
                wrong.append("%s: %d pending orders, the master has %d" % (follower_id, len(book.orders), traffic.orders))
        for key in sorted(set(expected) | set(got)):
            if expected[key] != got[key]:
                wrong.append("%s %s %s holds %d hundredths, expected %d" % (*key, got[key], expected[key]))
        return wrong

    def is_flat(self):
        return ["%s holds %d positions and %d orders" % (follower_id, len(book.positions), len(book.orders))
                for follower_id, book in self.books.items() if book.positions or book.orders]
