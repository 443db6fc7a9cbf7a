#!/usr/bin/python3
"""Secrets, planted as canaries: in a file of the secrets directory, in a token, in a private key, and in settings where they
do not belong. What is no reference is refused; what is one is read at the connection; and none of them is in a log,
an error, an argument, the environment, a page, a file of the state or a core file."""
import os
import resource
import signal
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

import grpc  # noqa: E402
from blackbox import CONFIG, Client, Contract, Server, prove, refused_from, wait_until  # noqa: E402

FILE, LATE, OPEN = "canary-in-file-7f3a91", "canary-late-55d0c2", "canary-in-the-open-c04e11"
FOLLOWERS = "FollowerService/"


class Place:
    """A server with a secrets directory, a policy and TLS-free loopback; what it said is collected."""

    def __init__(self, program, folder, more=""):
        self.program, self.said = program, []
        self.secrets = os.path.join(folder, "secrets")
        os.makedirs(self.secrets, exist_ok=True)
        self.put("acct-1", FILE)
        policy, keys, self.key = (os.path.join(folder, name) for name in ("policy.yaml", "keys.json", "signer.pem"))
        with open(policy, "w") as file:
            file.write("identities:\n  operator: {tokens: true, roles: [operator, admin]}\n")
        if not os.path.exists(self.key):
            self.run("token", "key", "--private", self.key, "--public", keys, "--key-id", "k1")
        self.token = self.run("token", "issue", "--private", self.key, "--key-id", "k1", "--subject", "operator").strip()
        self.said.clear()  # who issues a token is shown it
        self.server = Server(program, config=CONFIG + "access:\n  policy: %s\n  token_keys: %s\nsecrets:\n  directory: %s\n%s" % (
            policy, keys, self.secrets, more))
        self.contract = Contract()

    def put(self, name, text):
        with open(os.path.join(self.secrets, name + ".new"), "w") as file:
            file.write(text + "\n")
        os.replace(os.path.join(self.secrets, name + ".new"), os.path.join(self.secrets, name))

    def run(self, *words):
        done = subprocess.run([self.program, *words], check=True, capture_output=True, text=True)
        self.said.append(done.stdout + done.stderr)
        return done.stdout

    def start(self):
        self.server.start()
        self.client = Client(self.contract, self.server.address)

    def ask(self, path, **fields):
        """The answer, or the refusal."""
        try:
            answer = self.client.stub(path)(self.client.request(path, **fields), timeout=20,
                                            metadata=[("authorization", "Bearer " + self.token)])
            self.said.append(str(answer))
            return answer
        except grpc.RpcError as error:
            refused = refused_from(self.contract, error)
            self.said.append("%s %s %s" % (refused, error.details(), error.trailing_metadata()))
            return refused

    def create(self, follower_id, **settings):
        follower = self.contract.new("Follower", follower_id=follower_id, adapter="paper")
        for key, value in settings.items():
            follower.adapter_config[key] = value
        return self.ask(FOLLOWERS + "CreateFollower", follower=follower)

    def follower(self, follower_id):
        return self.ask(FOLLOWERS + "GetFollower", follower_id=follower_id)

    def everything(self):
        """(where, bytes) of all that it has said, shown or written, but for the secrets directory."""
        found = [("answers", "\n".join(self.said).encode()), ("log", self.server.log().encode())]
        for name in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (self.server.process.pid, name), "rb") as file:
                found.append((name, file.read()))
        for page in ("metrics", "", "readyz"):
            with urllib.request.urlopen("http://%s/%s" % (self.server.admin, page), timeout=10) as answer:
                found.append(("page /" + page, answer.read()))
        for words in (("audit", "--state-dir", self.server.state, "-o", "json"), ("journal", "dump", "--state-dir", self.server.state),
                      ("config", "show", "--effective", "--config", self.server.config)):
            found.append((" ".join(words[:2]), self.run(*words).encode()))
        for path, _, names in os.walk(self.server.state):
            for name in names:
                with open(os.path.join(path, name), "rb") as file:
                    found.append(("state/" + name, file.read()))
        return found


def seen(everything, canaries):
    return ["%s in %s" % (name, where) for where, data in everything for name, canary in canaries.items() if canary.encode() in data]


def in_the_open(place, checks):
    for key, value in (("password", OPEN), ("api_key", OPEN), ("broker_token", OPEN), ("latency", "-----BEGIN PRIVATE KEY-----" + OPEN),
                       ("password", "secret:../" + OPEN)):
        refused = place.create("X", **{key: value})
        checks.true("%s: refused, with the way to go" % key, getattr(refused, "reason", None) == "INVALID_FIELD" and
                    refused.field == 'follower.adapter_config["%s"]' % key and "secret" in refused.message, refused)


def by_reference(place, checks):
    checks.true("a reference is taken", place.create("F1", password="secret:acct-1").follower_id == "F1")
    wait_until(lambda: place.follower("F1").connected, 30, "a connection with it")
    checks.equal("and shown as one", dict(place.follower("F1").adapter_config), {"password": "secret:acct-1"})
    place.create("F2", password="secret:late")
    wait_until(lambda: place.follower("F2").connection_message != "", 30, "a word on why not")
    shown = place.follower("F2")
    checks.true("without its file an account is not connected, and says which", not shown.connected and "secret late" in shown.connection_message, shown)
    place.put("late", LATE)
    wait_until(lambda: place.follower("F2").connected, 30, "a connection once it is there")
    checks.true("once it is there, it is", True)


def cores(program, folder, checks):
    """Of a crash nothing is left; and where core files are asked for, a secret that was used is in none."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    found = {}
    for name, more in (("default", ""), ("wanted", "core_dumps: true\n")):
        place = Place(program, folder, more)
        place.start()
        try:
            place.create("F-in-memory", password="secret:acct-1")
            wait_until(lambda: place.follower("F-in-memory").connected, 30, "a connection")
            place.server.process.send_signal(signal.SIGABRT)
            place.server.process.wait(60)
            place.client.close()
            files = [os.path.join(place.server.folder, file) for file in os.listdir(place.server.folder) if file.startswith("core")]
            found[name] = b"".join(open(file, "rb").read() for file in files)
        finally:
            place.server.end()
    checks.equal("a crash leaves no core file", found["default"], b"")
    if b"F-in-memory" not in found["wanted"]:
        print("     no core files to look into on this machine")
        return
    checks.true("where they are wanted, a secret that was used is in none", FILE.encode() not in found["wanted"])


def main(options, checks):
    with tempfile.TemporaryDirectory(prefix="tradewake-secrets-") as folder:
        place = Place(options.program, folder)
        place.start()
        try:
            in_the_open(place, checks)
            by_reference(place, checks)
            with open(place.key) as file:
                key = file.read().splitlines()[1]
            canaries = {"the file's": FILE, "the late file's": LATE, "what was refused": OPEN,
                        "the token": place.token, "the signing key": key}
            place.client.close()
            checks.equal("none of them is said, shown or written anywhere", seen(place.everything(), canaries), [])
            place.server.terminate()
            checks.equal("nor at the end", seen([("log", place.server.log().encode())], canaries), [])
        finally:
            place.server.end()
        cores(options.program, folder, checks)


if __name__ == "__main__":
    prove(main)
