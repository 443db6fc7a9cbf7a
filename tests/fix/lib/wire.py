"""FIX messages as bytes and fields, and a socket that speaks them; small and strict, for tests' own peers."""
import select
import socket
import time

SOH = b"\x01"


def now():
    seconds, rest = divmod(time.time_ns(), 10**9)
    return time.strftime("%Y%m%d-%H:%M:%S", time.gmtime(seconds)) + ".%03d" % (rest // 10**6)


def framed(body, begin=b"FIX.4.4"):
    """A body ("35=...<SOH>...") with its BeginString, length and checksum."""
    text = b"8=" + begin + SOH + b"9=" + str(len(body)).encode() + SOH + body
    return text + b"10=%03d" % (sum(text) % 256) + SOH


class Message(list):
    """Fields in their order: (tag, value), both as they stood; value is text (latin-1)."""

    def __init__(self, data=b""):
        super().__init__()
        for field in data.split(SOH)[:-1]:
            tag, _, value = field.partition(b"=")
            self.append((int(tag) if tag.isdigit() else -1, value.decode("latin-1")))

    def get(self, tag, default=None):
        return next((value for key, value in self if key == tag), default)

    @property
    def type(self):
        return self.get(35)

    @property
    def seq(self):
        return int(self.get(34, "0"))

    def __str__(self):
        return "|".join(f"{tag}={value}" for tag, value in self)


class Closed(Exception):
    """The other side has closed the connection."""


class Line:
    """A connection. `sender` and `target` are ours and theirs; numbers are counted, and whoever breaks them says so."""

    def __init__(self, sock, sender, target):
        self.sock, self.sender, self.target = sock, sender, target
        self.buffer, self.next_out, self.next_in = b"", 1, 1
        self.bad = []  # what they sent that is no FIX message

    def body(self, type_, fields, seq=None, header=()):
        """header: more header fields (43, 97, 122). Takes the next number unless seq is given."""
        if seq is None:
            seq, self.next_out = self.next_out, self.next_out + 1
        head = [(35, type_), (34, seq), (49, self.sender), (52, now()), (56, self.target), *header]
        return b"".join(f"{tag}={value}".encode("latin-1") + SOH for tag, value in [*head, *fields])

    def send(self, type_, *fields, seq=None, header=()):
        self.sock.sendall(framed(self.body(type_, fields, seq, header)))

    def _cut(self):
        """One whole message of the buffer, or None."""
        if not self.buffer:
            return None
        end = self.buffer.find(SOH + b"9=")
        stop = self.buffer.find(SOH, end + 3) if end >= 0 else -1
        if stop < 0:
            return None
        size = stop + 1 + int(self.buffer[end + 3:stop]) + 7
        if len(self.buffer) < size:
            return None
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        if data[-7:-4] != b"10=" or int(data[-4:-1]) != sum(data[:-7]) % 256:
            self.bad.append(data)
        return Message(data)

    def receive(self, limit_s=20):
        """The next message. Closed: there is none any more; TimeoutError: there is none yet."""
        end = time.monotonic() + limit_s
        while True:
            message = self._cut()
            if message is not None:
                return message
            if not select.select([self.sock], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"nothing within {limit_s} s")
            try:
                data = self.sock.recv(65536)
            except OSError as error:
                raise Closed(str(error)) from error
            if not data:
                raise Closed("closed by the other side")
            self.buffer += data

    def expect(self, type_, limit_s=20, **where):
        """The next message of this type; heartbeats that come before it are answered for. where: t11="...". """
        end = time.monotonic() + limit_s
        while True:
            message = self.receive(max(0, end - time.monotonic()))
            if message.type == type_ and all(message.get(int(key[1:])) == value for key, value in where.items()):
                return message
            if message.type == "1":
                self.send("0", (112, message.get(112, "")))

    def close(self):
        self.sock.close()

    def reset(self):
        """RST instead of an end."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()


def connect(port, sender, target, reset=True):
    """As a client, logged in."""
    line = Line(socket.create_connection(("127.0.0.1", port), 10), sender, target)
    line.send("A", (98, 0), (108, 30), *([(141, "Y")] if reset else []))
    line.expect("A")
    return line
