#!/usr/bin/python3
"""fake_server.py - the smallest server that a case can talk to, for the tests of the runner.

It is started like tradewake (`serve --state-dir ...`), opens what it is told to open, and closes it.
FAKE_LIE names one promise that it breaks, so that a test can see the runner notice:
    count      one follower is forgotten in `accepted`
    reason     skipped copies have no reason
    copy_id    ids are not the published function
    twice      every open is executed twice
    believed   CompareFollower believes what the book does not have
    stream     a refusal over StreamEvents names no field
    ends       a refusal ends the stream
    duplicate  a repeated event id is sent again
    crash      the server dies at the first event
    busy       the first three calls are UNAVAILABLE with RetryInfo
    slow       an answer takes 300 ms
"""
import os
import sys
import threading
import time
from concurrent import futures

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from case import copy_id  # noqa: E402
from contract import Contract  # noqa: E402

LIE = os.environ.get("FAKE_LIE", "")
DONE, SKIPPED = 3, 6


class Refusal(Exception):
    def __init__(self, code, reason, field="", retry_s=None):
        super().__init__(reason)
        self.code, self.reason, self.field, self.retry_s = code, reason, field, retry_s


class Fake:
    def __init__(self):
        self.contract = Contract()
        self.new = self.contract.new
        self.followers, self.masters, self.books, self.events, self.deals = {}, {}, {}, {}, {}
        self.lock = threading.Lock()
        self.refusals_left = 3 if LIE == "busy" else 0

    def Check(self, _):
        return self.new("HealthCheckResponse", status=1)

    def CreateFollower(self, request):
        follower = request.follower
        follower.connected = True
        follower.account.balance = "10000"
        self.followers[follower.follower_id] = follower
        self.books[follower.follower_id], self.deals[follower.follower_id] = [], []
        return follower

    def ListFollowers(self, _):
        return self.new("ListFollowersResponse", followers=self.followers.values())

    def CreateSubscription(self, request):
        self.masters.setdefault(request.subscription.master_id, []).append(request.subscription)
        return request.subscription

    def GetMaster(self, request):
        if request.master_id not in self.masters:
            raise Refusal("NOT_FOUND", "NOT_FOUND", "master_id")
        return self.new("Master", master_id=request.master_id, followers=len(self.masters[request.master_id]))

    def SubmitEvent(self, request):
        if LIE == "crash":
            print("AddressSanitizer: made up", flush=True)
            os._exit(7)
        if LIE == "slow":
            time.sleep(0.3)
        with self.lock:
            return self.submit(request.event)

    def submit(self, event):
        if self.refusals_left:
            self.refusals_left -= 1
            raise Refusal("UNAVAILABLE", "SHUTTING_DOWN", retry_s=0.01)
        if event.master_id not in self.masters:
            raise Refusal("NOT_FOUND", "MASTER_NOT_FOUND", "event.master_id")
        if event.open.volume == "abc":
            raise Refusal("INVALID_ARGUMENT", "INVALID_FIELD", "event.open.volume")
        known = self.events.get(event.event_id)
        if known is not None and LIE != "duplicate":
            known.duplicate = True
            return known
        answer = self.new("SubmitEventResponse", event_id=event.event_id)
        for subscription in self.masters[event.master_id]:
            answer.copies.append(self.copy(event, subscription.follower_id))
            state = answer.copies[-1].state
            answer.accepted += state == DONE
            answer.skipped += state == SKIPPED
        answer.accepted -= LIE == "count"
        self.events[event.event_id] = self.contract.message("SubmitEventResponse").FromString(
            answer.SerializeToString())
        return answer

    def copy(self, event, follower_id):
        kind = event.WhichOneof("action")
        action = getattr(event, kind)
        copy = self.new("CopySummary", follower_id=follower_id, state=DONE, symbol="EURUSD",
                        action={"open": 1, "modify": 2, "close": 3}[kind],
                        copy_id=copy_id(event.master_id, event.event_id, follower_id, action.position_id,
                                        kind.upper(), leg=int(LIE == "copy_id")))
        book = self.books[follower_id]
        if kind == "open":
            for _ in range(2 if LIE == "twice" else 1):
                book.append(self.new("PaperPosition", position_id="P%d" % len(self.deals[follower_id]), symbol="EURUSD",
                                     side=action.side, volume=action.volume, client_order_id=action.position_id))
                self.deals[follower_id].append(self.new("PaperDeal"))
            copy.volume = action.volume
        elif kind == "close":
            book[:] = [position for position in book if position.client_order_id != action.position_id]
        else:
            copy.state, copy.reason = SKIPPED, 0 if LIE == "reason" else 21
        return copy

    def StreamEvents(self, requests):
        for request in requests:
            answer = self.new("StreamEventsResponse", event_id=request.event.event_id)
            try:
                answer.accepted.CopyFrom(self.submit(request.event))
            except Refusal as refusal:
                if LIE == "ends":
                    raise
                answer.refused.code = getattr(grpc.StatusCode, refusal.code).value[0]
                answer.refused.reason = refusal.reason
                answer.refused.field = "" if LIE == "stream" else refusal.field
            yield answer

    def GetBook(self, request):
        deals = self.deals[request.follower_id]
        return self.new("GetBookResponse", positions=self.books[request.follower_id], deals=deals, calls=len(deals))

    def CompareFollower(self, request):
        tickets = [(position.position_id, position.client_order_id) for position in self.books[request.follower_id]]
        tickets += [("P99", "99")] if LIE == "believed" else []
        return self.new("CompareFollowerResponse", positions=[
            self.new("HeldPosition", master_position_id=position, broker_position_ids=[ticket])
            for ticket, position in tickets])

    def ListCopies(self, _):
        return self.new("ListCopiesResponse")

    # gRPC around it.
    def abort(self, context, refusal):
        status = self.new("google.rpc.Status", code=getattr(grpc.StatusCode, refusal.code).value[0])
        details = [self.new("ErrorInfo", reason=refusal.reason, domain="tradewake")]
        if refusal.field:
            details.append(self.new("BadRequest"))
            details[-1].field_violations.add().field = refusal.field
        if refusal.retry_s is not None:
            details.append(self.new("RetryInfo"))
            details[-1].retry_delay.FromMilliseconds(int(refusal.retry_s * 1e3))
        for detail in details:
            packed = status.details.add()
            packed.type_url = "type.googleapis.com/" + detail.DESCRIPTOR.full_name
            packed.value = detail.SerializeToString()
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(getattr(grpc.StatusCode, refusal.code), refusal.reason)

    def handler(self, details):
        _, service, method = details.method.split("/")
        _, request_class, _ = self.contract.method("%s/%s" % (service, method))
        run = getattr(self, method)

        def unary(request, context):
            try:
                return run(request)
            except Refusal as refusal:
                self.abort(context, refusal)

        def stream(requests, context):
            try:
                yield from run(requests)
            except Refusal as refusal:
                self.abort(context, refusal)

        kind, call = (grpc.stream_stream_rpc_method_handler, stream) if method == "StreamEvents" else \
            (grpc.unary_unary_rpc_method_handler, unary)
        return kind(call, request_deserializer=request_class.FromString,
                    response_serializer=lambda message: message.SerializeToString())


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, fake):
        self.fake = fake

    def service(self, details):
        return self.fake.handler(details)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Handlers(Fake())])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print("I server.listening listen=127.0.0.1:%d admin=127.0.0.1:%d" % (port, port), file=sys.stderr, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
