#!/usr/bin/python3
"""bridge.py - a broker behind a bridge, in Python: serves tradewake.adapter.v1.BrokerAdapterService.

    ./bridge.py --listen unix:/tmp/broker.sock --state /tmp/broker

What a bridge promises, and where it is kept below:
  each order once     Journal: written down before the vendor is called; a repeat is answered from there
  never a guess       _carry_out: what the vendor does not answer is AMBIGUOUS, and stays so until it is looked up
  nothing missed      Updates: numbered; who was away gets what he missed, or is told to take a snapshot
The vendor is vendor.py, simulated: put yours in its place.
"""
import argparse
import collections
import fcntl
import glob
import json
import os
import signal
import sys
import threading
import time
from concurrent import futures

try:
    import grpc
except ImportError:
    sys.exit("%s has no grpc: apt-get install python3-grpcio python3-grpc-tools, run it by /usr/bin/python3" % sys.executable)

import vendor

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.environ.get("TRADEWAKE_PROTO", os.path.join(HERE, "../../proto"))
GENERATED = os.environ.get("TRADEWAKE_GENERATED", os.path.join(HERE, "generated"))


def generate():
    """The stubs, when they are missing or older than a .proto; one process at a time."""
    wanted = [os.path.join(PROTO, "tradewake/v1/types.proto"), os.path.join(PROTO, "tradewake/adapter/v1/broker_adapter.proto")]
    os.makedirs(GENERATED, exist_ok=True)
    stamp = os.path.join(GENERATED, "stamp")
    with open(os.path.join(GENERATED, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(stamp) or os.path.getmtime(stamp) < max(map(os.path.getmtime, wanted)):
            from grpc_tools import protoc
            command = ["protoc", "-I", PROTO, "--python_out=" + GENERATED, "--grpc_python_out=" + GENERATED]
            if protoc.main(command + wanted) != 0:
                sys.exit("the stubs could not be generated from %s: set TRADEWAKE_PROTO" % PROTO)
            open(stamp, "w").close()
    sys.path.insert(0, GENERATED)


generate()
from tradewake.adapter.v1 import broker_adapter_pb2 as pb, broker_adapter_pb2_grpc as pb_grpc  # noqa: E402
from tradewake.v1 import types_pb2 as types  # noqa: E402

MAX_PARALLEL = 16     # calls at once that the vendor stands, per account
SETTLE_S = 1          # so long after an order the vendor's lists may not have it yet
HEARTBEAT_S = 1
REMEMBERED = 1000     # updates, for whoever comes back

# The vendor's numbers, as data. A number that is not here is AMBIGUOUS: nobody knows what was done.
CODES = {
    vendor.NO_CHANGE: (pb.OUTCOME_NO_CHANGE, types.REASON_UNSPECIFIED),
    vendor.NO_MONEY: (pb.OUTCOME_REJECTED, types.REASON_NO_MONEY),
    vendor.BAD_VOLUME: (pb.OUTCOME_REJECTED, types.REASON_INVALID_VOLUME),
    vendor.BAD_SYMBOL: (pb.OUTCOME_REJECTED, types.REASON_SYMBOL_NOT_FOUND),
    vendor.GONE: (pb.OUTCOME_NOT_FOUND, types.REASON_ALREADY_CLOSED),
    vendor.BUSY: (pb.OUTCOME_RETRY_LATER, types.REASON_BUSY),
}
# Faults that can be built in, for tests of those who look for them.
PLANTS = ("repeat", "count", "gap", "early-not-found", "remainder")


class Journal:
    """What was asked, before it is done; what was answered, when it is known. A file: a killed bridge knows it again."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.answers, self.attempts, self.running = {}, {}, set()
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n") and line != "\n":
                    entry = json.loads(line)
                    self._keep(tuple(entry["key"]), entry.get("answer"))
        size = os.fstat(self.file).st_size
        if size > 0 and os.pread(self.file, 1, size - 1) != b"\n":
            os.write(self.file, b"\n")

    def _keep(self, key, answer):
        self.answers[key] = bytes.fromhex(answer) if answer else None
        account, client_order_id, attempt = key
        self.attempts[account, client_order_id] = max(attempt, self.attempts.get((account, client_order_id), 0))

    def begin(self, key, trace=""):
        """True: it is new, and now written down. False: it was begun before. trace: the W3C traceparent that came with it,
        so that this bridge's own spans can be found again; "" = none."""
        with self.lock:
            if key in self.answers:
                return False
            os.write(self.file, (json.dumps({"key": key, "trace": trace}) + "\n").encode())
            self._keep(key, None)
            self.running.add(key)
            return True

    def end(self, key, response):
        """response None: nobody knows."""
        with self.lock:
            if response is not None:
                answer = response.SerializeToString().hex()
                os.write(self.file, (json.dumps({"key": key, "answer": answer}) + "\n").encode())
                self._keep(key, answer)
            self.running.discard(key)

    def latest(self, account, client_order_id):
        """(is_running, answer or None) of the last attempt; None: never begun."""
        with self.lock:
            attempt = self.attempts.get((account, client_order_id))
            if attempt is None:
                return None
            key = (account, client_order_id, attempt)
            return key in self.running, self.answers[key]


class Updates:
    """What happened at one account, numbered; a new process is a new epoch."""

    def __init__(self):
        self.news = threading.Condition()
        self.epoch, self.last = vendor.epoch(), 0
        self.kept = collections.deque(maxlen=REMEMBERED)

    def add(self, skip=False, **payload):
        with self.news:
            self.last += 1
            if not skip:
                message = pb.WatchAccountResponse(sequence=self.last, **payload)
                message.at.GetCurrentTime()
                self.kept.append(message)
                self.news.notify_all()

    def can_resume(self, epoch, after):
        oldest = self.kept[0].sequence if self.kept else self.last + 1
        return epoch == self.epoch and oldest - 1 <= after <= self.last

    def after(self, sequence, wait_s):
        with self.news:
            if self.last <= sequence:
                self.news.wait(wait_s)
            return [message for message in self.kept if message.sequence > sequence]


class Session:
    def __init__(self, session_id, key, account, updates):
        self.id, self.key, self.account, self.updates = session_id, key, account, updates


def status(outcome, reason=types.REASON_UNSPECIFIED, **more):
    return pb.Status(outcome=outcome, reason=reason, **more)


class Bridge(pb_grpc.BrokerAdapterServiceServicer):
    def __init__(self, state, plant):
        os.makedirs(state, exist_ok=True)
        self.broker = vendor.Broker(os.path.join(state, "ledger"))
        self.journal = Journal(os.path.join(state, "journal"))
        self.plant = plant
        self.lock = threading.Lock()
        self.sessions, self.updates, self.sent_at = {}, {}, {}

    # ---- Life.

    def GetCapabilities(self, request, context):
        response = pb.GetCapabilitiesResponse(
            adapter="sample-python", version="1", hedging=True, partial_close=True, stops_on_open=True, modify_order=True,
            order_types=[types.ORDER_TYPE_MARKET, types.ORDER_TYPE_LIMIT, types.ORDER_TYPE_STOP, types.ORDER_TYPE_STOP_LIMIT],
            times_in_force=[pb.TIME_IN_FORCE_GTC, pb.TIME_IN_FORCE_GTD], resumable_watch=True,
            id_strength=pb.ID_STRENGTH_JOURNAL, client_order_id_max=64, comment_max=31, max_parallel=MAX_PARALLEL)
        response.not_found_settle.FromMilliseconds(int(SETTLE_S * 1000))
        response.heartbeat.FromMilliseconds(int(HEARTBEAT_S * 1000))
        return response

    def OpenSession(self, request, context):
        account = self.broker.account(request.account_key)
        with self.lock:
            updates = self.updates.setdefault(request.account_key, Updates())
            session = Session(vendor.epoch(), request.account_key, account, updates)
            self.sessions[session.id] = session
        account.set_up(request.config.get("latency", "1"), request.config.get("faults", ""))
        account.on_change = lambda position, closed: updates.add(
            position=pb.PositionUpdate(position=position_message(position), closed=closed))
        account.on_line = lambda connected, why: updates.add(
            connection=pb.ConnectionUpdate(connected=connected, why=why))
        return pb.OpenSessionResponse(session_id=session.id, epoch=updates.epoch, status=status(pb.OUTCOME_DONE),
                                      account=types.AccountState(**account.state()), symbols=list(vendor.SYMBOLS))

    def CloseSession(self, request, context):
        with self.lock:
            self.sessions.pop(request.session_id, None)
        return pb.CloseSessionResponse()

    def GetInstrument(self, request, context):
        self._session(request, context)
        row = vendor.SYMBOLS.get(request.symbol)
        if row is None:
            return pb.GetInstrumentResponse(status=status(pb.OUTCOME_NOT_FOUND, types.REASON_SYMBOL_NOT_FOUND))
        names = ("tick_size", "min_volume", "volume_step", "max_volume", "contract_size", "base_currency", "profit_currency",
                 "bid", "ask")
        return pb.GetInstrumentResponse(status=status(pb.OUTCOME_DONE), **dict(zip(names, row)))

    def _session(self, request, context):
        with self.lock:
            session = self.sessions.get(request.session_id)
        if session is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no such session: OpenSession first")
        return session

    # ---- Orders.

    def Execute(self, request, context):
        session = self._session(request, context)
        key = (session.key, request.client_order_id, request.attempt)
        if request.HasField("deadline") and time.time() >= request.deadline.ToMicroseconds() / 1e6:
            return pb.ExecuteResponse(status=status(pb.OUTCOME_REJECTED, types.REASON_TIMEOUT, not_sent=True))
        trace = dict(context.invocation_metadata()).get("traceparent", "")
        if not self.journal.begin(key, trace) and self.plant != "repeat":
            return self._repeat(session, key)
        response = None
        try:
            response = self._carry_out(session, request)
        finally:
            self.journal.end(key, response)  # whatever went wrong: what is not answered is not known
        self.sent_at[session.key, request.client_order_id] = time.time()
        return response or pb.ExecuteResponse(status=status(pb.OUTCOME_AMBIGUOUS, types.REASON_TIMEOUT))

    def _repeat(self, session, key):
        answer = self.journal.answers[key]
        if answer is None:
            return pb.ExecuteResponse(status=status(pb.OUTCOME_AMBIGUOUS), repeated_answer=True)
        response = pb.ExecuteResponse.FromString(answer)
        response.repeated_answer = True
        return response

    def _carry_out(self, session, request):
        """None: nobody knows."""
        try:
            return self._done(session, self._call(session.account, request))
        except vendor.Refused as refused:
            if refused.code not in CODES:
                return None
            outcome, reason = CODES[refused.code]
            return pb.ExecuteResponse(status=status(outcome, reason, broker_code=refused.code,
                                                    broker_message=refused.text, from_broker=True))
        except (vendor.NoAnswer, vendor.LineLost):
            return None

    @staticmethod
    def _call(account, request):
        tag, kind = request.client_order_id, request.WhichOneof("operation")
        if kind == "open":
            order = request.open
            side = "BUY" if order.side == types.SIDE_BUY else "SELL"
            if order.type == types.ORDER_TYPE_MARKET:
                return account.open(order.symbol, side, order.volume, tag, order.stop_loss, order.take_profit)
            expires_s = order.expires_at.seconds if order.HasField("expires_at") else 0
            return account.place(order.symbol, side, types.OrderType.Name(order.type), order.volume, order.price,
                                 order.stop_price, tag, order.stop_loss, order.take_profit, expires_s)
        if kind == "close":
            return account.close(request.close.position_id, request.close.volume, tag)
        if kind == "modify" and request.modify.position_id:
            return account.modify(request.modify.position_id, request.modify.stop_loss, request.modify.take_profit, tag)
        if kind == "modify":
            order = request.modify
            expires_s = order.expires_at.seconds if order.HasField("expires_at") else None
            return account.modify_order(order.order_id, order.price, order.stop_price, order.stop_loss, order.take_profit,
                                        expires_s, tag)
        return account.cancel(request.cancel.order_id, tag)

    def _done(self, session, deal):
        response = pb.ExecuteResponse(status=status(pb.OUTCOME_DONE, from_broker=True), order_id=deal.get("order", ""),
                                      position_id=deal.get("ticket", ""), filled_volume=deal["volume"],
                                      average_price=deal["price"], remaining_volume=deal.get("rest", ""),
                                      remainder_position_id=deal.get("rest_ticket", ""))
        if self.plant == "remainder" and response.remainder_position_id:
            response.remainder_position_id = response.position_id
        return response

    def Lookup(self, request, context):
        session = self._session(request, context)
        if self.plant == "early-not-found":
            if time.time() - self.sent_at.get((session.key, request.client_order_id), 0) < SETTLE_S:
                return self._looked_up(pb.ExecuteResponse(status=status(pb.OUTCOME_NOT_FOUND)), True)
        known = self.journal.latest(session.key, request.client_order_id)
        if known is not None and known[0]:
            return self._looked_up(pb.ExecuteResponse(status=status(pb.OUTCOME_AMBIGUOUS)), False)  # it is on its way
        deals = session.account.find(request.client_order_id)
        if deals:
            response = self._done(session, deals[-1])
            if response.order_id in session.account.orders:
                response.status.outcome = pb.OUTCOME_ACCEPTED  # it works at the broker
            return self._looked_up(response, True)
        if known is not None and known[1] is not None:
            return self._looked_up(pb.ExecuteResponse.FromString(known[1]), True)
        return self._looked_up(pb.ExecuteResponse(status=status(pb.OUTCOME_NOT_FOUND)), True)

    @staticmethod
    def _looked_up(last, authoritative):
        response = pb.LookupResponse(last=last, authoritative=authoritative)
        response.as_of.GetCurrentTime()
        return response

    # ---- What the account holds, and what happens there.

    def Snapshot(self, request, context):
        session = self._session(request, context)
        account, updates = session.account, session.updates
        with self.broker.lock, updates.news:  # nothing happens between the list and its number
            response = pb.SnapshotResponse(
                epoch=updates.epoch, sequence=updates.last, account=types.AccountState(**account.state()),
                positions=[position_message(position) for position in account.positions.values()],
                orders=[order_message(order) for order in account.orders.values()])
        response.position_count, response.order_count = len(response.positions), len(response.orders)
        if self.plant == "count":
            response.position_count = 0
        response.as_of.GetCurrentTime()
        return response

    def WatchAccount(self, request, context):
        session = self._session(request, context)
        updates = session.updates
        with updates.news:
            if updates.can_resume(request.epoch, request.resume_after):
                at = request.resume_after
                first = pb.WatchAccountResponse(resumed=pb.Resumed(epoch=updates.epoch))
            else:
                at = updates.last
                first = pb.WatchAccountResponse(snapshot_required=pb.SnapshotRequired(epoch=updates.epoch, why="nothing to resume"))
        yield first
        heartbeat_at = time.time() + HEARTBEAT_S
        while context.is_active() and session.id in self.sessions:
            for message in updates.after(at, max(0.0, heartbeat_at - time.time())):
                at = message.sequence
                if self.plant != "gap" or at % 2:
                    yield message
            if time.time() >= heartbeat_at:
                heartbeat_at = time.time() + HEARTBEAT_S
                yield pb.WatchAccountResponse(heartbeat=pb.AccountHeartbeat(last_sequence=at))


def position_message(position):
    message = pb.Position(position_id=position["ticket"], symbol=position["symbol"],
                          side=types.SIDE_BUY if position["side"] == "BUY" else types.SIDE_SELL, volume=position["volume"],
                          open_price=position["price"], stop_loss=position["stop_loss"], take_profit=position["take_profit"],
                          client_order_id=position["tag"], from_position_id=position["from"])
    message.opened_at.FromSeconds(int(position["at"]))
    return message


def order_message(order):
    message = pb.WorkingOrder(order_id=order["ticket"], symbol=order["symbol"],
                              side=types.SIDE_BUY if order["side"] == "BUY" else types.SIDE_SELL,
                              type=types.OrderType.Value(order["kind"]), volume=order["volume"], price=order["price"],
                              stop_price=order["stop_price"], stop_loss=order["stop_loss"],
                              take_profit=order["take_profit"], client_order_id=order["tag"])
    if order["expires_s"]:
        message.expires_at.FromSeconds(order["expires_s"])
    return message


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", default="127.0.0.1:50071", help="ADDR:PORT or unix:PATH")
    parser.add_argument("--state", default="./bridge-state", help="folder of the journal and of the simulated broker's ledger")
    parser.add_argument("--plant", choices=PLANTS, default="", help="a fault, for tests of those who look for faults")
    options = parser.parse_args()
    if options.listen.startswith("unix:") and os.path.exists(options.listen[5:]):
        os.unlink(options.listen[5:])
    # A stream keeps its thread: as many as accounts, and MAX_PARALLEL calls of each.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=512), options=[("grpc.so_reuseport", 0)])
    pb_grpc.add_BrokerAdapterServiceServicer_to_server(Bridge(options.state, options.plant), server)
    port = server.add_insecure_port(options.listen)
    server.start()
    print("listening on %s" % (options.listen if options.listen.startswith("unix:") else
                               "%s:%d" % (options.listen.rpartition(":")[0], port)), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        server.stop(0.2)


if __name__ == "__main__":
    main()
