#!/usr/bin/python3
"""The listener: a flood of connections, more of them than there are file descriptors, and a death that nobody says.
The first two it outlives, and whoever comes afterwards is served. A listener that has died is noticed, because the
server asks its own port: readiness falls, and the process ends with exit code 1, so that whoever supervises it starts
it anew. With and without TLS."""
import ctypes
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
PIDFD_OPEN, PIDFD_GETFD = 434, 438
WAIT_S = 60  # for what a busy machine makes late
DEAD_AFTER_S = 8  # the server says that it is silent from 5 s on
SEEN_S = DEAD_AFTER_S + 2  # what would be its end has come by then


def place(server):
    host, port = server.address.rsplit(":", 1)
    return host, int(port)


def is_served(server, ca):
    """Whether a client that comes now gets its answer."""
    return subprocess.run([server.program, "health", "--server", server.address, "--timeout", "5s", *ca],
                          capture_output=True).returncode == 0


def is_taken_for_dead(server):
    return any(word in server.log() for word in ("listener.silent", "listener.dead"))


def flood(server, seconds):
    """One connection after another, each closed at once; how many. A backlog that is full drops SYNs, which the kernel
    sends again after 1, 3 and 7 seconds: so none may wait longer than WAIT_S."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for words in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01"):
            with socket.create_connection(place(server), timeout=WAIT_S) as connection:
                try:
                    connection.sendall(words)
                except OSError:  # turned away
                    pass
            count += 1
    return count


def flooded(program, config, ca, checks, what):
    bound = 256
    server = Server(program, config=config + "listener:\n  dead_after: %ds\n  connections_max: %d\n" % (DEAD_AFTER_S, bound)).start()
    try:
        before = server.open_files()
        count = flood(server, SEEN_S)  # several questions of its own
        checks.true("%s: a flood ends nothing" % what, server.process.poll() is None, server.last_words())
        wait_until(lambda: is_served(server, ca), WAIT_S, "an answer")
        checks.true("%s: after a flood of %d whoever comes is served" % (what, count), True)
        wait_until(lambda: server.open_files() <= before + 8, WAIT_S, "the descriptors")
        checks.true("%s: it is not taken for dead" % what, not is_taken_for_dead(server), server.last_words())
        checks.equal("%s: SIGTERM ends it well" % what, server.terminate(), 0)
    finally:
        server.end()


def shortage(few, config, ca, checks, what):
    """More connections than the process may have descriptors, all held: those beyond are closed, the others kept."""
    server = Server(few, config=config + "listener:\n  dead_after: %ds\n" % DEAD_AFTER_S).start()
    held = []
    try:
        wait_until(lambda: server.http("/readyz", WAIT_S)[0] == 200, WAIT_S, "readiness")
        for _ in range(2 * FEW):
            held.append(socket.create_connection(place(server), timeout=WAIT_S))
        wait_until(lambda: "listener.full" in server.log(), WAIT_S, "a word on it")
        checks.true("%s: the descriptors end before its own do" % what, server.open_files() < FEW, server.open_files())
        checks.equal("%s: who probes it still gets an answer" % what, server.http("/livez", WAIT_S)[0], 200)
        time.sleep(SEEN_S)  # that nothing happens takes its time
        checks.true("%s: it is not taken for dead" % what, not is_taken_for_dead(server), server.last_words())
        for connection in held:
            connection.close()
        wait_until(lambda: is_served(server, ca), WAIT_S, "an answer")
        checks.true("%s: and serves once there is room" % what, True)
        page = server.http("/metrics", WAIT_S)[1]
        turned = [line for line in page.splitlines() if line.startswith("tradewake_connections_turned_away_total ")]
        checks.true("%s: it counts whom it turned away" % what, turned and int(turned[0].split()[1]) >= FEW, turned)
        checks.equal("%s: SIGTERM ends it well then" % what, server.terminate(), 0)
    finally:
        for connection in held:
            connection.close()
        server.end()


def listening_socket(server):
    """The server's own, shared with this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(PIDFD_OPEN, server.process.pid, 0)
    for number in os.listdir("/proc/%d/fd" % server.process.pid):
        fd = libc.syscall(PIDFD_GETFD, pidfd, int(number), 0)
        if fd < 0:
            continue
        try:
            shared = socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            continue
        if (shared.family in (socket.AF_INET, socket.AF_INET6) and
                shared.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and shared.getsockname()[1] == place(server)[1]):
            os.close(pidfd)
            return shared
        shared.close()
    raise RuntimeError("no listening socket found")


def dead(program, config, checks, what):
    server = Server(program, config=config + "listener:\n  dead_after: %ds\n" % DEAD_AFTER_S).start()
    try:
        wait_until(lambda: "listener.answers" in server.log(), WAIT_S, "its first answer to itself")
        with listening_socket(server) as shared:
            shared.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: "listener.dead" in server.log(), WAIT_S, "the dead listener")
        checks.true("%s: readiness falls first" % what, "listener.silent" in server.log().split("listener.dead")[0])
        checks.equal("%s: the process ends, to be started anew" % what, server.process.wait(WAIT_S), 1)
    finally:
        server.end()


def limited(program, folder):
    """The program with few file descriptors: the server raises its own as far as it may."""
    path = os.path.join(folder, "few")
    with open(path, "w") as file:
        file.write("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n" % (FEW, os.path.abspath(program)))
    os.chmod(path, 0o755)
    return path


def main(options, checks):
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                        "-keyout", folder + "/k.key", "-out", folder + "/k.pem"],
                       check=True, capture_output=True)
        tls = "tls:\n  certificate: %s/k.pem\n  key: %s/k.key\n" % (folder, folder)
        few = limited(options.program, folder)
        for what, more, ca in (("plain text", "", ()), ("TLS", tls, ("--ca", folder + "/k.pem"))):
            flooded(options.program, CONFIG + more, ca, checks, what)
            shortage(few, CONFIG + more, ca, checks, what)
            dead(options.program, CONFIG + more, checks, what)


prove(main)
