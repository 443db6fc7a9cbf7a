"""check_node.py - client-examples/node-backend: answers, refusals, types, and what it does when Tradewake is
slow, silent, killed or full."""
import re
import time

from fake import SILENCE, Fake
from support import (NODE, OPEN, Backend, LastingFleet, LastingServer, Stopped, run, states, wait_until)

STREAMS_PER_CONNECTION = 64
TYPE_ERRORS = ["SIDE_BYU", "WAIT_FOR_DUNE", "COPY_STATE_UNKNOWM", "FOLLOWER_MODE_PAUSE", "stop_los", "SubmitEvents",
               "copy_ids", "COPY_STATE_DUNE"]


def refused(checks, name, answer, status, reason, field=None):
    error = answer.body.get("error", {})
    checks.equal(name, (answer.status, error.get("reason"), error.get("field")), (status, reason, field))


def installed(checks):
    ended = run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], NODE, 300)
    return checks.equal("node: npm ci with exact versions", (ended.code, ended.err[-300:] if ended.code else ""), (0, ""))


def types(checks):
    ended = run(["npm", "run", "--silent", "check"], NODE, 300)
    checks.equal("node: it compiles against types made from the protos", (ended.code, ended.out), (0, ""))
    ended = run(["npx", "tsc", "--project", "check"], NODE, 300)
    errors = [line for line in ended.out.splitlines() if "error TS" in line]
    checks.equal("node: mistyped code does not compile: each mistake is an error, and nothing else is",
                 [next((word for word in TYPE_ERRORS if '"%s"' % word in line or "'%s'" % word in line), line)
                  for line in errors], TYPE_ERRORS)
    checks.true("node: the compiler says so by its exit code", ended.code not in (0, None), ended.code)


def command_line(checks):
    for words, expected in ((["--sever", "x"], "'--sever'"), (["--server", "localhost"], "expected ADDR:PORT"),
                            (["--listen", "8080"], "expected ADDR:PORT")):
        ended = run(["node", "backend.mjs", *words], NODE)
        checks.true("node: %s: one line and the usage, exit code 2" % " ".join(words), ended.code == 2 and
                    expected in ended.err and len(ended.err.splitlines()) == 2, ended)


def trades(checks, fleet, backend):
    everyone = len(fleet.ids)
    answer = backend.open("1")
    checks.equal("node: an open, and what happened at each follower",
                 (answer.status, answer.body["settled"], answer.body["duplicate"], states(answer)),
                 (200, True, False, ["DONE"] * everyone))
    again = backend.open("1")
    checks.equal("node: the same event again is a duplicate with the same copies",
                 (again.status, again.body["duplicate"], [copy["copy_id"] for copy in again.body["copies"]]),
                 (200, True, [copy["copy_id"] for copy in answer.body["copies"]]))
    checks.equal("node:   and no order went out twice", set(fleet.deals_of("1").values()), {1})
    key = backend.ask("POST", "/trades", {"master_id": "M1", "modify": {"position_id": "1", "take_profit": "2"}},
                      {"Idempotency-Key": "key-1"})
    checks.equal("node: Idempotency-Key is the event_id, a modify reaches everyone",
                 (key.status, key.body["event_id"], states(key)), (200, "key-1", ["DONE"] * everyone))
    checks.equal("node: a close", states(backend.close("1")), ["DONE"] * everyone)
    made = backend.ask("POST", "/trades", {"master_id": "M1", "open": dict(OPEN, position_id="made")})
    checks.true("node: without an event_id it makes one and names it", len(made.body["event_id"]) == 36, made.body)


def refusals(checks, fleet, backend):
    def trade(**open_fields):
        return backend.trade("refused", {"open": dict(OPEN, position_id="r", **open_fields)})
    refused(checks, "node: a mistyped enum is refused by name", trade(side="SIDE_BYU"), 400, "INVALID_FIELD", "open.side")
    refused(checks, "node: a mistyped field is refused, not dropped", trade(stop_los="1"), 400, "INVALID_FIELD",
            "open.stop_los")
    checks.true("node:   and a better word is offered", "stop_loss" in trade(stop_los="1").body["error"]["message"], "none")
    refused(checks, "node: a decimal as a number", trade(volume=0.1), 400, "INVALID_FIELD", "open.volume")
    refused(checks, "node: a magic that JSON cannot carry exactly", trade(magic=2 ** 60), 400, "INVALID_FIELD", "open.magic")
    refused(checks, "node: Tradewake's own refusal keeps its field", trade(volume="0,10"), 400, "INVALID_FIELD",
            "open.volume")
    checks.true("node:   and says its reason and field once", trade(volume="0,10").body["error"]["message"].startswith(
        '"0,10" is not a decimal'), trade(volume="0,10").body)
    refused(checks, "node: two actions at once", backend.trade("refused", {
        "open": dict(OPEN, position_id="r"), "close": {"position_id": "r"}}), 400, "INVALID_FIELD", "action")
    refused(checks, "node: no action", backend.trade("refused", {}), 400, "INVALID_FIELD", "action")
    refused(checks, "node: a master nobody follows", backend.trade("refused", {"close": {"position_id": "r"}},
                                                                   master_id="NOBODY"), 404, "MASTER_NOT_FOUND", "master_id")
    backend.open("twice")
    refused(checks, "node: an open of an open position under a new id",
            backend.trade("other", {"open": dict(OPEN, position_id="twice")}), 409, "POSITION_EXISTS", "open.position_id")
    refused(checks, "node: another event under a known id", backend.trade(
        "open-twice", {"close": {"position_id": "twice"}}), 409, "EVENT_ID_REUSED", "event_id")
    refused(checks, "node: no JSON", backend.ask("POST", "/trades", b"{"), 400, "INVALID_FIELD")
    refused(checks, "node: no object", backend.ask("POST", "/trades", []), 400, "INVALID_FIELD")
    refused(checks, "node: a body of 65 KiB", backend.ask("POST", "/trades", b" " * (65 << 10)), 413, "TOO_LARGE")
    refused(checks, "node: no such route", backend.ask("GET", "/nothing"), 404, "NOT_FOUND")
    refused(checks, "node: no such copy", backend.ask("GET", "/copies/NONE"), 404, "NOT_FOUND", "copy_id")
    refused(checks, "node: a timeout out of range", backend.ask("GET", "/copies?timeout_ms=0"), 400, "INVALID_FIELD",
            "timeout_ms")
    refused(checks, "node: an unknown filter", backend.ask("GET", "/copies?foo=1"), 400, "INVALID_FIELD", "foo")
    refused(checks, "node: a mistyped state in a filter", backend.ask("GET", "/copies?states=COPY_STATE_DUN"), 400,
            "INVALID_FIELD", "states[0]")
    checks.equal("node: nothing was sent for any of them", fleet.copies(event_id="refused"), [])


def lists(checks, fleet, backend):
    for index in range(4):
        backend.open("list-%d" % index)
    found, path, pages = [], "/copies?master_id=M1&actions=COPY_ACTION_OPEN&page_size=5", 0
    token = ""
    while True:
        page = backend.ask("GET", path + ("&page_token=" + token if token else "")).body
        found += [copy["copy_id"] for copy in page["copies"]]
        pages, token = pages + 1, page["next_page_token"]
        if not token:
            break
    expected = [copy.copy_id for copy in fleet.copies(master_id="M1", actions=["COPY_ACTION_OPEN"])]
    checks.equal("node: GET /copies in pages is the whole list, newest first", found, expected)
    checks.true("node:   in more than one page", pages > 2, pages)
    one = backend.ask("GET", "/copies?event_id=open-list-2&follower_id=F001&states=COPY_STATE_DONE&states=COPY_STATE_UNKNOWN")
    checks.equal("node: filters together", [(copy["event_id"], copy["follower_id"]) for copy in one.body["copies"]],
                 [("open-list-2", "F001")])
    copy = one.body["copies"][0]
    checks.equal("node: GET /copies/ID", backend.ask("GET", "/copies/" + copy["copy_id"]).body, copy)
    checks.true("node: times are RFC 3339", re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", copy["received_at"]), copy["received_at"])
    none = backend.ask("GET", "/copies?received_until=2026-01-01T00:00:00Z")
    checks.equal("node: a time in a filter", (none.status, none.body["copies"]), (200, []))


def switches(checks, fleet, backend):
    paused = backend.ask("PATCH", "/followers/F001", {"mode": "FOLLOWER_MODE_PAUSED"})
    checks.equal("node: PATCH /followers/ID", (paused.status, paused.body["mode"], paused.body["blocked_by"]),
                 (200, "FOLLOWER_MODE_PAUSED", "REASON_FOLLOWER_PAUSED"))
    answer = backend.open("paused")
    checks.equal("node:   an open is skipped there, with its reason",
                 [(copy["state"], copy["reason"]) for copy in answer.body["copies"] if copy["follower_id"] == "F001"],
                 [("COPY_STATE_SKIPPED", "REASON_FOLLOWER_PAUSED")])
    lost = backend.ask("PATCH", "/followers/F001", {"mode": "FOLLOWER_MODE_ACTIVE"}, {"If-Match": '"old"'})
    refused(checks, "node:   a lost update is refused", lost, 412, "ETAG_MISMATCH", lost.body["error"].get("field"))
    back = backend.ask("PATCH", "/followers/F001", {"mode": "FOLLOWER_MODE_ACTIVE"}, {"If-Match": paused.body["etag"]})
    checks.equal("node:   with its etag it is not", (back.status, back.body["mode"]), (200, "FOLLOWER_MODE_ACTIVE"))
    refused(checks, "node: a mistyped mode", backend.ask("PATCH", "/followers/F001", {"mode": "FOLLOWER_MODE_PAUSE"}), 400,
            "INVALID_FIELD", "mode")
    refused(checks, "node: another field than the mode", backend.ask("PATCH", "/followers/F001", {"adapter": "x"}), 400,
            "INVALID_FIELD", "adapter")
    refused(checks, "node: no such follower", backend.ask("PATCH", "/followers/F9", {"mode": "FOLLOWER_MODE_PAUSED"}), 404,
            "NOT_FOUND", "follower_id")
    refused(checks, "node: a halt that names nothing", backend.ask("POST", "/halt", {}), 400, "SCOPE_REQUIRED")
    checks.equal("node: POST /halt", backend.ask("POST", "/halt", {"everything": True, "note": "test"}).status, 200)
    answer = backend.open("halted")
    checks.equal("node:   opens are skipped", [(copy["state"], copy["reason"]) for copy in answer.body["copies"]],
                 [("COPY_STATE_SKIPPED", "REASON_HALTED")] * len(fleet.ids))
    checks.equal("node: POST /resume", backend.ask("POST", "/resume", {"everything": True}).status, 200)
    checks.equal("node:   opens go out again", states(backend.open("resumed")), ["DONE"] * len(fleet.ids))


def slow_and_unknown(checks, fleet, backend):
    # Standing still: connected, and no answer. The deadline is the backend's own.
    with Stopped(fleet.server):
        start = time.monotonic()
        answer = backend.open("silent", "?timeout_ms=700")
        took_s = time.monotonic() - start
    checks.equal("node: a deadline that passed is a 504 that names the event_id",
                 (answer.status, answer.body["error"]["code"], answer.body["event_id"], "same" in answer.body["next"] or
                  "this event_id" in answer.body["next"]), (504, "DEADLINE_EXCEEDED", "open-silent", True))
    checks.true("node:   in time", 0.6 < took_s < 5, "%.2f s" % took_s)
    answer = backend.open("silent")
    checks.equal("node:   the same event_id again tells how it went", (answer.status, states(answer)),
                 (200, ["DONE"] * len(fleet.ids)))
    checks.equal("node:   and no order went out twice", set(fleet.deals_of("silent").values()), {1})

    fleet.configure(latency="constant:1500ms")
    answer = backend.open("slow", "?timeout_ms=400")
    checks.equal("node: brokers that need longer are a 202 with what is pending",
                 (answer.status, answer.body["settled"], answer.body["pending"]), (202, False, len(fleet.ids)))
    fleet.configure(latency="constant:1ms")
    done = wait_until(lambda: [copy for copy in backend.ask("GET", "/copies?event_id=open-slow").body["copies"]
                               if copy["state"] == "COPY_STATE_DONE"][:len(fleet.ids)] or None, 10)
    wait_until(lambda: all(copy["state"] == "COPY_STATE_DONE"
                           for copy in backend.ask("GET", "/copies?event_id=open-slow").body["copies"]), 10)
    checks.true("node:   GET /copies?event_id= says when they are done", done, done)

    # Executed, and the answer never comes: the one state that is neither success nor failure.
    fleet.configure(follower_id="F000", faults="open#*=timeout_executed,lookup#*=hang")
    answer = backend.open("unknown", "?timeout_ms=4000")
    unknown = [copy["copy_id"] for copy in answer.body["copies"] if copy["state"] == "COPY_STATE_UNKNOWN"]
    checks.equal("node: UNKNOWN is a state of its own: 202, named, and said what to do",
                 (answer.status, answer.body["settled"], answer.body["unknown"], len(unknown), "next" in answer.body),
                 (202, False, unknown, 1, True))
    checks.equal("node:   the others are DONE", sorted(states(answer)), sorted(["UNKNOWN"] + ["DONE"] * (len(fleet.ids) - 1)))
    copy = backend.ask("GET", "/copies/" + (unknown or ["none"])[0]).body
    checks.equal("node:   GET /copies/ID shows it with its reason", (copy.get("state"), copy.get("reason")),
                 ("COPY_STATE_UNKNOWN", "REASON_TIMEOUT"))
    again = backend.open("unknown", "?timeout_ms=300")
    checks.equal("node:   sent again it is still the same copy", again.body["unknown"], unknown)
    checks.equal("node:   the broker got one order", fleet.deals_of("unknown"), {each: 1 for each in fleet.ids})
    fleet.configure(follower_id="F000", faults="none")


def too_many_streams(checks, backend):
    readers = [backend.stream("/samples") for _ in range(STREAMS_PER_CONNECTION)]
    checks.equal("node: as many live streams as one connection may have", {reader.status for reader in readers}, {200})
    late = backend.stream("/copies/stream")
    checks.equal("node: RESOURCE_EXHAUSTED for one more is a 429 with its reason, before any event",
                 (late.status, late.body and late.body["error"]["reason"], late.body and late.body["error"]["code"]),
                 (429, "TOO_MANY_STREAMS", "RESOURCE_EXHAUSTED"))
    for reader in readers:
        reader.close()

    def takes_one_more():
        reader = backend.stream("/samples")
        reader.close()
        return reader.status == 200
    checks.true("node: readers that went away have made room", wait_until(takes_one_more, 10), "never")


def resumed(checks, fleet, backend):
    """The reader goes away and comes back; Tradewake stays."""
    reader = backend.stream("/copies/stream?master_id=M1")
    _, at = reader.event("caught_up")
    checks.equal("node: a first reader gets everything", reader.told[0].data["resumed"], False)
    backend.open("seen")
    reader.wait_for(lambda told: told.event == "copies" and sum(
        copy["event_id"] == "open-seen" and copy["state"] == "COPY_STATE_DONE" for copy in reader.copies()) == len(fleet.ids), at)
    reader.close()
    place = reader.last_event_id
    checks.true("node: its place is journal and change_id", re.fullmatch(r"[^:]+:\d+", place), place)
    backend.open("missed")
    back = backend.stream("/copies/stream?master_id=M1", last_event_id=place)
    back.wait_for(lambda told: told.event == "copies" and sum(
        copy["event_id"] == "open-missed" and copy["state"] == "COPY_STATE_DONE" for copy in back.copies()) == len(fleet.ids))
    checks.equal("node: Last-Event-ID resumes", back.told[0].data["resumed"], True)
    checks.equal("node:   with what was missed, and nothing else", {copy["event_id"] for copy in back.copies()},
                 {"open-missed"})
    back.close()
    strange = backend.stream("/copies/stream", last_event_id="0123456789abcdef:5")
    reset, _ = strange.event("reset")
    started, _ = strange.event("started")
    checks.equal("node: a place of another journal: reset, and all of it anew",
                 (reset.data["reason"], reset.id, started.data["resumed"]), ("RESUME_OTHER_JOURNAL", "", False))
    strange.close()
    bad = backend.stream("/copies/stream?states=COPY_STATE_DUN")
    checks.equal("node: a stream that is refused is an ordinary refusal", (bad.status, bad.body["error"]["field"]),
                 (400, "states[0]"))


def killed_in_mid_stream(checks, program):
    """kill -9 while streams are read; the restarted server (dev: it has its fleet) is found again."""
    with LastingServer(program, is_dev=True) as server, Backend(server.address) as backend:
        copies, samples = backend.stream("/copies/stream"), backend.stream("/samples")
        copies.event("caught_up")
        samples.event("started")
        backend.open("before")
        samples.event("samples")
        before = len(copies.told), len(samples.told)
        server.restart()
        for name, reader, after in (("copies", copies, before[0]), ("samples", samples, before[1])):
            interrupted, at = reader.event("interrupted", after)
            checks.equal("node: killed in mid-stream: the reader of %s is told" % name, interrupted.data["code"], "UNAVAILABLE")
            started, _ = reader.event("started", at)
            checks.equal("node:   and told that it begins anew", started.data["resumed"], False)
        reset, at = copies.event("reset", before[0])
        checks.equal("node:   because the journal is another one", reset.data["reason"], "RESUME_OTHER_JOURNAL")
        checks.equal("node: a trade after the restart", set(states(backend.open("after"))), {"DONE"})
        is_after = lambda one: one["event_id"] == "open-after"  # noqa: E731
        copies.wait_for(lambda told: told.event == "copies" and any(map(is_after, told.data)), at)
        samples.wait_for(lambda told: told.event == "samples" and any(map(is_after, told.data)), before[1])
        checks.true("node:   reaches both readers over the connections they had", not copies.is_over and not samples.is_over)

        # A graceful end says so, with a hint when to come back.
        count = len(copies.told)
        server.terminate()
        goodbye, _ = copies.event("interrupted", count)
        checks.equal("node: SIGTERM: the reader is told why, and when to come again",
                     (goodbye.data.get("reason"), goodbye.data.get("retry_after_ms")), ("SHUTTING_DOWN", 1000))
        away = backend.open("away", "?timeout_ms=3000")
        # 504 when the time was over in the middle of a try; both mean: send it again with this event_id.
        checks.true("node: nobody there: 503 or 504 with the event_id, and what to do",
                    away.status in (503, 504) and away.body["event_id"] == "open-away" and "this event_id" in away.body["next"],
                    away)
        said = away.body["error"]["message"]
        checks.true("node:   and that it is not there, whichever it was",
                    server.address in said and ("nobody answers" in said or "ECONNREFUSED" in said), said)
        checks.equal("node:   a 503 has a Retry-After", away.headers.get("retry-after"), {503: "1", 504: None}[away.status])
        checks.true("node:   it was tried more than once, with that id",
                    len(re.findall(r"trade.retry event_id=open-away", backend.err.text())) >= 2, backend.err.text()[-300:])

        backend.process.terminate()
        checks.equal("node: SIGTERM to the backend: exit code 0 with readers connected", backend.wait(10), 0)
        checks.true("node:   their streams ended", wait_until(lambda: copies.is_over and samples.is_over, 5))


def against_a_fake(checks, contract):
    """What a healthy server of today cannot be brought to from outside."""
    fake = Fake(contract)
    with Backend(fake.address) as backend:
        fake.answers = [fake.refusal("RESOURCE_EXHAUSTED", "OVERLOADED", retry_s=1.25)]
        answer = backend.open("busy")
        checks.equal("node (fake server): RESOURCE_EXHAUSTED with RetryInfo is a 429 with the hint, header and body",
                     (answer.status, answer.body["error"]["reason"], answer.body["error"]["retry_after_ms"],
                      answer.headers.get("retry-after")), (429, "OVERLOADED", 1250, "2"))
        checks.equal("node (fake server):   and is not asked again from here", len(fake.requests), 1)

        fake.requests.clear()
        fake.attempts.clear()
        fake.answers = [fake.refusal("UNAVAILABLE", "SHUTTING_DOWN", retry_s=0.05)] * 9 + [fake.accepted("open-again")]
        answer = backend.open("again")
        checks.equal("node (fake server): UNAVAILABLE nine times, then taken", (answer.status, len(fake.requests)), (200, 10))
        checks.equal("node (fake server):   every try is the same bytes, event_id and observed_at too",
                     len(set(fake.requests)), 1)
        checks.true("node (fake server):   gRPC's own retries (service-config.json) did some, the backend the rest",
                    max(fake.attempts) == 3 and fake.attempts.count(0) > 1, fake.attempts)

        fake.requests.clear()
        fake.answers = [fake.refusal("UNAVAILABLE", "SHUTTING_DOWN", retry_s=30)]
        start = time.monotonic()
        answer = backend.open("later", "?timeout_ms=3000")
        checks.true("node (fake server): a hint beyond the deadline is answered at once, as a 503",
                    answer.status == 503 and time.monotonic() - start < 2.5, (answer.status, time.monotonic() - start))

        new = fake.contract.new
        fake.requests.clear()
        fake.answers = [fake.accepted("open-odd", accepted=2, copies=[
            new("CopySummary", copy_id="A", state="COPY_STATE_UNKNOWN"), new("CopySummary", copy_id="B", state=99, reason=999)])]
        answer = backend.open("odd")
        checks.equal("node (fake server): UNKNOWN is not sent again; words of a newer contract are shown as numbers",
                     (answer.status, answer.body["unknown"], answer.body["copies"][1]["state"],
                      answer.body["copies"][1]["reason"], len(fake.requests)), (202, ["A"], 99, 999, 1))
        fake.requests.clear()
        fake.answers = [SILENCE, fake.accepted("open-late", accepted=1, copies=[
            new("CopySummary", copy_id="A", state="COPY_STATE_SENT")])]
        answer = backend.open("late", "?timeout_ms=1000")
        events = {contract.message("SubmitEventRequest").FromString(data).event.SerializeToString() for data in fake.requests}
        checks.equal("node (fake server): an answer that comes too late is asked for once more, with the same event",
                     (len(fake.requests), len(events)), (2, 1))
        checks.equal("node (fake server):   and a copy that is on its way is not settled",
                     (answer.status, answer.body.get("settled"), answer.body.get("pending")), (202, False, 1))
        fake.answers = [fake.refusal("INTERNAL", "INTERNAL")]
        checks.equal("node (fake server): an INTERNAL of Tradewake's is a 502 that says so",
                     (lambda got: (got.status, got.body["error"]["reason"]))(backend.open("bad")), (502, "INTERNAL"))
    fake.stop()


def check(checks, options):
    if not installed(checks):
        return
    types(checks)
    command_line(checks)
    with LastingFleet(options.program, followers=3, paper={"call_timeout": "2s"}) as fleet:
        with Backend(fleet.server.address) as backend:
            for part in (trades, refusals, lists, switches, slow_and_unknown, resumed):
                part(checks, fleet, backend)
            too_many_streams(checks, backend)
        checks.equal("node: the server is well", fleet.server.faults(), None)
        against_a_fake(checks, fleet.contract)
    killed_in_mid_stream(checks, options.program)
