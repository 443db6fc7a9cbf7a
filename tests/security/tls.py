#!/usr/bin/python3
"""TLS as an operator and two kinds of clients see it: our own program, and gRPC of Python. Certificates are
made by openssl in a folder of this run. A stranger gets nothing; a certificate that is replaced is served
without a restart; what will not do is one line that names the file."""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../blackbox/lib"))

import grpc  # noqa: E402
from blackbox import CONFIG, Server, prove, wait_until  # noqa: E402
from program import Broken  # noqa: E402

SERVER_NAMES = "DNS:localhost,IP:127.0.0.1"
CONNECT_S = 5


class Files:
    """Authorities and what they sign: NAME.pem and NAME.key in one folder."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *words):
        ended = subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True, text=True)
        if ended.returncode != 0:
            raise Broken("openssl %s: %s" % (words[0], ended.stderr[-300:]))

    def authority(self, name):
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                     "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".pem")

    def signed(self, name, by, alternative):
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                     "/CN=" + name, "-keyout", name + ".key", "-out", name + ".csr")
        with open(self.path(name + ".ext"), "w") as file:
            file.write("subjectAltName=%s\n" % alternative)
        self.openssl("x509", "-req", "-in", name + ".csr", "-CA", by + ".pem", "-CAkey", by + ".key", "-CAcreateserial",
                     "-days", "1", "-extfile", name + ".ext", "-out", name + ".pem")

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def replace(self, name, by):
        """As a renewal does it: the new file under the old name at once."""
        for ending in (".key", ".pem"):
            os.replace(self.path(by + ending), self.path(name + ending))


def health(program, server, *words):
    """Exit code and words of `tradewake health`."""
    ended = subprocess.run([program, "health", "--server", server.address, "--timeout", "5s", *words],
                           capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


def grpc_speaks(server, files, ca, client=None):
    """Whether gRPC of Python gets a connection."""
    credentials = grpc.ssl_channel_credentials(files.read(ca + ".pem"), files.read(client + ".key") if client else None,
                                               files.read(client + ".pem") if client else None)
    with grpc.secure_channel(server.address, credentials) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_S)
            return True
        except grpc.FutureTimeoutError:
            return False


def config(files, more=""):
    return CONFIG + "tls:\n  certificate: %s\n  key: %s\n%s" % (files.path("server.pem"), files.path("server.key"), more)


def one_way(program, files, checks):
    server = Server(program, config=config(files)).start()
    try:
        ours = files.path("ours.pem")
        checks.equal("who trusts the certificate is served", health(program, server, "--ca", ours), (0, "SERVING\n"))
        code, words = health(program, server, "--ca", files.path("others.pem"))
        checks.true("who does not is told what to look at", code == 3 and "with TLS" in words and "--ca" in words, words)
        code, words = health(program, server, "--ca", ours, "--server-name", "elsewhere.example")
        checks.equal("a certificate of another name is none", code, 3)
        checks.equal("plain text gets nothing", health(program, server)[0], 3)
        checks.true("gRPC of another language is served", grpc_speaks(server, files, "ours"))
        checks.true("and refuses a server that it does not trust", not grpc_speaks(server, files, "others"))
        renewal(program, server, files, checks)
        checks.equal("the server is well", server.faults(), None)
        checks.equal("SIGTERM ends it", server.terminate(), 0)
    finally:
        server.end()


def renewal(program, server, files, checks):
    trusts = lambda name: health(program, server, "--ca", files.path(name + ".pem"))[0] == 0  # noqa: E731
    files.signed("next", "others", SERVER_NAMES)
    files.replace("server", "next")
    wait_until(lambda: trusts("others"), 30, "the new certificate, without being told")
    checks.true("a certificate that is replaced is served, without a signal", not trusts("ours"))

    files.signed("next", "ours", SERVER_NAMES)
    os.replace(files.path("next.key"), files.path("server.key"))
    wait_until(lambda: "server.reload_failed" in server.log(), 30, "a word on the pair that does not fit")
    checks.true("half of a pair changes nothing", trusts("others"))
    checks.true("and is one line that names the file", "server.key is not that of the certificate" in server.log(),
                server.last_words())
    os.replace(files.path("next.pem"), files.path("server.pem"))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: trusts("ours"), 30, "the other half")
    checks.true("its other half completes it", not trusts("others"))


def both_ways(program, files, checks):
    server = Server(program, config=config(files, "  client_ca: %s\n" % files.path("ours.pem"))).start()
    try:
        ours = ("--ca", files.path("ours.pem"))
        client = ("--certificate", files.path("client.pem"), "--key", files.path("client.key"))
        stranger = ("--certificate", files.path("stranger.pem"), "--key", files.path("stranger.key"))
        checks.equal("a client with a certificate is served", health(program, server, *ours, *client)[0], 0)
        checks.equal("without one it is not", health(program, server, *ours)[0], 3)
        checks.equal("nor with somebody else's", health(program, server, *ours, *stranger)[0], 3)
        checks.true("gRPC of another language shows its own", grpc_speaks(server, files, "ours", "client"))
        checks.equal("half of the flags is a usage error", health(program, server, *ours, *client[:2])[0], 2)
        checks.equal("the server is well", server.faults(), None)
    finally:
        server.end()


def refused(program, files, checks):
    for name, words, said in (
            ("a key for a certificate", ("server.key", "server.key"), "server.key holds no certificate"),
            ("another's key", ("server.pem", "ours.key"), "ours.key is not that of the certificate"),
            ("a file that is not there", ("nowhere.pem", "server.key"), "nowhere.pem cannot be read")):
        server = Server(program, arguments=("--tls-certificate", files.path(words[0]), "--tls-key", files.path(words[1])))
        try:
            server.start()
            checks.true("%s: it does not start" % name, False, "it started")
        except Broken as broken:
            checks.true("%s: it does not start, and says why" % name, said in str(broken), broken)
        finally:
            server.end()


def main(options, checks):
    with tempfile.TemporaryDirectory(prefix="tradewake-tls-") as folder:
        files = Files(folder)
        files.authority("ours")
        files.authority("others")
        files.signed("server", "ours", SERVER_NAMES)
        files.signed("client", "ours", "URI:spiffe://example/web")
        files.signed("stranger", "others", "URI:spiffe://example/web")
        one_way(options.program, files, checks)
        both_ways(options.program, files, checks)
        refused(options.program, files, checks)


if __name__ == "__main__":
    prove(main)
