"""What programs about libraries as brokers have in common."""
import os
import subprocess

from blackbox import CONFIG, Fleet


def libraries(program):
    return os.path.join(os.path.dirname(os.path.abspath(program)), "plugins")


def configuration(program, *names, in_process=False):
    more = ", in_process: true" if in_process else ""
    return CONFIG + "plugins:\n" + "".join("  %s: {library: %s/%s.so%s}\n" % (name, libraries(program), name, more) for name in names)


def create(fleet, follower_id, adapter, **config):
    fleet.ids.append(follower_id)
    fleet.number += 1
    fleet.create(follower_id, adapter=adapter, config=config)


def states(fleet, answer, *followers):
    return [fleet.state(copy) for copy in answer.copies if not followers or copy.follower_id in followers]


def drifts(fleet):
    """What a follower's broker holds otherwise than is believed."""
    return sum(len(fleet.client.ask("CopyService/CompareFollower", follower_id=follower_id).drifts)
               for follower_id in fleet.ids)


def started(program, config):
    """(exit code, last line) of a server that does not start."""
    fleet = Fleet(program, 0, config=config)
    try:
        ended = subprocess.run(fleet.server.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return ended.returncode, ended.stdout.decode().strip().splitlines()[-1]
    finally:
        fleet.server.end()
