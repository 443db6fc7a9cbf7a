#!/usr/bin/python3
"""What is not a proper call: garbage, unknown methods, messages too large, compressed ones, broken
connections. Each gets a clear status, and the server takes the next good event as if nothing was."""
import os
import random
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import grpc  # noqa: E402
from blackbox import Fleet, Refused, refused_from, prove  # noqa: E402

SUBMIT = "EventService/SubmitEvent"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def raw_call(fleet, path, data=b"", deadline_s=5, client=None, **how):
    """A unary call by its path, known or not, with any bytes. Raises Refused."""
    stub = (client or fleet.client).channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
    try:
        return stub(data, timeout=deadline_s, **how)
    except grpc.RpcError as error:
        raise refused_from(fleet.contract, error)


def over_stream(fleet, event):
    """What StreamEvents answers to one event and a good one after it; or how it ended."""
    good = fleet.event("good-%d" % time.monotonic_ns(), modify={"position_id": "none", "stop_loss": "0"})
    requests = [fleet.new("StreamEventsRequest", event=each) for each in (event, good)]
    answers = []
    try:
        for answer in fleet.client.converse("EventService/StreamEvents", iter(requests), deadline_s=10):
            answers.append(answer.WhichOneof("answer"))
    except grpc.RpcError as error:
        answers.append(error.code().name)
    return answers


def throw(fleet, data):
    """Bytes at the port, without gRPC; reads until the server hangs up or has nothing to say."""
    host, port = fleet.server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.settimeout(0.2)
        try:
            connection.sendall(data)
            while connection.recv(65536):
                pass
        except OSError:
            pass


def calls(fleet, checks):
    refused = checks.refused
    refused("garbage as a message", lambda: fleet.client.call(SUBMIT, b"\xff\xff\xff\xff"), "INVALID_ARGUMENT",
            "UNDECODABLE")
    refused("a message that is cut off", lambda: fleet.client.call(
        SUBMIT, fleet.request(fleet.open("1")).SerializeToString()[:-3]), "INVALID_ARGUMENT", "UNDECODABLE")
    refused("text that is not UTF-8", lambda: fleet.client.call(
        SUBMIT, fleet.request(fleet.open("1")).SerializeToString().replace(b"EURUSD", b"EUR\xff\xfeD")),
        "INVALID_ARGUMENT", "INVALID_FIELD", "event.open.symbol")
    refused("an empty message names its first missing field", lambda: fleet.client.call(SUBMIT, b""),
            "INVALID_ARGUMENT", "INVALID_FIELD")
    for path in ("/tradewake.v1.EventService/Nope", "/no.such.Service/Nope", "/", "/tradewake.v1.EventService"):
        start = time.monotonic()
        refused("unknown method %s" % path, lambda: raw_call(fleet, path), "UNIMPLEMENTED")
        checks.true("  at once", time.monotonic() - start < 2, "%.1f s" % (time.monotonic() - start))
    large = fleet.open("1", comment="x" * (65 * 1024))
    refused("an event of 65 KiB", lambda: fleet.submit(large), "RESOURCE_EXHAUSTED")
    answers = over_stream(fleet, large)
    checks.true("an event of 65 KiB over a stream",
                answers in (["refused", "accepted"], ["RESOURCE_EXHAUSTED"]), answers)
    refused("a request of 5 MiB", lambda: raw_call(fleet, "/tradewake.v1.EventService/SubmitEvent",
                                                   b"\0" * (5 << 20)), "RESOURCE_EXHAUSTED")
    refused("a compressed message", lambda: raw_call(
        fleet, "/tradewake.v1.EventService/SubmitEvent",
        fleet.request(fleet.open("1", comment="x" * 4096)).SerializeToString(),
        compression=grpc.Compression.Gzip), "UNIMPLEMENTED")
    other = fleet.connect()  # the gRPC core may hang up after this one
    refused("metadata of 64 KiB", lambda: raw_call(
        fleet, "/tradewake.v1.EventService/GetMaster", b"\x0a\x02M1", client=other,
        metadata=[("x-large", "x" * 65536)]), "RESOURCE_EXHAUSTED")
    other.close()
    try:
        fleet.client.call(SUBMIT, fleet.request(fleet.open("1", volume="0,10")))
    except Refused as error:
        checks.equal("a refusal has exactly one ErrorInfo", error.infos, 1)
        checks.true("its message begins with reason and field", error.message.startswith(
            "INVALID_FIELD event.open.volume: "), error.message)


def connections(fleet, checks, rounds):
    files = fleet.server.open_files()
    rng = random.Random(1)
    for index in range(rounds):
        data = rng.randbytes(rng.randrange(1, 4096))
        throw(fleet, data if index % 2 else PREFACE + data)
    throw(fleet, PREFACE)                                             # a preface, and then silence
    throw(fleet, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    throw(fleet, PREFACE + b"\0\0\0\4\0\0\0\0\0" + b"\0\0\x10\1\4\0\0\0\1" + b"\x82" * 16)  # a cut header block
    checks.true("%d connections of garbage: still serving" % rounds, fleet.is_serving(), "not serving")
    end = time.monotonic() + 10
    while fleet.server.open_files() > files and time.monotonic() < end:
        time.sleep(0.05)
    checks.true("no open file is left from them", fleet.server.open_files() <= files,
                "%d, %d before" % (fleet.server.open_files(), files))
    # Clients that vanish in the middle of a call.
    for index in range(20):
        client = fleet.connect()
        client.start(SUBMIT, fleet.request(fleet.open("gone-%d" % index)))
        client.close()
    checks.true("clients that vanish in mid-call", fleet.is_serving(), "not serving")


def main(options, checks):
    with Fleet(options.program, followers=2) as fleet:
        calls(fleet, checks)
        checks.equal("nothing was sent for any of it", set(fleet.deals().values()), {0})
        checks.true("unharmed after bad calls", fleet.is_unharmed("after-calls"), fleet.server.faults())
        connections(fleet, checks, options.rounds)
        checks.true("unharmed after bad connections", fleet.is_unharmed("after-connections"), fleet.server.faults())


if __name__ == "__main__":
    prove(main, rounds=200)
