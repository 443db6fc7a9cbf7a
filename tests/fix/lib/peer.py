"""A venue of one FIX session that does what it is told, byte by byte if need be; for what no proper engine would send."""
import socket
import time

from wire import Closed, Line, framed

WAIT_S = 20


class Peer:
    """One client at a time. Numbers go on over connections, as a venue's do; what is sent while there is none is kept for a
    ResendRequest. Everything that came is in `came`."""

    def __init__(self, sender="VENUE", target="CLIENT"):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sender, self.target = sender, target
        self.line = None
        self.next_out = self.next_in = 1
        self.came = []        # messages, in their order, over all connections
        self.kept = {}        # application messages of ours by number: (type, fields)
        self.connections = 0
        self.n_exec = 0

    def close(self):
        if self.line is not None:
            self.line.close()
        self.listener.close()

    # ---- The session. ----

    def accept(self, limit_s=WAIT_S):
        """The next connection; its Logon is returned and not answered."""
        if self.line is not None:
            self.line.close()
        self.listener.settimeout(limit_s)
        sock = self.listener.accept()[0]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.line = Line(sock, self.sender, self.target)
        self.connections += 1
        return self.receive("A", limit_s)

    def logon(self, limit_s=WAIT_S):
        """The next connection, logged on."""
        theirs = self.accept(limit_s)
        if theirs.get(141) == "Y":
            self.next_out, self.next_in = 1, 2
            self.send("A", (98, 0), (108, theirs.get(108)), (141, "Y"))
        else:
            self.send("A", (98, 0), (108, theirs.get(108)))
        return theirs

    def number(self):
        seq, self.next_out = self.next_out, self.next_out + 1
        return seq

    def bytes_of(self, type_, *fields, seq=None, header=()):
        if seq is None:
            seq = self.number()
            if type_ not in "A012345":
                self.kept[seq] = (type_, fields)
        return framed(self.line.body(type_, fields, seq, header))

    def send(self, type_, *fields, seq=None, header=()):
        self.line.sock.sendall(self.bytes_of(type_, *fields, seq=seq, header=header))

    def send_bytes(self, data):
        self.line.sock.sendall(data)

    def keep(self, type_, *fields):
        """Said while nobody listens."""
        self.kept[self.number()] = (type_, fields)

    def take(self, limit_s=WAIT_S):
        message = self.line.receive(limit_s)
        self.came.append(message)
        self.next_in = max(self.next_in, message.seq + 1)
        if message.type == "1":
            self.send("0", (112, message.get(112, "")))
        return message

    def receive(self, type_, limit_s=WAIT_S, **where):
        """The next message of a type, with these fields (t11="..."); others are only noted."""
        end = time.monotonic() + limit_s
        while True:
            message = self.take(max(0.001, end - time.monotonic()))
            if message.type == type_ and all(message.get(int(key[1:])) == value for key, value in where.items()):
                return message

    def closed(self, limit_s=WAIT_S):
        """Whether the other side closes; what it says before is noted."""
        end = time.monotonic() + limit_s
        try:
            while True:
                self.take(max(0.001, end - time.monotonic()))
        except Closed:
            return True
        except TimeoutError:
            return False

    def settled(self):
        """Everything that the other side has to say to what was sent so far is in `came`: it has answered a TestRequest."""
        self.n_exec += 1
        mark = f"SETTLED{self.n_exec}"
        self.send("1", (112, mark))
        self.receive("0", t112=mark)

    def replay(self, first, last, order=None):
        """Kept messages again, with 43=Y; what is not kept is filled by gaps, when they go in their order."""
        for seq in order or range(first, last + 1):
            if seq in self.kept:
                type_, fields = self.kept[seq]
                self.send(type_, *fields, seq=seq, header=((43, "Y"), (122, self._sent())))
            elif order is None:
                self.send("4", (123, "Y"), (36, seq + 1), seq=seq, header=((43, "Y"), (122, self._sent())))

    @staticmethod
    def _sent():
        return time.strftime("%Y%m%d-%H:%M:%S", time.gmtime(time.time() - 1))

    def answer_gap(self, how="replay"):
        """Their ResendRequest, answered. Returns it."""
        asked = self.receive("2")
        first, last = int(asked.get(7)), int(asked.get(16)) or self.next_out - 1
        if how == "replay":
            self.replay(first, last)
        else:
            self.send("4", (123, "Y"), (36, last + 1), seq=first, header=((43, "Y"), (122, self._sent())))
        return asked

    # ---- Orders. ----

    def orders(self, id_=None):
        """NewOrderSingle that came, each time it came."""
        return [m for m in self.came if m.type == "D" and (id_ is None or m.get(11) == id_)]

    def report(self, order, exec_type, status, cum, last=None, exec_id=None, **more):
        """Fields of an ExecutionReport on an order. more: t103="6"."""
        quantity = int(float(order.get(38)))
        self.n_exec += 1
        fields = [(37, "O" + order.get(11)), (11, order.get(11)), (17, exec_id or f"E{self.n_exec}"), (150, exec_type), (39, status),
                  (55, order.get(55)), (54, order.get(54)), (38, quantity), (40, order.get(40)), (14, cum),
                  (151, quantity - cum if status in "01A" else 0), (6, "1.1" if cum else 0)]
        if order.get(1):
            fields.append((1, order.get(1)))
        if last is not None:
            fields += [(32, last), (31, "1.1")]
        return [*fields, *((int(key[1:]), value) for key, value in more.items())]

    def fill(self, order):
        self.send("8", *self.report(order, "0", "0", 0))
        self.send("8", *self.report(order, "F", "2", int(float(order.get(38))), int(float(order.get(38)))))
