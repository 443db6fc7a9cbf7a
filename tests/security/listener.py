#!/usr/bin/python3
"""A listener that has died is noticed: the server asks its own port. A shortage of file descriptors ends the gRPC
core's listener for good while the process goes on; readiness falls, and the process ends with exit code 1, so that
whoever supervises it starts it anew. With and without TLS; one that is well is left alone, whatever the clients do."""
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

from blackbox import CONFIG, Server, prove, wait_until  # noqa: E402

FEW = 96  # file descriptors: enough to start and to answer


def shortage(server, checks, what):
    """More connections than it has descriptors, and then none."""
    host, port = server.address.rsplit(":", 1)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    wait_until(lambda: server.http("/readyz")[0] == 200, 20, "readiness")
    for _ in range(2 * FEW):
        held.append(socket.create_connection((host, int(port)), timeout=5))
    wait_until(lambda: server.open_files() >= FEW - 2, 20, "the shortage")
    wait_until(lambda: "listener.silent" in server.log() or "Too many open files" in server.log(), 20, "a word on it")
    for connection in held:
        connection.close()
    wait_until(lambda: "listener.dead" in server.log(), 60, "the dead listener")
    checks.true("%s: readiness falls first" % what, "listener.silent" in server.log().split("listener.dead")[0])
    checks.equal("%s: the process ends, to be started anew" % what, server.process.wait(30), 1)
    checks.true("%s: and says what to do" % what, "RLIMIT_NOFILE" in server.log(), server.last_words())


def limited(program, folder):
    """The program with few file descriptors: the server raises its own as far as it may."""
    path = os.path.join(folder, "few")
    with open(path, "w") as file:
        file.write("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n" % (FEW, os.path.abspath(program)))
    os.chmod(path, 0o755)
    return path


def well(program, tls, checks, what):
    server = Server(program, config=CONFIG + tls + "listener:\n  dead_after: 4s\n").start()
    try:
        host, port = server.address.rsplit(":", 1)
        until = time.monotonic() + 9  # several questions, and what would be the end
        while time.monotonic() < until:
            for words in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01"):
                with socket.create_connection((host, int(port)), timeout=5) as connection:
                    connection.sendall(words)
        checks.true("%s: one that is well is left alone" % what, server.process.poll() is None)
        checks.true("%s: and is not talked about" % what, "listener." not in server.log(), server.last_words())
        checks.equal("%s: SIGTERM ends it well" % what, server.terminate(), 0)
    finally:
        server.end()


def main(options, checks):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "2", "-subj", "/CN=localhost", "-keyout", folder + "/k.key", "-out", folder + "/k.pem"],
                       check=True, capture_output=True)
        tls = "tls:\n  certificate: %s/k.pem\n  key: %s/k.key\n" % (folder, folder)
        few = limited(options.program, folder)
        for what, more in (("plain text", ""), ("TLS", tls)):
            well(options.program, more, checks, what)
            server = Server(few, config=CONFIG + more + "listener:\n  dead_after: 8s\n").start()
            try:
                shortage(server, checks, what)
            finally:
                server.end()


prove(main)
