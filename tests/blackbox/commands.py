#!/usr/bin/python3
"""Every command that takes -o prints JSON that parses, and is what `--help` says: the messages of the contract to the last
field, or objects with the members that it names. A command that is not in the table here fails."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import REPOSITORY, Fleet, prove, wait_until  # noqa: E402

WITHIN_S = 60
STATEMENT = os.path.join(REPOSITORY, "tests/unit/fixtures/history/mql5_positions.csv")
FIX_LOG = os.path.join(REPOSITORY, "tests/unit/fixtures/fix/session.fix")
EVENT = "--master M1 --position 1 "
ORDER = "--master M1 --order 7 "
OPEN = "--symbol EURUSD --side buy --volume 0.10 "
LOCAL = {"check", "config show", "version", "journal verify", "journal dump", "journal tail", "audit", "fix log"}  # no server is asked

# In this order; {copy}, {unknown} and {subscription} are of the server, {state} is its directory.
ROWS = [
    ("check", ""), ("check", "--rpc-threads many"), ("config show", "--effective --rpc-threads 2"), ("version", ""),
    ("submit open", EVENT + OPEN), ("submit modify", EVENT + "--stop-loss 1.05"),
    ("submit close", EVENT + "--volume 0.04 --remaining 0.06"),
    ("submit place", ORDER + OPEN + "--type limit --price 1.05"), ("submit modify-order", ORDER + "--price 1.06"),
    ("submit trigger", ORDER + "--position 8"), ("submit place", "--master M1 --order 9 " + OPEN + "--type limit --price 1.05"),
    ("submit cancel", "--master M1 --order 9"),
    ("explain open", "--master M1 --position 2 " + OPEN), ("explain close", EVENT), ("explain modify", EVENT + "--stop-loss 1.04"),
    ("explain place", "--master M1 --order 10 " + OPEN + "--type limit --price 1.05"),
    ("explain modify-order", "--master M1 --order 11 --price 1.06"), ("explain cancel", "--master M1 --order 11"),
    ("explain trigger", "--master M1 --order 11 --position 12"),
    ("sync", "--master M1 --position position_id=1,symbol=EURUSD,side=buy,volume=0.06 --dry-run"),
    ("replay", STATEMENT + " --master M1 --dry-run"), ("replay", STATEMENT + " --master M9 --wait 0"),
    ("watch", "--count 1"), ("watch", "--summary --count 1 --window 200ms"),
    ("copies", ""), ("copies", "--slowest --limit 5"), ("copies", "--watch --existing --count 2"), ("copies get", "{copy}"),
    ("copies resolve", "{unknown} --state rejected"), ("masters", ""),
    ("followers create", "G1 --adapter paper"), ("followers", ""), ("followers list", "--master M1"), ("followers get", "G1"),
    ("followers update", "G1 --mode close-only"), ("followers mode", "G1 active"), ("followers rearm", "G1"),
    ("followers compare", "G1"), ("followers reset-stop-out", "G1"),
    ("subscriptions create", "--master M2 --follower G1 --rule multiplier=0.5"), ("subscriptions", ""),
    ("subscriptions list", "--follower G1"), ("subscriptions get", "{subscription}"), ("subscriptions update", "{subscription} --rule multiplier=2"),
    ("subscriptions delete", "{subscription}"), ("halt", "--follower G1 --note drill"), ("halts", ""), ("resume", "--follower G1"),
    ("followers delete", "G1"), ("executor", ""), ("top", "--count 1 --interval 100ms"), ("doctor", "--over 100ms"), ("health", ""),
    ("journal verify", "--state-dir {state}"), ("journal dump", "--state-dir {state} --count 20"),
    ("journal tail", "--state-dir {state} --count 5"), ("audit", "--state-dir {state}"), ("fix log", FIX_LOG),
]
FAILS = {"followers rearm", "followers reset-stop-out"}  # nothing to arm or to begin anew: a refusal, in JSON too
EXITS = {"doctor": {0, 1, 4}, "check": {0, 2}}


def names(program):
    """Every command of the program, as its overview lists them."""
    said = subprocess.run([program, "help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    listed = said[said.index("Commands:"):said.index("Help with one")]
    return re.findall(r"(?m)^  ([a-z][a-z-]*(?: [a-z][a-z-]*)?)(?= |$)", listed)


def documented(program, name):
    """What --help says about -o json; None: it takes none."""
    said = subprocess.run([program, *name.split(), "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(r"(?m)^With -o json: (.*)$", said)
    return found.group(1) if found else None


def messages_of(words):
    """The messages of the contract that the words name."""
    return re.findall(r"\b(?:tradewake|grpc)(?:\.[a-z0-9]+)+\.[A-Z]\w+", words)


def is_message(fleet, value, types):
    """The value is one of these: nothing that it does not have, and of what it has all but messages that are not set."""
    for name in types:
        fields = fleet.contract.message(name).DESCRIPTOR.fields
        always = {field.name for field in fields if field.message_type is None and field.containing_oneof is None}
        try:
            fleet.contract.from_json(name, value)
        except Exception:  # not this one
            continue
        if always <= set(value):
            return True
    return False


def holds(fleet, value, words):
    """One document or line is what the words say."""
    types = messages_of(words)
    if not isinstance(value, dict):
        return False
    if types and is_message(fleet, value, types):
        return True
    if types and len(value) == 1:  # {"copies": [Copy, ...]}, {"dropped": Dropped}
        key, inside = next(iter(value.items()))
        items = inside if isinstance(inside, list) else [inside]
        return '"%s"' % key in words and all(is_message(fleet, item, types) for item in items)
    return bool(value) and ("..." in words or all(re.search(r"\b%s\b" % re.escape(key), words) for key in value))


def documents(text):
    """The JSON in it: one document, or one a line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def unknown_copy(fleet):
    """One whose broker carried it out, lost the answer, and answers no question."""
    fleet.create("U0", paper={"latency": "constant:1ms", "call_timeout": "200ms", "settle": "100ms"}, masters=("M3",))
    wait_until(lambda: fleet.client.ask("FollowerService/GetFollower", follower_id="U0").connected, WITHIN_S, "U0 connected")
    fleet.client.ask("PaperService/Configure", follower_id="U0", faults="open#1=timeout_executed, lookup#*=busy")
    fleet.submit(fleet.event("unknown", "M3", open={"position_id": "u", "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10"}),
                 wait_for="WAIT_FOR_ACCEPTED")
    copy_id = wait_until(lambda: [copy.copy_id for copy in fleet.copies(follower_id="U0") if fleet.state(copy) == "UNKNOWN"],
                         WITHIN_S, "an unknown copy")[0]
    return copy_id


def run(options, fleet, checks, name, words, known):
    what = "%s %s" % (name, words)
    if name == "copies resolve":
        known = dict(known, unknown=unknown_copy(fleet))
    command = [options.program, *name.split(), *(words.format(**known).split()), "-o", "json"]
    if name not in LOCAL:
        command += ["--server", fleet.server.address]
    def ended():
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=WITHIN_S)
    if name == "copies resolve":  # a question that is out right now has to come back first; said once, it is said
        over = wait_until(lambda: next((each for each in [ended()] if "BROKER_UNAVAILABLE" not in each.stderr), None), WITHIN_S, what)
        judge(fleet, checks, name, what, known, over)
        return
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if name == "watch":  # something to see
        def is_over():
            fleet.n += 1
            fleet.submit(fleet.open("watch-%d" % fleet.n))
            return process.poll() is not None
        wait_until(is_over, WITHIN_S, "the end of watch")
    out, said = process.communicate(timeout=WITHIN_S)
    judge(fleet, checks, name, what, known, subprocess.CompletedProcess(command, process.returncode, out, said))


def judge(fleet, checks, name, what, known, ended):
    out, said = ended.stdout, ended.stderr
    if name in FAILS and ended.returncode == 1:
        checks.true("%s: a refusal is JSON too" % what, out == "" and json.loads(said)["error"]["message"] != "", said)
        return
    try:
        found = documents(out)
    except ValueError as error:
        found = [str(error)]
    wrong = [value for value in found if not holds(fleet, value, known["documented"])]
    is_good = ended.returncode in EXITS.get(name, {0}) and found and not wrong
    checks.true("%s: %s" % (what, known["documented"][:60]), is_good, (ended.returncode, str(wrong[:1])[:400], out[:200], said[:300]))


def main(options, checks):
    options.program = os.path.abspath(options.program)
    told = {name: documented(options.program, name) for name in names(options.program)}
    asked = {name for name, _ in ROWS}
    checks.equal("every command that takes -o is tried", sorted(name for name, words in told.items() if words and name not in asked), [])
    checks.true("there are many", len(told) > 50 and sum(words is not None for words in told.values()) > 40, len(told))
    with Fleet(options.program, followers=2, paper={"latency": "constant:1ms"}) as fleet:
        fleet.n = 0
        known = {"state": fleet.server.state}
        for name, words in ROWS:
            if "{copy}" in words:
                known["copy"] = fleet.copies()[0].copy_id
            if "{subscription}" in words:
                known["subscription"] = fleet.client.ask("FollowerService/ListSubscriptions", follower_id="G1").subscriptions[0].subscription_id
            run(options, fleet, checks, name, words, dict(known, documented=told.get(name) or ""))
        slowest = json.loads(subprocess.run([options.program, "copies", "--slowest", "--limit", "0", "-o", "json", "--server",
                                             fleet.server.address], stdout=subprocess.PIPE, text=True, check=True).stdout)["copies"]
        times = [copy["times"]["called_ns"] for copy in slowest]
        checks.true("copies --slowest: the slowest of our own first", len(times) > 4 and times == sorted(times, reverse=True), times[:10])
        checks.equal("the server is unharmed", fleet.server.faults(), None)


prove(main)
