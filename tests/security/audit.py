#!/usr/bin/python3
"""Who changed what: every change of the fleet, of modes, halts and stop-outs is a record with before and after, also
after a kill, a clean stop, a history that is damaged, and a log whose beginning is gone; a flood of refusals is
counted, not written one by one."""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

import grpc  # noqa: E402
from blackbox import CONFIG, Contract, Client, Server, prove, wait_until  # noqa: E402

FLOOD, AT_ONCE = 1500, 1000
FOLLOWERS = "FollowerService/"
# Small segments and a short memory: what is written in a moment is soon gone from the log.
SMALL = CONFIG + "snapshot:\n  segments: 1\nretention:\n  segment_bytes: 256KiB\n  log_bytes: 0\ncopies:\n  remembered: 1000\n"


def audit(program, server, *flags):
    out = subprocess.run([program, "audit", "--state-dir", server.state, "-o", "json", *flags],
                         check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def short(record):
    return record["method"].rsplit("/", 1)[1], record["result"], record["master_id"], record["follower_id"]


def changes(client, contract):
    """One of each; answers the records that they have to leave."""
    client.ask(FOLLOWERS + "CreateFollower", follower=contract.new("Follower", follower_id="F1", adapter="paper"))
    subscription = client.ask(FOLLOWERS + "CreateSubscription", subscription=contract.new(
        "Subscription", master_id="M1", follower_id="F1"))
    update = contract.from_json("UpdateFollowerRequest", {"follower": {"follower_id": "F1", "mode": "FOLLOWER_MODE_PAUSED"}, "update_mask": "mode"})
    client.call(FOLLOWERS + "UpdateFollower", update)
    rules = contract.from_json("UpdateSubscriptionRequest", {
        "subscription": {"subscription_id": subscription.subscription_id, "rules": {"multiplier": "2"}}, "update_mask": "rules.multiplier"})
    client.call(FOLLOWERS + "UpdateSubscription", rules)
    client.ask(FOLLOWERS + "Halt", everything=True, note="broker trouble")
    client.ask(FOLLOWERS + "Halt", everything=True, note="still")
    client.ask(FOLLOWERS + "Resume", everything=True)
    client.ask(FOLLOWERS + "ResetStopOut", follower_id="F1")
    client.ask(FOLLOWERS + "DeleteSubscription", subscription_id=subscription.subscription_id)
    client.ask(FOLLOWERS + "DeleteFollower", follower_id="F1")
    return [("CreateFollower", "DONE", "", "F1"), ("CreateSubscription", "DONE", "M1", "F1"),
            ("UpdateFollower", "DONE", "", "F1"), ("UpdateSubscription", "DONE", "M1", "F1"),
            ("Halt", "DONE", "", ""), ("Halt", "DONE", "", ""), ("Resume", "DONE", "", ""),
            ("ResetStopOut", "DONE", "", "F1"), ("DeleteSubscription", "DONE", "M1", "F1"), ("DeleteFollower", "DONE", "", "F1")]


def before_and_after(records, checks):
    by = {record["method"].rsplit("/", 1)[1]: record for record in records}
    halts = [record for record in records if record["method"].endswith("/Halt")]
    checks.true("a made follower has no before", "before" not in by["CreateFollower"] and
                by["CreateFollower"]["after"]["follower_id"] == "F1")
    checks.equal("a mode: what it was and is", [by["UpdateFollower"][when]["mode"] for when in ("before", "after")],
                 ["FOLLOWER_MODE_ACTIVE", "FOLLOWER_MODE_PAUSED"])
    checks.equal("a rule likewise", [by["UpdateSubscription"][when].get("rules", {}).get("multiplier") for when in ("before", "after")],
                 [None, "2"])
    checks.equal("a halt: first nothing, then one with its note", [(record.get("before", {}).get("note"), record["after"]["note"])
                 for record in halts], [(None, "broker trouble"), ("broker trouble", "still")])
    checks.true("what was lifted", by["Resume"]["before"]["note"] == "still" and "after" not in by["Resume"])
    checks.true("what was deleted", by["DeleteFollower"]["before"]["follower_id"] == "F1" and "after" not in by["DeleteFollower"])


def words(program, server, checks):
    out = subprocess.run([program, "audit", "--state-dir", server.state, "--method", "UpdateFollower"],
                         check=True, capture_output=True, text=True).stdout
    checks.true("for people: a line, and what became different",
                "UpdateFollower" in out and "mode: ACTIVE -> PAUSED" in out.replace("FOLLOWER_MODE_", ""), out)
    checks.equal("filters: --follower", {record["follower_id"] for record in audit(program, server, "--follower", "F1")}, {"F1"})
    checks.equal("filters: --since", audit(program, server, "--since", "1ms"), [])
    checks.equal("filters: --who", audit(program, server, "--who", "somebody"), [])


def survives(program, server, expected, checks):
    for name, stop in (("kill -9", server.kill), ("a clean stop", server.terminate)):
        stop()
        checks.equal("after %s it is all there, without a server" % name, [short(r) for r in audit(program, server)], expected)
        server.start()
        checks.equal("and beside the next one", [short(r) for r in audit(program, server)], expected)


def outlives_the_log(program, server, client, contract, expected, checks):
    """Segments go; the history keeps it. Then the history is damaged: the one made anew takes over what was in it."""
    journal = os.path.join(server.state, "journal")
    client.ask(FOLLOWERS + "CreateFollower", follower=contract.new("Follower", follower_id="L", adapter="paper"))
    client.ask(FOLLOWERS + "CreateSubscription", subscription=contract.new("Subscription", master_id="M1", follower_id="L"))
    expected = expected + [("CreateFollower", "DONE", "", "L"), ("CreateSubscription", "DONE", "M1", "L")]
    n = 0

    def log_has_gone_on():
        nonlocal n
        for _ in range(40):
            note = "x" * 200 + str(n)
            client.ask(FOLLOWERS + "Halt", master_id="M1", note=note)
            expected.append(("Halt", "DONE", "M1", ""))
            n += 1
        return not os.path.exists(os.path.join(journal, "00000001.log"))

    wait_until(log_has_gone_on, 240, "the log's first segment removed")
    checks.equal("what the log has forgotten is in the history", [short(r) for r in audit(program, server)], expected)
    server.terminate()
    with open(os.path.join(server.state, "history.db"), "r+b") as file:
        file.seek(18)
        file.write(b"\x7f\x7f")  # the file format's version: SQLite does not open it any more
    server.start()
    wait_until(lambda: "history.made_anew" in server.log(), 30, "a new history")
    told = [short(r) for r in audit(program, server)]
    checks.true("a file that cannot be read any more costs what only it had, and the rest is told", 0 < len(told) <= len(expected)
                and told == expected[len(expected) - len(told):], len(told))
    return expected


def of_another_schema(program, server, checks):
    """A history of another version is made anew, and the audit taken over whole."""
    before = [short(r) for r in audit(program, server)]
    server.terminate()
    db = sqlite3.connect(os.path.join(server.state, "history.db"))
    db.execute("PRAGMA user_version = 99")
    db.close()
    made = server.log().count("history.made_anew")
    server.start()
    wait_until(lambda: server.log().count("history.made_anew") > made, 30, "a new history")
    wait_until(lambda: [short(r) for r in audit(program, server)] == before, 30, "the audit in the new file")
    checks.true("of another version: the audit goes over whole", True)


def flood(program, folder, checks):
    policy = os.path.join(folder, "policy.yaml")
    keys = os.path.join(folder, "keys.json")
    with open(policy, "w") as file:
        file.write("identities:\n  someone: {certificates: [\"dns:someone\"], roles: [viewer], masters: [M1]}\n")
    subprocess.run([program, "token", "key", "--private", os.path.join(folder, "k.pem"), "--public", keys, "--key-id", "k"],
                   check=True, stdout=subprocess.DEVNULL)
    with Server(program, config=CONFIG + "access:\n  policy: %s\n  token_keys: %s\n" % (policy, keys)) as server:
        contract = Contract()
        client = Client(contract, server.address)
        stub = client.stub("FollowerService/ListHalts")
        request = client.request("FollowerService/ListHalts")
        for _ in range(FLOOD // 100):
            for call in [stub.future(request, timeout=30) for _ in range(100)]:
                assert call.code() == grpc.StatusCode.UNAUTHENTICATED, call.code()
        client.close()
        server.terminate()
        records = audit(program, server)
        single = [r for r in records if r["left_out"] == 0]
        counted = sum(r["left_out"] for r in records)
        checks.true("a flood is written so far", AT_ONCE <= len(single) < AT_ONCE + 100, len(single))
        checks.equal("and the rest counted: nothing is missing", len(single) + counted, FLOOD)
        checks.true("in few records", len(records) - len(single) <= 3, len(records) - len(single))


def main(options, checks):
    with tempfile.TemporaryDirectory(prefix="tradewake-audit-") as folder:
        server = Server(options.program, config=SMALL)
        server.start()
        try:
            contract = Contract()
            client = Client(contract, server.address)
            expected = changes(client, contract)
            records = audit(options.program, server)
            checks.equal("every change is a record, in order", [short(record) for record in records], expected)
            before_and_after(records, checks)
            words(options.program, server, checks)
            client.close()
            survives(options.program, server, expected, checks)
            client = Client(contract, server.address)
            outlives_the_log(options.program, server, client, contract, expected, checks)
            client.close()
            of_another_schema(options.program, server, checks)
            checks.equal("the server is well", server.faults(), None)
        finally:
            server.end()
        flood(options.program, folder, checks)


if __name__ == "__main__":
    prove(main)
