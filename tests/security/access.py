#!/usr/bin/python3
"""Who may do what: every method x every role x an own, a foreign and no object, against a table that is written
here once more; and every way in which a token is not good. Refusals are lines of the log, and no token is in it."""
import base64
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

import grpc  # noqa: E402
from blackbox import CONFIG, Refused, Server, prove, refused_from, set_time, wait_until  # noqa: E402
from contract import Client, Contract  # noqa: E402

POLICY = """identities:
  publisher: {tokens: true, roles: [publisher], masters: [M1]}
  operator: {tokens: true, roles: [operator]}
  viewer: {tokens: true, roles: [viewer], masters: [M1]}
  owner: {tokens: true, roles: [viewer], followers: [F1]}
  admin: {tokens: true, roles: [admin]}
"""
ROLES = ("publisher", "operator", "viewer", "owner", "admin")
ANY, OWN, NO = "any", "own", "no"
DENIED = ("UNAUTHENTICATED", "PERMISSION_DENIED")

# What each role may: publisher, operator, viewer of M1, viewer of F1, admin.
FLEET = (NO, ANY, NO, NO, ANY)
SEEN = (OWN, ANY, OWN, OWN, ANY)
EXPECTED = {
    "EventService/SubmitEvent": (OWN, NO, NO, NO, ANY),
    "EventService/StreamEvents": (OWN, NO, NO, NO, ANY),
    "EventService/SyncMaster": (OWN, NO, NO, NO, ANY),
    "EventService/ExplainEvent": (OWN, ANY, NO, NO, ANY),
    "EventService/GetEvent": (OWN, ANY, OWN, NO, ANY),
    "EventService/GetMaster": (OWN, ANY, OWN, NO, ANY),
    "EventService/ListMasters": (NO, ANY, NO, NO, ANY),
    "CopyService/ListCopies": SEEN, "CopyService/WatchCopies": SEEN,
    "CopyService/ResolveCopy": FLEET,
    "CopyService/CompareFollower": (NO, ANY, NO, OWN, ANY),
    "FollowerService/CreateFollower": FLEET, "FollowerService/UpdateFollower": FLEET,
    "FollowerService/DeleteFollower": FLEET, "FollowerService/CreateSubscription": FLEET,
    "FollowerService/UpdateSubscription": FLEET, "FollowerService/DeleteSubscription": FLEET,
    "FollowerService/Halt": FLEET, "FollowerService/Resume": FLEET, "FollowerService/RearmGate": FLEET,
    "FollowerService/ResetStopOut": FLEET,
    "FollowerService/GetFollower": (NO, ANY, NO, OWN, ANY),
    "FollowerService/ListFollowers": (NO, ANY, OWN, NO, ANY),
    "FollowerService/ListSubscriptions": SEEN,
    "FollowerService/ListHalts": (NO, ANY, NO, NO, ANY),
    "MetricsService/WatchOwnTime": SEEN, "MetricsService/WatchOwnTimeSummary": SEEN,
    "MetricsService/GetOwnTimeSummary": SEEN,
    "MetricsService/GetExecutorStatus": (ANY,) * 5,
    "PaperService/GetBook": (NO, NO, NO, NO, ANY), "PaperService/Configure": (NO, NO, NO, NO, ANY),
    "PaperService/ActByHand": (NO, NO, NO, NO, ANY),
}
FOUND_BY_ID = {"CopyService/GetCopy": "copy_id", "FollowerService/GetSubscription": "subscription_id"}
SERVICES = ("EventService", "CopyService", "FollowerService", "MetricsService", "PaperService")


class Signer:
    """Keys and tokens by the program's own commands."""

    def __init__(self, program, folder, name):
        self.program, self.private, self.public = program, os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".json")
        self.key_id = name
        subprocess.run([program, "token", "key", "--private", self.private, "--public", self.public, "--key-id", name],
                       check=True, stdout=subprocess.DEVNULL)

    def token(self, subject, *words, key_id=None):
        return subprocess.run([self.program, "token", "issue", "--private", self.private, "--key-id", key_id or self.key_id,
                               "--subject", subject, *words], check=True, capture_output=True, text=True).stdout.strip()


class Caller:
    refusals = collections.Counter()  # of all callers: what the audit has to tell, (who, method)

    def __init__(self, client, token, who=""):
        self.client, self.who = client, who
        self.metadata = [("authorization", "Bearer " + token)] if token is not None else []

    def ends_with(self, path, request):
        """The reason of the refusal, "" when there is none; a stream's first message counts as an answer."""
        reason = self.ends(path, request)
        if reason in DENIED:
            Caller.refusals["" if reason == "UNAUTHENTICATED" else self.who, path] += 1
        return reason

    def ends(self, path, request):
        kind = self.client.contract.method(path)[0].rsplit("/", 1)[1]
        try:
            if kind == "StreamEvents":
                return self.streams(path, request)
            if kind.startswith("Watch"):
                call = self.client.stub(path, "unary_stream")(request, timeout=20, metadata=self.metadata)
                next(call)
                call.cancel()
            else:
                self.client.stub(path)(request, timeout=20, metadata=self.metadata)
            return ""
        except grpc.RpcError as error:
            return refused_from(self.client.contract, error).reason

    def streams(self, path, request):
        answers = self.client.stub(path, "stream_stream")(iter([request]), timeout=20, metadata=self.metadata)
        for answer in answers:
            if answer.WhichOneof("answer") == "refused":
                reason = answer.refused.reason
                kind = answer.refused.DESCRIPTOR.fields_by_name["reason"].enum_type
                return kind.values_by_number[reason].name.replace("ERROR_REASON_", "") if isinstance(reason, int) else reason
            return ""
        return "nothing"

    def refused(self, path, request):
        try:
            self.client.stub(path)(request, timeout=20, metadata=self.metadata)
        except grpc.RpcError as error:
            return refused_from(self.client.contract, error)
        return None

    def hidden(self, path, request):
        """The refusal of what is there, but another's."""
        Caller.refusals[self.who, path] += 1
        return self.refused(path, request)


def named(request, master_id, follower_id):
    """The request with these objects, wherever its type has a place for them."""
    holders = [request] + [getattr(request, name) for name in ("event", "filter") if name in request.DESCRIPTOR.fields_by_name]
    for holder in holders:
        for field, value in (("master_id", master_id), ("follower_id", follower_id)):
            if value and field in holder.DESCRIPTOR.fields_by_name:
                setattr(holder, field, value)
    return request


def has_place_for(request, field):
    holders = [request.DESCRIPTOR] + [request.DESCRIPTOR.fields_by_name[name].message_type for name in ("event", "filter")
                                      if name in request.DESCRIPTOR.fields_by_name]
    return any(field in holder.fields_by_name for holder in holders)


def expects(rule, role, request, which):
    """Whether this role gets through with its own, another's or no object."""
    if rule != OWN:
        return rule == ANY
    own = "follower_id" if role == "owner" else "master_id"
    return which == "own" and has_place_for(request, own)


def matrix(client, callers, contract, checks):
    paths = [path for path in methods(contract) if path not in FOUND_BY_ID]
    checks.equal("the table here names every method that is served", sorted(EXPECTED), sorted(paths))
    wrong, n = [], 0
    for path in paths:
        for role, rule in zip(ROLES, EXPECTED.get(path, (NO,) * 5)):
            for which, objects in (("own", ("M1", "F1")), ("foreign", ("M2", "F2")), ("none", ("", ""))):
                request = named(client.request(path), *objects)
                got = callers[role].ends_with(path, request)
                n += 1
                if (got not in DENIED) != expects(rule, role, request, which):
                    wrong.append("%s %s %s: %s" % (role, path, which, got or "answered"))
        for name in ("nobody", "stranger"):
            got = callers[name].ends_with(path, named(client.request(path), "M1", "F1"))
            n += 1
            if got != "UNAUTHENTICATED":
                wrong.append("%s %s: %s" % (name, path, got or "answered"))
    checks.true("%d calls: each role gets what is its own, and nothing else" % n, not wrong, wrong[:10])


def methods(contract):
    """Every method of the services above, "Service/Method"."""
    services = (contract.pool.FindServiceByName(contract.services[name]) for name in SERVICES)
    return ["%s/%s" % (service.name, method.name) for service in services for method in service.methods]


def found_by_id(client, callers, checks):
    """What is not yours is not there, in the same words."""
    for path, field in FOUND_BY_ID.items():
        known = {}
        if path.endswith("GetCopy"):
            for master in ("M1", "M2"):
                event = client.contract.from_json("TradeEvent", {"event_id": "e-" + master, "master_id": master, "open": {
                    "position_id": "1", "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10", "price": "1.1"}})
                set_time(event.observed_at, time.time())
                request = client.contract.from_json("SubmitEventRequest", {"wait_for": "WAIT_FOR_DONE", "view": "COPY_VIEW_ALL"})
                request.event.CopyFrom(event)
                answer = client.stub("EventService/SubmitEvent")(request, timeout=20, metadata=callers["admin"].metadata)
                known[master] = answer.copies[0].copy_id
        else:
            answer = client.stub("FollowerService/ListSubscriptions")(
                client.request("FollowerService/ListSubscriptions"), timeout=20, metadata=callers["operator"].metadata)
            known = {subscription.master_id: subscription.subscription_id for subscription in answer.subscriptions}
        for role in ("publisher", "viewer", "owner"):
            own, nowhere = (callers[role].refused(path, client.request(path, **{field: value}))
                            for value in (known["M1"], "nowhere"))
            foreign = callers[role].hidden(path, client.request(path, **{field: known["M2"]}))
            checks.true("%s: %s finds its own" % (path, role), own is None, own)
            said = [(refused.code, refused.reason, refused.field, refused.message.replace(value, "ID")) if refused else None
                    for refused, value in ((foreign, known["M2"]), (nowhere, "nowhere"))]
            checks.true("%s: another's is not there for %s, in the same words" % (path, role),
                        said[0] is not None and said[0] == said[1], said)
        checks.true("%s: an operator finds all" % path,
                    callers["operator"].refused(path, client.request(path, **{field: known["M2"]})) is None)


def part(value):
    return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=").decode()


def bad_tokens(program, client, signer, other, checks):
    now, path = int(time.time()), "MetricsService/GetExecutorStatus"
    good = signer.token("operator")
    header, payload, signature = good.split(".")
    rows = {
        "no token": None, "an empty one": "", "no token at all": "x", "two parts": header + "." + payload,
        "alg none, without a signature": "%s.%s." % (part({"alg": "none"}), payload),
        "alg none, with one": "%s.%s.%s" % (part({"alg": "none", "kid": signer.key_id}), payload, signature),
        "alg HS256": "%s.%s.%s" % (part({"alg": "HS256", "kid": signer.key_id}), payload, signature),
        "another's signature under our key's name": other.token("operator", key_id=signer.key_id),
        "another's key": other.token("operator"),
        "another subject under the same signature": "%s.%s.%s" % (
            header, part({"sub": "admin", "aud": "tradewake", "exp": now + 900}), signature),
        "another audience": signer.token("operator", "--audience", "elsewhere"),
        "nobody in the policy": signer.token("nobody"),
        "too long": good + "A" * 5000,
    }
    for name, token in rows.items():
        reason = Caller(client, token).ends_with(path, client.request(path))
        # What is larger than the metadata may be is refused by the core, before it is ours.
        checks.true("%s: nobody" % name, reason == "UNAUTHENTICATED" or (name == "too long" and reason != ""), reason)
    expired = signer.token("operator", "--lasts", "1ms")
    streams = [Watching(Caller(client, expired), watched, client.request(watched)) for watched in WATCHED]
    wait_until(lambda: Caller(client, expired).ends_with(path, client.request(path)) == "UNAUTHENTICATED", 60,
               "a token that is over, clocks' difference included")
    checks.true("one that is over is none any more", True)
    Caller.refusals.update(("", watched) for watched in WATCHED)
    checks.equal("and the streams that it began end with it", [stream.ended_with() for stream in streams], ["UNAUTHENTICATED"] * 3)
    checks.equal("a good one is good", Caller(client, good).ends_with(path, client.request(path)), "")
    basic = Caller(client, None)
    basic.metadata = [("authorization", "Basic b3BlcmF0b3I6eA==")]
    checks.equal("another scheme is none", basic.ends_with(path, client.request(path)), "UNAUTHENTICATED")


def told(server, client, callers, checks):
    """So many lines a second are written, and how many were left out: asked until there is room for one."""
    for name, path, said in (
            ("viewer", "FollowerService/Halt", "access.refused who=viewer method=/tradewake.v1.FollowerService/Halt"),
            ("stranger", "FollowerService/Halt", 'who=unknown method=/tradewake.v1.FollowerService/Halt')):
        wait_until(lambda: callers[name].ends_with(path, client.request(path)) in DENIED and said in server.log(), 20, said)
    checks.true("a refusal is a line with who, what and why", 'why="token: its key is not known"' in server.log()
                and 'why="no right"' in server.log())


def audited(program, server, checks):
    """Every refusal so far is a record: no more, no fewer. Asked beside the server."""
    def told():
        out = subprocess.run([program, "audit", "--state-dir", server.state, "--refused", "-o", "json"],
                             check=True, capture_output=True, text=True).stdout
        return [json.loads(line) for line in out.splitlines()]

    records = told()
    got = collections.Counter((record["who"], record["method"].replace("tradewake.v1.", "").replace("tradewake.paper.v1.", ""))
                              for record in records if record["result"] in DENIED or record["why"] == "no right to what it found")
    expected = +Caller.refusals
    checks.true("each of the %d refusals is a record of the audit" % sum(expected.values()),
                got == expected, {"more": dict(got - expected), "fewer": dict(expected - got)})
    some = [record for record in records if record["who"] == "viewer" and record["method"].endswith("UpdateFollower")]
    checks.true("with result, why, when and from where", some and all(
        record["result"] == "PERMISSION_DENIED" and record["why"] == "no right" and record["at"].endswith("Z") and
        record["peer"].startswith("ipv4:127.0.0.1:") for record in some), some[:1])
    checks.true("and no token", not any(word in json.dumps(records) for word in ("Bearer", "eyJ")))


def reloads(server, client, callers, policy_path, checks):
    path = "FollowerService/ListHalts"
    before = Caller(client, None).ends_with(path, client.request(path)), callers["operator"].ends_with(path, client.request(path))
    with open(policy_path + ".new", "w") as file:
        file.write(POLICY.replace("  operator: {tokens: true, roles: [operator]}\n", ""))
    os.replace(policy_path + ".new", policy_path)
    wait_until(lambda: callers["operator"].ends_with(path, client.request(path)) == "UNAUTHENTICATED", 30, "the new policy")
    checks.equal("who is taken out of the policy is out, without a restart", before, ("UNAUTHENTICATED", ""))
    with open(policy_path, "w") as file:
        file.write("identities: nobody\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "server.reload_failed" in server.log(), 30, "a word on the bad policy")
    checks.equal("a policy that is none changes nothing", callers["admin"].ends_with(path, client.request(path)), "")
    checks.true("and is named with its place", ":1:13: expected a map of identities" in server.log(), server.last_words())


def halted_by(server, contract, token, policy_path, checks):
    """A halt says whose it is, also after a kill."""
    def halts():
        client = Client(contract, server.address)
        try:
            return [(halt.note, halt.by) for halt in client.stub("FollowerService/ListHalts")(
                client.request("FollowerService/ListHalts"), timeout=20, metadata=Caller(client, token).metadata).halts]
        finally:
            client.close()

    with open(policy_path, "w") as file:
        file.write(POLICY)
    server.kill()
    server.start()
    client = Client(contract, server.address)
    halt = client.request("FollowerService/Halt", master_id="M1", note="why")
    checks.equal("an operator halts a master", Caller(client, token).ends_with("FollowerService/Halt", halt), "")
    client.close()
    checks.equal("the halt says whose it is", halts(), [("why", "operator")])
    server.kill()
    server.start()
    checks.equal("also after a kill", halts(), [("why", "operator")])


class Watching(threading.Thread):
    """A stream, read until it ends."""

    def __init__(self, caller, path, request):
        super().__init__()
        self.call = caller.client.stub(path, "unary_stream")(request, timeout=120, metadata=caller.metadata)
        self.contract, self.refused = caller.client.contract, None
        next(self.call)  # it has begun
        self.start()

    def run(self):
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            self.refused = refused_from(self.contract, error)

    def ended_with(self):
        self.join(60)
        return self.refused.reason if self.refused else "it goes on" if self.is_alive() else "OK"


WATCHED = ("CopyService/WatchCopies", "MetricsService/WatchOwnTime", "MetricsService/WatchOwnTimeSummary")


def watching(client, callers, policy_path, checks):
    """A stream that watches ends when its caller's right is taken away; others go on. And: quiet ones, too."""
    def watch(role, path):
        return Watching(callers[role], path, named(client.request(path), "M1", ""))

    mine = [watch("viewer", path) for path in WATCHED]
    out = [watch("publisher", path) for path in WATCHED]
    with open(policy_path + ".new", "w") as file:  # the publisher is out, the viewer stays
        file.write(POLICY.replace("  publisher: {tokens: true, roles: [publisher], masters: [M1]}\n", ""))
    os.replace(policy_path + ".new", policy_path)
    checks.equal("who is taken out of the policy watches no more", [stream.ended_with() for stream in out], ["UNAUTHENTICATED"] * 3)
    with open(policy_path + ".new", "w") as file:  # the viewer is another master's now
        file.write(POLICY.replace("viewer: {tokens: true, roles: [viewer], masters: [M1]}", "viewer: {tokens: true, roles: [viewer], masters: [M2]}"))
    checks.true("who stays watches on", all(stream.is_alive() for stream in mine))
    os.replace(policy_path + ".new", policy_path)
    checks.equal("whose right to it is gone watches no more", [stream.ended_with() for stream in mine], ["PERMISSION_DENIED"] * 3)
    with open(policy_path, "w") as file:
        file.write(POLICY)
    wait_until(lambda: callers["viewer"].ends_with(WATCHED[0], named(client.request(WATCHED[0]), "M1", "")) == "", 30, "the old policy")


def main(options, checks):
    with tempfile.TemporaryDirectory(prefix="tradewake-access-") as folder:
        signer, other = (Signer(options.program, folder, name) for name in ("k1", "k2"))
        policy_path = os.path.join(folder, "policy.yaml")
        with open(policy_path, "w") as file:
            file.write(POLICY)
        server = Server(options.program, config=CONFIG + "access:\n  policy: %s\n  token_keys: %s\n" % (policy_path, signer.public))
        server.start()
        try:
            contract = Contract()
            client = Client(contract, server.address)
            tokens = {role: signer.token(role, "--lasts", "1h") for role in ROLES}
            callers = {role: Caller(client, token, role) for role, token in tokens.items()}
            callers["nobody"], callers["stranger"] = Caller(client, None), Caller(client, other.token("admin"))
            checks.equal("health is for everybody: probes carry no token", client.ask("Health/Check").status, 1)
            for master, follower in (("M1", "F1"), ("M2", "F2")):
                for path, fields in (("CreateFollower", {"follower": contract.new("Follower", follower_id=follower, adapter="paper")}),
                                     ("CreateSubscription", {"subscription": contract.new(
                                         "Subscription", master_id=master, follower_id=follower)})):
                    path = "FollowerService/" + path
                    checks.equal("an operator: %s of %s" % (path, follower),
                                 callers["operator"].ends_with(path, client.request(path, **fields)), "")
            found_by_id(client, callers, checks)
            matrix(client, callers, contract, checks)
            bad_tokens(options.program, client, signer, other, checks)
            audited(options.program, server, checks)
            watching(client, callers, policy_path, checks)
            told(server, client, callers, checks)
            checks.true("no token is in the log", not any(token.split(".")[1] in server.log() for token in tokens.values()))
            reloads(server, client, callers, policy_path, checks)
            client.close()
            halted_by(server, contract, tokens["operator"], policy_path, checks)
            checks.equal("the server is well", server.faults(), None)
        finally:
            server.end()


if __name__ == "__main__":
    prove(main)
