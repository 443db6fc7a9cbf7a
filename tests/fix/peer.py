#!/usr/bin/python3
"""peer.py [--program FILE] [--only NAME]... - the server at a venue that breaks the rules.

A follower and a venue for each scenario, one server for all. What must hold in every one: no order goes out twice, no
fill is lost or booked twice, the session goes on or says why it does not.
"""
import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "lib"))
sys.path.insert(1, os.path.join(FOLDER, "../blackbox/lib"))

from blackbox import CONFIG, REPOSITORY, Fleet, Refused, end_servers_with_us, wait_until  # noqa: E402
from checks import Checks  # noqa: E402
from peer import Peer  # noqa: E402
from wire import SOH, Closed, framed  # noqa: E402

SECTION = """[{name}]
profile = generic44
address = 127.0.0.1:{port}
sender = CLIENT
target = VENUE
heartbeat = {heartbeat}
settle_ms = 0
currency = USD
symbol EURUSD = EUR/USD contract=100000 tick=0.00001 min=0.01 step=0.01 max=50 base=EUR quote=USD
"""
HEARTBEATS = {"silence": 5}  # others: 30
WAIT_S = 30
MEMORY_KB = 48 << 10  # more than this for one message is too much


class Scenario:
    """A venue, the follower at it, and a master that only it follows."""

    def __init__(self, name, fleet, check, peer):
        self.name, self.fleet, self.check_all, self.peer = name, fleet, check, peer

    def check(self, what, holds, saw=""):
        return self.check_all(f"{self.name}: {what}", holds, saw)

    def begin(self):
        """The follower is made; its first Logon is answered."""
        self.fleet.create(self.name, adapter="fix:" + self.name, masters=("M-" + self.name,))
        self.peer.logon()
        self.connected()

    def connected(self):
        wait_until(lambda: self.follower().connected, WAIT_S, self.name + " connected")

    def follower(self):
        return next(f for f in self.fleet.client.ask("FollowerService/ListFollowers", page_size=1000).followers
                    if f.follower_id == self.name)

    def open(self, position="1", volume="0.10"):
        """An open of the master's; the order that it makes here."""
        event = self.fleet.event(f"{self.name}-{position}", master_id="M-" + self.name, open={
            "position_id": position, "symbol": "EURUSD", "side": "SIDE_BUY", "volume": volume, "price": "1.1"})
        self.fleet.submit(event, wait_for="WAIT_FOR_ACCEPTED")
        return self.peer.receive("D")

    def copy(self, position="1"):
        return next(c for c in self.fleet.copies(follower_id=self.name) if c.event_id == f"{self.name}-{position}")

    def outcome(self, position="1"):
        """(state, filled) when it has ended."""
        def ended():
            copy = self.copy(position)
            return copy if self.fleet.state(copy) in ("DONE", "REJECTED", "SKIPPED", "EXPIRED", "CANCELLED") else None
        try:
            copy = wait_until(ended, WAIT_S, "the copy's end")
        except TimeoutError:
            copy = self.copy(position)
        return self.fleet.state(copy), float(copy.filled_volume or 0)

    def is_done(self, position="1", volume=0.10):
        got = self.outcome(position)
        self.check(f"copy {position} is done, with what was filled", got == ("DONE", volume), got)

    def is_once(self):
        ids = [order.get(11) for order in self.peer.orders()]
        self.check("no order twice", len(ids) == len(set(ids)), ids)
        seqs = [m.seq for m in self.peer.came if m.get(43) != "Y" and m.type != "4"]
        self.check("no number twice", all(a < b for a, b in zip(seqs, seqs[1:])), seqs)

    def still_works(self, position="9"):
        self.peer.fill(self.open(position))
        self.is_done(position)


# ---- Bytes. ----

def split(s):
    """Every byte in a segment of its own."""
    order = s.open()
    data = s.peer.bytes_of("8", *s.peer.report(order, "0", "0", 0)) + s.peer.bytes_of("8", *s.peer.report(order, "F", "2", 10000, 10000))
    for i in range(len(data)):
        s.peer.send_bytes(data[i:i + 1])
    s.is_done()


def two_in_one(s):
    """Three messages and the half of a fourth in one segment."""
    order, peer = s.open(), s.peer
    beat = peer.bytes_of("8", *peer.report(order, "0", "0", 0)) + peer.bytes_of("1", (112, "TOGETHER"))
    fill = peer.bytes_of("8", *peer.report(order, "F", "2", 10000, 10000))
    rest = peer.bytes_of("0")
    peer.send_bytes(beat + fill + rest[:20])
    s.check("the TestRequest among them is answered", peer.receive("0", t112="TOGETHER") is not None)
    s.is_done()
    peer.send_bytes(rest[20:])
    s.still_works()


def huge_field(s):
    """10 MB in one field, announced as such."""
    before = s.fleet.server.status("VmHWM")
    order, peer = s.open(), s.peer
    body = peer.line.body("8", [*peer.report(order, "0", "0", 0), (58, "x" * (10 << 20))], peer.number())
    try:
        peer.send_bytes(framed(body))
    except OSError:
        pass  # it has hung up in the middle
    try:
        peer.settled()
    except (Closed, TimeoutError, OSError):
        peer.logon()
    s.check("it is not held in memory", s.fleet.server.status("VmHWM") - before < MEMORY_KB)
    peer.keep("8", *peer.report(order, "F", "2", 10000, 10000))
    answer_all(s, order)
    s.is_done()
    s.is_once()


def answer_all(s, order):
    """Whatever it asks to find out about its order is answered; ends when the copy is done."""
    end = time.monotonic() + WAIT_S
    s.peer.send("0")
    while s.fleet.state(s.copy()) != "DONE" and time.monotonic() < end:
        try:
            message = s.peer.take(0.1)
        except TimeoutError:
            continue
        except Closed:
            s.peer.logon()
            continue
        if message.type == "2":
            first, last = int(message.get(7)), int(message.get(16)) or s.peer.next_out - 1
            s.peer.replay(first, last)
        elif message.type == "H":
            s.peer.send("8", *s.peer.report(order, "I", "2", 10000))


def no_checksum(s):
    """A report that ends without its checksum: ignored, asked for again, booked once."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "0", "0", 0))
    fill = peer.bytes_of("8", *peer.report(order, "F", "1", 4000, 4000))
    peer.send_bytes(fill[:fill.rindex(b"10=")])
    peer.send("0")
    peer.send("0")
    s.check("what was not read is asked for", int(peer.answer_gap().get(7)) <= 4)
    peer.send("8", *peer.report(order, "F", "2", 10000, 6000))
    s.is_done()


def wrong_checksum(s):
    """Of a report that says filled."""
    order, peer = s.open(), s.peer
    fill = peer.bytes_of("8", *peer.report(order, "F", "2", 10000, 10000))
    peer.send_bytes(fill[:-4] + b"%03d" % ((int(fill[-4:-1]) + 1) % 256) + SOH)
    peer.send("0")
    asked = peer.receive("2")
    s.check("it is asked for", asked.get(7) == "2")
    s.check("and not believed", s.fleet.state(s.copy()) != "DONE", s.fleet.state(s.copy()))
    peer.replay(2, peer.next_out - 1)
    s.is_done()


# ---- Connections. ----

def reset_in_mid_fill(s):
    """RST between two fills; the second is told in the replay."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "0", "0", 0))
    peer.send("8", *peer.report(order, "F", "1", 4000, 4000))
    peer.settled()
    peer.line.reset()
    peer.keep("8", *peer.report(order, "F", "2", 10000, 6000))
    last = peer.next_in
    theirs = peer.logon()
    s.check("its numbers go on", theirs.seq >= last, f"{theirs.seq}, {last} was due")
    peer.answer_gap()
    s.is_done()


def reports_lost(s):
    """The same, but the venue fills the gap: it must be asked what became of the order."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "0", "0", 0))
    peer.settled()
    peer.line.reset()
    peer.keep("8", *peer.report(order, "F", "2", 10000, 10000))
    peer.logon()
    peer.answer_gap("fill")
    asked = peer.receive("H", t11=order.get(11))
    s.check("it asks for the order", asked is not None)
    peer.send("8", *peer.report(order, "I", "2", 10000))
    s.is_done()


def order_unseen(s):
    """The connection ends after the order was sent; the venue has never seen it and says so."""
    peer = s.peer
    order = s.open()
    peer.line.reset()
    peer.next_in = order.seq
    theirs = peer.logon()
    s.check("its numbers go on", theirs.seq > order.seq, f"{theirs.seq} after {order.seq}")
    peer.send("2", (7, order.seq), (16, 0))
    filled = peer.receive("4")
    s.check("the order is not sent again: a gap fill over it", filled.get(123) == "Y" and int(filled.get(36)) > order.seq)
    again = None
    while again is None:  # it may ask more than once before it believes that
        message = peer.take()
        if message.type == "H":
            peer.send("8", *peer.report(order, "I", "8", 0, t103="5", t58="unknown order"))
        again = message if message.type == "D" else None
    kinds = [m.type for m in peer.came if m.type in "DH"]
    s.check("it has asked before it is sent once more", kinds[0] == "D" and "H" in kinds[1:-1], kinds)
    s.check("and then under the same id, which the venue would refuse if it came late", again.get(11) == order.get(11), str(again))
    peer.came.remove(order)  # the venue has never seen it
    peer.fill(again)
    s.is_done()


def resend_request(s):
    """All is asked for again: one gap fill, no order."""
    order, peer = s.open(), s.peer
    peer.fill(order)
    s.is_done()
    peer.send("2", (7, 1), (16, 0))
    filled = peer.receive("4")
    s.check("a gap fill to its next number", (filled.seq, filled.get(123), filled.get(43)) == (1, "Y", "Y"), str(filled))
    peer.settled()
    s.check("the order is not among it", len(peer.orders()) == 1)
    s.still_works()


def silence(s):
    """Nothing comes any more: TestRequest, then the connection is made anew."""
    peer = s.peer
    before = peer.next_in
    asked = wait_test_request(peer)
    s.check("a TestRequest after a heartbeat's time and some", asked is not None)
    s.check("then it hangs up", peer_hangs_up(peer))
    theirs = peer.logon()
    s.check("and comes again, its numbers going on", theirs.seq > before, f"{theirs.seq} after {before}")
    s.connected()
    s.still_works()


def wait_test_request(peer):
    """The next TestRequest, not answered."""
    while True:
        message = peer.line.receive(WAIT_S)
        peer.came.append(message)
        if message.type == "1":
            return message


def peer_hangs_up(peer):
    try:
        while True:
            peer.came.append(peer.line.receive(WAIT_S))
    except Closed:
        return True
    except TimeoutError:
        return False


# ---- Numbers. ----

def jump(s):
    """10 000 numbers are skipped: asked for once, then all goes on."""
    order, peer = s.open(), s.peer
    first = peer.next_out
    peer.next_out += 10000
    for _ in range(20):
        peer.send("0")
    asked = peer.receive("2")
    s.check("asked from where it stands", asked.get(7) == str(first), str(asked))
    while True:  # in pieces, or all at once
        last = int(asked.get(16)) or peer.next_out - 1
        peer.send("4", (123, "Y"), (36, min(last + 1, first + 10000)), seq=int(asked.get(7)), header=((43, "Y"), (122, peer._sent())))
        if last >= first + 10000 - 1:
            break
        asked = peer.receive("2")
    for seq in range(first + 10000, peer.next_out):
        peer.send("0", seq=seq, header=((43, "Y"), (122, peer._sent())))
    peer.settled()
    again = [m for m in peer.came if m.type == "2" and m.get(7) == str(first)]
    s.check("and not twice for one gap", len(again) == 1, len(again))
    peer.fill(order)
    s.is_done()


def reversed_replay(s):
    """Three fills are replayed, the last one first."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "0", "0", 0))
    peer.settled()
    peer.line.reset()
    first = peer.next_out
    peer.keep("8", *peer.report(order, "F", "1", 2000, 2000))
    peer.keep("8", *peer.report(order, "F", "1", 6000, 4000))
    peer.keep("8", *peer.report(order, "F", "2", 10000, 4000))
    peer.logon()
    asked = peer.receive("2")
    s.check("what was missed is asked for", int(asked.get(7)) == first, f"{asked.get(7)}, not {first}")
    peer.replay(0, 0, order=[first + 2, first + 1, first])
    peer.replay(first, peer.next_out - 1)
    s.is_done()


def too_low(s):
    """A number that was used, without PossDup: it stops and says so, and does not begin anew."""
    peer = s.peer
    peer.settled()
    peer.send("0", seq=1)
    out = peer.receive("5")
    s.check("Logout, with the numbers in words", "low" in (out.get(58) or ""), str(out))
    s.check("it hangs up", peer.closed())
    wait_until(lambda: f"session={s.name} " in "".join(l for l in s.fleet.server.log().splitlines(True) if "fix.stopped" in l), WAIT_S,
               "the log line")
    wait_until(lambda: not s.follower().connected, WAIT_S, "not connected")
    s.check("and says so", True)


# ---- Reports. ----

def exec_id_reused(s):
    """Every report has one ExecID; totals come from CumQty."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "0", "0", 0, exec_id="SAME"))
    peer.send("8", *peer.report(order, "F", "1", 4000, 4000, exec_id="SAME"))
    peer.send("8", *peer.report(order, "F", "1", 4000, 4000, exec_id="SAME"))
    peer.send("8", *peer.report(order, "F", "2", 10000, 6000, exec_id="SAME"))
    s.is_done()


def cum_goes_back(s):
    """6000, 2000, 6000, all of 10000: what is filled never falls."""
    order, peer = s.open(), s.peer
    for cum, status, last in ((6000, "1", 6000), (2000, "1", 2000), (6000, "1", 4000), (10000, "2", 4000)):
        peer.send("8", *peer.report(order, "F", status, cum, last))
    s.is_done()
    peer.settled()
    s.still_works()


def fills_twice(s):
    """The same fill twice, then PossResend of it: booked once."""
    order, peer = s.open(), s.peer
    fill = peer.report(order, "F", "2", 10000, 10000)
    peer.send("8", *fill)
    peer.send("8", *fill)
    peer.send("8", *fill, header=((97, "Y"),))
    s.is_done()
    peer.settled()
    s.check("nothing more is made of it", s.outcome() == ("DONE", 0.1), s.outcome())


def duplicate_answer(s):
    """103=6 to a new order: it is looked up, not sent again, not given up."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "8", "8", 0, t103="6", t58="duplicate"))
    peer.receive("H", t11=order.get(11))
    peer.send("8", *peer.report(order, "I", "2", 10000))
    s.is_done()


def fill_without_ack(s):
    """The first word is the fill."""
    order, peer = s.open(), s.peer
    peer.send("8", *peer.report(order, "F", "2", 10000, 10000))
    s.is_done()


SCENARIOS = [silence, split, two_in_one, huge_field, no_checksum, wrong_checksum, reset_in_mid_fill, reports_lost, order_unseen,
             resend_request, jump, reversed_replay, too_low, exec_id_reused, cum_goes_back, fills_twice, duplicate_answer,
             fill_without_ack]


def play(scenario):
    name, check = scenario.name, scenario.check
    try:
        scenario.begin()
        globals()[name](scenario)
        scenario.is_once()
    except (Closed, TimeoutError, OSError, StopIteration, Refused) as error:
        tail = " / ".join(str(m) for m in scenario.peer.came[-3:])
        check("it comes to its end", False, f"{type(error).__name__} {error}; the last that came: {tail}")
    finally:
        scenario.peer.close()


def main():
    parser = argparse.ArgumentParser(prog="peer.py", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--program", default=os.path.join(os.environ.get("FIX_BUILD", REPOSITORY + "/build/release"), "tradewake"))
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--log", action="store_true", help="prints the server's log")
    options, check = parser.parse_args(), Checks()
    names = [f.__name__ for f in SCENARIOS if not options.only or f.__name__ in options.only]
    end_servers_with_us()
    peers = {name: Peer() for name in names}
    fleet = Fleet(options.program, followers=0)
    path = os.path.join(fleet.server.folder, "sessions.ini")
    with open(path, "w", encoding="ascii") as file:
        for name in names:
            file.write(SECTION.format(name=name, port=peers[name].port, heartbeat=HEARTBEATS.get(name, 30)))
    with open(fleet.server.config, "w", encoding="ascii") as file:
        file.write(CONFIG + f"fix:\n  sessions: {path}\n")
    with fleet:
        scenarios = [Scenario(name, fleet, check, peers[name]) for name in names]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(play, scenarios))
        check("the server is well", fleet.server.faults() is None, fleet.server.faults())
        failed = {name for name in names if any(what.startswith(name + ":") for what in check.failures)}
        for line in fleet.server.log().splitlines():
            if options.log or any(f"session={name} " in line for name in failed):
                print("     | " + line)
    check.end()


main()
