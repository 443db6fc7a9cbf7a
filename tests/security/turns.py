#!/usr/bin/python3
"""Upstreams take turns at the intake: one who asks for much, over many connections, does not keep another waiting until all of
it is worked off.

    turns.py [--program FILE]
"""
import multiprocessing
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

import grpc  # noqa: E402
from access import Signer  # noqa: E402
from blackbox import CONFIG, Client, Contract, Server, prove, set_time, wait_until  # noqa: E402

POLICY = """identities:
  large: {tokens: true, roles: [publisher], masters: [MANY]}
  small: {tokens: true, roles: [publisher], masters: [FEW]}
  admin: {tokens: true, roles: [admin]}
"""
MANY, FEW = 600, 3
CALLS, CONNECTIONS, IN_A_ROW = 4000, 40, 20


class Upstream:
    """One connection of an identity."""

    def __init__(self, contract, address, token):
        self.client = Client(contract, address)
        self.metadata = [("authorization", "Bearer " + token)]

    def ask(self, path, **fields):
        return self.client.stub(path)(self.client.request(path, **fields), timeout=60, metadata=self.metadata)

    def event(self, master, number):
        event = self.client.contract.from_json("TradeEvent", {
            "event_id": "%s-%d" % (master, number), "master_id": master, "open": {
                "position_id": "%d" % number, "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10", "price": "1.1"}})
        set_time(event.observed_at, time.time())
        return event


def fleet(admin, master, n):
    new = admin.client.contract.new
    for number in range(n):
        follower = new("Follower", follower_id="%s-%d" % (master, number), adapter="paper", max_parallel=1)
        follower.adapter_config["latency"] = "zero"
        admin.ask("FollowerService/CreateFollower", follower=follower)
        admin.ask("FollowerService/CreateSubscription", subscription=new(
            "Subscription", master_id=master, follower_id=follower.follower_id))


def crowd(address, token, is_connected, may_send, all_sent, n_done):
    """In a process of its own, so that the other's client has an interpreter to itself: what would become of an event, at a hundred
    of its followers, is a millisecond of a thread and nothing after it."""
    upstreams = [Upstream(Contract(), address, token) for _ in range(CONNECTIONS)]
    for upstream in upstreams:
        grpc.channel_ready_future(upstream.client.channel).result(timeout=60)
    is_connected.set()
    may_send.wait()
    request = upstreams[0].client.request("EventService/ExplainEvent", event=upstreams[0].event("MANY", 0))
    path = upstreams[0].client.contract.method("EventService/ExplainEvent")[0]

    def done(_):
        with n_done.get_lock():
            n_done.value += 1

    calls = []
    for number in range(CALLS):
        call = upstreams[number % CONNECTIONS].client.channel.unary_unary(
            path, request_serializer=lambda m: m.SerializeToString(), response_deserializer=len)
        calls.append(call.future(request, timeout=120, metadata=upstreams[0].metadata))
        calls[-1].add_done_callback(done)
    all_sent.set()
    for call in calls:
        call.result()


def main(options, checks):
    with tempfile.TemporaryDirectory(prefix="tradewake-turns-") as folder:
        signer, policy = Signer(options.program, folder, "turns"), os.path.join(folder, "policy.yaml")
        with open(policy, "w") as file:
            file.write(POLICY)
        contract = Contract()
        with Server(options.program, config=CONFIG, arguments=["--access-policy", policy, "--access-token-keys", signer.public]) as server:
            small, admin = (Upstream(contract, server.address, signer.token(name)) for name in ("small", "admin"))
            fleet(admin, "MANY", MANY)
            fleet(admin, "FEW", FEW)
            submit = lambda number: small.ask("EventService/SubmitEvent", event=small.event("FEW", number))  # noqa: E731
            wait_until(lambda: submit(0).accepted == FEW, 30, "the few")
            is_connected, may_send, all_sent = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Event()
            n_done = multiprocessing.Value("i", 0)
            process = multiprocessing.Process(target=crowd, args=(
                server.address, signer.token("large"), is_connected, may_send, all_sent, n_done))
            process.start()
            wait_until(is_connected.is_set, 60, "the crowd's connections")
            # The server stands still until all of it is there: it must not have worked most of it off while the rest was sent.
            server.process.send_signal(signal.SIGSTOP)
            may_send.set()
            wait_until(all_sent.is_set, 60, "the crowd's calls")
            server.process.send_signal(signal.SIGCONT)
            wait_until(lambda: n_done.value > 0, 60, "the first answer")
            at_first, taken = n_done.value, 0
            for number in range(1, IN_A_ROW + 1):
                taken += small.ask("EventService/GetMaster", master_id="FEW").open_positions
            passed = n_done.value - at_first
            process.join(120)
            checks.equal("the small upstream is answered", taken, IN_A_ROW)
            checks.equal("every call of the large one is answered", (process.exitcode, n_done.value), (0, CALLS))
            print("     while %d calls were answered one after the other, %d of %d of the large one were" % (
                IN_A_ROW, passed, CALLS), flush=True)
            checks.true("one call waits for a few of another, not for a row of each connection", passed < IN_A_ROW * CONNECTIONS / 2, passed)
            checks.equal("the server is well", server.faults(), None)


prove(main)
