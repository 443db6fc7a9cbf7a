#!/usr/bin/python3
"""The dashboard under 10 000 copies a second: a browser gets a few messages a second whatever happens, the bridge runs in a
heap of 48 MiB, and own time of the same load is printed with it and without.

--long: a minute each, several turns, and a page in Chromium (packages: docker/install-deps.sh browser) whose memory is looked at.
"""
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import REPOSITORY, Fleet, prove, wait_until  # noqa: E402

DASHBOARD = os.path.join(REPOSITORY, "client-examples/dashboard")
PAGE_MEMORY = os.path.join(REPOSITORY, "tests/browser/page_memory.mjs")
HEAP_MIB = 48
RESIDENT_MIB_MAX = 200  # Node itself is a good 60 of it
MESSAGES_PER_S_MAX = 12  # nine topics, most of them every second or two
LAG = 50  # opens between an open and its close: its order is long done
WITHIN_S = 60
IS_LONG = "--long" in sys.argv
sys.argv = [word for word in sys.argv if word != "--long"]


class Bridge:
    def __init__(self, server):
        self.process = subprocess.Popen(
            ["node", "--max-old-space-size=%d" % HEAP_MIB, "dashboard.mjs", "--server", server.address, "--admin", server.admin,
             "--listen", "127.0.0.1:0"], cwd=DASHBOARD, stdout=subprocess.PIPE, text=True)
        self.address = re.search(r"http://([0-9.:]+)/", self.process.stdout.readline()).group(1)

    def status_kib(self, name):
        with open("/proc/%d/status" % self.process.pid, encoding="utf-8") as file:
            return int(re.search(r"(?m)^%s:\s+(\d+)" % name, file.read()).group(1))

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Browser:
    """What a page does with its stream: takes every event, and asks for nothing more."""

    def __init__(self, bridge):
        self.connection = http.client.HTTPConnection(bridge.address, timeout=WITHIN_S)
        self.connection.request("GET", "/events")
        self.stream = self.connection.getresponse()
        self.topics, self.newest, self.bytes = {}, {}, 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        topic = None
        try:
            for line in self.stream:
                self.bytes += len(line)
                if line.startswith(b"event: "):
                    topic = line[7:].decode().strip()
                    self.topics[topic] = self.topics.get(topic, 0) + 1
                elif line.startswith(b"data: "):
                    self.newest[topic] = json.loads(line[6:])
        except (OSError, ValueError, AttributeError):
            pass  # the bridge has ended


class Page:
    def __init__(self, bridge):
        self.process = subprocess.Popen(["node", PAGE_MEMORY, "http://%s/" % bridge.address], stdout=subprocess.PIPE, text=True)
        self.seen = [json.loads(self.process.stdout.readline())]
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        self.seen.extend(json.loads(line) for line in self.process.stdout)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()


def load(fleet, copies_per_s, seconds):
    """Opens, and closes of what was opened LAG opens before, paced over one stream: (copies, rate)."""
    events_per_s = copies_per_s / fleet.number

    def requests():
        start = time.monotonic()
        for index in range(int(events_per_s * seconds)):
            ahead = start + index / events_per_s - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            closes = index % 2 and index > 2 * LAG
            yield fleet.new("StreamEventsRequest", event=fleet.close("%d" % (index - 2 * LAG)) if closes else fleet.open("%d" % (index + 1)))

    start, accepted = time.monotonic(), 0
    for answer in fleet.client.converse("EventService/StreamEvents", requests(), deadline_s=seconds * 4 + 60):
        accepted += answer.accepted.accepted
    return accepted, accepted / (time.monotonic() - start)


def own_time_p50_ms(fleet):
    return fleet.client.ask("MetricsService/GetOwnTimeSummary").groups[0].own_time.p50_ns / 1e6


def judged(checks, options, fleet, bridge, browser, took_s):
    """What the bridge told, and what it holds."""
    counted = wait_until(lambda: browser.newest.get("total", {}).get("own", {}).get("count", 0) >= 0.9 * fleet.accepted
                         and browser.newest["total"]["own"]["count"], WITHIN_S, "the page's total has come up to date")
    checks.true("the page knows of every copy that was called", counted > 0, counted)
    messages = sum(browser.topics.values())
    checks.true("a browser gets a few messages a second", 0 < messages / took_s < MESSAGES_PER_S_MAX, "%d in %.0f s: %s" % (messages, took_s, browser.topics))
    resident = bridge.status_kib("VmHWM") / 1024
    checks.true("the bridge lives in its heap", bridge.process.poll() is None and resident < RESIDENT_MIB_MAX, "%.0f MiB" % resident)
    print("     %.1f messages and %.1f KiB a second for a browser; the bridge: %.0f MiB resident at most, in a heap of %d MiB" % (
        messages / took_s, browser.bytes / took_s / 1024, resident, HEAP_MIB))


def page_judged(checks, page):
    """Once its lists are full a page comes back to the same after each collection; a single look may catch a list being replaced."""
    third = len(page.seen) // 3
    settled, last = page.seen[third:2 * third], page.seen[2 * third:]
    least = {name: (min(look[name] for look in settled), min(look[name] for look in last)) for name in ("heap", "nodes", "listeners")}
    checks.true("the page was looked at", third > 2, len(page.seen))
    for name, room in (("heap", 1 << 20), ("nodes", 100), ("listeners", 20)):
        checks.true("the page's %s: no more in the last third than in the one before" % name, least[name][1] < 1.1 * least[name][0] + room, least)
    print("     the page in %d looks: heap %.1f MiB then %.1f, nodes %d then %d" % (
        len(page.seen), least["heap"][0] / 2**20, least["heap"][1] / 2**20, *least["nodes"]))


def run(options, checks, is_watched):
    """One life of a server under the load: its own time p50, ms."""
    with Fleet(options.program, 30, {"latency": "constant:0", "nonblocking": "true"}, {"max_parallel": 64}) as fleet:
        began = time.monotonic()
        bridge = Bridge(fleet.server) if is_watched else None
        page = None
        try:
            browser = Browser(bridge) if is_watched else None
            page = Page(bridge) if is_watched and IS_LONG else None
            fleet.accepted, rate = load(fleet, options.rate, options.seconds)
            wait_until(fleet.is_idle, WITHIN_S, "idle")
            own_ms = own_time_p50_ms(fleet)
            if is_watched:
                judged(checks, options, fleet, bridge, browser, time.monotonic() - began)
            if page is not None:
                page.close()
                page_judged(checks, page)
                page = None
        finally:
            if page is not None:
                page.close()
            if bridge is not None:
                bridge.close()
        checks.equal("the server is unharmed, %s" % ("watched" if is_watched else "alone"), fleet.server.faults(), None)
        print("     %s: %.0f copies/s, own time p50 %.3f ms" % ("watched" if is_watched else "alone", rate, own_ms))
        return own_ms


def main(options, checks):
    if not os.path.isdir(os.path.join(DASHBOARD, "node_modules/playwright-core" if IS_LONG else "node_modules/@grpc/grpc-js")):
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=DASHBOARD, check=True,
                       stdout=subprocess.DEVNULL)
    alone, watched = [], []
    for number in range(options.rounds):  # in turns, each first once
        for is_watched in (number % 2 == 1, number % 2 == 0):
            (watched if is_watched else alone).append(run(options, checks, is_watched))
    ratio = statistics.median(watched) / statistics.median(alone)
    print("     own time p50, watched over alone: %.2f (%d rounds of %d s)" % (ratio, options.rounds, options.seconds))


prove(main, rate=10000, seconds=60 if IS_LONG else 4, rounds=3 if IS_LONG else 1)
