#!/usr/bin/python3
"""Every copy there ever was can be asked for, also when memory has forgotten it: each filter, page by page, exactly
once, newest first; over a restart, a kill, a file that is gone or broken; and the file is open to sqlite3."""
import os
import sqlite3
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, Refused, enum_name, prove, refused_from, wait_until  # noqa: E402

REMEMBERED = 1000
QUICK = {"latency": "constant:0", "nonblocking": "true"}


class Story:
    """What is sent, event by event, and what must be found: (event id, follower), newest first."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.sent = []   # [(event, answer)]

    def send(self, event):
        answer = self.fleet.submit(event)
        self.sent.append((event, answer))
        return answer

    def tell(self, positions, prefix=""):
        fleet = self.fleet
        for index in range(positions):
            name, master = "%s%d" % (prefix, index), "M2" if index % 5 == 0 else "M1"

            def event(kind, **action):
                return fleet.event("%s-%s" % (kind, name), master, **action)
            self.send(event("open", open={"position_id": name, "symbol": "EURUSD", "side": "SIDE_BUY",
                                          "volume": "0.10", "price": "1.1"}))
            if index % 3 == 0:
                self.send(event("modify", modify={"position_id": name, "stop_loss": "0.9"}))
            if index % 4 == 0:
                self.send(event("part", close={"position_id": name, "remaining_volume": "0.05", "price": "1.1"}))
            if index % 7 != 0:
                self.send(event("close", close={"position_id": name, "price": "1.1"}))
            if index % 10 == 0:  # of a position that is not there
                self.send(event("none", close={"position_id": "none-" + name, "price": "1.1"}))

    def keys(self, holds=lambda event, copy: True):
        """Newest event first, in it the last follower first."""
        return [(event.event_id, copy.follower_id) for event, answer in reversed(self.sent)
                for copy in reversed(answer.copies) if holds(event, copy)]


def pages(fleet, size, between=None, slowest=False, **filters):
    """Every copy, page by page; `between` is called after each page."""
    token, found = "", []
    while True:
        answer = fleet.client.ask("CopyService/ListCopies", page_size=size, page_token=token, slowest_first=slowest,
                                  filter=fleet.contract.from_json("CopyFilter", filters))
        found.extend(answer.copies)
        token = answer.next_page_token
        if not token:
            return found
        if between is not None:
            between()


def keys(copies):
    return [(copy.event_id, copy.follower_id) for copy in copies]


def filters(fleet, checks, story):
    def word(copy, field):
        return enum_name(copy.DESCRIPTOR.fields_by_name[field].enum_type, getattr(copy, field))
    middle = story.sent[len(story.sent) // 2]
    states = sorted({word(copy, "state") for _, answer in story.sent for copy in answer.copies})
    reasons = sorted({word(copy, "reason") for _, answer in story.sent for copy in answer.copies})
    checks.true("the story has several states and reasons", len(states) > 1 and len(reasons) > 1, (states, reasons))

    def received_ns(answer):
        return answer.received_at.seconds * 10**9 + answer.received_at.nanos
    answers = {event.event_id: answer for event, answer in story.sent}
    middle_ns = received_ns(middle[1])
    from_text = middle[1].received_at.ToJsonString()
    rows = [
        ("everything", {}, lambda event, copy: True),
        ("a master", {"master_id": "M2"}, lambda event, copy: event.master_id == "M2"),
        ("a follower", {"follower_id": "F001"}, lambda event, copy: copy.follower_id == "F001"),
        ("master and follower", {"master_id": "M1", "follower_id": "F002"},
         lambda event, copy: event.master_id == "M1" and copy.follower_id == "F002"),
        ("an event", {"event_id": "open-3"}, lambda event, copy: event.event_id == "open-3"),
        ("a position", {"master_position_id": "6"}, lambda event, copy: copy.master_position_id == "6"),
        ("a position of another master", {"master_position_id": "6", "master_id": "M2"}, lambda event, copy: False),
        ("nobody", {"follower_id": "F999"}, lambda event, copy: False),
        ("actions", {"actions": ["COPY_ACTION_MODIFY", "COPY_ACTION_PARTIAL_CLOSE"]},
         lambda event, copy: word(copy, "action") in ("COPY_ACTION_MODIFY", "COPY_ACTION_PARTIAL_CLOSE")),
        ("received from", {"received_from": from_text},
         lambda event, copy: received_ns(answers[event.event_id]) >= middle_ns),
        ("received until", {"received_until": from_text},
         lambda event, copy: received_ns(answers[event.event_id]) < middle_ns),
        ("a master's, received until", {"received_until": from_text, "master_id": "M1"},
         lambda event, copy: event.master_id == "M1" and received_ns(answers[event.event_id]) < middle_ns),
    ]
    for state in states:
        rows.append((state, {"states": [state]}, lambda event, copy, state=state: word(copy, "state") == state))
    for reason in reasons:
        if reason == "REASON_UNSPECIFIED":  # cannot be asked for
            continue
        rows.append((reason, {"reasons": [reason]}, lambda event, copy, reason=reason: word(copy, "reason") == reason))
    for name, wanted, holds in rows:
        for size in (97, 1000) if name in ("everything", "a master", "a follower") else (97,):
            got, expected = keys(pages(fleet, size, **wanted)), story.keys(holds)
            checks.true("%s: %d copies, each once, newest first (pages of %d)" % (name, len(expected), size),
                        got == expected, differences(got, expected))


def differences(got, expected):
    return "%d, expected %d; missing %s, too many %s, same set %s" % (
        len(got), len(expected), list(set(expected) - set(got))[:3], list(set(got) - set(expected))[:3],
        set(got) == set(expected))


def slowest(fleet, checks, story):
    for name, wanted in (("all", {}), ("a follower's", {"follower_id": "F003"}), ("an event's", {"event_id": "open-1"}),
                         ("a position's", {"master_position_id": "2"}),
                         ("since", {"received_from": "2020-01-01T00:00:00Z"})):
        expected = {(copy.event_id, copy.follower_id) for copy in pages(fleet, 1000, **wanted) if copy.times.called_ns}
        got = pages(fleet, 83, slowest=True, **wanted)
        times = [copy.times.called_ns for copy in got]
        checks.true("slowest first, %s: falling own times, each once" % name,
                    times == sorted(times, reverse=True) and len(got) == len(expected) and set(keys(got)) == expected,
                    differences(keys(got), list(expected)))


def tokens(fleet, checks):
    def ask(token, **wanted):
        return fleet.client.ask("CopyService/ListCopies", page_size=10, page_token=token,
                                filter=fleet.contract.from_json("CopyFilter", wanted))
    good = ask("", master_id="M1").next_page_token
    bad = {"nonsense": "x", "of another filter": good, "cut": good[:-1], "longer": good + "00",
           "with another end": good[:-2] + "zz", "with letters in its numbers": good[:8] + "6162",
           "with more behind": good + "2f31", "very long": "0" * 4000}
    for name, token in bad.items():
        wanted = {"follower_id": "F001"} if name == "of another filter" else {"master_id": "M1"}
        checks.refused("a page token %s is refused" % name, lambda: ask(token, **wanted),
                       "INVALID_ARGUMENT", "INVALID_FIELD", "page_token")


class Watcher:
    """Everything that WatchCopies says, on a thread."""

    def __init__(self, fleet, **fields):
        self.copies, self.journal_id, self.started, self.fault = [], None, threading.Event(), None
        self.client = fleet.connect()
        self.request = fleet.new("WatchCopiesRequest", **fields)
        self.caught_up = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for answer in self.client.watch("CopyService/WatchCopies", self.request):
                kind = answer.WhichOneof("payload")
                if kind == "started":
                    self.journal_id, self.last = answer.started.journal_id, answer.started.last_change_id
                    self.started.set()
                elif kind == "batch":
                    self.copies.extend(answer.batch.copies)
                elif kind == "caught_up":
                    self.caught_up.set()
        except Exception as error:
            self.fault = error
            self.started.set()

    def reason(self):
        return refused_from(self.client.contract, self.fault).reason if self.fault else None

    def close(self):
        self.client.close()
        self.thread.join(10)


def resumed(fleet, checks, name, after, journal_id, expected):
    """Exactly the changes after a cursor: each copy once, with its latest, in the order of change ids."""
    watcher = Watcher(fleet, resume_after=after, journal_id=journal_id)
    watcher.started.wait(10)
    try:
        wait_until(lambda: len(watcher.copies) >= len(expected) or watcher.fault, 20, "the changes")
    except TimeoutError:
        pass
    time.sleep(0.2)  # what would be too much
    got = [(copy.change_id, copy.copy_id) for copy in watcher.copies]
    checks.true("%s: %d copies changed after the cursor, each once, in order" % (name, len(expected)),
                got == expected and watcher.fault is None, watcher.fault or differences(got, expected))
    watcher.close()


def changed_after(copies, after):
    return sorted((copy.change_id, copy.copy_id) for copy in copies if copy.change_id > after)


def file_of(fleet):
    return os.path.join(fleet.server.state, "history.db")


def rows(fleet, sql):
    """As `sqlite3 -readonly` reads it, beside the server."""
    connection = sqlite3.connect("file:%s?mode=ro" % file_of(fleet), uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def again(fleet, how):
    """The server ends, `how` in between, and starts."""
    fleet.client.close()
    how()
    fleet.server.start()
    fleet.client = fleet.connect()
    wait_until(fleet.is_serving, 30, "health SERVING")


def the_file_is_open(fleet, checks, copies):
    wait_until(lambda: rows(fleet, "SELECT count(*) FROM copies")[0][0] == len(copies), 10, "all copies in the file")
    checks.equal("sqlite3 beside the server: every copy, by its id",
                 {row[0] for row in rows(fleet, "SELECT copy_id FROM copies_in_words")},
                 {copy.copy_id for copy in copies})
    copy = copies[-1]
    row = rows(fleet, "SELECT state, action, side, volume, volume_e8, filled_volume, event_id, master_id, follower_id,"
                      " change_id FROM copies_in_words WHERE copy_id = '%s'" % copy.copy_id)[0]
    checks.equal("sqlite3: a copy in words", row, (
        fleet.state(copy), "OPEN", "BUY", copy.volume, round(float(copy.volume) * 10**8), copy.filled_volume,
        copy.event_id, copy.master_id, copy.follower_id, copy.change_id))
    states = rows(fleet, "SELECT state FROM changes_in_words WHERE copy_id = '%s' ORDER BY change_id" % copy.copy_id)
    checks.true("sqlite3: its changes, the last is what it is now", states and states[-1][0] == fleet.state(copy), states)
    last = rows(fleet, "SELECT count(*) FROM copies c WHERE change_id <> (SELECT max(change_id) FROM changes h"
                       " WHERE h.place = c.place)")
    checks.equal("sqlite3: no copy without its latest change", last, [(0,)])


def main(options, checks):
    config = CONFIG + "copies:\n  remembered: %d\n" % REMEMBERED
    with Fleet(options.program, 0, QUICK, config=config) as fleet:
        fleet.ids, fleet.number = ["F%03d" % index for index in range(5)], 5
        for index, follower_id in enumerate(fleet.ids):
            fleet.create(follower_id, masters=("M1", "M2") if index < 3 else ("M1",))
        wait_until(fleet.is_connected, 30, "every follower connected")
        story = Story(fleet)
        first = story.send(fleet.open("first"))
        first_copy = fleet.client.ask("CopyService/GetCopy", copy_id=first.copies[0].copy_id)
        first_event = fleet.client.ask("EventService/GetEvent", master_id="M1", event_id="open-first")
        watcher = Watcher(fleet)
        watcher.started.wait(10)
        story.tell(options.positions)
        watcher.close()
        total = len(story.keys())
        checks.true("more copies than memory keeps", total > 2 * REMEMBERED, total)
        print("     %d events, %d copies, %d remembered" % (len(story.sent), total, REMEMBERED))

        filters(fleet, checks, story)
        slowest(fleet, checks, story)
        tokens(fleet, checks)

        copies = pages(fleet, 1000)
        checks.equal("a copy that memory has forgotten is told as before",
                     fleet.client.ask("CopyService/GetCopy", copy_id=first_copy.copy_id), first_copy)
        checks.equal("so is its event", fleet.client.ask("EventService/GetEvent", master_id="M1", event_id="open-first"),
                     first_event)
        checks.refused("a copy that never was", lambda: fleet.client.ask("CopyService/GetCopy", copy_id="T1NOTHERE"),
                       "NOT_FOUND", "NOT_FOUND", "copy_id")
        checks.refused("an event that never was",
                       lambda: fleet.client.ask("EventService/GetEvent", master_id="M1", event_id="nothing"),
                       "NOT_FOUND", "NOT_FOUND", "event_id")
        changes = sorted(copy.change_id for copy in copies)
        cursors = (("almost everything", 1), ("a third", changes[len(changes) * 2 // 3]), ("half", changes[len(changes) // 2]),
                   ("memory's own", changes[-100]), ("nothing", changes[-1]))
        for name, after in cursors:
            resumed(fleet, checks, "resume, " + name, after, watcher.journal_id, changed_after(copies, after))
        existing = Watcher(fleet, include_existing=True)
        existing.caught_up.wait(10)
        checks.equal("include_existing: the last hour, forgotten or not, each once, in order",
                     [(copy.change_id, copy.copy_id) for copy in existing.copies], changed_after(copies, 0))
        existing.close()
        the_file_is_open(fleet, checks, copies)

        new = iter(range(10**6))

        def more():
            for _ in range(3):
                story.send(fleet.open("while-%d" % next(new)))
        before = story.keys()
        got = keys(pages(fleet, 400, between=more))
        checks.true("pages while events come: each copy of before once, none twice",
                    [key for key in got if key in set(before)] == before and len(set(got)) == len(got),
                    differences(got, before))

        copies = pages(fleet, 1000)
        again(fleet, fleet.server.terminate)
        checks.true("after a restart: the same", pages(fleet, 997) == copies, differences(keys(pages(fleet, 997)), keys(copies)))
        for name, after in cursors:
            resumed(fleet, checks, "resume over a restart, " + name, after, watcher.journal_id,
                    changed_after(copies, after))
        other = Watcher(fleet, resume_after=1, journal_id="0123456789abcdef")
        other.thread.join(10)
        checks.equal("a cursor of another journal is refused", other.reason(), "RESUME_OTHER_JOURNAL")

        killed(fleet, checks, story, copies)
        lost_file(fleet, checks)
        behind(fleet, checks, story)
        checks.equal("the server is well", fleet.server.faults(), None)


def killed(fleet, checks, story, copies):
    """kill -9 while events come: what was answered is there, once, and the file has it."""
    acknowledged = []

    def send():
        try:
            for index in range(10**6):
                acknowledged.append((fleet.submit(fleet.open("kill-%d" % index), wait_for="WAIT_FOR_ACCEPTED")))
        except Exception:
            pass
    for round_ in range(3):
        del acknowledged[:]
        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: len(acknowledged) > 100, 20, "events")
        fleet.server.kill()
        thread.join()
        again(fleet, lambda: None)
        wait_until(fleet.is_idle, 20, "idle")
        got = pages(fleet, 1000)
        answered = {copy.copy_id for answer in acknowledged for copy in answer.copies}
        ids = [copy.copy_id for copy in got]
        checks.true("kill -9: every copy that was answered is there, and none twice",
                    answered <= set(ids) and len(ids) == len(set(ids)), len(answered - set(ids)))
        checks.true("kill -9: what was there before is as it was", got[-len(copies):] == copies, "something else")
        wait_until(lambda: rows(fleet, "SELECT count(*) FROM copies")[0][0] == len(ids), 10, "the file has all of them")
        checks.equal("kill -9: so has the file",
                     {row[0] for row in rows(fleet, "SELECT copy_id FROM copies")}, set(ids))
        checks.equal("kill -9: every copy has told its change", [copy for copy in got if copy.change_id == 0], [])


def lost_file(fleet, checks):
    copies = pages(fleet, 1000)
    words = rows(fleet, "SELECT * FROM copies_in_words ORDER BY place")
    changes = rows(fleet, "SELECT * FROM changes_in_words ORDER BY change_id")

    def remove():
        fleet.server.terminate()
        for tail in ("", "-wal", "-shm"):
            if os.path.exists(file_of(fleet) + tail):
                os.remove(file_of(fleet) + tail)

    def damage():
        fleet.server.terminate()  # after a kill the file beside it would mend it
        with open(file_of(fleet), "r+b") as file:
            file.write(b"not a database at all, " * 100)

    def damage_inside():
        fleet.server.terminate()
        with open(file_of(fleet), "r+b") as file:
            size = os.path.getsize(file_of(fleet))
            for page in range(2, size // 4096):
                file.seek(page * 4096)
                file.write(b"\xff" * 512)
    for name, how in (("is gone", remove), ("is no database", damage), ("is damaged inside", damage_inside)):
        seen = len(fleet.server.log())
        again(fleet, how)

        def is_whole():
            try:
                return pages(fleet, 997) == copies
            except Refused as refused:
                if refused.reason != "HISTORY_BEHIND":
                    raise
        try:
            wait_until(is_whole, 20, "the same copies")
            is_same = True
        except TimeoutError:
            is_same = False
        checks.true("the file %s: made anew, the same copies" % name, is_same, "others")
        checks.true("the file %s: the log says so" % name, "history.made_anew" in fleet.server.log(seen), fleet.server.log(seen))
        wait_until(lambda: rows(fleet, "SELECT count(*) FROM changes")[0][0] >= len(changes), 20, "every change")
        checks.true("the file %s: row by row the same" % name,
                    rows(fleet, "SELECT * FROM copies_in_words ORDER BY place") == words and
                    rows(fleet, "SELECT * FROM changes_in_words ORDER BY change_id") == changes, "others")


def behind(fleet, checks, story):
    """Somebody else holds the file: orders go on, questions about the past say so, and later all is there."""
    def figure(name):
        for line in fleet.server.http("/metrics")[1].splitlines():
            if line.startswith("tradewake_" + name + " "):
                return int(line.split()[1])
    wait_until(lambda: figure("history_behind_records") == 0, 10, "nothing is behind")
    holder = sqlite3.connect(file_of(fleet), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    before = len(story.sent)
    for index in range(REMEMBERED // 5 + 50):
        story.send(fleet.open("held-%d" % index))
    checks.equal("the file is held: orders go on",
                 {copy.state for _, answer in story.sent[before:] for copy in answer.copies}, {3})
    wait_until(lambda: figure("history_failing") == 1 and figure("history_behind_records") > 0, 10, "the figures")
    checks.true("the file is held: log and figures say so", "history.behind" in fleet.server.log(), "no line")
    forgotten = story.sent[before][1].copies[0].copy_id
    checks.refused("the file is held: what is nowhere else is HISTORY_BEHIND",
                   lambda: fleet.client.ask("CopyService/GetCopy", copy_id=forgotten), "UNAVAILABLE", "HISTORY_BEHIND")
    newest = story.sent[-1][1].copies[0].copy_id
    checks.equal("the file is held: what is in memory is answered",
                 fleet.client.ask("CopyService/GetCopy", copy_id=newest).copy_id, newest)
    holder.execute("ROLLBACK")
    holder.close()
    wait_until(lambda: figure("history_failing") == 0 and figure("history_behind_records") == 0, 60, "it has caught up")
    checks.equal("the file is free again: all is there",
                 fleet.client.ask("CopyService/GetCopy", copy_id=forgotten).copy_id, forgotten)


if __name__ == "__main__":
    prove(main, positions=300)
