#!/usr/bin/python3
"""How the server starts, is looked at, and ends: what a supervisor, an operator and a shell see."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

import grpc  # noqa: E402
from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402

TOLD_IN_PASSING = re.compile(r"\S+ [DI] ")  # log lines below a warning


def run(program, *words, within_s=20):
    """(exit code, standard output, standard error); (None, ...) when it did not end in time."""
    process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=within_s)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return None, out, err


def serve(program, folder, listen="127.0.0.1:0", admin="127.0.0.1:0", config=None):
    path = os.path.join(folder, "tradewake.yaml")
    if config is not None:
        with open(path, "w") as file:
            file.write(config)
    elif not os.path.exists(path):
        path = os.path.join(folder, "none.yaml")
    return run(program, "serve", "--state-dir", os.path.join(folder, "state"), "--listen", listen, "--admin", admin,
               "--config", path)


def one_line(checks, name, result, *words):
    """It ended by itself with a code that is not 0 and one line that says these words."""
    code, out, err = result
    lines = [line for line in err.splitlines() if line.strip() and not TOLD_IN_PASSING.match(line)]
    checks.true("%s: it does not start" % name, code not in (0, None) and code > 0, "code %s" % code)
    checks.equal("%s: one line" % name, len(lines), 1) or print("     " + "\n     ".join(lines[:10]))
    missing = [word for word in words if word not in err]
    checks.true("%s: it says what and where" % name, not missing, "no %s in %r" % (missing, err[-500:]))


def refused_starts(program, checks):
    with tempfile.TemporaryDirectory(prefix="tradewake-life-") as folder:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = "127.0.0.1:%d" % other.getsockname()[1]
            one_line(checks, "listen port in use", serve(program, folder, listen=address, config=CONFIG), address)
            one_line(checks, "admin port in use", serve(program, folder, admin=address, config=CONFIG), address)
        os.unlink(os.path.join(folder, "tradewake.yaml"))
        one_line(checks, "no such configuration", serve(program, folder), "none.yaml")
        one_line(checks, "a folder as configuration", run(
            program, "serve", "--state-dir", os.path.join(folder, "state"), "--config", folder), folder)
        one_line(checks, "a configuration that is not YAML", serve(program, folder, config="paper: [\n"),
                 "tradewake.yaml:")
        one_line(checks, "an unknown setting", serve(program, folder, config="paper:\n  contorl: true\n"),
                 "tradewake.yaml:2:", "contorl", "control")
        one_line(checks, "more ready threads than allowed", serve(
            program, folder, config="executor:\n  threads: 6000\n  threads_max: 4096\n"), "6000", "4096")


def looked_at(program, checks):
    with Fleet(program, followers=3) as fleet:
        fleet.submit(fleet.open("1"))
        for path in ("/livez", "/readyz"):
            checks.equal("%s says yes" % path, fleet.server.http(path)[0], 200)
        status, text = fleet.server.http("/metrics")
        checks.equal("/metrics answers", status, 200)
        for name in ("tradewake_own_time_seconds_bucket", "tradewake_path_time_seconds_count",
                     "tradewake_queue_wait_seconds", "tradewake_broker_seconds", "tradewake_copies_total{",
                     "tradewake_executor_threads{", "tradewake_followers{", "tradewake_build_info{"):
            checks.true("/metrics has %s" % name, name in text, "not there")
        leaked = [line for line in text.splitlines() if "F000" in line or "M1" in line]
        checks.equal("/metrics names no account", leaked, [])
        checks.equal("an unknown page is 404", fleet.server.http("/nothing")[0], 404)

        server = ("--server", fleet.server.address)
        checks.equal("health: exit code 0", run(program, "health", *server)[0], 0)
        checks.equal("copies -o json: exit code 0", run(program, "copies", "-o", "json", *server)[0], 0)
        checks.equal("watch --for ends with 0", run(program, "watch", "--for", "300ms", *server)[0], 0)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as csv:
            csv.write("Time;Type;Volume;Symbol;Price;S/L;T/P;Time;Price;Commission;Swap;Profit;Comment\n"
                      "2024.01.02 10:00:00;Buy;0.10;EURUSD;1.10000;;;2024.01.02 11:00:00;1.10100;0;0;10;\n"
                      "2024.01.02 12:00:00;Buy;0.10;EURU")
            csv.flush()
            code, out, err = run(program, "replay", csv.name, "--master", "M1", "--speed", "max", *server)
            checks.true("replay of a truncated file fails", code in (1, 2), code)
            checks.true("it names the line", os.path.basename(csv.name) + ":3" in err, err)
        checks.true("unharmed", fleet.is_unharmed("after-replay"), fleet.server.faults())
    checks.equal("nobody listens: exit code 3", run(program, "health", *server)[0], 3)
    checks.equal("an unknown command: exit code 2", run(program, "sevre")[0], 2)
    checks.equal("an unknown option: exit code 2", run(program, "health", "--sevrer", "x")[0], 2)
    code, out, _ = run(program, "version")
    checks.true("version: exit code 0 and a version", code == 0 and any(part[:1].isdigit() for part in out.split()), out)


def follow(stream, ended):
    """Reads a stream to its end on a thread of its own; `ended` gets the status."""
    def read():
        try:
            for _ in stream:
                pass
            ended.append("OK")
        except grpc.RpcError as error:
            ended.append("%s %s" % (error.code().name, (error.details() or "").split(" ")[0].rstrip(":")))
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def drained(program, checks):
    """SIGTERM with orders at the brokers and readers on the streams."""
    with Fleet(program, 10, {"latency": "constant:800ms"}, {"max_parallel": 4}) as fleet:
        ended, health = [], []
        streams = [fleet.client.watch("MetricsService/WatchOwnTime", fleet.new("WatchOwnTimeRequest")),
                   fleet.client.watch("MetricsService/WatchOwnTimeSummary", fleet.new("WatchOwnTimeSummaryRequest"))]
        threads = [follow(stream, ended) for stream in streams]
        watch = fleet.client.watch("Health/Watch", fleet.new("HealthCheckRequest"))

        def read_health():
            try:
                for answer in watch:
                    health.append((answer.status, time.monotonic()))
            except grpc.RpcError:
                pass
        threading.Thread(target=read_health, daemon=True).start()
        wait_until(lambda: health, 5, "a first health answer")
        waiting = fleet.client.start("EventService/SubmitEvent", fleet.request(fleet.open("1")))
        wait_until(lambda: fleet.copies(states=["COPY_STATE_SENT"]), 5, "orders on their way")

        start = time.monotonic()
        fleet.server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: any(status == 2 for status, _ in health), 2, "health NOT_SERVING")
        checks.true("readiness falls at once", health[-1][1] - start < 1, "%.2f s" % (health[-1][1] - start))
        answer = waiting.result()
        checks.equal("the call that waits is answered, and its orders are DONE",
                     {fleet.state(copy) for copy in answer.copies}, {"DONE"})
        code = fleet.server.process.wait(15)
        took_s = time.monotonic() - start
        checks.equal("SIGTERM: exit code 0", code, 0)
        checks.true("SIGTERM: under 9 s", took_s < 9, "%.1f s" % took_s)
        for thread in threads:
            thread.join(5)
        checks.equal("streams end with their reason", ended, ["UNAVAILABLE SHUTTING_DOWN"] * len(streams))
        checks.true("the log is clean", "Sanitizer" not in fleet.server.log(), fleet.server.last_words())
        print("     drained in %.1f s" % took_s)


def idle_end(program, checks):
    with Fleet(program) as fleet:
        start = time.monotonic()
        code = fleet.server.terminate()
        checks.equal("SIGTERM while idle: exit code 0", code, 0)
        print("     ended in %.1f s while idle" % (time.monotonic() - start))


def main(options, checks):
    refused_starts(options.program, checks)
    looked_at(options.program, checks)
    drained(options.program, checks)
    idle_end(options.program, checks)


if __name__ == "__main__":
    prove(main)
