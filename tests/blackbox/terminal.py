#!/usr/bin/python3
"""What an operator sees in a terminal: `tradewake top`, `watch` and `doctor`, on the screen of a tmux of our own and as
JSON. No copy is missed between two ticks of top; it lives through a server that hangs; doctor's exit code is its worst finding's."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import Fleet, prove, wait_until  # noqa: E402

FOLLOWERS = 5
WITHIN_S = 60
WORST = {"nothing": 0, "note": 0, "warning": 4, "problem": 1}


class Terminal:
    """A tmux server of its own with one window; ended by its own name."""

    def __init__(self, columns=110, lines=40):
        self.folder = tempfile.mkdtemp(prefix="tradewake-terminal-")
        self.socket = os.path.join(self.folder, "tmux")
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE", "NO_COLOR")}
        self.environment = dict(environment, TERM="xterm-256color", PS1="ready> ")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def write(self, text):
        self.tmux("send-keys", "-l", text)

    def command(self, *words):
        self.write(" ".join(words) + "\n")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait_for(self, *texts):
        seen = [""]

        def is_there():
            seen[0] = self.screen()
            return all(text in seen[0] for text in texts)
        try:
            wait_until(is_there, WITHIN_S)
            return True
        except TimeoutError:
            print("     the screen, when %r did not come:\n%s" % (texts, seen[0].rstrip()))
            return False

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], env=self.environment, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


def tradewake(options, fleet, *words, within_s=WITHIN_S):
    return subprocess.run([options.program, *words, "--server", fleet.server.address], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=within_s)


def burst(fleet, name, positions):
    fleet.submit_all([fleet.open("%s-%d" % (name, index)) for index in range(positions)])


def ticks_miss_nothing(options, fleet, checks):
    """Bursts run into the borders of ticks on purpose: all of them are in one tick or another."""
    program = subprocess.Popen([options.program, "top", "--interval", "100ms", "--server", fleet.server.address],
                               stdout=subprocess.PIPE, text=True)
    try:
        ticks = [json.loads(program.stdout.readline())]
        for index in range(8):
            burst(fleet, "tick%d" % index, 5)
        expected = 8 * 5 * FOLLOWERS
        while ticks[-1]["own_time_since_start"]["count"] < ticks[0]["own_time_since_start"]["count"] + expected:
            ticks.append(json.loads(program.stdout.readline()))
        program.send_signal(signal.SIGINT)
        rest = program.communicate(timeout=WITHIN_S)[0]
    finally:
        program.kill()
        program.wait()
    ticks.extend(json.loads(line) for line in rest.splitlines())
    checks.equal("top: every copy is in one tick", sum(tick["own_time"]["count"] + tick["held"] for tick in ticks), expected)
    checks.equal("top: followers, threads, state", [ticks[-1][name] for name in ("followers", "threads_created_late", "state")],
                 [FOLLOWERS, 0, "live"])
    checks.equal("top: Ctrl-C is an end like any other", program.returncode, 0)
    ended = tradewake(options, fleet, "top", "--interval", "100ms", "--count", "3")
    checks.equal("top --count: so many lines", (ended.returncode, len(ended.stdout.splitlines())), (0, 3))


def top_on_a_screen(options, fleet, checks, terminal):
    terminal.command(options.program, "top", "--interval", "200ms", "--server", fleet.server.address, ";", "echo", "code=$?")
    checks.true("top: a screen", terminal.wait_for("tradewake top", "live", "EXECUTOR", "%d, %d connected" % (FOLLOWERS, FOLLOWERS)))
    burst(fleet, "screen", 6)
    checks.true("top: a burst is a line of its own", wait_until(
        lambda: any(line.split()[1:2] and ":" in line.split()[0] and line.split()[1].isdigit()
                    for line in terminal.screen().splitlines() if line.split()), WITHIN_S, "a tick with copies"))
    fleet.client.ask("FollowerService/Halt", everything=True, note="drill")
    checks.true("top: a halt", terminal.wait_for("1 halts in force"))
    fleet.client.ask("FollowerService/Resume", everything=True)
    checks.true("top: and its end", terminal.wait_for("0 halts in force"))
    terminal.write("p")
    checks.true("top: held", terminal.wait_for("held (p goes on)"))
    terminal.write("p")
    terminal.tmux("resize-window", "-x", "50", "-y", "12")
    checks.true("top: a small window", terminal.wait_for("JUST NOW"))
    terminal.tmux("resize-window", "-x", "110", "-y", "40")
    fleet.server.process.send_signal(signal.SIGSTOP)
    checks.true("top: a server that hangs", terminal.wait_for("reconnecting:"))
    fleet.server.process.send_signal(signal.SIGCONT)
    checks.true("top: and one that goes on", terminal.wait_for("live", "FOLLOWERS"))
    print("".join("     %s\n" % line for line in terminal.screen().rstrip().splitlines()), end="")
    terminal.write("q")
    checks.true("top: q ends it and gives the terminal back", terminal.wait_for("code=0"))
    terminal.command("TERM=nonsense", options.program, "top", "--server", fleet.server.address, ";", "echo", "code=$?")
    checks.true("top: a terminal that is not known", terminal.wait_for('"nonsense" is not known here', "code=1"))


def watch_on_a_screen(options, fleet, checks, terminal):
    terminal.command("clear;", options.program, "watch", "--count", str(FOLLOWERS), "--server", fleet.server.address, ";", "echo", "code=$?")

    def seen():
        fleet.n += 1
        burst(fleet, "watch%d" % fleet.n, 1)
        return "code=0" in terminal.screen()
    wait_until(seen, WITHIN_S, "the end of watch")
    checks.true("watch: a line per copy", sum(" OPEN " in line for line in terminal.screen().splitlines()) == FOLLOWERS, terminal.screen())


def doctor(options, fleet, checks, what, *expected):
    ended = tradewake(options, fleet, "doctor", "--over", "200ms", "-o", "json")
    said = json.loads(ended.stdout)
    found = [finding["name"] for finding in said["findings"]]
    checks.equal("doctor, %s: the exit code is its worst finding's" % what, ended.returncode, WORST[said["worst"]])
    checks.true("doctor, %s" % what, all(name in found for name in expected), found)
    checks.true("doctor, %s: each with advice" % what, all(finding["what"] and finding["advice"] for finding in said["findings"]))
    return {finding["name"]: finding for finding in said["findings"]}


def doctor_finds(options, fleet, checks):
    found = doctor(options, fleet, checks, "at rest")
    checks.true("doctor, at rest: nobody is away or halted", not {"halts", "not_connected", "ready", "threads_lost", "drift"} & set(found), found)
    fleet.client.ask("FollowerService/Halt", follower_id=fleet.ids[0], note="drill")
    doctor(options, fleet, checks, "with a halt", "halts")
    text = tradewake(options, fleet, "doctor", "--over", "0s")
    checks.true("doctor: in words", "1 halts are in force" in text.stdout and "tradewake resume" in text.stdout, text.stdout)
    fleet.client.ask("FollowerService/Resume", follower_id=fleet.ids[0])
    fleet.client.ask("PaperService/Configure", follower_id=fleet.ids[1], connection="CONNECTION_DOWN")
    wait_until(lambda: not fleet.client.ask("FollowerService/GetFollower", follower_id=fleet.ids[1]).connected, WITHIN_S, "F001 away")
    away = doctor(options, fleet, checks, "with a follower away", "not_connected")
    checks.true("doctor: names it and the numbers", "1 of %d followers" % FOLLOWERS in away["not_connected"]["what"]
                and fleet.ids[1] in away["not_connected"]["what"], away["not_connected"])
    fleet.client.ask("PaperService/Configure", follower_id=fleet.ids[1], connection="CONNECTION_UP")


def main(options, checks):
    with Fleet(options.program, followers=FOLLOWERS, paper={"latency": "constant:20ms"}) as fleet:
        fleet.n = 0
        ticks_miss_nothing(options, fleet, checks)
        terminal = Terminal()
        try:
            top_on_a_screen(options, fleet, checks, terminal)
            watch_on_a_screen(options, fleet, checks, terminal)
        finally:
            terminal.close()
        doctor_finds(options, fleet, checks)
        checks.equal("the server is unharmed", fleet.server.faults(), None)
    nobody = subprocess.run([options.program, "doctor", "--server", "127.0.0.1:1", "--timeout", "1s"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, timeout=WITHIN_S)
    checks.equal("doctor: nobody answers", nobody.returncode, 3)


prove(main)
