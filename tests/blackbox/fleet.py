#!/usr/bin/python3
"""A fleet that changes while it works: 30 followers become 300 and 30 again.

Their threads are there before the followers count: a burst right after the last CreateFollower, right
after an UpdateFollower that raises max_parallel, and one in whose middle a follower is deleted create no
thread, and no order is lost or there twice.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import CONFIG, Fleet, prove, wait_until  # noqa: E402

SMALL, PARALLEL, MORE_PARALLEL, RAISED = 30, 4, 8, 30
PARALLEL_MAX = 64
THREADS_MAX = 1400


def burst(fleet, checks, name, positions, followers):
    """Opens and closes `positions` at once at all followers; every copy DONE, no thread created."""
    names = ["%s-%d" % (name, index) for index in range(positions)]
    for step, action in (("opens", fleet.open), ("closes", fleet.close)):
        answers = fleet.submit_all([action(position) for position in names])
        states = {}
        for answer in answers:
            for copy in answer.copies:
                states[fleet.state(copy)] = states.get(fleet.state(copy), 0) + 1
        checks.equal("%s: all %s are DONE" % (name, step), states, {"DONE": positions * followers})
    after = fleet.executor()
    print("     %s: %d threads, %d needed, at most %d calls at once" % (
        name, after.threads, after.threads_needed, after.peak_in_flight))
    checks.equal("%s: no thread was created late" % name, after.threads_created_late, 0)
    return after


def grow(fleet, large):
    for index in range(SMALL, large):
        fleet.ids.append("F%03d" % index)
        fleet.create(fleet.ids[-1])
    fleet.number = large


def raise_parallel(fleet, follower_id, parallel):
    follower = fleet.client.ask("FollowerService/GetFollower", follower_id=follower_id)
    follower.max_parallel = parallel
    request = fleet.new("UpdateFollowerRequest", follower=follower)
    request.update_mask.paths.append("max_parallel")
    fleet.client.call("FollowerService/UpdateFollower", request)


def delete(fleet, follower_id):
    fleet.client.ask("FollowerService/DeleteFollower", follower_id=follower_id, on_open=1)


def delete_in_mid_burst(fleet, checks, gone):
    names = ["mid-%d" % index for index in range(PARALLEL)]
    fleet.submit_all([fleet.open(position) for position in names])
    fleet.submit_all([fleet.close(position) for position in names], wait_for="WAIT_FOR_ACCEPTED")
    delete(fleet, gone)
    wait_until(fleet.is_idle, 20, "idle")
    closes = [copy for copy in fleet.copies() if copy.event_id.startswith("close-mid-")]
    states = {fleet.state(copy) for copy in closes if copy.follower_id != gone}
    checks.equal("mid-burst: everybody else's closes are DONE", states, {"DONE"})
    checks.equal("mid-burst: the one that leaves holds nothing", len(fleet.book(gone).positions), 0)
    fleet.ids.remove(gone)
    fleet.number -= 1
    books = [fleet.book(follower_id) for follower_id in fleet.ids[:SMALL]]
    checks.equal("mid-burst: nothing is left open", sum(len(book.positions) for book in books), 0)
    orders = [[deal.client_order_id for deal in book.deals] for book in books]
    checks.equal("mid-burst: no order twice", [ids for ids in orders if len(ids) != len(set(ids))], [])
    checks.equal("mid-burst: no thread was created late", fleet.executor().threads_created_late, 0)


def main(options, checks):
    with Fleet(options.program, SMALL, {"latency": "constant:130ms"}, {"max_parallel": PARALLEL},
               config=CONFIG + "executor:\n  threads_max: %d\n" % THREADS_MAX) as fleet:
        burst(fleet, checks, "small", PARALLEL, SMALL)
        grow(fleet, options.followers)
        after = burst(fleet, checks, "grown", PARALLEL, options.followers)
        checks.true("grown: a thread for every call", after.threads >= PARALLEL * options.followers, after.threads)

        for follower_id in fleet.ids[:RAISED]:
            raise_parallel(fleet, follower_id, MORE_PARALLEL)
        burst(fleet, checks, "raised", MORE_PARALLEL, options.followers)
        raise_parallel(fleet, fleet.ids[RAISED], PARALLEL_MAX)
        checks.refused("raised: not beyond executor.threads_max", lambda: raise_parallel(
            fleet, fleet.ids[RAISED + 1], PARALLEL_MAX), "FAILED_PRECONDITION", "EXECUTOR_CAPACITY")

        delete_in_mid_burst(fleet, checks, fleet.ids[5])
        for follower_id in fleet.ids[SMALL:]:
            delete(fleet, follower_id)
        del fleet.ids[SMALL:]
        fleet.number = SMALL
        wait_until(lambda: len(fleet.client.ask("FollowerService/ListFollowers", page_size=1000).followers) == SMALL,
                   20, "the others gone")
        after = burst(fleet, checks, "small-again", PARALLEL, SMALL)
        checks.true("small again: so many threads are needed", after.threads_needed < 2 * SMALL * MORE_PARALLEL,
                    after.threads_needed)
        checks.equal("the server is well", fleet.server.faults(), None)


if __name__ == "__main__":
    prove(main, followers=300)
