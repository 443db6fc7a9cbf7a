#!/usr/bin/python3
"""Libraries as brokers, each in a process of its own, as it is unless somebody says otherwise.

All four thread models carry out every order once. A library that crashes, ends the process, hangs or lies takes down its own process
and nothing else: the server goes on, the order is looked up and is never sent twice, other followers do not notice. A process
that is killed with orders on their way, again and again, is started again, and every copy reaches a final state. One that stands still,
or is never ready again, is killed and started again; one that writes without a pause holds up nobody. It ends with the server,
however that ends; nobody else can open its socket. What cannot be loaded refuses the start. --rounds 50 --long 1 for the long run.
"""
import collections
import os
import random
import re
import shutil
import signal
import stat
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, prove, wait_until  # noqa: E402
from plugins import configuration, create, drifts, libraries, started, states  # noqa: E402

FINAL = {"DONE", "REJECTED", "SKIPPED", "EXPIRED", "CANCELLED", "PARTIAL"}
ORDER_BYTES, ID_AT, ID_BYTES = 312, 80, 40  # struct twp_order, as tests/plugins/sim.c writes it down


def pids(fleet, name):
    """Of a plugin's processes, oldest first."""
    return [int(pid) for pid in re.findall(r"host\.ready plugin=%s pid=(\d+)" % name, fleet.server.log())]


def is_there(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as line:
            return line.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def orders(folder):
    """How often the brokers carried out each client order id."""
    found = collections.Counter()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as ledger:
            whole = ledger.read()
        for at in range(0, len(whole) - ORDER_BYTES + 1, ORDER_BYTES):
            found[whole[at + ID_AT:at + ID_AT + ID_BYTES].split(b"\0")[0].decode()] += 1
    return found


def once(fleet, checks, name, folder):
    """The ledger has each order once, each open that is DONE, and no other."""
    ledger, copies = orders(folder), fleet.copies()
    opens = {copy.copy_id: fleet.state(copy) for copy in copies
             if copy.event_id.startswith("open-") and not copy.follower_id.startswith("F")}
    checks.equal(name + ": no order was carried out twice", [order for order, times in ledger.items() if times > 1], [])
    checks.equal(name + ": every open that is DONE is in the ledger, and no other",
                 sorted(order for order, state in opens.items() if (state == "DONE") != (order in ledger)), [])
    return copies


def all_models(options, checks):
    names = ("good", "good_session", "good_affine", "good_global")
    with Fleet(options.program, 2, config=configuration(options.program, *names)) as fleet:
        for name in names:
            for index in range(3):
                create(fleet, "%s%d" % (name, index), "plugin:" + name, latency="20ms")
        create(fleet, "four", "plugin:good_session", latency="20ms", sessions="4")
        wait_until(fleet.is_connected, 30, "every follower connected")
        number = len(fleet.ids)
        opened = fleet.submit_all([fleet.open("%d" % position) for position in range(6)])
        checks.equal("all models: every open is DONE", sum(states(fleet, answer).count("DONE") for answer in opened), 6 * number)
        checks.equal("all models: the brokers hold what is believed", drifts(fleet), 0)
        closed = fleet.submit_all([fleet.close("%d" % position) for position in range(6)])
        checks.equal("all models: every close is DONE", sum(states(fleet, answer).count("DONE") for answer in closed), 6 * number)
        checks.equal("all models: the brokers hold nothing", drifts(fleet), 0)
        checks.equal("all models: a process for each library", [len(pids(fleet, name)) for name in names], [1] * len(names))
        invalid, field = "INVALID_ARGUMENT", 'follower.adapter_config["%s"]'
        checks.refused("refused: a setting of the plugin's", lambda: create(fleet, "A", "plugin:good", latency="much"), invalid,
                       "INVALID_FIELD", field % "latency")
        checks.refused("refused: a setting of ours", lambda: create(fleet, "A", "plugin:good", sessions="99"), invalid,
                       "INVALID_FIELD", field % "sessions")
        checks.equal("all models: the server is well", fleet.server.faults(), None)
        hosts = [pid for name in names for pid in pids(fleet, name)]
        checks.equal("all models: and ends", fleet.server.terminate(), 0)
        checks.equal("all models: its processes with it", [pid for pid in hosts if is_there(pid)], [])


def others(fleet, event_id):
    """The copies of an event at the followers of the paper broker, once they are DONE."""
    def done():
        copies = [copy for copy in fleet.copies(event_id=event_id) if copy.follower_id.startswith("F")]
        return copies if all(fleet.state(copy) == "DONE" for copy in copies) else None
    return wait_until(done, 20, "the others' orders")


def own_times(fleet, event_id):
    return [copy.times.called_ns / 1e6 for copy in others(fleet, event_id)]


def evil(options, checks, does, plugin="evil", events=3):
    """One lie or end of the library, with orders of others beside it."""
    name, folder = "%s in %s" % (does, plugin), tempfile.mkdtemp(prefix="ledger-", dir="/tmp")
    try:
        with Fleet(options.program, 4, config=configuration(options.program, plugin)) as fleet:
            for follower_id in fleet.ids:  # M2 is followed by nobody else: what its copies take is what it is without the library
                fleet.client.ask("FollowerService/CreateSubscription", subscription=fleet.new(
                    "Subscription", master_id="M2", follower_id=follower_id))
            create(fleet, "E0", "plugin", does=does, ledger=folder)
            create(fleet, "E1", "plugin", ledger=folder)
            wait_until(fleet.is_connected, 30, "every follower connected")
            without, beside = [], []
            for number in range(events):
                fleet.submit(fleet.open("%d" % number), wait_for="WAIT_FOR_ACCEPTED")
                beside += own_times(fleet, "open-%d" % number)
                quiet = fleet.open("quiet%d" % number)
                quiet.master_id = "M2"
                fleet.submit(quiet)
                without += own_times(fleet, "open-quiet%d" % number)
            wait_until(fleet.is_idle, 60, "every copy is final")
            wait_until(fleet.is_connected, 30, "connected again")
            copies = once(fleet, checks, name, folder)
            checks.equal(name + ": every copy is in a final state", {fleet.state(copy) for copy in copies} - FINAL, set())
            checks.equal(name + ": the others' are DONE",
                         {fleet.state(copy) for copy in copies if copy.follower_id.startswith("F")}, {"DONE"})
            for number in range(events):
                fleet.submit(fleet.close("%d" % number), wait_for="WAIT_FOR_ACCEPTED")
            wait_until(fleet.is_idle, 60, "every close is final")
            checks.equal(name + ": the brokers hold what is believed", drifts(fleet), 0)
            once(fleet, checks, name + ", closed", folder)
            checks.equal(name + ": the server is well", fleet.server.faults(), None)
            print("     %s: %d processes; others' own time beside it: %.2f of that of events without it" % (
                name, len(pids(fleet, plugin)), statistics.median(beside) / statistics.median(without)), flush=True)
            checks.equal(name + ": the server ends", fleet.server.terminate(), 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def deaf(options, checks):
    """A question for news hangs, in the one session that an account has: its close goes all the same."""
    folder = tempfile.mkdtemp(prefix="ledger-", dir="/tmp")
    try:
        with Fleet(options.program, 0, config=configuration(options.program, "evil_session")) as fleet:
            create(fleet, "E", "plugin", does="deaf", ledger=folder)
            wait_until(fleet.is_connected, 30, "the follower connected")
            checks.equal("deaf: the open", states(fleet, fleet.submit(fleet.open("1"))), ["DONE"])
            wait_until(lambda: os.path.exists(os.path.join(folder, ".done")), 20, "the question hangs")
            fleet.submit(fleet.close("1"), wait_for="WAIT_FOR_ACCEPTED")
            wait_until(fleet.is_idle, 60, "every copy is final")
            checks.equal("deaf: the close", [fleet.state(copy) for copy in fleet.copies(event_id="close-1")], ["DONE"])
            checks.equal("deaf: the broker holds nothing more", drifts(fleet), 0)
            checks.equal("deaf: the process was started again", len(pids(fleet, "evil_session")), 2)
            once(fleet, checks, "deaf", folder)
            checks.equal("deaf: the server is well", fleet.server.faults(), None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def killed(options, checks):
    followers, latency_ms = 4, 60
    dice, folder = random.Random(options.seed), tempfile.mkdtemp(prefix="ledger-", dir="/tmp")
    try:
        with Fleet(options.program, 0, config=configuration(options.program, "good")) as fleet:
            for number in range(followers):
                create(fleet, "P%d" % number, "plugin", call_timeout="1s", latency="%dms" % latency_ms, ledger=folder)
            wait_until(fleet.is_connected, 30, "every follower connected")
            for number in range(options.rounds):
                fleet.submit(fleet.open("%d" % number), wait_for="WAIT_FOR_ACCEPTED")
                if number > 0:
                    fleet.submit(fleet.close("%d" % (number - 1)), wait_for="WAIT_FOR_ACCEPTED")
                time.sleep(dice.random() * 1.5 * latency_ms / 1000)  # before, at and after the broker
                os.kill(pids(fleet, "good")[-1], signal.SIGKILL)
                wait_until(lambda: len(pids(fleet, "good")) == number + 2, 30, "started again")
                wait_until(fleet.is_connected, 30, "connected again")
            wait_until(fleet.is_idle, 120, "every copy is final")
            name = "killed, %d rounds, seed %d" % (options.rounds, options.seed)
            copies = once(fleet, checks, name, folder)
            found = collections.Counter(fleet.state(copy) for copy in copies)
            checks.equal(name + ": every copy is there", len(copies), followers * (2 * options.rounds - 1))
            checks.equal(name + ": each in a final state", set(found) - FINAL, set())
            checks.equal(name + ": the brokers hold what is believed", drifts(fleet), 0)
            checks.equal(name + ": the server is well", fleet.server.faults(), None)
            print("     %s: %s, %d orders in the ledger" % (name, dict(found), len(orders(folder))), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def alone(options, checks):
    """Its socket is nobody else's, and it does not outlive the server."""
    with Fleet(options.program, 0, config=configuration(options.program, "good")) as fleet:
        create(fleet, "P", "plugin")
        wait_until(fleet.is_connected, 30, "the follower connected")
        pid = pids(fleet, "good")[-1]
        with open("/proc/%d/cmdline" % pid, encoding="utf-8") as line:
            words = dict(word[2:].split("=", 1) for word in line.read().split("\0") if word.startswith("--") and "=" in word)
        path = words["listen"][len("unix:"):]
        checks.equal("alone: the folder of its socket", stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        checks.equal("alone: the socket", stat.S_IMODE(os.stat(path).st_mode) & 0o077, 0)
        fleet.server.process.send_signal(signal.SIGKILL)
        checks.true("alone: it ends when the server is killed", wait_until(lambda: not is_there(pid), 20, "its end"))


def try_to_write(path):
    """The file, once somebody reads it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def silent(options, checks):
    """Processes that are there and do nothing: one stands still, one is never ready when it is started again."""
    folder, stands, loads = tempfile.mkdtemp(prefix="plugins-", dir="/tmp"), "good", "good_session"
    path = os.path.join(folder, loads + ".so")
    shutil.copy(os.path.join(libraries(options.program), loads + ".so"), path)
    config = configuration(options.program, stands) + "  %s: {library: %s}\n" % (loads, path)
    try:
        with Fleet(options.program, 1, config=config) as fleet:
            for name in (stands, loads):
                create(fleet, name, "plugin:" + name)
            wait_until(fleet.is_connected, 30, "every follower connected")
            os.unlink(path)
            os.mkfifo(path)  # who loads it waits for what is never written
            os.kill(pids(fleet, loads)[-1], signal.SIGKILL)
            writer = wait_until(lambda: try_to_write(path), 20, "a library is being loaded")
            os.unlink(path)
            shutil.copy(os.path.join(libraries(options.program), loads + ".so"), path)
            stopped = pids(fleet, stands)[-1]
            os.kill(stopped, signal.SIGSTOP)
            fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
            begin = time.monotonic()
            for number in range(8):
                create(fleet, "S%d" % number, "plugin:" + stands)
            checks.true("silent: the fleet does not wait for an answer each time", time.monotonic() - begin < 5)
            for name in (stands, loads):
                wait_until(lambda: "host.silent plugin=%s " % name in fleet.server.log(), 60, "%s found silent" % name)
            wait_until(fleet.is_connected, 30, "connected again")
            os.close(writer)
            checks.true("silent: the one that stood still is gone", not is_there(stopped))
            checks.equal("silent: each was started again", [len(pids(fleet, name)) for name in (stands, loads)], [2, 2])
            wait_until(fleet.is_idle, 60, "every copy is final")
            checks.equal("silent: the brokers hold what is believed", drifts(fleet), 0)
            answer = fleet.submit(fleet.open("2"))
            checks.equal("silent: the next open is DONE", set(states(fleet, answer)), {"DONE"})
            checks.equal("silent: the server is well", fleet.server.faults(), None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def loud(options, checks):
    """A library that writes without a pause holds up nobody, and is heard in measure."""
    with Fleet(options.program, 1, config=configuration(options.program, "evil", "good")) as fleet:
        create(fleet, "E", "plugin:evil", does="shout")
        create(fleet, "G", "plugin:good")
        wait_until(fleet.is_connected, 30, "every follower connected")
        wait_until(lambda: "plugin.said" in fleet.server.log(), 20, "its words")
        os.kill(pids(fleet, "good")[-1], signal.SIGKILL)
        wait_until(lambda: len(pids(fleet, "good")) == 2, 30, "another started again")
        wait_until(lambda: "plugin.said lines_left_out=" in fleet.server.log(), 20, "what is left out, in words")
        wait_until(fleet.is_connected, 30, "connected again")
        answer = fleet.submit(fleet.open("1"))
        checks.equal("loud: every open is DONE", set(states(fleet, answer)), {"DONE"})
        log = fleet.server.log()
        checks.true("loud: what looks like a line of a log is one", 'fake.line words="?[2J"' in log)
        checks.true("loud: no control characters", not re.search(r"[\0-\x09\x0b-\x1f]", log))
        checks.equal("loud: the server ends", fleet.server.terminate(), 0)


def not_started(options, checks):
    for name, words in (("no_such", "cannot be loaded"), ("nothing", "exports no tradewake_plugin_v1")):
        code, line = started(options.program, configuration(options.program, name))
        checks.equal("start: %s ends it" % name, code, 1)
        checks.true("start: %s in words" % name, words in line and name in line, line)


EVERY_DAY = (("abort", "evil", 2), ("early", "evil", 2), ("overrun", "evil", 2), ("hang", "evil_session", 2), ("hang", "evil_global", 1))
LONG = (("crash", "evil"), ("exit", "evil"), ("kill", "evil"), ("more", "evil"), ("code", "evil"), ("size", "evil"), ("text", "evil"),
        ("refused_filled", "evil"), ("done_not_sent", "evil"), ("list", "evil"), ("late", "evil"), ("hang", "evil"), ("hang", "evil_affine"), ("hang", "evil_global"))


def main(options, checks):
    all_models(options, checks)
    for wanted in EVERY_DAY + (LONG if options.long else ()):
        evil(options, checks, *wanted)
    deaf(options, checks)
    killed(options, checks)
    silent(options, checks)
    loud(options, checks)
    alone(options, checks)
    not_started(options, checks)


prove(main, rounds=4, seed=1, long=0)
