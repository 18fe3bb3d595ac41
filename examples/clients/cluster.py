#!/usr/bin/env python3
"""Sells a seat in each of thirty shows of a cluster, with redis-py 5 or newer.

    python3 cluster.py [HOST [PORT]]

redis-py asks the server where the keys of a command are, and so sends each request to the master of its slot.
"""

import json
import sys
import uuid

from redis.cluster import RedisCluster

PLAN = {"areas": [{"id": "box", "rows": [{"label": "1", "rank": 1, "tier": "gold", "seats": "1-40"}]}]}
SHOWS = 30


def sell(client, show):
    """Sells one seat, under a token that was chosen before the first request; replies its id."""
    token = str(uuid.uuid4())
    client.execute_command("SEAT.CREATE", show, json.dumps(PLAN))
    hold = client.execute_command("SEAT.HOLD", show, "ann", 1, "TTL", 60000, "TOKEN", token)
    client.execute_command("SEAT.CONFIRM", show, token, "USER", "ann", "ORDER", token)
    # A command whose first argument is the number of its keys.
    client.execute_command("SEAT.ZMPOP", 2, "{%s}:a" % show, "{%s}:b" % show, "MIN")
    return hold["seats"][0]


def main():
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 6379
    client = RedisCluster(host=host, port=port, protocol=3, decode_responses=True)
    sold = [sell(client, f"show:{number}") for number in range(SHOWS)]
    print("sold", len(sold), "seats in", len(client.get_primaries()), "masters")


if __name__ == "__main__":
    main()
