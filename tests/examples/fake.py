"""fake.py - a gRPC service that says what it is told to: for refusals that a healthy server of today
cannot be brought to, and to see what clients really send.

    fake = Fake(contract)
    fake.answers = [fake.refusal("RESOURCE_EXHAUSTED", "OVERLOADED", retry_s=0.25)]     # the last one stays
    ... fake.requests ...
"""
import threading
import time
from concurrent import futures

import grpc

SUBMIT = "/tradewake.v1.EventService/SubmitEvent"
STREAM = "/tradewake.v1.EventService/StreamEvents"
SILENCE = object()  # no answer, as long as the caller waits


class Refusal(Exception):
    def __init__(self, code, message, details):
        super().__init__(message)
        self.code, self.message, self.details = code, message, details


class Fake:
    def __init__(self, contract):
        self.contract = contract
        self.requests = []      # bytes of every SubmitEvent that arrived
        self.attempts = []      # grpc-previous-rpc-attempts of each: 0, 1, ... by gRPC's own retries
        self.answers = []
        self.refuse_in_stream = 0  # so many events are refused with a retry hint first
        self.streamed = []      # event ids in the order of their coming
        self.unanswered_max = 0
        self.lock = threading.Lock()
        self.server = grpc.server(futures.ThreadPoolExecutor(16))
        self.server.add_generic_rpc_handlers((Handler(self),))
        self.address = "127.0.0.1:%d" % self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def refusal(self, code, reason, field="", retry_s=None):
        new = self.contract.new
        status = new("google.rpc.Status", code=getattr(grpc.StatusCode, code).value[0], message=reason)
        status.details.add().Pack(new("google.rpc.ErrorInfo", reason=reason, domain="tradewake"))
        if field:
            bad = new("google.rpc.BadRequest")
            bad.field_violations.add(field=field, description=reason)
            status.details.add().Pack(bad)
        if retry_s is not None:
            retry = new("google.rpc.RetryInfo")
            retry.retry_delay.FromNanoseconds(int(retry_s * 1e9))
            status.details.add().Pack(retry)
        return Refusal(code, reason, status.SerializeToString())

    def accepted(self, event_id, **fields):
        return self.contract.new("SubmitEventResponse", event_id=event_id, **fields)

    def submit(self, data, context):
        with self.lock:
            self.requests.append(data)
            self.attempts.append(int(dict(context.invocation_metadata()).get("grpc-previous-rpc-attempts", 0)))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is SILENCE:
            over = threading.Event()
            if context.add_callback(over.set):
                over.wait()
            context.abort(grpc.StatusCode.CANCELLED, "nobody waits any more")
        if isinstance(answer, Refusal):
            context.set_trailing_metadata((("grpc-status-details-bin", answer.details),))
            context.abort(getattr(grpc.StatusCode, answer.code), answer.message)
        return answer.SerializeToString()

    def stream(self, requests, _):
        """Reads as fast as the client sends, answers one at a time and slowly."""
        waiting, is_over = [], threading.Event()

        def read():
            for data in requests:
                event = self.contract.message("StreamEventsRequest").FromString(data).event
                with self.lock:
                    waiting.append(event.event_id)
                    self.streamed.append(event.event_id)
                    self.unanswered_max = max(self.unanswered_max, len(waiting))
            is_over.set()
        threading.Thread(target=read, daemon=True).start()
        while not is_over.is_set() or waiting:
            time.sleep(0.002)
            with self.lock:
                if not waiting:
                    continue
                event_id = waiting.pop(0)
            yield self._stream_answer(event_id).SerializeToString()

    def _stream_answer(self, event_id):
        answer = self.contract.new("StreamEventsResponse", event_id=event_id)
        if self.refuse_in_stream > 0:
            self.refuse_in_stream -= 1
            answer.refused.code = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
            answer.refused.reason = "OVERLOADED"
            answer.refused.retry_after.FromMilliseconds(10)
        else:
            answer.accepted.event_id = event_id
        return answer

    def stop(self):
        self.server.stop(None).wait()


class Handler(grpc.GenericRpcHandler):
    def __init__(self, fake):
        self.fake = fake

    def service(self, call):
        if call.method == SUBMIT:
            return grpc.unary_unary_rpc_method_handler(self.fake.submit)
        if call.method == STREAM:
            return grpc.stream_stream_rpc_method_handler(self.fake.stream)
        return None  # UNIMPLEMENTED
