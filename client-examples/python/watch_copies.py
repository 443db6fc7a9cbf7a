#!/usr/bin/python3
"""Watches what becomes of every copy, and misses nothing: not when the server is killed, not when this is.

    ./watch_copies.py --place place.json

The place is (journal_id, change_id): everything up to it has been printed. It is kept in a file and handed
to WatchCopies as resume_after. A server that has another journal, or has forgotten so far back, refuses
that; then this starts anew with include_existing and says so: what was shown before may be out of date.
"""
import collections
import json
import os
import sys
import time

import grpc

import client
from client import copies_pb2

REMEMBERED = 100000  # copies whose last change is known, so that a repeat is not printed
PLACE_IS_GONE = ("RESUME_OTHER_JOURNAL", "RESUME_TOO_OLD")


class Place:
    """How far we are. Written after the work on it is done, so that a kill repeats and never skips."""

    def __init__(self, path):
        self.path = path
        self.journal_id, self.change_id = "", 0
        if path and os.path.exists(path):
            with open(path) as file:
                kept = json.load(file)
            self.journal_id, self.change_id = kept["journal_id"], kept["change_id"]

    def set(self, journal_id, change_id):
        self.journal_id, self.change_id = journal_id, change_id
        if self.path:
            with open(self.path + ".new", "w") as file:
                json.dump({"journal_id": journal_id, "change_id": change_id}, file)
            os.replace(self.path + ".new", self.path)


class Watcher:
    def __init__(self, copies, options):
        self.copies = copies
        self.master = options.master
        self.place = Place(options.place)
        self.left = options.changes
        self.until = options.seconds and time.monotonic() + options.seconds
        self.backoff = client.Backoff()
        self.newest = collections.OrderedDict()  # copy_id -> change_id: the highest is the truth

    def show(self, copy):
        """Prints it, unless it has been shown: repeats are normal."""
        if self.newest.get(copy.copy_id, 0) >= copy.change_id:
            return
        self.newest[copy.copy_id] = copy.change_id
        if len(self.newest) > REMEMBERED:
            self.newest.popitem(last=False)
        self.left -= 1
        print("%d %s %s %s %s %s" % (copy.change_id, copy.copy_id, copy.event_id, copy.follower_id,
                                     client.state(copy), client.reason(copy)), flush=True)

    def watch(self):
        """One stream, until enough has been seen. Raises grpc.RpcError when it breaks."""
        request = copies_pb2.WatchCopiesRequest(resume_after=self.place.change_id)
        request.filter.master_id = self.master
        resumes = self.place.change_id > 0
        request.include_existing = not resumes
        if resumes:
            request.journal_id = self.place.journal_id
        is_complete = resumes  # before, a place would skip copies that have not come yet
        stream = self.copies.WatchCopies(request, timeout=client.left_s(self.until))
        try:
            for message in stream:
                kind = message.WhichOneof("payload")
                if kind == "started":
                    self.backoff.reset()
                    journal_id = message.started.journal_id
                    print("%s at %d in journal %s" % ("resumed" if resumes else "started anew", self.place.change_id,
                                                      journal_id), file=sys.stderr, flush=True)
                    if not resumes:
                        self.newest.clear()
                elif kind == "batch":
                    for copy in message.batch.copies:
                        self.show(copy)
                    if is_complete:
                        reached = max(copy.change_id for copy in message.batch.copies)
                        self.place.set(journal_id, max(reached, self.place.change_id))
                elif kind == "caught_up":
                    is_complete = True
                    self.place.set(journal_id, message.caught_up.last_change_id)
                elif kind == "heartbeat" and is_complete:
                    self.place.set(journal_id, max(message.heartbeat.last_change_id, self.place.change_id))
                elif kind == "dropped":  # we read too slowly: fetch what was left out
                    self.place.set(journal_id, message.dropped.resume_after if is_complete else 0)
                    return
                if self.left <= 0:
                    return
        finally:
            stream.cancel()


def main():
    parser = client.arguments(__doc__)
    parser.add_argument("--place", help="the file that keeps the place; default: none is kept")
    parser.add_argument("--changes", type=int, default=sys.maxsize, help="end after so many")
    parser.add_argument("--seconds", type=float, help="end after this time")
    options = parser.parse_args()

    watcher = Watcher(client.copies_pb2_grpc.CopyServiceStub(client.channel(options.server)), options)
    while watcher.left > 0:
        try:
            watcher.watch()
        except grpc.RpcError as error:
            refused = client.Refused(error)
            if refused.code == "DEADLINE_EXCEEDED":
                break
            if refused.reason in PLACE_IS_GONE:
                print("%s; starting anew" % refused, file=sys.stderr, flush=True)
                watcher.place.set("", 0)
            elif refused.is_away:
                watcher.backoff.wait(refused, "asking again")
            else:
                raise refused
    return client.DONE


client.run(main)
