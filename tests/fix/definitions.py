#!/usr/bin/python3
"""definitions.py [--only NAME]... [--ours] [--source FOLDER] [--jobs N] PROGRAM [ARGUMENT...]

QuickFIX's own acceptance definitions for FIX 4.4, turned round for an initiator. Each is a conversation in which a client
("I" lines) speaks to an acceptor ("E" lines); here the program under test takes the place of the acceptor, but connects
and says Logon first. Its arguments: those given, then HOST PORT SENDER TARGET FOLDER HEARTBEAT_S. It is to log in, log in again
a moment after a connection was lost, and end when its stdin ends; FIX_DICTIONARY names QuickFIX's FIX44.xml.

Turned round means: their Logon comes before ours; a connection of a definition is a program of its own with an empty folder; an order that
the original test server sends back is an ExecutionReport here, which nobody sends back, so that what they number is less by one each; 108 is 30 unless
it is what is tested; text (58) is free. tests/fix/README.md lists what does not apply, and why.
"""
import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import source  # noqa: E402
from checks import Checks  # noqa: E402
from wire import SOH, Closed, Line, Message, framed  # noqa: E402

ADMIN = """10_MsgSeqNumEqual 10_MsgSeqNumGreater 10_MsgSeqNumLess 11a_NewSeqNoGreater 11b_NewSeqNoEqual 11c_NewSeqNoLess
    13b_UnsolicitedLogoutMessage 14a_BadField 14c_TagNotDefinedForMsgType 14d_TagSpecifiedWithoutValue 2a_MsgSeqNumCorrect
    2b_MsgSeqNumTooHigh 2c_MsgSeqNumTooLow 2e_PossDupAlreadyReceived 2e_PossDupNotReceived 2q_MsgTypeNotValid
    2t_FirstThreeFieldsOutOfOrder 4a_NoDataSentDuringHeartBtInt 4b_ReceivedTestRequest 6_SendTestRequest 7_ReceiveRejectMessage
    8_OnlyAdminMessages SessionReset""".split()

TURNED = """14b_RequiredFieldMissing 14e_IncorrectEnumValue 14f_IncorrectDataFormat 14g_HeaderBodyTrailerFieldsOutOfOrder
    14h_RepeatedTag 15_HeaderAndBodyFieldsOrderedDifferently
    19a_PossResendMessageThatHAsAlreadyBeenSent 19b_PossResendMessageThatHasNotBeenSent 1a_ValidLogonMsgSeqNumTooHigh
    1a_ValidLogonWithCorrectMsgSeqNum 1c_InvalidSenderCompID 1c_InvalidTargetCompID 1d_InvalidLogonBadSendingTime
    1d_InvalidLogonLengthInvalid 1d_InvalidLogonWrongBeginString 1e_NotLogonMessage 2d_GarbledMessage
    2f_PossDupOrigSendingTimeTooHigh 2g_PossDupNoOrigSendingTime 2i_BeginStringValueUnexpected 2k_CompIDDoesNotMatchProfile
    2m_BodyLengthValueNotCorrect 2o_SendingTimeValueOutOfRange 2r_UnregisteredMsgType 3b_InvalidChecksum 3c_GarbledMessage
    RejectResentMessage ReverseRoute ReverseRouteWithEmptyRoutingTags""".split()

NOT = {
    "14i_RepeatingGroupCountNotEqual": "a repeating group that only orders have",
    "1b_DuplicateIdentity": "two clients at one acceptor",
    "AlreadyLoggedOn": "two clients at one acceptor",
    "20_SimultaneousResendRequest": "asks for old orders to be sent again, which an initiator of ours never does",
    "21_RepeatingGroupSpecifierWithValueOfZero": "a security definition, which is sent back",
    "8_AdminAndApplicationMessages": "asks for old orders to be sent again, which an initiator of ours never does",
    "8_OnlyApplicationMessages": "asks for old orders to be sent again, which an initiator of ours never does",
}

# What else does not apply to a session that takes what it can read of a report, rather than refuse a fill for a field beside it.
NOT_OURS = """14b_RequiredFieldMissing 14e_IncorrectEnumValue 14f_IncorrectDataFormat 14g_HeaderBodyTrailerFieldsOutOfOrder
    14h_RepeatedTag 2m_BodyLengthValueNotCorrect 2r_UnregisteredMsgType RejectResentMessage ReverseRoute
    ReverseRouteWithEmptyRoutingTags""".split()

TIMED = {"4a_NoDataSentDuringHeartBtInt", "6_SendTestRequest"}
ANY = {8, 9, 10, 42, 52, 58, 60, 122}  # their values are not compared
WAIT_S = 20
END_S = 20


class Wrong(Exception):
    """What the program did that the definition does not say."""


# ---- A definition, read. ----

def steps_of(text, is_timed):
    """(letter, bytes) of each line: I, E, i, e."""
    steps = []
    for line in text.split(b"\n"):
        line = line.rstrip(b"\r")
        if line[:1] not in (b"I", b"E", b"i", b"e"):
            continue
        body = line[1:]
        if re.match(rb"\d,", body):
            raise Wrong("two connections at once")
        if not is_timed:
            body = body.replace(SOH + b"108=2" + SOH, SOH + b"108=30" + SOH)
        steps.append((line[:1].decode(), body))
    return steps


def time_text(seconds):
    return time.strftime("%Y%m%d-%H:%M:%S", time.gmtime(time.time() + seconds)).encode()


def filled(data):
    """Times put in; length and checksum added where the line has none."""
    data = re.sub(rb"<TIME([+-]\d+)?>", lambda match: time_text(int(match.group(1) or 0)), data)
    match = re.match(rb"8=.*?\x01", data)
    if match is None:
        return data
    head, rest = match.group(), data[match.end():]
    checksum = re.search(rb"\x0110=.*\x01$", rest)
    if checksum:
        rest, checksum = rest[:checksum.start() + 1], rest[checksum.start() + 1:]
    if not (rest.startswith(b"9=") or SOH + b"9=" in rest):
        rest = b"9=%d\x01" % len(rest) + rest
    if not checksum:
        checksum = b"10=%03d\x01" % (sum(head + rest) % 256)
    return head + rest + checksum


def is_type(data, type_):
    return re.search(rb"(^|\x01)35=" + type_ + rb"\x01", data) is not None


# What an order is instead, when it comes from a venue. Fields that it has stay where they are.
REPORT = ((37, b"O1"), (17, b"E%d"), (150, b"0"), (39, b"0"), (55, b"INTC"), (54, b"1"), (151, b"100"), (14, b"0"), (6, b"0"))


ORDER = ((11, b"C1"), (38, b"100"), (40, b"1"), (60, b"<TIME>"))


def as_report(data, number):
    """An order without its ClOrdID, which a report need not have, is a report without its OrderID."""
    lacks = 37 if b"\x0111=" not in data else None
    data = data.replace(b"\x0135=D\x01", b"\x0135=8\x01")
    for tag, value in REPORT:
        if tag != lacks and not re.search(rb"\x01%d=" % tag, data):
            data += b"%d=" % tag + (value % number if b"%" in value else value) + SOH
    return data


def as_order(data):
    data = data.replace(b"\x0135=8\x01", b"\x0135=D\x01")
    for tag in (6, 14, 17, 37, 39, 150, 151):
        data = re.sub(rb"\x01%d=[^\x01]*(?=\x01)" % tag, b"", data)
    return data + b"".join(b"%d=" % tag + value + SOH for tag, value in ORDER)


def turned(steps, name):
    """Orders are reports, and what was sent back is not expected; a report is an order."""
    result, missing, n_orders = [], 0, 0
    for letter, data in steps:
        if letter == "i":
            missing = 0
        elif letter == "I" and is_type(data, b"D") and b"\x019=" not in data:
            n_orders += 1
            data = as_report(data, n_orders)
        elif letter == "I" and is_type(data, b"8"):
            data = as_order(data)
        elif letter == "E" and is_type(data, b"D"):
            missing += 1
            continue
        elif letter == "E":
            data = re.sub(rb"\x0134=(\d+)\x01", lambda m: b"\x0134=%d\x01" % (int(m.group(1)) - missing), data)
            swapped = b"D" if name.startswith("2r") else b"8"
            data = re.sub(rb"\x01372=[D8]\x01", b"\x01372=" + swapped + b"\x01", data)
            data = data.replace(b"\x01371=11\x01372=8\x01373=1\x01", b"\x01371=37\x01372=8\x01373=1\x01")
        result.append((letter, data))
    return result


# ---- A conversation. ----

class Talk:
    """Plays a definition's client as the venue of a program."""

    def __init__(self, command, folder, steps, environment):
        self.command, self.folder, self.steps, self.environment = command, folder, steps, environment
        self.line = self.program = self.listener = None
        self.test_id, self.n_programs, self.has_logged_out = None, 0, False

    def play(self):
        try:
            for number, (letter, data) in enumerate(self.steps):
                self.number = number
                getattr(self, {"I": "say", "E": "hear", "i": "connect", "e": "end"}[letter])(data)
        finally:
            self.close()

    def close(self):
        if self.line is not None:
            self.line.close()
        if self.listener is not None:
            self.listener.close()
        if self.program is not None:
            self.program.stdin.close()
            try:
                self.program.wait(5)
            except subprocess.TimeoutExpired:
                self.program.kill()
                self.program.wait()
        self.line = self.listener = self.program = None

    def connect(self, what):
        """iCONNECT: a program of its own, whose Logon is taken and held against the definition's, if it has one."""
        if what != b"CONNECT":
            raise Wrong(f"unknown line i{what.decode()}")
        self.close()
        following = self.steps[self.number + 1:]
        logon = next(data for letter, data in following if letter == "I")
        heartbeat = re.search(rb"\x01108=(\d+)\x01", logon)
        self.n_programs += 1
        folder = os.path.join(self.folder, str(self.n_programs))
        os.mkdir(folder)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT_S)
        port = self.listener.getsockname()[1]
        words = ["127.0.0.1", str(port), "ISLD", "TW", folder, heartbeat.group(1).decode() if heartbeat else "30"]
        with open(os.path.join(folder, "output"), "wb") as output:
            self.program = subprocess.Popen([*self.command, *words], stdin=subprocess.PIPE, stdout=output, stderr=output,
                                            env=self.environment)
        self.line = Line(self.listener.accept()[0], "TW", "ISLD")
        self.has_logged_out = False
        first = self.line.receive(WAIT_S)
        if first.type != "A" or first.seq != 1 or first.get(49) != "ISLD" or first.get(56) != "TW":
            raise Wrong(f"its first message is {first}")
        self.logon, self.is_logon_due = first, True

    def say(self, data):
        if self.test_id is not None:
            data = data.replace(b"\x01112=TEST\x01", b"\x01112=" + self.test_id + b"\x01")
        self.has_logged_out |= is_type(data, b"5")
        self.line.sock.sendall(filled(data))

    def hear(self, data):
        expected = Message(data)
        if expected.type == "A" and self.is_logon_due:
            got, self.is_logon_due = self.logon, False
        else:
            got = self.line.receive(WAIT_S)
        if expected.type == "1" and got.get(112):
            self.test_id = got.get(112).encode("latin-1")
        difference(expected, got)
        if self.line.bad:
            raise Wrong(f"checksum or length of {self.line.bad[0]}")

    def end(self, what):
        """eDISCONNECT. Who said Logout first may be the one who closes; before a refused Logon more may be said."""
        if what != b"DISCONNECT":
            raise Wrong(f"unknown line e{what.decode()}")
        if self.has_logged_out:
            self.line.sock.shutdown(socket.SHUT_WR)
        while True:
            try:
                got = self.line.receive(END_S)
            except Closed:
                return
            if not self.is_logon_due or got.type not in ("3", "5"):
                raise Wrong(f"the end is expected, came {got}")


def difference(expected, got):
    """Raises Wrong. Order of fields is free; so is what a Logon says besides."""
    free = ANY | ({112} if expected.type == "1" else set())
    want = {tag: value for tag, value in expected if tag not in free}
    have = {tag: value for tag, value in got if tag not in free}
    if expected.type == "A":
        have = {tag: value for tag, value in have.items() if tag in want or tag == 141 and value == "Y"}
    if want != have:
        wrong = sorted(tag for tag in want.keys() | have.keys() if want.get(tag) != have.get(tag))
        raise Wrong(f"field {wrong} of {got}; expected {expected}")


# ---- All of them. ----

def play(path, options, environment):
    """What is wrong with it; None = nothing."""
    name = os.path.basename(path)[:-4]
    try:
        with open(path, "rb") as file, tempfile.TemporaryDirectory() as folder:
            steps = turned(steps_of(file.read(), name in TIMED), name)
            Talk(options.program, folder, steps, environment).play()
    except (Wrong, Closed, TimeoutError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(options, root):
    check = Checks()
    folder = os.path.join(root, "test/definitions/server/fix44")
    there = sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".def"))
    listed = set(ADMIN) | set(TURNED) | set(NOT)
    check("each definition is listed here", set(there) == listed, f"{sorted(set(there) ^ listed)}")
    wanted = options.only or [*ADMIN, *TURNED]
    left_out = set(options.without or ()) | set(NOT_OURS if options.ours else ())
    # The long ones first: they wait most of their time.
    wanted = sorted((name for name in wanted if name not in left_out), key=lambda name: name not in TIMED)
    environment = dict(os.environ, FIX_DICTIONARY=os.path.join(root, "spec/FIX44.xml"))
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda name: play(os.path.join(folder, name + ".def"), options, environment), wanted))
    for name, wrong in zip(wanted, results):
        check(name, wrong is None, wrong or "")
    passed = sum(wrong is None for wrong in results)
    admin = sum(wrong is None for name, wrong in zip(wanted, results) if name in ADMIN)
    print(f"     definitions: {admin} of {len(ADMIN)} admin-only, {passed} of {len(there)} in all; {len(NOT)} do not apply"
          + (f", {len(left_out)} left out" if left_out else ""))
    check.end()


def main():
    parser = argparse.ArgumentParser(prog="definitions.py", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--without", action="append", metavar="NAME")
    parser.add_argument("--ours", action="store_true", help="without what does not apply to ours: NOT_OURS")
    parser.add_argument("--source", metavar="FOLDER", help="an unpacked source of QuickFIX instead of Debian's, fetched")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.program:
        parser.error("which program?")
    if options.source:
        run(options, options.source)
    with tempfile.TemporaryDirectory() as folder:
        try:
            root = source.fetched(folder)
        except source.NotFetched as why:
            print(f"     definitions: {len(ADMIN) + len(TURNED)} SKIPPED, the source of quickfix could not be fetched: {why}")
            print("0 passed, 0 failed")
            return
        run(options, root)


if __name__ == "__main__":
    main()
