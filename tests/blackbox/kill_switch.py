#!/usr/bin/python3
"""The kill switch and the last gate, under fire: from the answer of a Halt on no open reaches a broker in its scope, closes
do; what breaches a limit stops that follower's opens, and nobody else's, until it is armed again, also over a kill."""
import os
import sys
import threading
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402

FOLLOWERS = 20


class Fire(threading.Thread):
    """Opens, one after the other, until it is told to cease."""

    def __init__(self, fleet, name):
        super().__init__()
        self.fleet, self.name_of, self.has_to_end, self.n = fleet, name, threading.Event(), 0
        self.client = fleet.connect()

    def run(self):
        while not self.has_to_end.is_set():
            self.n += 1
            self.fleet.submit_all([self.fleet.open("%s%d" % (self.name_of, self.n))], client=self.client, wait_for="WAIT_FOR_ACCEPTED")

    def cease(self):
        self.has_to_end.set()
        self.join()
        self.client.close()


def halts_under_fire(fleet, checks):
    fires = [Fire(fleet, name) for name in "ab"]
    for fire in fires:
        fire.start()
    wait_until(lambda: all(fire.n > 3 for fire in fires), 30, "fire")
    fleet.client.ask("FollowerService/Halt", everything=True, note="drill")
    # What was at a broker when it answered may still come back; what comes after may not go there.
    wait_until(fleet.is_idle_but_queued, 30, "what was at a broker")
    before = fleet.deals()
    n = [fire.n for fire in fires]
    wait_until(lambda: all(fire.n > before_n + 5 for fire, before_n in zip(fires, n)), 30, "more fire")
    for fire in fires:
        fire.cease()
    wait_until(fleet.is_idle, 30, "quiet")
    checks.equal("after a halt answered, no open reaches a broker, whatever is fired", fleet.deals(), before)
    answer = fleet.submit(fleet.close("a1"))
    checks.equal("closes go on", {fleet.state(copy) for copy in answer.copies}, {"DONE"})
    fleet.client.ask("FollowerService/Resume", everything=True)
    checks.true("and after it is lifted, opens do", fleet.is_unharmed("after"))


def gate(fleet, copies):
    return {(fleet.state(copy), fleet.reason(copy)) for copy in copies}


def trips(fleet, checks):
    """gate.order_volume: 5. One follower takes six times the master's volume."""
    victim = fleet.ids[0]
    rules = fleet.contract.from_json("UpdateSubscriptionRequest", {"subscription": {
        "subscription_id": next(s.subscription_id for s in fleet.client.ask("FollowerService/ListSubscriptions", follower_id=victim).subscriptions),
        "rules": {"multiplier": "6"}}, "update_mask": "rules.multiplier"})
    fleet.client.call("FollowerService/UpdateSubscription", rules)
    ok = fleet.submit(fleet.open("small", volume="0.50"))
    checks.equal("below the limit all is done", gate(fleet, ok.copies), {("DONE", "UNSPECIFIED")})
    answer = fleet.submit(fleet.open("large", volume="1.00"))
    by = {copy.follower_id: (fleet.state(copy), fleet.reason(copy)) for copy in answer.copies}
    checks.equal("six lots are not sent", by[victim], ("CANCELLED", "GATE_TRIPPED"))
    checks.equal("the others' single ones are", {by[f] for f in fleet.ids[1:]}, {("DONE", "UNSPECIFIED")})
    answer = fleet.submit(fleet.open("after", volume="0.10"))
    by = {copy.follower_id: (fleet.state(copy), fleet.reason(copy)) for copy in answer.copies}
    checks.equal("no further open goes to it, small as it is", by[victim], ("CANCELLED", "GATE_TRIPPED"))
    checks.equal("nor does that stop anybody else", {by[f] for f in fleet.ids[1:]}, {("DONE", "UNSPECIFIED")})
    shown = fleet.client.ask("FollowerService/GetFollower", follower_id=victim)
    checks.true("it is shown", shown.gate_tripped and fleet.reason_name(shown.blocked_by) == "GATE_TRIPPED", shown)
    answer = fleet.submit(fleet.close("small"))
    checks.equal("its closes go on", gate(fleet, answer.copies), {("DONE", "UNSPECIFIED")})
    wait_until(lambda: "gate.tripped follower=%s breach=volume" % victim in fleet.server.log(), 30, "a word in the log")
    with urllib.request.urlopen("http://%s/metrics" % fleet.server.admin, timeout=10) as page:
        checks.true("and counted", 'tradewake_gate_breaches_total{breach="volume"} 2' in page.read().decode())
    return victim


def stays_tripped(fleet, victim, checks):
    fleet.server.kill()
    fleet.client.close()
    fleet.server.start()
    fleet.client = fleet.connect()
    wait_until(fleet.is_connected, 30, "every follower connected")
    checks.true("it is tripped after a kill", fleet.client.ask("FollowerService/GetFollower", follower_id=victim).gate_tripped)
    answer = fleet.client.ask("FollowerService/RearmGate", follower_id=victim)
    checks.true("until it is armed", not answer.gate_tripped)
    answer = fleet.submit(fleet.open("armed", volume="0.10"))
    checks.equal("then opens go", gate(fleet, answer.copies), {("DONE", "UNSPECIFIED")})
    checks.refused("nobody is not armed", lambda: fleet.client.ask("FollowerService/RearmGate", follower_id="nobody"), "NOT_FOUND")
    fleet.server.terminate()
    fleet.client.close()
    fleet.server.start()
    fleet.client = fleet.connect()
    wait_until(fleet.is_connected, 30, "every follower connected")
    checks.true("and it stays armed", not fleet.client.ask("FollowerService/GetFollower", follower_id=victim).gate_tripped)


class Range(Fleet):
    def is_idle_but_queued(self):
        return not self.client.ask("CopyService/ListCopies", page_size=1, filter=self.contract.from_json(
            "CopyFilter", {"states": ["COPY_STATE_SENT", "COPY_STATE_UNKNOWN"]})).copies

    def reason_name(self, number):
        kind = self.contract.new("Copy").DESCRIPTOR.fields_by_name["reason"].enum_type
        return kind.values_by_number[number].name.replace("REASON_", "")


def main(options, checks):
    with Range(options.program, followers=FOLLOWERS, paper={"latency": "constant:30ms"}) as fleet:
        halts_under_fire(fleet, checks)
        checks.equal("the server is well", fleet.server.faults(), None)
    with Range(options.program, followers=3, paper={"latency": "constant:1ms"}, config=CONFIG + "gate:\n  order_volume: 5\n") as fleet:
        victim = trips(fleet, checks)
        stays_tripped(fleet, victim, checks)
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main)
