#!/usr/bin/python3
"""`tradewake adapter-check` finds nothing wrong with the sample bridge, and names each of five faults that are built into it."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import REPOSITORY, prove  # noqa: E402

BRIDGE = os.path.join(REPOSITORY, "client-examples/bridge-python/bridge.py")
PLANTED = {  # what is built in, and what the line must name
    "repeat": "the order was sent again",
    "count": "it is void",
    "gap": "a sequence gap",
    "early-not-found": "before the settle time",
    "remainder": "wrong remainder ticket",
}


def checked(program, *more):
    """(exit code, lines) against a bridge of its own."""
    folder = tempfile.mkdtemp(prefix="bridge-", dir="/tmp")
    address = "unix:%s/s" % folder
    bridge = subprocess.Popen(["/usr/bin/python3", BRIDGE, "--listen", address, "--state", folder + "/state", *more],
                              stdout=subprocess.PIPE, text=True)
    try:
        bridge.stdout.readline()
        done = subprocess.run([program, "adapter-check", "--address", address], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.splitlines()
    finally:
        bridge.kill()
        bridge.wait()
        bridge.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def library_checked(program):
    """The same of a vendor's library, served by hand."""
    folder = tempfile.mkdtemp(prefix="host-", dir="/tmp")
    library = os.path.join(os.path.dirname(os.path.abspath(program)), "plugins/good_session.so")
    address = "unix:%s/s" % folder
    host = subprocess.Popen([program, "plugin-host", "--plugin", library, "--listen", address], stdout=subprocess.PIPE, text=True)
    try:
        host.stdout.readline()
        done = subprocess.run([program, "adapter-check", "--address", address], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout.splitlines()
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def main(options, checks):
    code, lines = checked(options.program)
    checks.equal("a good bridge: nothing is broken", [line for line in lines if line.startswith("BROKEN")], [])
    checks.equal("a good bridge: exit code", code, 0)
    for fault, words in PLANTED.items():
        code, lines = checked(options.program, "--plant", fault)
        broken = [line for line in lines if line.startswith("BROKEN")]
        checks.true("%s is named" % fault, any(words in line for line in broken), "\n".join(broken))
        checks.equal("%s: exit code" % fault, code, 1)
    code, lines = library_checked(options.program)
    checks.equal("a library in a process of its own: nothing is broken", [line for line in lines if line.startswith("BROKEN")], [])
    checks.equal("a library in a process of its own: exit code", code, 0)
    checks.equal("nobody there: exit code", subprocess.run(
        [options.program, "adapter-check", "--address", "unix:/nowhere/s"], capture_output=True).returncode, 3)


prove(main)
