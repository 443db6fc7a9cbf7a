#!/usr/bin/python3
"""The contract, judged and spoken by a client that is not ours: buf.

`buf lint` and `buf breaking` read proto/ with the exceptions written in proto/buf.yaml. What breaks is
told against contract.binpb beside this file, the contract as it was settled, so that no history of
commits is needed; after a release, when additions have been settled too, it is made anew with

    tests/blackbox/node_modules/.bin/buf build proto --exclude-source-info -o tests/blackbox/contract.binpb

`buf curl` knows nothing of our protos: it asks the server by reflection.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "lib"))

from blackbox import REPOSITORY, Fleet, prove  # noqa: E402

BUF = os.path.join(FOLDER, "node_modules/.bin/buf")
SETTLED = os.path.join(FOLDER, "contract.binpb")
PROTO = os.path.join(REPOSITORY, "proto")


def buf(*words, data=None):
    """(exit code, what it printed)."""
    result = subprocess.run([BUF, *words], cwd=REPOSITORY, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60)
    return result.returncode, result.stdout


def install(checks):
    if not os.path.exists(BUF):
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=FOLDER)
    return checks.true("buf is installed", os.path.exists(BUF), "no %s: npm ci failed" % BUF)


def judged(checks):
    checks.equal("buf lint finds nothing", buf("lint", "proto"), (0, ""))
    checks.equal("buf breaking: an old client notices nothing", buf("breaking", "proto", "--against", SETTLED), (0, ""))
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "proto")
        shutil.copytree(PROTO, copy, ignore=shutil.ignore_patterns("*.[ch]", "wire"))
        path = os.path.join(copy, "tradewake/v1/events.proto")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace("string master_id = 2;", "string master_id = 3;", 1)
                       .replace("uint64 sequence = 3;", "uint64 sequence = 2;", 1))
        code, told = buf("breaking", copy, "--against", SETTLED)
        checks.true("it would notice two numbers that changed places", code != 0 and "events.proto" in told, told)


def curl(fleet, method, data, *words):
    code, text = buf("curl", "--protocol", "grpc", "--http2-prior-knowledge", *words,
                     "http://%s/%s" % (fleet.server.address, method), "-d", data)
    answers, decoder = [], json.JSONDecoder()
    rest = text.strip()
    while rest.startswith("{"):
        answer, end = decoder.raw_decode(rest)
        answers.append(answer)
        rest = rest[end:].strip()
    return code, answers, text


def spoken(fleet, checks):
    for version in ("grpc-v1", "grpc-v1alpha"):
        code, answers, text = curl(fleet, "grpc.health.v1.Health/Check", "{}", "--reflect-protocol", version)
        checks.equal("health over reflection %s" % version, (code, answers), (0, [{"status": "SERVING"}])) or print(text)
    for name in ("liveness", "readiness", "tradewake.v1.EventService"):
        code, answers, text = curl(fleet, "grpc.health.v1.Health/Check", json.dumps({"service": name}))
        checks.equal("health of %s" % name, (code, answers), (0, [{"status": "SERVING"}])) or print(text)
    code, answers, text = curl(fleet, "grpc.health.v1.Health/Check", '{"service": "nobody"}')
    checks.true("health of nobody is NOT_FOUND", code != 0 and "not_found" in text, text)

    code, text = buf("curl", "--protocol", "grpc", "--http2-prior-knowledge", "--list-methods",
                     "http://" + fleet.server.address)
    methods = set(text.split())
    wanted = {path[1:] for path in all_methods(fleet)}
    checks.equal("reflection lists every method of ours", wanted - methods, set())

    event = {"event_id": "e1", "master_id": "M1", "observed_at": fleet.event("x").observed_at.ToJsonString(),
             "open": {"position_id": "1", "symbol": "EURUSD", "side": "SIDE_BUY", "volume": "0.10"}}
    code, answers, text = curl(fleet, "tradewake.v1.EventService/SubmitEvent",
                               json.dumps({"event": event, "wait_for": "WAIT_FOR_DONE"}))
    states = [copy.get("state") for answer in answers for copy in answer.get("copies", [])]
    checks.equal("an event submitted", (code, states), (0, ["COPY_STATE_DONE"] * fleet.number)) or print(text)
    bad = dict(event, event_id="e2", open=dict(event["open"], volume="0,10"))
    code, answers, text = curl(fleet, "tradewake.v1.EventService/SubmitEvent", json.dumps({"event": bad}))
    checks.true("a refusal, with details a stranger can read",
                code != 0 and "INVALID_FIELD" in text and "event.open.volume" in text, text)
    both = "\n".join(json.dumps({"event": each}) for each in (bad, dict(event, event_id="e3", open=dict(
        event["open"], position_id="2"))))
    code, answers, text = curl(fleet, "tradewake.v1.EventService/StreamEvents", both)
    checks.equal("two events over one stream", (code, [sorted(set(answer) - {"eventId"}) for answer in answers]),
                 (0, [["refused"], ["accepted"]])) or print(text)


def all_methods(fleet):
    for name in ("EventService", "CopyService", "FollowerService", "MetricsService", "PaperService", "Health"):
        service = fleet.contract.pool.FindServiceByName(fleet.contract.services[name])
        for method in service.methods:
            yield "/%s/%s" % (service.full_name, method.name)


def main(options, checks):
    if install(checks):
        judged(checks)
        with Fleet(options.program, followers=2) as fleet:
            spoken(fleet, checks)
            checks.true("unharmed", fleet.is_unharmed("after"), fleet.server.faults())


if __name__ == "__main__":
    prove(main)
