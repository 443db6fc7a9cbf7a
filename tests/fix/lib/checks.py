"""Checks that are counted: one line for each that failed, and the sum at the end."""
import sys


class Checks:
    def __init__(self):
        self.passed = self.failed = 0
        self.failures = []

    def __call__(self, what, holds, saw=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            self.failures.append(what)
            print(f"FAIL {what}" + (f": {saw}" if saw else ""), flush=True)
        return holds

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(self.failed > 0)
