"""case.py - one case: a conversation with a running server, step by step.

A step is a dict with one key that names its kind (KINDS below) and others beside it. A kind is one
method of Case, `do_NAME`. What a step gets wrong is raised as Failed; what the case itself gets
wrong, as match.BadCase: nothing in a case is ever silently ignored.
"""
import base64
import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from contract import Client, Refused, refused_from, set_time
from match import BadCase, as_multiset, differences, enum_name, field_of, only, pair_up, same_decimal
from program import Broken, Server

READY_S = 30        # SERVING, and every follower connected
BELIEVED_S = 5      # `held`, and the comparison at the end, are asked again for so long
POLL_S = 0.01
NEEDS_REASON = {"COPY_STATE_SKIPPED", "COPY_STATE_EXPIRED", "COPY_STATE_CANCELLED", "COPY_STATE_REJECTED",
                "COPY_STATE_UNKNOWN"}
NOT_IDLE = ["COPY_STATE_QUEUED", "COPY_STATE_SENT", "COPY_STATE_UNKNOWN"]

# The keys a step may have beside the one that names its kind.
KINDS = {
    "submit": {"event_id", "master_id", "sequence", "ago_ms", "expires_in_ms", "wait_for", "times", "at_once",
               "duplicates", "within_ms", "check_copy_id", "expect"},
    "flood": {"master_id"},
    "sync": {"snapshot_id", "master_id", "ago_ms", "expect"},
    "book": {"within_ms"}, "held": set(), "drifts": set(), "copies": set(),
    "act": {"expect"}, "configure": {"expect"}, "mode": {"expect"}, "update_follower": {"expect"},
    "update_rules": {"expect"}, "subscribe": {"expect"}, "unsubscribe": {"expect"}, "delete_follower": {"expect"},
    "reset_stop_out": {"expect"}, "halt": {"expect"}, "resume": {"expect"},
    "restart": set(), "wait_idle_ms": set(), "sleep_ms": set(),
}


class Failed(Exception):
    def __init__(self, expected, got):
        super().__init__("expected %s, got %s" % (expected, got))
        self.expected = expected
        self.got = got


def kind_of(step):
    kinds = [key for key in step if key in KINDS]
    if len(kinds) != 1:
        raise BadCase("a step names one kind, this one has %s" % (sorted(step) or "no key"))
    strange = set(step) - KINDS[kinds[0]] - {kinds[0]}
    if strange:
        raise BadCase("%s does not know %s" % (kinds[0], ", ".join(sorted(strange))))
    return kinds[0]


def show(value):
    """A value on one line."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=str)


def copy_id(master_id, event_id, follower_id, position_id, action, leg=0, attempt=0):
    """The published formula: "T1" and the first 90 bits of a SHA-256, in base32."""
    words = [master_id, event_id, follower_id, position_id, action, str(leg), str(attempt)]
    digest = hashlib.sha256("".join(word + "\n" for word in words).encode()).digest()
    return "T1" + base64.b32encode(digest).decode()[:18]


def position_named_by(event):
    """The position an event names, or its order."""
    action = getattr(event, event.WhichOneof("action"))
    return action.order_id if hasattr(action, "order_id") else action.position_id


def actions_of(event):
    """The CopyActions (without prefix) that the copies of an event may have."""
    kind = event.WhichOneof("action")
    if kind == "close":
        left, part = event.close.remaining_volume, event.close.volume
        if left:
            return {"CLOSE"} if same_decimal("0", left) else {"PARTIAL_CLOSE"}
        return {"CLOSE", "PARTIAL_CLOSE"} if part else {"CLOSE"}
    return {"open": {"OPEN"}, "modify": {"MODIFY"}, "place": {"PLACE"}, "modify_order": {"MODIFY_ORDER"},
            "cancel": {"CANCEL"}, "trigger": {"OPEN", "LINK"}}[kind]


def config_text(value):
    """A value of the case's `paper` as adapter_config wants it: text, objects as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


class Case:
    def __init__(self, contract, program, family, case, judges_time=True):
        self.contract = contract
        self.judges_time = judges_time
        self.program = program
        self.family = family
        self.case = case
        self.server = None
        self.client = None
        self.step = 0
        self.first_observed = {}   # (master, event id) -> when: a repeated id keeps its first time
        self.first_subscribed = {}  # (master, event id) -> followers it was counted for
        self.connected = {}        # follower -> whether it should be
        self.left_to_owner = set()  # followers whose positions are no longer ours to compare

    # Life.
    def run(self):
        """Blocks for the whole case. None when it passed, else (step, expected, got)."""
        self.step = "start"
        try:
            self.server = Server(self.program)
            self.server.start()
            self.client = Client(self.contract, self.server.address)
            self.create_followers()
            self.wait_ready()
            for number, step in enumerate(self.case["steps"], 1):
                kind = kind_of(step)
                self.step = "%d %s" % (number, kind)
                self.number = number
                getattr(self, "do_" + kind)(step[kind], step)
                self.check_server()
            self.step = "end"
            self.check_believed()
            self.check_server()
        except Failed as failed:
            return self.step, failed.expected, self.with_fault(failed.got)
        except Refused as refused:
            return self.step, "an answer", self.with_fault(str(refused))
        except Broken as broken:
            return self.step, "a running server", str(broken)
        except BadCase as bad:
            return self.step, "a case as the README has it", str(bad)
        finally:
            if self.client:
                self.client.close()
            if self.server:
                self.server.end()
        return None

    def with_fault(self, got):
        fault = self.server.faults()
        return "%s (%s)" % (show(got), fault) if fault else got

    def check_server(self):
        fault = self.server.faults()
        if fault:
            raise Failed("a healthy server", fault)

    def create_followers(self):
        for wanted in self.case["followers"]:
            follower = self.contract.from_json("Follower", wanted.get("follower", {}))
            follower.follower_id = wanted["follower_id"]
            follower.adapter = follower.adapter or "paper"
            for key, value in wanted.get("paper", {}).items():
                follower.adapter_config[key] = config_text(value)
            self.client.ask("FollowerService/CreateFollower", follower=follower)
            self.connected[wanted["follower_id"]] = True
            for master in wanted.get("masters", ["M1"]):
                rules = self.contract.from_json("CopyRules", wanted.get("rules", {}))
                self.client.ask("FollowerService/CreateSubscription", subscription=self.contract.new(
                    "Subscription", master_id=master, follower_id=wanted["follower_id"], rules=rules))

    def wait_ready(self):
        """Health says SERVING, every follower is connected and its account has been read."""
        end = time.monotonic() + READY_S
        while True:
            missing = self.not_ready()
            if not missing:
                return
            if time.monotonic() > end:
                raise Failed("ready within %d s" % READY_S, missing)
            self.check_server()
            time.sleep(POLL_S)

    def not_ready(self):
        try:
            health = self.client.ask("Health/Check")
        except Refused as refused:
            return "health: %s" % refused
        if health.status != 1:
            return "health: %s" % enum_name(health.DESCRIPTOR.fields_by_name["status"].enum_type, health.status)
        followers = {follower.follower_id: follower for follower in self.followers()}
        for follower_id, connected in self.connected.items():
            follower = followers.get(follower_id)
            if follower is None:
                raise Failed("every follower", "follower %s is gone" % follower_id)
            if connected and not (follower.connected and follower.HasField("account")):
                return "follower %s is not connected: %s" % (follower_id, follower.connection_message)
        return None

    def followers(self):
        return self.pages("FollowerService/ListFollowers", "followers")

    def pages(self, path, field, **fields):
        """Every entry of a paged list."""
        token, found = "", []
        while True:
            answer = self.client.ask(path, page_size=1000, page_token=token, **fields)
            found.extend(getattr(answer, field))
            token = answer.next_page_token
            if not token:
                return found

    # What is expected of an answer.
    def call(self, path, request, step):
        """A call whose answer, or refusal, is what step["expect"] says. None when refused."""
        expect = step.get("expect", {})
        try:
            answer = self.client.call(path, request)
        except Refused as refused:
            self.check_refused(refused, expect)
            return None
        self.check_answer(answer, expect)
        return answer

    def check_refused(self, refused, expect):
        wanted = expect.get("refused")
        if wanted is None:
            raise Failed("an answer", str(refused))
        got = {"code": refused.code, "reason": refused.reason, "field": refused.field}
        strange = set(wanted) - set(got)
        if strange:
            raise BadCase("refused does not know %s" % ", ".join(sorted(strange)))
        if any(wanted[key] != got[key] for key in wanted):
            raise Failed(wanted, dict({key: got[key] for key in wanted}, message=refused.message))

    def check_answer(self, answer, expect):
        if "refused" in expect:
            raise Failed({"refused": expect["refused"]}, "an answer")
        for key, wanted in expect.items():
            if key == "all_done":
                self.check_all_done(answer.copies, wanted)
            elif key == "copies":
                self.check_copies(answer.copies, wanted)
            else:
                wrong = differences({key: wanted}, answer)
                if wrong:
                    raise Failed({key: wanted}, {key: wrong[0][2]})
        self.check_reasons(getattr(answer, "copies", []))

    def check_all_done(self, copies, wanted):
        states = {}
        for copy in copies:
            name = "%s %s" % self.state_and_reason(copy)
            states[name] = states.get(name, 0) + 1
        done = sum(1 for copy in copies if self.state_and_reason(copy)[0] == "COPY_STATE_DONE")
        if done != int(wanted) or len(copies) != int(wanted):
            raise Failed({"all_done": wanted}, states)

    def check_copies(self, copies, wanted):
        """By follower, only the named fields; the number must agree. What a CopySummary does not
        have is read with GetCopy."""
        details = {}

        def fits(expected, copy):
            brief = {key: value for key, value in expected.items() if key in copy.DESCRIPTOR.fields_by_name}
            rest = {key: value for key, value in expected.items() if key not in brief}
            if differences(brief, copy):
                return False
            return not rest or not differences(rest, self.whole(copy, details))

        left = pair_up(wanted, copies, fits)
        if not left and len(wanted) == len(copies):
            return
        names = {key for expected in wanted for key in expected}
        # Where one copy does not fit, show that one; a list of a hundred helps nobody.
        if len(left) == 1 and len(wanted) == len(copies):
            follower = wanted[left[0]].get("follower_id")
            shown = [copy for copy in copies if copy.follower_id == follower] or copies
            raise Failed(wanted[left[0]], [self.brief(copy, names, details) for copy in shown[:3]])
        raise Failed(wanted, [self.brief(copy, names, details) for copy in copies])

    def whole(self, copy, details):
        if copy.copy_id not in details:
            details[copy.copy_id] = self.client.ask("CopyService/GetCopy", copy_id=copy.copy_id)
        return details[copy.copy_id]

    def brief(self, copy, names, details):
        got = only(copy, names | {"state", "reason"})
        rest = {name for name in names if name not in copy.DESCRIPTOR.fields_by_name}
        if rest:
            got.update(only(self.whole(copy, details), rest))
        return got

    def state_and_reason(self, copy):
        fields = copy.DESCRIPTOR.fields_by_name
        return (enum_name(fields["state"].enum_type, copy.state), enum_name(fields["reason"].enum_type, copy.reason))

    def check_reasons(self, copies):
        for copy in copies:
            state, reason = self.state_and_reason(copy)
            if state in NEEDS_REASON and reason == "REASON_UNSPECIFIED":
                raise Failed("a reason with %s" % state, "none for %s at %s" % (copy.copy_id, copy.follower_id))

    def check_counts(self, answer, subscribed):
        """Nobody is forgotten: accepted + skipped = the followers subscribed = the copies."""
        total = answer.accepted + answer.skipped
        if total not in subscribed:
            raise Failed("accepted + skipped = followers subscribed, %s" % " or ".join(map(str, sorted(subscribed))),
                         "%d + %d" % (answer.accepted, answer.skipped))

    def subscribed(self, master_id):
        """How many followers a master has, 0 when nobody follows it."""
        try:
            return self.client.ask("EventService/GetMaster", master_id=master_id).followers
        except Refused as refused:
            if refused.code in ("NOT_FOUND", "INVALID_ARGUMENT"):
                return 0
            raise

    # submit
    def event_of(self, fields, step):
        event = self.contract.from_json("TradeEvent", fields)
        event.event_id = step.get("event_id", "step-%d" % self.number)
        event.master_id = step.get("master_id", "M1")
        event.sequence = int(step.get("sequence", 0))
        key = (event.master_id, event.event_id)
        observed = self.first_observed.setdefault(key, time.time() - step.get("ago_ms", 0) / 1e3)
        set_time(event.observed_at, observed)
        if "expires_in_ms" in step:
            action = getattr(event, event.WhichOneof("action") or "place")
            set_time(action.expires_at, time.time() + step["expires_in_ms"] / 1e3)
        return event

    def do_submit(self, fields, step):
        event = self.event_of(fields, step)
        master_id, expect = event.master_id, step.get("expect", {})
        wait_for = step.get("wait_for", "WAIT_FOR_DONE")
        request = self.contract.from_json("SubmitEventRequest", {"wait_for": wait_for})
        request.event.CopyFrom(event)
        data = request.SerializeToString()  # "the same bytes", however often

        before = self.subscribed(master_id)
        results = self.send(data, step.get("times", 1), step.get("at_once", False))
        # Beside each other these may differ: one that follows out counts until nothing is open.
        subscribed = {before, self.subscribed(master_id)}
        key = (master_id, event.event_id)
        if key in self.first_subscribed:
            subscribed.add(self.first_subscribed[key])

        duplicates = 0
        for result, took_ms in results:
            if isinstance(result, Refused):
                self.check_refused(result, expect)
            else:
                duplicates += result.duplicate
                self.check_submitted(result, event, step, subscribed)
            if self.judges_time and took_ms > step.get("within_ms", took_ms):
                raise Failed("an answer within %d ms" % step["within_ms"], "%.0f ms" % took_ms)
        if "duplicates" in step and duplicates != step["duplicates"]:
            raise Failed("%d duplicates" % step["duplicates"], "%d" % duplicates)
        if "refused" in expect and self.family.startswith("bad-input"):
            self.refuse_over_stream(event, expect["refused"])

    def send(self, data, times, at_once):
        """[(answer or Refused, ms)] for each of the calls."""
        def one(_):
            start = time.monotonic()
            try:
                result = self.client.call("EventService/SubmitEvent", data)
            except Refused as refused:
                result = refused
            return result, (time.monotonic() - start) * 1e3

        if not at_once:
            return [one(index) for index in range(times)]
        with ThreadPoolExecutor(times) as threads:
            return list(threads.map(one, range(times)))

    def check_submitted(self, answer, event, step, subscribed):
        if answer.event_id != event.event_id:
            raise Failed({"event_id": event.event_id}, {"event_id": answer.event_id})
        self.check_answer(answer, step.get("expect", {}))
        self.check_counts(answer, subscribed)
        if len(answer.copies) != answer.accepted + answer.skipped:
            raise Failed("a copy for each of %d + %d" % (answer.accepted, answer.skipped),
                         "%d copies" % len(answer.copies))
        self.first_subscribed.setdefault((event.master_id, event.event_id), answer.accepted + answer.skipped)
        if step.get("check_copy_id"):
            self.check_copy_ids(answer, event)

    def check_copy_ids(self, answer, event):
        allowed = actions_of(event)
        for copy in answer.copies:
            action = enum_name(copy.DESCRIPTOR.fields_by_name["action"].enum_type, copy.action)
            action = str(action).replace("COPY_ACTION_", "")
            if action not in allowed:
                raise Failed("action %s" % " or ".join(sorted(allowed)), action)
            wanted = copy_id(event.master_id, event.event_id, copy.follower_id, position_named_by(event), action)
            if copy.copy_id != wanted:
                raise Failed("copy_id %s" % wanted, copy.copy_id)

    def refuse_over_stream(self, event, wanted):
        """The same refusal over StreamEvents, and the stream goes on: a good event comes after it.
        The good one is a change of a position that was never copied, which sends nothing."""
        good = self.contract.from_json("TradeEvent", {
            "event_id": "stream-%d" % self.number, "master_id": "M1",
            "modify": {"position_id": "never-opened", "stop_loss": "0"}})
        set_time(good.observed_at, time.time())
        requests = [self.contract.new("StreamEventsRequest", event=each) for each in (event, good)]
        try:
            answers = list(self.client.converse("EventService/StreamEvents", iter(requests)))
        except grpc.RpcError as error:
            raise Failed("a stream that goes on after a refusal", str(refused_from(self.contract, error)))
        kinds = [answer.WhichOneof("answer") for answer in answers]
        if kinds != ["refused", "accepted"]:
            raise Failed("over StreamEvents: refused, then accepted", kinds)
        refusal = answers[0].refused
        got = {"code": code_name(refusal.code), "reason": refusal.reason, "field": refusal.field}
        if any(wanted[key] != got[key] for key in wanted):
            raise Failed(dict(wanted, over="StreamEvents"), dict(got, message=refusal.message))
        if answers[1].event_id != good.event_id:
            raise Failed({"event_id": good.event_id}, {"event_id": answers[1].event_id})
        self.check_counts(answers[1].accepted, {self.subscribed("M1")})

    def do_flood(self, fields, step):
        fields, master_id = dict(fields), step.get("master_id", "M1")
        count, event = fields.pop("count"), fields.pop("event")
        if fields:
            raise BadCase("flood does not know %s" % ", ".join(sorted(fields)))
        requests = []
        for index in range(count):
            one = self.contract.from_json("TradeEvent", event)
            one.master_id = one.master_id or master_id
            one.event_id = "flood-%d-%d" % (self.number, index)
            set_time(one.observed_at, time.time())
            requests.append(self.contract.new("StreamEventsRequest", event=one))
        before = self.subscribed(master_id)
        answers = []
        try:
            for answer in self.client.converse("EventService/StreamEvents", iter(requests), deadline_s=120):
                answers.append(answer)
        except grpc.RpcError as error:
            raise Failed("%d answers" % count, "%d, then %s" % (len(answers), refused_from(self.contract, error)))
        if len(answers) != count:
            raise Failed("%d answers" % count, len(answers))
        subscribed = {before, self.subscribed(master_id)}
        for request, answer in zip(requests, answers):
            if answer.event_id != request.event.event_id:
                raise Failed("answers in the order of the requests: %s" % request.event.event_id, answer.event_id)
            if answer.WhichOneof("answer") != "accepted":
                raise Failed("accepted", "%s %s %s" % (answer.event_id, answer.refused.reason, answer.refused.message))
            self.check_counts(answer.accepted, subscribed)

    def do_sync(self, fields, step):
        fields = dict(fields)
        opened = []
        positions = []
        for position in fields.pop("positions", []):
            position = dict(position)
            opened.append(position.pop("opened_ago_ms", None))
            positions.append(position)
        request = self.contract.from_json("SyncMasterRequest", dict(fields, positions=positions))
        now = time.time()
        request.snapshot_id = request.snapshot_id or step.get("snapshot_id", "snapshot-%d" % self.number)
        request.master_id = request.master_id or step.get("master_id", "M1")
        set_time(request.taken_at, now - step.get("ago_ms", 0) / 1e3)
        for position, ago_ms in zip(request.positions, opened):
            if ago_ms is not None:
                set_time(position.opened_at, now - ago_ms / 1e3)
        if "position_count" not in fields:
            request.position_count = len(request.positions)
        if "order_count" not in fields:
            request.order_count = len(request.orders)
        self.call("EventService/SyncMaster", request, step)

    # The truth, and what is believed.
    def book(self, follower_id):
        return self.client.ask("PaperService/GetBook", follower_id=follower_id)

    def do_book(self, followers, step):
        end = time.monotonic() + step.get("within_ms", 0) / 1000
        while True:
            try:
                self.check_book(followers)
                return
            except Failed:
                if time.monotonic() > end:
                    raise
            time.sleep(POLL_S)

    def check_book(self, followers):
        for follower_id, wanted in followers.items():
            strange = set(wanted) - {"positions", "orders", "deals", "distinct_ids", "calls", "calls_at_most"}
            if strange:
                raise BadCase("book does not know %s" % ", ".join(sorted(strange)))
            book = self.book(follower_id)
            for key in ("positions", "orders"):
                wrong = as_multiset(wanted[key], getattr(book, key)) if key in wanted else None
                if wrong:
                    raise Failed({follower_id: {key: wrong[0]}}, {follower_id: {key: wrong[1]}})
            for key, got in (("deals", len(book.deals)), ("calls", book.calls),
                             ("distinct_ids", len({deal.client_order_id for deal in book.deals}))):
                if key in wanted and wanted[key] != got:
                    raise Failed({follower_id: {key: wanted[key]}}, {follower_id: {key: got}})
            if "calls_at_most" in wanted and book.calls > wanted["calls_at_most"]:
                raise Failed({follower_id: {"calls_at_most": wanted["calls_at_most"]}},
                             {follower_id: {"calls": book.calls}})

    def compare(self, follower_id):
        return self.client.ask("CopyService/CompareFollower", follower_id=follower_id)

    def do_held(self, followers, _):
        for follower_id, wanted in followers.items():
            end = time.monotonic() + BELIEVED_S
            while True:
                got = sorted(held.master_position_id for held in self.compare(follower_id).positions)
                if got == sorted(wanted):
                    break
                if time.monotonic() > end:
                    raise Failed({follower_id: sorted(wanted)}, {follower_id: got})
                time.sleep(POLL_S)

    def do_drifts(self, followers, _):
        for follower_id, wanted in followers.items():
            end = time.monotonic() + BELIEVED_S
            while True:
                wrong = as_multiset(wanted, self.compare(follower_id).drifts)
                if not wrong:
                    break
                if time.monotonic() > end:
                    raise Failed({follower_id: wrong[0]}, {follower_id: wrong[1]})
                time.sleep(POLL_S)

    def do_copies(self, followers, _):
        for follower_id, wanted in followers.items():
            copies = self.pages("CopyService/ListCopies", "copies",
                                filter=self.contract.new("CopyFilter", follower_id=follower_id))
            self.check_reasons(copies)
            left = pair_up(wanted, copies, lambda one, copy: not differences(one, copy))
            if left:
                names = {"action", "state", "reason", "master_position_id"} | set(wanted[left[0]])
                raise Failed({follower_id: wanted[left[0]]}, {follower_id: [only(copy, names) for copy in copies[:5]]})

    # What happens at the broker.
    def do_act(self, followers, step):
        for follower_id, act in followers.items():
            act = dict(act)
            if act.pop("close_all_by_hand", False):
                for position in self.book(follower_id).positions:
                    self.call("PaperService/ActByHand", self.contract.from_json("ActByHandRequest", {
                        "follower_id": follower_id, "close": {"position_id": position.position_id}}), step)
            if act:
                self.call("PaperService/ActByHand", self.contract.from_json(
                    "ActByHandRequest", dict(act, follower_id=follower_id)), step)

    def do_configure(self, fields, step):
        request = self.contract.from_json("ConfigureRequest", fields)
        if request.connection:
            for follower_id in [request.follower_id] if request.follower_id else list(self.connected):
                self.connected[follower_id] = fields["connection"] == "CONNECTION_UP"
        self.call("PaperService/Configure", request, step)

    # Who follows, and by which rules.
    def do_mode(self, followers, step):
        self.do_update_follower({follower_id: {"mode": mode} for follower_id, mode in followers.items()}, step)

    def do_update_follower(self, followers, step):
        for follower_id, fields in followers.items():
            request = self.contract.new("UpdateFollowerRequest")
            request.follower.CopyFrom(self.contract.from_json("Follower", fields))
            request.follower.follower_id = follower_id
            request.update_mask.paths.extend(field_of(request.follower.DESCRIPTOR, key).name for key in fields)
            self.call("FollowerService/UpdateFollower", request, step)

    def subscriptions(self, **fields):
        return self.pages("FollowerService/ListSubscriptions", "subscriptions", **fields)

    def do_update_rules(self, followers, step):
        for follower_id, fields in followers.items():
            subscriptions = self.subscriptions(follower_id=follower_id)
            if not subscriptions:
                raise Failed("a subscription of %s" % follower_id, "none")
            for subscription in subscriptions:
                request = self.contract.new("UpdateSubscriptionRequest")
                request.subscription.subscription_id = subscription.subscription_id
                request.subscription.rules.CopyFrom(self.contract.from_json("CopyRules", fields))
                rules = request.subscription.rules.DESCRIPTOR
                request.update_mask.paths.extend("rules." + field_of(rules, key).name for key in fields)
                self.call("FollowerService/UpdateSubscription", request, step)

    def do_subscribe(self, fields, step):
        subscription = self.contract.from_json("Subscription", fields)
        self.call("FollowerService/CreateSubscription",
                  self.contract.new("CreateSubscriptionRequest", subscription=subscription), step)

    def do_unsubscribe(self, fields, step):
        fields = dict(fields)
        master_id, follower_id = fields.pop("master_id", "M1"), fields.pop("follower_id")
        found = self.subscriptions(master_id=master_id, follower_id=follower_id)
        if not found:
            raise Failed("a subscription of %s to %s" % (follower_id, master_id), "none")
        request = self.contract.from_json("DeleteSubscriptionRequest", fields)
        request.subscription_id = found[0].subscription_id
        if fields.get("on_open") == "ON_OPEN_LEAVE":
            self.left_to_owner.add(follower_id)
        self.call("FollowerService/DeleteSubscription", request, step)

    def do_delete_follower(self, fields, step):
        request = self.contract.from_json("DeleteFollowerRequest", fields)
        if self.call("FollowerService/DeleteFollower", request, step) is not None:
            self.connected.pop(request.follower_id, None)

    def do_reset_stop_out(self, fields, step):
        self.call("FollowerService/ResetStopOut", self.contract.from_json("ResetStopOutRequest", fields), step)

    def do_halt(self, fields, step):
        self.call("FollowerService/Halt", self.contract.from_json("HaltRequest", fields), step)

    def do_resume(self, fields, step):
        self.call("FollowerService/Resume", self.contract.from_json("ResumeRequest", fields), step)

    # Time, and ends.
    def do_restart(self, how, _):
        if how not in ("kill", "term"):
            raise BadCase("restart is kill or term, not %r" % how)
        self.client.close()
        if how == "kill":
            self.server.kill()
        else:
            code = self.server.terminate()
            if code != 0:
                raise Failed("exit code 0 after SIGTERM", self.server.faults())
        self.server.start()
        self.client = Client(self.contract, self.server.address)
        self.wait_ready()

    def do_wait_idle_ms(self, limit_ms, _):
        states = self.contract.from_json("CopyFilter", {"states": NOT_IDLE})
        end = time.monotonic() + limit_ms / 1e3
        while True:
            copies = self.client.ask("CopyService/ListCopies", filter=states, page_size=5).copies
            if not copies:
                return
            if time.monotonic() > end:
                raise Failed("idle within %d ms" % limit_ms, [only(copy, {
                    "follower_id", "action", "state", "reason", "message", "attempts"}) for copy in copies])
            time.sleep(POLL_S)

    def do_sleep_ms(self, duration_ms, _):
        time.sleep(duration_ms / 1e3)

    def check_believed(self):
        """On hedging accounts, what is believed to be held is what the book has under our id."""
        for wanted in self.case["followers"]:
            follower_id = wanted["follower_id"]
            if wanted.get("paper", {}).get("account_mode", "hedging") != "hedging" \
                    or follower_id in self.left_to_owner or follower_id not in self.connected:
                continue
            end = time.monotonic() + BELIEVED_S
            while True:
                try:
                    held = self.compare(follower_id)
                except Refused as refused:
                    if refused.reason == "BROKER_UNAVAILABLE" and not self.connected[follower_id]:
                        break  # the case itself left the broker unreachable
                    raise
                believed = sorted(ticket for position in held.positions for ticket in position.broker_position_ids)
                truth = sorted(position.position_id for position in self.book(follower_id).positions
                               if position.client_order_id)
                if believed == truth:
                    break
                if time.monotonic() > end:
                    raise Failed("believed = in the book under our id, %s: %s" % (follower_id, show(truth)), believed)
                time.sleep(POLL_S)


CODES = {code.value[0]: code.name for code in grpc.StatusCode}


def code_name(number):
    return CODES.get(number, str(number))
