"""check_c.py - client-examples/c: the exit codes are the promise, the words are for people."""
from fake import Fake
from support import LastingFleet, LastingServer, Running, Stopped, free_address, run


def check(checks, options):
    def client(address, *words, **how):
        return run([options.c_client, "--server", address, *words], **how)

    with LastingFleet(options.program, followers=3, paper={"call_timeout": "1s"}) as fleet:
        address = fleet.server.address
        ended = client(address, "--event", "c-1", "--samples", "3")
        checks.equal("c: an event, every follower's copy: exit code 0", (ended.code, ended.err), (0, ""))
        checks.equal("c:   three copies DONE, three samples",
                     (ended.out.count("COPY_STATE_DONE"), ended.out.count("threads,")), (3, 3))
        checks.equal("c:   the ledger has one order each", fleet.deals_of("c-1"), {each: 1 for each in fleet.ids})
        again = client(address, "--event", "c-1")
        checks.true("c: the same event again: known before", again.code == 0 and "known before" in again.out, again)
        checks.equal("c:   and no order went out twice", set(fleet.deals_of("c-1").values()), {1})

        ended = client(address, "--volume", "0,10")
        checks.true("c: a refusal with reason and field: exit code 1", ended.code == 1 and
                    "refused: INVALID_FIELD, field event.open.volume: " in ended.err, ended)
        ended = client(address, "--master", "NOBODY")
        checks.true("c: a master nobody follows", ended.code == 1 and "MASTER_NOT_FOUND" in ended.err, ended)
        checks.equal("c: usage: exit code 2", client(address, "--samples", "x").code, 2)
        ended = client(address, "--evnet", "x")
        checks.true("c:   and the wrong flag is named", ended.code == 2 and "--evnet is no flag" in ended.err, ended)
        ended = client("localhost")
        checks.true("c:   a server without a port too", ended.code == 2 and "expected ADDR:PORT" in ended.err, ended)
        ended = run([options.c_client, "--help"])
        checks.true("c: --help: exit code 0", ended.code == 0 and "--samples" in ended.out and not ended.err, ended)
        ended = client(address, "--symbol", "NONE")
        checks.true("c: skipped everywhere: no order, no own time, no wait for samples", ended.code == 0 and
                    ended.out.count("REASON_SYMBOL_NOT_FOUND") == 3 and "own time" not in ended.out and
                    "samples" not in ended.out, ended)
        nobody = client(free_address(), "--timeout-ms", "800")
        checks.true("c: nobody there: exit code 3, it was tried again, said once, and what to start", nobody.code == 3 and
                    nobody.err.count("goes out again") == 1 and "tradewake dev" in nobody.err, nobody)

        with Stopped(fleet.server):
            ended = client(address, "--event", "c-silent", "--timeout-ms", "700")
        checks.true("c: a deadline that passed: exit code 4, and how to find out", ended.code == 4 and
                    "--event c-silent" in ended.err, ended)
        ended = client(address, "--event", "c-silent")
        checks.equal("c:   the same event again: exit code 0", ended.code, 0)
        checks.equal("c:   and no order went out twice", set(fleet.deals_of("c-silent").values()), {1})

        fleet.configure(follower_id="F000", faults="open#*=timeout_executed,lookup#*=hang")
        # The answer comes 50 ms before the deadline; on a busy machine that can be too late, and then one asks again.
        for _ in range(5):
            ended = client(address, "--event", "c-unknown", "--timeout-ms", "2500", "--samples", "0")
            if "UNKNOWN" in ended.out:
                break
        checks.true("c: UNKNOWN: exit code 4, never a new id", ended.code == 4 and "UNKNOWN" in ended.out and
                    "Do not send" in ended.out, ended)
        checks.equal("c: the server is well", fleet.server.faults(), None)

        fake = Fake(fleet.contract)
        fake.answers = [fake.refusal("RESOURCE_EXHAUSTED", "OVERLOADED", retry_s=0.25)]
        ended = client(fake.address)
        checks.true("c (fake server): RESOURCE_EXHAUSTED: exit code 1, with the hint", ended.code == 1 and
                    "OVERLOADED" in ended.err and "try again in 250 ms" in ended.err, ended)
        checks.equal("c (fake server):   and is not sent again by itself", len(fake.requests), 1)
        fake.requests.clear()
        fake.answers = [fake.refusal("UNAVAILABLE", "SHUTTING_DOWN", retry_s=0.05)] * 3 + [fake.accepted("c-again")]
        ended = client(fake.address, "--samples", "0")
        checks.equal("c (fake server): UNAVAILABLE is sent again, the same bytes",
                     (ended.code, len(fake.requests), len(set(fake.requests))), (0, 4, 1))
        fake.stop()

    with LastingServer(options.program, is_dev=True) as server:
        server.kill()
        with Running([options.c_client, "--server", server.address, "--event", "c-late", "--timeout-ms", "30000"]) as late:
            late.err.wait_for("goes out again")
            server.start()
            checks.equal("c: a server that comes back meanwhile is found: exit code 0", late.wait(40), 0)
            checks.equal("c:   thirty copies DONE", late.out.text().count("COPY_STATE_DONE"), 30)
