#!/usr/bin/env python3
"""Sells two seats, makes a call and follows the events of the show, with redis-py 5 or newer.

    python3 seat_and_call.py [HOST [PORT]]
"""

import json
import sys
import uuid

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

SHOW, POOL = "{example}:show", "{example}:pool"
PLAN = {
    "areas": [{"id": "box", "rows": [{"label": "1", "rank": 1, "tier": "gold", "seats": "1-40"}]}],
    "events": 1000,
}


def connect(host, port):
    """A client that sends a request again when the connection breaks before the reply.

    The first request may have been executed. With a token this does no harm: the reply is the same.
    """
    return redis.Redis(
        host=host,
        port=port,
        # In RESP3 a record is a dict.
        protocol=3,
        decode_responses=True,
        socket_timeout=5,
        retry=Retry(ExponentialBackoff(cap=1, base=0.1), 10),
        retry_on_error=[redis.ConnectionError, redis.TimeoutError],
    )


def sell(client, token):
    """Holds two seats and sells them, both under a token that was chosen before the first request."""
    client.execute_command("SEAT.CREATE", SHOW, json.dumps(PLAN))
    hold = client.execute_command(
        "SEAT.HOLD", SHOW, "ann", 2, "TTL", 60000, "TIER", "gold", "TOKEN", token
    )
    if hold is None:
        sys.exit("sold out")
    print("held", *hold["seats"])
    sold = client.execute_command("SEAT.CONFIRM", SHOW, token, "USER", "ann", "ORDER", token)
    print("sold", sold)


def call(client, token):
    """Takes a free number for a call, and ends the call."""
    client.execute_command("NUMPOOL.ADD", POOL, "5550100", "5550101")
    client.execute_command("NUMPOOL.REG", POOL, "5550100", "5550101", "SWITCH", "sw1")
    lease = client.execute_command("NUMPOOL.CALL", POOL, "TTL", 60000, "LEASE", token)
    if lease is None:
        sys.exit("all numbers are busy")
    print("called", lease["number"])
    # 1, or 0 if the request was sent twice: the call has ended in both cases.
    client.execute_command("NUMPOOL.HANGUP", POOL, lease["number"], "LEASE", token)
    print("hung up")


def events_after(client, last):
    """The next entries of the stream; none if a second passes without one."""
    reply = client.xread({SHOW + ":evt": last}, block=1000) or {}
    # A dict in RESP3, a list of pairs in RESP2 and in the newest versions of the client.
    streams = reply.items() if isinstance(reply, dict) else reply
    for _, entries in streams:
        while entries and isinstance(entries[0], list):
            entries = entries[0]
        yield from entries


def follow(client, token):
    """Reads the event stream until the sale of this token. A service stores the last id, and goes on after it."""
    last = "0"
    while True:
        for last, fields in events_after(client, last):
            if fields.get("token") != token:
                continue
            print("event", fields["event"])
            if fields["event"] == "confirmed":
                return


def main():
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 6379
    client = connect(host, port)
    token = str(uuid.uuid4())
    sell(client, token)
    call(client, token)
    follow(client, token)


if __name__ == "__main__":
    main()
