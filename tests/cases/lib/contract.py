"""contract.py - the public protos at run time, and a client that speaks them.

Nothing is generated into the tree: protoc writes one descriptor set into a temporary folder, and
messages and methods are looked up in it by name. Whoever uses this file knows the service only from
its protos, as any other client would.

    contract = Contract()
    client = Client(contract, "127.0.0.1:50051")
    client.call("EventService/GetMaster", contract.new("GetMasterRequest", master_id="M1"))
"""
import os
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# What the cases and the black-box tests speak; imports follow by themselves.
PROTO_FILES = [
    "google/rpc/error_details.proto", "google/rpc/status.proto",
    "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto",
    "tradewake/v1/copies.proto", "tradewake/v1/errors.proto", "tradewake/v1/events.proto",
    "tradewake/v1/followers.proto", "tradewake/v1/metrics.proto", "tradewake/v1/types.proto",
    "tradewake/paper/v1/paper.proto",
]
# Names without a package are looked for in these, in this order.
PACKAGES = ["tradewake.v1", "tradewake.paper.v1", "grpc.health.v1", "grpc.reflection.v1", "google.rpc",
            "google.protobuf"]

CALL_DEADLINE_S = 30


class Contract:
    """The descriptor pool of the public protos."""

    def __init__(self, proto_folder=None):
        proto_folder = proto_folder or os.path.join(REPOSITORY, "proto")
        with tempfile.TemporaryDirectory(prefix="tradewake-contract-") as folder:
            path = os.path.join(folder, "contract.binpb")
            subprocess.run(["protoc", "-I", proto_folder, "--include_imports",
                            "--descriptor_set_out=" + path] + PROTO_FILES, check=True)
            with open(path, "rb") as file:
                files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
        self.pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self.pool.Add(file)
        self.factory = message_factory.MessageFactory(self.pool)
        self.classes = {}
        self.services = {}
        for file in files.file:
            for service in file.service:
                self.services[service.name] = "%s.%s" % (file.package, service.name)

    def message(self, name):
        """The class of a message, by its full name or its name within one of PACKAGES."""
        if name not in self.classes:
            self.classes[name] = self.factory.GetPrototype(self._find(name))
        return self.classes[name]

    def _find(self, name):
        for candidate in [name] + ["%s.%s" % (package, name) for package in PACKAGES]:
            try:
                return self.pool.FindMessageTypeByName(candidate)
            except KeyError:
                pass
        raise KeyError(name)

    def new(self, name, **fields):
        return self.message(name)(**fields)

    def from_json(self, name, value):
        """A message out of proto3 JSON. An enum may be a number that the enum does not have."""
        return json_format.ParseDict(value, self.message(name)(), descriptor_pool=self.pool)

    def method(self, path):
        """"EventService/SubmitEvent" -> (full path, request class, answer class, MethodDescriptor)."""
        service_name, method_name = path.split("/")
        service = self.pool.FindServiceByName(self.services.get(service_name, service_name))
        method = service.methods_by_name[method_name]
        return ("/%s/%s" % (service.full_name, method_name), self.message(method.input_type.full_name),
                self.message(method.output_type.full_name))


class Refused(Exception):
    """A call that did not end with OK, told by its google.rpc details."""

    def __init__(self, code, reason="", field="", message="", retry_s=None, infos=0, metadata=None):
        super().__init__(code)
        self.code = code
        self.reason = reason
        self.field = field
        self.message = message
        self.retry_s = retry_s  # None = no RetryInfo
        self.infos = infos      # how many ErrorInfo came with it
        self.metadata = metadata or {}

    def __str__(self):
        words = [self.code, self.reason, self.field]
        return " ".join(word for word in words if word) + (": " + self.message if self.message else "")


def refused_from(contract, error):
    """The Refused of a grpc.RpcError."""
    refused = Refused(error.code().name, message=error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = contract.new("google.rpc.Status")
        status.ParseFromString(value)
        for detail in status.details:
            kind = detail.type_url.split("/")[-1]
            if kind == "google.rpc.ErrorInfo":
                info = contract.message(kind).FromString(detail.value)
                refused.reason, refused.infos = info.reason, refused.infos + 1
                refused.metadata = dict(info.metadata)
            elif kind == "google.rpc.BadRequest":
                violations = contract.message(kind).FromString(detail.value).field_violations
                refused.field = violations[0].field if violations else ""
            elif kind == "google.rpc.RetryInfo":
                delay = contract.message(kind).FromString(detail.value).retry_delay
                refused.retry_s = delay.seconds + delay.nanos / 1e9
    return refused


def as_bytes(request):
    return request if isinstance(request, bytes) else request.SerializeToString()


class Client:
    """One connection. Requests are messages, or bytes that are sent as they are."""

    def __init__(self, contract, address, options=(), compression=None):
        self.contract = contract
        self.address = address
        self.channel = grpc.insecure_channel(address, compression=compression, options=[
            ("grpc.use_local_subchannel_pool", 1),  # a connection of its own, also to a known address
            ("grpc.enable_retries", 0), ("grpc.max_receive_message_length", 4 << 20)] + list(options))
        self.stubs = {}
        self.lock = threading.Lock()

    def close(self):
        self.channel.close()

    def stub(self, path, kind="unary_unary"):
        with self.lock:
            key = (path, kind)
            if key not in self.stubs:
                full, _, answer = self.contract.method(path)
                self.stubs[key] = getattr(self.channel, kind)(
                    full, request_serializer=as_bytes, response_deserializer=answer.FromString)
            return self.stubs[key]

    def call(self, path, request, deadline_s=CALL_DEADLINE_S):
        """A unary call. UNAVAILABLE with RetryInfo is repeated within the deadline; all else that is
        not OK raises Refused."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                return self.stub(path)(request, timeout=max(0.001, end - time.monotonic()))
            except grpc.RpcError as error:
                refused = refused_from(self.contract, error)
            if refused.code != "UNAVAILABLE" or refused.retry_s is None \
                    or time.monotonic() + refused.retry_s >= end:
                raise refused
            time.sleep(max(refused.retry_s, 0.001))

    def start(self, path, request, deadline_s=CALL_DEADLINE_S):
        """A unary call that goes on beside the caller: a grpc future."""
        return self.stub(path).future(request, timeout=deadline_s)

    def watch(self, path, request, deadline_s=None):
        """A call that streams answers: an iterator with cancel()."""
        return self.stub(path, "unary_stream")(request, timeout=deadline_s)

    def converse(self, path, requests, deadline_s=CALL_DEADLINE_S):
        """A call that streams both ways: an iterator with cancel()."""
        return self.stub(path, "stream_stream")(requests, timeout=deadline_s)

    def request(self, path, **fields):
        return self.contract.method(path)[1](**fields)

    def ask(self, path, **fields):
        """call() with the request named field by field."""
        return self.call(path, self.request(path, **fields))


def set_time(field, epoch_s):
    """Puts seconds since the epoch into a Timestamp; to the microsecond, not below."""
    field.FromMicroseconds(int(epoch_s * 1e6))
