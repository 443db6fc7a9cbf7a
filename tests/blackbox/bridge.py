#!/usr/bin/python3
"""A bridge to brokers is killed with orders on their way, again and again: the broker's ledger has each order once, and
every copy reaches a final state. --rounds 50 for the long run."""
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import REPOSITORY, Fleet, prove, wait_until  # noqa: E402

BRIDGE = os.path.join(REPOSITORY, "client-examples/bridge-python/bridge.py")
FINAL = {"DONE", "REJECTED", "SKIPPED", "EXPIRED", "CANCELLED", "PARTIAL"}
FOLLOWERS, LATENCY_MS = 4, 60


class Bridge:
    def __init__(self, folder):
        self.address, self.state = "unix:%s/s" % folder, os.path.join(folder, "state")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(["/usr/bin/python3", BRIDGE, "--listen", self.address, "--state", self.state],
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError("the bridge does not start: %r" % line)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def orders(self):
        """How often the broker carried out each client order id."""
        with open(os.path.join(self.state, "ledger"), encoding="utf-8") as lines:
            return collections.Counter(json.loads(line)["tag"] for line in lines if line.endswith("\n") and line != "\n")


def main(options, checks):
    dice = random.Random(options.seed)
    folder = tempfile.mkdtemp(prefix="bridge-", dir="/tmp")
    bridge = Bridge(folder)
    bridge.start()
    try:
        with Fleet(options.program, 0, server_arguments=["--bridges", "sample=" + bridge.address]) as fleet:
            fleet.number = FOLLOWERS
            for number in range(FOLLOWERS):
                fleet.create("B%d" % number, adapter="remote:sample",
                             config={"call_timeout": "1s", "vendor.latency": str(LATENCY_MS)})
            wait_until(fleet.is_connected, 30, "every follower connected")
            for number in range(options.rounds):
                fleet.submit(fleet.open("%d" % number), wait_for="WAIT_FOR_ACCEPTED")
                if number > 0:
                    fleet.submit(fleet.close("%d" % (number - 1)), wait_for="WAIT_FOR_ACCEPTED")
                time.sleep(dice.random() * 1.5 * LATENCY_MS / 1000)  # before, at and after the broker
                bridge.kill()
                bridge.start()
                wait_until(fleet.is_connected, 30, "connected again")
            wait_until(fleet.is_idle, 120, "every copy is final")
            copies = fleet.copies()
            states = collections.Counter(fleet.state(copy) for copy in copies)
            orders = bridge.orders()
            checks.equal("%d rounds, seed %d: every copy is there" % (options.rounds, options.seed), len(copies),
                         FOLLOWERS * (2 * options.rounds - 1))
            checks.equal("each in a final state", set(states) - FINAL, set())
            checks.equal("no order was carried out twice", [tag for tag, times in orders.items() if times > 1], [])
            done = [copy.copy_id for copy in copies if copy.event_id.startswith("open-") and fleet.state(copy) == "DONE"]
            checks.equal("every open that is DONE is in the ledger", [tag for tag in done if tag not in orders], [])
            others = [copy.copy_id for copy in copies if copy.event_id.startswith("open-") and fleet.state(copy) != "DONE"]
            checks.equal("none that is not", [tag for tag in others if tag in orders], [])
            checks.equal("the server is well", fleet.server.faults(), None)
            print("     %s, %d orders in the ledger" % (dict(states), len(orders)))
    finally:
        if bridge.process.poll() is None:
            bridge.kill()
        shutil.rmtree(folder, ignore_errors=True)


prove(main, rounds=6, seed=1)
