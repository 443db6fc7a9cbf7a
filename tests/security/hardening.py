#!/usr/bin/python3
"""What makes a fault of ours harder to use: how the program is linked and compiled; what a service manager is told, and is
told to forbid."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

from blackbox import CONFIG, REPOSITORY, Server, prove  # noqa: E402

UNIT = os.path.join(REPOSITORY, "docker/tradewake.service")
EXPOSURE_MAX = 2.0  # of 10, as systemd-analyze counts


def readelf(program, *flags):
    return subprocess.run(["readelf", "-W", *flags, program], check=True, capture_output=True, text=True).stdout


def linked(program, checks):
    header, dynamic, segments, symbols = (readelf(program, flag) for flag in ("-h", "-d", "-l", "--dyn-syms"))
    checks.true("position-independent", "Position-Independent" in header or "DYN" in header, header)
    checks.true("what is linked is bound at the start, then read-only", "GNU_RELRO" in segments and "NOW" in dynamic)
    stack = next(line for line in segments.splitlines() if "GNU_STACK" in line)
    checks.true("no stack is code", " RWE " not in stack, stack)
    checks.true("no memory is both written and code", not [line for line in segments.splitlines() if re.search(r"LOAD.* RWE ", line)])
    checks.true("no path of the build is searched for libraries", "RPATH" not in dynamic and "RUNPATH" not in dynamic)
    checks.true("functions with arrays watch their frame", "__stack_chk_fail" in symbols)
    fortified = sorted(set(re.findall(r"__(\w+)_chk\b", symbols)) - {"stack"})
    checks.true("the C library checks sizes where it can", {"memcpy", "snprintf"} & set(fortified) and len(fortified) >= 4, fortified)


class Manager:
    """What systemd is to a service: a socket that hears how it is."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(30)

    def hears(self):
        return self.socket.recv(4096).decode()


def told(program, folder, checks):
    manager = Manager(folder)
    server = Server(program, config=CONFIG + "drain:\n  lame_duck: 0s\n",
                    environment={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "2000000"})
    server.start()
    try:
        checks.equal("it says when it is ready", manager.hears(), "READY=1")
        checks.equal("and that it is alive, again and again", [manager.hears() for _ in range(3)], ["WATCHDOG=1"] * 3)
        server.process.send_signal(signal.SIGHUP)
        checks.equal("a reload is nothing special", manager.hears(), "WATCHDOG=1")
        server.process.send_signal(signal.SIGTERM)
        said = manager.hears()
        while said == "WATCHDOG=1":
            said = manager.hears()
        checks.equal("and when it goes", said, "STOPPING=1")
        checks.equal("and goes well", server.terminate(), 0)
    finally:
        server.end()


def unit(program, folder, checks):
    if shutil.which("systemd-analyze") is None:
        print("     no systemd-analyze here: the unit was not looked at")
        return
    copy = os.path.join(folder, "tradewake.service")
    with open(UNIT) as file, open(copy, "w") as other:
        other.write(file.read().replace("/usr/bin/tradewake", program))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    wrong = [line for line in done.stderr.splitlines() if "tradewake.service" in line and "Failed to create" not in line]
    checks.true("systemd understands the unit", not wrong, wrong)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", copy], capture_output=True, text=True)
    found = re.search(r"Overall exposure level.*?: ([0-9.]+)", done.stdout)
    checks.true("and finds little that is open (at most %g of 10)" % EXPOSURE_MAX,
                found and float(found.group(1)) <= EXPOSURE_MAX, found.group(0) if found else done.stdout[-500:] + done.stderr)


def main(options, checks):
    linked(options.program, checks)
    with tempfile.TemporaryDirectory(prefix="tradewake-hard-") as folder:
        told(options.program, folder, checks)
        unit(os.path.abspath(options.program), folder, checks)


if __name__ == "__main__":
    prove(main)
