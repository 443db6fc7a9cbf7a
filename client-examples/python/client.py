"""client.py - what the examples in this folder share: stubs, a channel, and what an error means.

    events = client.events_pb2_grpc.EventServiceStub(client.channel("127.0.0.1:50051"))
    answer = client.call(events.SubmitEvent, request, deadline_s=10)      # raises client.Refused

The stubs are generated from ../../proto at the first run, and again when a .proto is newer; they lie in
generated/. Debian's packages are enough: python3-grpcio and python3-grpc-tools.
"""
import argparse
import fcntl
import glob
import os
import sys
import time

try:
    import grpc
except ImportError:
    print("%s has no grpc: apt-get install python3-grpcio python3-grpc-tools, and run it by /usr/bin/python3"
          % sys.executable, file=sys.stderr)
    sys.exit(2)

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.environ.get("TRADEWAKE_PROTO", os.path.join(HERE, "../../proto"))
GENERATED = os.environ.get("TRADEWAKE_GENERATED", os.path.join(HERE, "generated"))

# Exit codes of every example.
DONE, REFUSED, USAGE, UNREACHABLE, NOT_SETTLED = 0, 1, 2, 3, 4


def _generate():
    """Makes the stubs when they are missing or older than a .proto. One process at a time."""
    files = sorted(file for folder in ("tradewake/v1", "google/rpc")
                   for file in glob.glob(os.path.join(PROTO, folder, "*.proto")))
    if not files:
        sys.exit("no .proto files in %s: set TRADEWAKE_PROTO" % PROTO)
    os.makedirs(GENERATED, exist_ok=True)
    stamp = os.path.join(GENERATED, "stamp")
    with open(os.path.join(GENERATED, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(stamp) and os.path.getmtime(stamp) >= max(map(os.path.getmtime, files)):
            return
        from grpc_tools import protoc  # python3-grpc-tools; needed only here
        command = ["protoc", "-I", PROTO, "--python_out=" + GENERATED, "--grpc_python_out=" + GENERATED]
        if protoc.main(command + files) != 0:
            sys.exit("the stubs could not be generated")
        open(stamp, "w").close()


_generate()
sys.path.insert(0, GENERATED)

from google.rpc import error_details_pb2, status_pb2  # noqa: E402
from tradewake.v1 import (copies_pb2, copies_pb2_grpc, events_pb2, events_pb2_grpc, metrics_pb2,  # noqa: E402,F401
                          metrics_pb2_grpc, types_pb2)


class Refused(Exception):
    """A call that failed: the gRPC status, and the google.rpc details that every refusal carries."""

    def __init__(self, error):
        super().__init__(error)
        self.code = error.code().name
        self.message = error.details() or ""
        self.reason = self.field = ""
        self.retry_after_s = None
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self._read(status_pb2.Status.FromString(value).details)

    def _read(self, details):
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        for detail in details:
            if detail.Unpack(info):
                self.reason = info.reason  # made for programs; the message is for people
            elif detail.Unpack(bad):
                self.field = bad.field_violations[0].field
            elif detail.Unpack(retry):
                self.retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9

    @property
    def is_away(self):
        """The server was not there, or went away: whether the call arrived is not known."""
        return self.code == "UNAVAILABLE"

    def __str__(self):
        again = "" if self.retry_after_s is None else " (again in %g s)" % self.retry_after_s
        return "%s: %s%s" % (self.code, self.message, again)

    def exit_code(self):
        return {"UNAVAILABLE": UNREACHABLE, "DEADLINE_EXCEEDED": NOT_SETTLED}.get(self.code, REFUSED)


class Backoff:
    """How long to wait before the next try: what the server said, or longer each time up to a second."""

    def __init__(self):
        self.reset()

    def reset(self):
        """It works: the next failure is a new one."""
        self.next_s, self.is_told = 0.1, False

    def wait(self, refused, what_next):
        """Says so once per outage."""
        if not self.is_told:
            print("%s; %s" % (refused, what_next), file=sys.stderr, flush=True)
        self.is_told = True
        time.sleep(self.next_s if refused.retry_after_s is None else refused.retry_after_s)
        self.next_s = min(self.next_s * 2, 1.0)


def channel(server):
    """Keepalive finds a dead peer within 30 s; the retries of service-config.json are for what is safe to
    repeat; a restarted server is found again within a second."""
    with open(os.path.join(HERE, "../service-config.json")) as file:
        service_config = file.read()
    return grpc.insecure_channel(server, options=[
        ("grpc.keepalive_time_ms", 20000), ("grpc.keepalive_timeout_ms", 10000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.service_config", service_config), ("grpc.enable_retries", 1),
        ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000)])


def call(method, request, deadline_s):
    """A unary call that is safe to repeat: UNAVAILABLE is sent again, the very same request, until the
    deadline. Everything else that is not OK raises Refused; a deadline that passed is not sent again here."""
    end, backoff = time.monotonic() + deadline_s, Backoff()
    while True:
        try:
            return method(request, timeout=max(0.001, end - time.monotonic()))
        except grpc.RpcError as error:
            refused = Refused(error)
        if not refused.is_away or time.monotonic() + (refused.retry_after_s or backoff.next_s) >= end:
            raise refused
        backoff.wait(refused, "the same request goes out again")


def address(text):
    """gRPC would take port 443 where none is named."""
    if ":" not in text:
        raise argparse.ArgumentTypeError("%r is no address: expected ADDR:PORT" % text)
    return text


def left_s(until):
    """Seconds until a moment of time.monotonic(); None = no end."""
    return None if until is None else max(0.0, until - time.monotonic())


def arguments(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=address, default=os.environ.get("TRADEWAKE_SERVER", "127.0.0.1:50051"))
    parser.add_argument("--master", default="M1")
    return parser


def state(copy):
    return name(copies_pb2.CopyState, copy.state, "COPY_STATE_")


def reason(copy):
    return name(types_pb2.Reason, copy.reason, "REASON_") if copy.reason else ""


def name(enum, value, prefix=""):
    """The name of an enum's value; the number when this contract does not know it yet."""
    try:
        return enum.Name(value)[len(prefix):]
    except ValueError:
        return str(value)


def run(main):
    """Ends the program with what main() returns; a refusal is printed as one line."""
    try:
        sys.exit(main())
    except Refused as refused:
        print(refused, file=sys.stderr)
        if refused.is_away:
            print("start a server with `build/release/tradewake dev`, or name it with --server or TRADEWAKE_SERVER",
                  file=sys.stderr)
        sys.exit(refused.exit_code())
    except KeyboardInterrupt:
        sys.exit(130)
