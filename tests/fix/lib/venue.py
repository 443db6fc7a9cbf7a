"""The test venue as a process, and its ledger."""
import os
import subprocess

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
PROGRAM = os.environ.get("FIX_ACCEPTOR", os.path.join(ROOT, "build/release/fix_acceptor"))


class Venue:
    """with Venue(folder, "--sessions", "30") as venue: venue.port, venue.command("price EURUSD 1.2"), venue.ledger()"""

    def __init__(self, folder, *options, ledger="ledger", program=None):
        self.path = os.path.join(folder, ledger)
        self.process = subprocess.Popen([program or PROGRAM, "--ledger", self.path, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("ready port="):
            raise RuntimeError(f"the venue said {line!r}")
        self.port = int(line.split()[1].partition("=")[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def command(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"{text}: {answer}")

    def ledger(self, *what):
        """(ns, what, session, {key: value}) of each line; messages have their text in "message"."""
        entries = []
        with open(self.path, encoding="latin-1") as file:
            for line in file:
                ns, kind, session, *rest = line.rstrip("\n").split(" ", 3)
                rest = rest[0] if rest else ""
                if what and kind not in what:
                    continue
                if kind in ("in", "out", "event"):
                    values = {"message": rest}
                else:
                    values = dict(word.partition("=")[::2] for word in rest.split())
                entries.append((int(ns), kind, session, values))
        return entries

    def count(self, what, **where):
        return sum(all(values.get(key) == value for key, value in where.items()) for *_, values in self.ledger(what))

    def between(self, id_, first, last):
        """Seconds from the first line of a kind to the first of another, of one ClOrdID."""
        at = {}
        for ns, kind, _, values in self.ledger(first, last):
            if values.get("id") == id_:
                at.setdefault(kind, ns)
        return (at[last] - at[first]) / 1e9

    def executed_twice(self):
        """ClOrdIDs that arrived more than once and were executed more than once, or whose fills sum above the order."""
        accepted, faults = {}, []
        for _, kind, session, values in self.ledger("accepted", "fill"):
            key = (session, values.get("account", ""), values["id"], values["order"])
            if kind == "accepted":
                same = accepted.setdefault(key[:3], values["order"])
                if same != values["order"]:
                    faults.append(key)
            elif float(values["cum"]) > float(values["qty"]):
                faults.append(key)
        return faults

    def sent_numbers_fell(self):
        """Places where a client used a number again or a lower one, without PossDup, outside of a reset."""
        last, faults = {}, []
        for _, _, session, values in self.ledger("in"):
            fields = dict(field.partition("=")[::2] for field in values["message"].split("|") if field)
            if fields.get("43") == "Y" or not fields.get("34", "").isdigit():
                continue
            if fields.get("35") == "A" and fields.get("141") == "Y":
                last[session] = 0
            if int(fields["34"]) <= last.get(session, 0):
                faults.append((session, last[session], values["message"]))
            last[session] = max(last.get(session, 0), int(fields["34"]))
        return faults
