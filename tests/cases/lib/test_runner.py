#!/usr/bin/python3
"""The runner's own tests: what it compares, and that it notices a server that breaks a promise.

    /usr/bin/python3 tests/cases/lib/test_runner.py
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

import match  # noqa: E402
from case import actions_of, config_text, copy_id, kind_of  # noqa: E402
from contract import Contract  # noqa: E402

CONTRACT = Contract()
OPEN = {"open": {"position_id": "1", "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10"}}
DONE = {"copies": [{"follower_id": "F1", "state": "COPY_STATE_DONE"}]}


class Comparing(unittest.TestCase):
    def test_decimals_are_numbers_and_nothing_only_equals_nothing(self):
        for expected, got, same in [("0.1", "0.10", True), ("10", "1e1", True), ("0.1", "0.11", False), ("", "", True),
                                    ("", "0", False), ("0", "", False), ("0.1", "abc", False)]:
            self.assertEqual(match.same_decimal(expected, got), same, (expected, got))

    def test_ids_are_not_numbers(self):
        copy = CONTRACT.new("CopySummary", master_position_id="07")
        self.assertTrue(match.differences({"master_position_id": "7"}, copy))

    def test_only_named_fields_are_compared(self):
        copy = CONTRACT.new("CopySummary", follower_id="F1", volume="0.10", state=3)
        self.assertEqual(match.differences({"volume": "0.1", "state": "COPY_STATE_DONE"}, copy), [])
        self.assertEqual(match.differences({"state": "COPY_STATE_SKIPPED"}, copy),
                         [("state", "COPY_STATE_SKIPPED", "COPY_STATE_DONE")])

    def test_wide_integers_may_be_text(self):
        answer = CONTRACT.new("SubmitEventResponse", expected_sequence=2)
        for value in ("2", 2):
            self.assertEqual(match.differences({"expected_sequence": value}, answer), [])

    def test_unknown_names_are_the_cases_fault(self):
        copy = CONTRACT.new("CopySummary")
        for wanted in ({"colour": "red"}, {"state": "COPY_STATE_DNOE"}):
            with self.assertRaises(match.BadCase):
                match.differences(wanted, copy)

    def test_multisets_need_the_number_and_any_order(self):
        positions = [CONTRACT.new("PaperPosition", volume=volume) for volume in ("0.20", "0.10")]
        self.assertIsNone(match.as_multiset([{"volume": "0.1"}, {"volume": "0.2"}], positions))
        self.assertIsNotNone(match.as_multiset([{"volume": "0.1"}], positions))
        self.assertIsNotNone(match.as_multiset([{"volume": "0.1"}, {"volume": "0.1"}], positions))

    def test_a_loose_expectation_does_not_take_what_a_strict_one_needs(self):
        self.assertEqual(match.pair_up(["any", "a"], ["a", "b"], lambda one, other: one in ("any", other)), [])

    def test_repeated_and_nested_fields(self):
        copy = CONTRACT.new("Copy", remarks=[40], client_order_ids=["T1A"])
        self.assertEqual(match.differences({"remarks": ["REASON_CLAMPED_MAX"], "client_order_ids": ["T1A"]}, copy), [])
        self.assertEqual(match.differences({"remarks": []}, copy), [("remarks", [], ["REASON_CLAMPED_MAX"])])
        follower = CONTRACT.from_json("Follower", {"account": {"balance": "10.0"}})
        self.assertEqual(match.differences({"account": {"balance": "10"}}, follower), [])


class Sending(unittest.TestCase):
    def test_wrong_values_reach_the_wire(self):
        event = CONTRACT.from_json("TradeEvent", {"open": {"symbol": "EUR\u0000USD", "side": 7, "volume": "0,10"}})
        self.assertEqual((event.open.symbol, event.open.side, event.open.volume), ("EUR\0USD", 7, "0,10"))
        self.assertIn(b"EUR\x00USD", event.SerializeToString())

    def test_paper_values_become_text(self):
        self.assertEqual(config_text({"EURUSD": "1/2"}), '{"EURUSD": "1/2"}')
        self.assertEqual([config_text(value) for value in (True, 7, "netting")], ["true", "7", "netting"])

    def test_the_copy_id_formula(self):
        # printf 'M1\\ne1\\nF1\\n5001\\nOPEN\\n0\\n0\\n' | openssl dgst -sha256 -binary | base32 | cut -c1-18
        self.assertEqual(copy_id("M1", "e1", "F1", "5001", "OPEN"), "T1GBC6Z4ALCJ6SG6XARX")

    def test_a_close_that_leaves_something_is_partial(self):
        for fields, actions in [({}, {"CLOSE"}), ({"remaining_volume": "0"}, {"CLOSE"}),
                                ({"remaining_volume": "0.6"}, {"PARTIAL_CLOSE"}),
                                ({"volume": "0.4"}, {"CLOSE", "PARTIAL_CLOSE"})]:
            event = CONTRACT.from_json("TradeEvent", {"close": dict(fields, position_id="1")})
            self.assertEqual(actions_of(event), actions)

    def test_steps_and_keys_nobody_knows(self):
        self.assertEqual(kind_of({"submit": {}, "times": 2}), "submit")
        for step in ({"sumbit": {}}, {"submit": {}, "book": {}}, {"book": {}, "expect": {}}, {"submit": {}, "time": 2}):
            with self.assertRaises(match.BadCase):
                kind_of(step)


class Running(unittest.TestCase):
    """tests/cases/run itself, against the fake server."""

    def run_cases(self, steps, lie="", family="own", followers=None, arguments=()):
        cases = [{"name": "a case", "followers": followers or [{"follower_id": "F1"}], "steps": steps}]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "own.json"), "w") as file:
                json.dump({"family": family, "cases": cases}, file)
            result = subprocess.run(
                [sys.executable, os.path.join(FOLDER, "../run"), "--program", os.path.join(FOLDER, "fake_server.py"),
                 *arguments, folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=dict(os.environ, FAKE_LIE=lie))
        return result.returncode, result.stdout

    def passes(self, steps, **more):
        code, text = self.run_cases(steps, **more)
        self.assertEqual((code, text), (0, "1 passed, 0 failed\n"))

    def fails(self, wanted, steps, **more):
        code, text = self.run_cases(steps, **more)
        self.assertEqual(code, 1, text)
        self.assertTrue(text.startswith("own.json: a case: step "), text)
        self.assertIn(wanted, text)
        self.assertTrue(text.endswith("\n0 passed, 1 failed\n"), text)
        self.assertEqual(len(text.splitlines()), 2)

    def test_an_honest_server_passes(self):
        self.passes([{"submit": OPEN, "check_copy_id": True, "expect": DONE},
                     {"book": {"F1": {"positions": [{"volume": "0.1"}], "orders": [], "deals": 1, "calls_at_most": 1}}},
                     {"held": {"F1": ["1"]}},
                     {"submit": {"close": {"position_id": "1"}}, "expect": {"all_done": 1, "accepted": 1}},
                     {"wait_idle_ms": 1000}, {"flood": {"count": 20, "event": {"modify": {"position_id": "9"}}}},
                     {"book": {"F1": {"positions": []}}}])

    def test_what_is_expected_and_not_so(self):
        self.fails('step 1 submit: expected {"follower_id":"F1","state":"COPY_STATE_SKIPPED"}',
                   [{"submit": OPEN, "expect": {"copies": [{"follower_id": "F1", "state": "COPY_STATE_SKIPPED"}]}}])
        self.fails('step 2 book: expected {"F1":{"deals":2}}, got {"F1":{"deals":1}}',
                   [{"submit": OPEN}, {"book": {"F1": {"deals": 2}}}])
        self.fails("expected 1 duplicates, got 0", [{"submit": OPEN, "duplicates": 1}])
        self.fails("expected an answer, got NOT_FOUND MASTER_NOT_FOUND", [{"submit": OPEN, "master_id": "M2"}])
        self.fails('got an answer', [{"submit": OPEN, "expect": {"refused": {"code": "NOT_FOUND"}}}])

    def test_broken_promises_are_noticed_without_being_asked_for(self):
        two = [{"follower_id": "F1"}, {"follower_id": "F2"}]
        self.fails("accepted + skipped = followers subscribed, 2, got 1 + 0", [{"submit": OPEN}], lie="count",
                   followers=two)
        self.fails("a reason with COPY_STATE_SKIPPED", [{"submit": {"modify": {"position_id": "9"}}}], lie="reason")
        self.fails("step end: expected believed = in the book", [{"submit": OPEN}], lie="believed")
        self.fails("AddressSanitizer: made up", [{"submit": OPEN}], lie="crash")

    def test_broken_promises_that_a_case_asks_for(self):
        self.fails("copy_id T1", [{"submit": OPEN, "check_copy_id": True}], lie="copy_id")
        self.fails("deals", [{"submit": OPEN}, {"book": {"F1": {"deals": 1}}}], lie="twice")
        self.fails("expected 2 duplicates, got 0", [{"submit": OPEN, "times": 3, "at_once": True, "duplicates": 2}],
                   lie="duplicate")
        self.fails("within 200 ms", [{"submit": OPEN, "within_ms": 200}], lie="slow")

    def test_an_answer_in_time(self):
        self.passes([{"submit": OPEN, "within_ms": 30000}])

    def test_time_is_not_judged_where_asked(self):
        self.passes([{"submit": OPEN, "within_ms": 200}], lie="slow", arguments=["--no-times"])

    def test_one_event_three_times(self):
        self.passes([{"submit": OPEN, "times": 3, "at_once": True, "duplicates": 2, "expect": DONE},
                     {"book": {"F1": {"deals": 1}}}])

    def test_unavailable_with_a_delay_is_repeated(self):
        self.passes([{"submit": OPEN, "expect": DONE}], lie="busy")

    def test_bad_input_is_refused_over_the_stream_too(self):
        bad = [{"submit": {"open": dict(OPEN["open"], volume="abc")}, "expect": {"refused": {
            "code": "INVALID_ARGUMENT", "reason": "INVALID_FIELD", "field": "event.open.volume"}}}]
        self.passes(bad, family="bad-input")
        self.fails('"over":"StreamEvents"', bad, family="bad-input", lie="stream")
        self.fails("a stream that goes on", bad, family="bad-input", lie="ends")

    def test_a_kill_is_a_kill(self):
        # The fake forgets its followers, as a server without durable state does.
        self.fails("step 1 restart: expected every follower, got follower F1 is gone", [{"restart": "kill"}])

    def test_cases_that_are_not_due_do_not_count(self):
        with tempfile.NamedTemporaryFile("w") as must:
            must.write("own: another case  # due\n")
            must.flush()
            steps = [{"submit": OPEN, "duplicates": 1}]
            code, text = self.run_cases(steps, arguments=["--must", must.name])
            self.assertEqual(code, 0)
            self.assertIn("not yet: own.json: a case: step 1 submit", text)
            self.assertTrue(text.endswith("not due yet and not counted: 0 pass, 1 fail\n0 passed, 0 failed\n"), text)


if __name__ == "__main__":
    unittest.main()
