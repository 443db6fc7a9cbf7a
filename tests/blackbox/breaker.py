#!/usr/bin/python3
"""A follower whose order calls end unknown, one after the other, opens nothing more until its broker has answered a question
about what it holds; what is to be closed goes on being closed; others notice nothing. Then it gets one order, and all of
them again once that is answered.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402

SOON_S = 60
PAPER = {"latency": "constant:1ms", "call_timeout": "100ms", "settle": "50ms"}


def breakers_open(fleet):
    return int(re.search(r'^tradewake_breakers_open\{of="session"\} (\d+)$', fleet.server.http("/metrics")[1], re.M).group(1))


def blocked_by(fleet, follower_id):
    follower = fleet.client.ask("FollowerService/GetFollower", follower_id=follower_id)
    word = follower.DESCRIPTOR.fields_by_name["blocked_by"].enum_type.values_by_number[follower.blocked_by].name
    return word.replace("REASON_", "")


def set_faults(fleet, follower_id, faults):
    fleet.client.ask("PaperService/Configure", follower_id=follower_id, faults=faults)


class Opens:
    """Opens at both followers, one position each."""

    def __init__(self, fleet):
        self.fleet, self.n = fleet, 0

    def one(self, wait_for="WAIT_FOR_SENT"):
        """{follower: (state, reason)} of the next."""
        self.n += 1
        answer = self.fleet.submit(self.fleet.open("P%d" % self.n), wait_for=wait_for)
        return {copy.follower_id: (self.fleet.state(copy), self.fleet.reason(copy)) for copy in answer.copies}


def main(options, checks):
    config = CONFIG + "breaker:\n  unknown_calls: 3\n"
    with Fleet(options.program, 2, PAPER, config=config) as fleet:
        opens = Opens(fleet)
        checks.equal("an open at both", opens.one("WAIT_FOR_DONE"), {"F000": ("DONE", "UNSPECIFIED"), "F001": ("DONE", "UNSPECIFIED")})
        set_faults(fleet, "F000", "open#*=timeout_lost, close#1=timeout_lost, close#2=timeout_lost")
        seen = []

        def is_skipped():
            seen.append(opens.one())
            return seen[-1]["F000"] == ("SKIPPED", "BREAKER_OPEN")

        wait_until(is_skipped, SOON_S, "the breaker")
        checks.true("not before three calls ended unknown", len(seen) > 3, seen)
        checks.true("the other follower had every one of them", all(one["F001"][0] in ("SENT", "DONE") for one in seen), seen)
        # The breaker is open for longer each time that an order after it ends unknown: once it is seen, too.
        wait_until(lambda: is_skipped() and blocked_by(fleet, "F000") == "BREAKER_OPEN" and breakers_open(fleet) == 1, SOON_S, "GetFollower, /metrics")
        checks.true("GetFollower and /metrics say so", True)
        wait_until(lambda: "breaker.session follower=F000 breaker=open" in fleet.server.log(), SOON_S, "a line in the log")
        closed = fleet.submit(fleet.close("P1"), wait_for="WAIT_FOR_DONE")
        checks.equal("a close goes on until it is through", sorted(fleet.state(copy) for copy in closed.copies), ["DONE", "DONE"])
        set_faults(fleet, "F000", "none")
        wait_until(lambda: opens.one("WAIT_FOR_DONE")["F000"] == ("DONE", "UNSPECIFIED"), SOON_S, "an open after it")
        checks.equal("a broker that answers has its orders again", (blocked_by(fleet, "F000"), breakers_open(fleet)), ("UNSPECIFIED", 0))
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main)
