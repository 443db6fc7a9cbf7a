#!/usr/bin/python3
"""Libraries as brokers, inside the server.

Followers of plugins beside those of the paper broker: every order once, nothing believed that is not there. A library that
takes one call at a time gets them one by one. What it says is not believed where it contradicts itself: the order is looked
up. A call that never comes back costs a thread and holds up nobody else. What is loaded is what the configuration says.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, prove, wait_until  # noqa: E402
from plugins import configuration, create, drifts, started, states  # noqa: E402


def beside_paper(options, checks):
    with Fleet(options.program, 2, config=configuration(options.program, "good", "good_session", in_process=True)) as fleet:
        for index in range(3):
            create(fleet, "P%d" % index, "plugin:good", latency="20ms")
            create(fleet, "S%d" % index, "plugin:good_session", latency="20ms")
        create(fleet, "S3", "plugin:good_session", latency="20ms", sessions="4")
        wait_until(fleet.is_connected, 30, "every follower connected")
        opened = fleet.submit_all([fleet.open("%d" % number) for number in range(6)])
        checks.equal("beside paper: every open is DONE", sum(states(fleet, answer).count("DONE") for answer in opened), 54)
        checks.equal("beside paper: the brokers hold what is believed", drifts(fleet), 0)
        closed = fleet.submit_all([fleet.close("%d" % number) for number in range(6)])
        checks.equal("beside paper: every close is DONE", sum(states(fleet, answer).count("DONE") for answer in closed), 54)
        checks.equal("beside paper: the brokers hold nothing", drifts(fleet), 0)
        checks.equal("beside paper: no thread was created late", fleet.executor().threads_created_late, 0)
        checks.equal("beside paper: the server is well", fleet.server.faults(), None)
        checks.equal("beside paper: and ends", fleet.server.terminate(), 0)


def not_believed(options, checks):
    for lie in ("more", "code", "overrun", "refused_filled", "done_not_sent"):
        with Fleet(options.program, 1, config=configuration(options.program, "evil", in_process=True)) as fleet:
            create(fleet, "E", "plugin", does=lie)
            wait_until(fleet.is_connected, 30, "every follower connected")
            answer = fleet.submit(fleet.open("1"))
            wait_until(fleet.is_idle, 30, "idle")
            checks.equal("%s: looked up, it is DONE" % lie,
                         sorted(fleet.state(copy) for copy in fleet.copies(follower_id="E")), ["DONE"])
            checks.equal("%s: the other follower has nothing to do with it" % lie, states(fleet, answer, "F000"), ["DONE"])
            checks.equal("%s: it is there once" % lie, drifts(fleet), 0)
            wait_until(lambda: "adapter.misbehaved" in fleet.server.log(), 5, "the log line")
            fleet.submit(fleet.close("1"))
            wait_until(fleet.is_idle, 30, "idle")
            checks.equal("%s: and closed" % lie, drifts(fleet), 0)


def hanging(options, checks, plugin):
    name = "hang in " + plugin
    with Fleet(options.program, 2, config=configuration(options.program, plugin, in_process=True)) as fleet:
        create(fleet, "E", "plugin", does="hang")
        wait_until(fleet.is_connected, 30, "every follower connected")
        fleet.submit(fleet.open("1"), wait_for="WAIT_FOR_ACCEPTED")
        wait_until(lambda: fleet.executor().threads_lost == 1, 20, "the thread lost")
        wait_until(fleet.is_idle, 30, "the look-up says what became of it")
        checks.equal(name + ": every copy is DONE", sorted(fleet.state(copy) for copy in fleet.copies()), ["DONE"] * 3)
        second = fleet.submit(fleet.open("2"))
        checks.equal(name + ": the others go on", states(fleet, second, "F000", "F001"), ["DONE", "DONE"])
        wait_until(fleet.is_idle, 30, "idle")
        checks.equal(name + ": the brokers hold what is believed", drifts(fleet), 0)
        fleet.submit(fleet.close("1"))
        wait_until(fleet.is_idle, 30, "idle")
        checks.equal(name + ": closed", drifts(fleet), 0)
        checks.equal(name + ": the server ends, though the call never does", fleet.server.terminate(), 0)


def refused(options, checks):
    with Fleet(options.program, 1, config=configuration(options.program, "good", "slow130", in_process=True)) as fleet:
        invalid = "INVALID_ARGUMENT"
        checks.refused("refused: a plugin that nobody named", lambda: create(fleet, "A", "plugin:other"), invalid,
                       "INVALID_FIELD", "follower.adapter_config")
        checks.refused("refused: which of two", lambda: create(fleet, "A", "plugin"), invalid, "INVALID_FIELD",
                       "follower.adapter_config")
        checks.refused("refused: a path", lambda: create(fleet, "A", "plugin:/tmp/x.so"), invalid, "INVALID_FIELD",
                       "follower.adapter_config")
        checks.refused("refused: a setting of the plugin's", lambda: create(fleet, "A", "plugin:good", latency="much"),
                       invalid, "INVALID_FIELD", 'follower.adapter_config["latency"]')
        checks.refused("refused: a setting of ours", lambda: create(fleet, "A", "plugin:good", sessions="99"), invalid,
                       "INVALID_FIELD", 'follower.adapter_config["sessions"]')


def not_started(options, checks):
    for name, words in (("no_such", "cannot be loaded"), ("good_global", "thread_model is GLOBAL"),
                        ("nothing", "exports no tradewake_plugin_v1")):
        code, line = started(options.program, configuration(options.program, name, in_process=True))
        checks.equal("start: %s ends it" % name, code, 1)
        checks.true("start: %s in words" % name, words in line and name in line, line)


def main(options, checks):
    for part in (beside_paper, not_believed, refused, not_started):
        part(options, checks)
    hanging(options, checks, "evil")
    hanging(options, checks, "evil_session")  # another session takes the place of the one that hangs


prove(main)
