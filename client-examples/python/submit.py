#!/usr/bin/python3
"""Sends one event and prints what happened at each follower.

    ./submit.py open --position 7 --symbol EURUSD --side buy --volume 0.10
    ./submit.py close --position 7

Exit code 0: every copy is settled. 1: refused. 3: nobody answered in time. 4: not settled; a copy may have
executed, or is on its way: send the same event again (--event) and see. Never under another id.
"""
import sys
import time
import uuid

import client
from client import copies_pb2, events_pb2, types_pb2


def event_of(options):
    event = events_pb2.TradeEvent(event_id=options.event, master_id=options.master)
    event.observed_at.FromNanoseconds(time.time_ns())
    if options.action == "open":
        event.open.position_id = options.position
        event.open.symbol = options.symbol
        event.open.side = types_pb2.Side.Value("SIDE_" + options.side.upper())
        event.open.volume = options.volume  # decimals are text: exact in every language
    else:
        event.close.position_id = options.position
    return event


def print_copies(answer):
    print("event %s%s: %d accepted, %d skipped, %d still on their way" % (
        answer.event_id, " (known before, nothing was sent again)" if answer.duplicate else "",
        answer.accepted, answer.skipped, answer.pending))
    for copy in answer.copies:
        sent = " %s of %s at %s, own time %d us" % (copy.filled_volume or "0", copy.volume, copy.average_price or "-",
                                                    copy.own_time_ns // 1000)
        print("  %-12s %-10s %-20s %s%s" % (copy.follower_id, client.state(copy), client.reason(copy), copy.symbol,
                                            sent if copy.own_time_ns else ""))  # 0: no order went out


def main():
    parser = client.arguments(__doc__)
    parser.add_argument("action", choices=["open", "close"])
    parser.add_argument("--position", required=True)
    parser.add_argument("--symbol", default="EURUSD")
    parser.add_argument("--side", choices=["buy", "sell"], default="buy")
    parser.add_argument("--volume", default="0.10")
    parser.add_argument("--event", default=str(uuid.uuid4()), help="the idempotency key; default: a new one")
    parser.add_argument("--timeout", type=float, default=10, help="seconds")
    options = parser.parse_args()

    events = client.events_pb2_grpc.EventServiceStub(client.channel(options.server))
    request = events_pb2.SubmitEventRequest(
        event=event_of(options), wait_for=events_pb2.WAIT_FOR_DONE, view=events_pb2.COPY_VIEW_ALL)
    try:
        answer = client.call(events.SubmitEvent, request, options.timeout)
    except client.Refused as refused:
        if refused.exit_code() != client.REFUSED:
            print("it may have arrived: send it again with --event %s" % options.event, file=sys.stderr)
        raise
    print_copies(answer)
    unknown = [copy for copy in answer.copies if copy.state == copies_pb2.COPY_STATE_UNKNOWN]
    if unknown:
        print("%d copies are UNKNOWN: they may have executed and are being looked up" % len(unknown))
    return client.NOT_SETTLED if unknown or answer.pending else client.DONE


client.run(main)
