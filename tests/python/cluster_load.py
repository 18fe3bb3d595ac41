#!/usr/bin/env python3
"""Holds seats, calls numbers, logs in and creates conferences on all masters of a Redis Cluster, until its input ends.

    cluster_load.py --port PORT --realm KEY

Checks each reply: nothing may be granted that this program has already. Checks at the end that the servers and this
program agree about everything granted, and prints what it did as JSON. Needs redis 5.0 or newer (`make deps`).
"""

import argparse
import itertools
import json
import random
import sys
import threading
import time

import redis
from redis.cluster import RedisCluster

SHOWS = [f"{{show:{number}}}" for number in range(12)]
POOLS = [f"{{pool:{number}}}" for number in range(12)]
BOOKS = [f"{{book:{number}}}" for number in range(12)]
NUMBERS = [str(5550000 + number) for number in range(100)]
ACCOUNTS = [f"account-{number}" for number in range(20)]
PLAN = {"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": "1-400"}]}],
        "limits": {"holds_per_user": 0}, "events": 1000}
# Longer than a test.
TTL = 600_000
# A slot that moves may be served by nobody for a moment; a master that takes longer is an error.
PATIENCE = 30


class Wrong(Exception):
    """Something was granted twice, or was lost."""


class Load:
    """What the threads share: the client, and what was granted and not yet given back."""

    def __init__(self, client, realm):
        self.client = client
        self.realm = realm
        self.lock = threading.Lock()
        self.granted = {}
        self.sold = {}
        self.done = {}
        self.tokens = itertools.count()
        self.stopping = threading.Event()
        self.failures = []

    def ask(self, *words):
        """Sends a request, and sends it again under the same token while the cluster is changing."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self.client.execute_command(*words)
            except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterDownError,
                    redis.exceptions.TryAgainError, redis.exceptions.RedisClusterException):
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def token(self):
        return f"t{next(self.tokens)}"

    def grant(self, family, key, things, token):
        """Notes what was granted; it must not be granted already."""
        with self.lock:
            for thing in things:
                holder = self.granted.setdefault((family, key, thing), token)
                if holder != token:
                    raise Wrong(f"{key} granted {thing} to {token}, and {holder} has it")
            self.done[family] = self.done.get(family, 0) + 1

    def give_back(self, family, key, things):
        """Must be called before the request that gives the things back."""
        with self.lock:
            for thing in things:
                del self.granted[(family, key, thing)]

    def of(self, family, key):
        with self.lock:
            return {thing: token for (f, k, thing), token in self.granted.items() if (f, k) == (family, key)}


def prepare(load):
    for key in SHOWS:
        load.ask("SEAT.CREATE", key, json.dumps(PLAN))
    for key in POOLS:
        load.ask("NUMPOOL.ADD", key, *NUMBERS)
        load.ask("NUMPOOL.REG", key, *NUMBERS)
        load.ask("NUMPOOL.CONFIG", key, "EVENTS", 1000)
    for key in BOOKS:
        load.ask("ACCOUNT.BOOK", key)
        load.ask("ACCOUNT.MODULE", key, "orders", "DEPARTMENT", "sales", "INSTANCES", 1)
        load.ask("ACCOUNT.ADD", key, "orders", "QUOTA", 1000000, "ACCOUNTS", len(ACCOUNTS), *ACCOUNTS)
        load.ask("ACCOUNT.ATTACH", key, "orders", "host:1")


def hold(load):
    key, token = random.choice(SHOWS), load.token()
    reply = load.ask("SEAT.HOLD", key, token, 2, "TTL", TTL, "TOKEN", token)
    if reply is None:
        return
    load.grant("hold", key, reply["seats"], token)
    if random.random() < 0.03:
        load.ask("SEAT.CONFIRM", key, token, "ORDER", token)
        with load.lock:
            load.sold[(key, token)] = reply["seats"]
    elif random.random() < 0.97:
        load.give_back("hold", key, reply["seats"])
        try:
            load.ask("SEAT.RELEASE", key, token)
        except redis.ResponseError as error:
            # The first request was executed, and its reply was lost.
            if not str(error).startswith("NOTFOUND"):
                raise


def call(load):
    key, token = random.choice(POOLS), load.token()
    reply = load.ask("NUMPOOL.CALL", key, "TTL", TTL, "LEASE", token)
    if reply is None:
        return
    load.grant("call", key, [reply["number"]], token)
    if random.random() < 0.97:
        load.give_back("call", key, [reply["number"]])
        load.ask("NUMPOOL.HANGUP", key, reply["number"], "LEASE", token)


def log_in(load):
    key, terminal, account = random.choice(BOOKS), load.token(), random.choice(ACCOUNTS)
    try:
        reply = load.ask("ACCOUNT.LOGIN", key, account, "host:1", terminal, "TTL", TTL)
    except redis.ResponseError as error:
        if str(error).startswith("NOTOWNER"):
            return
        raise
    load.grant("login", key, [account], terminal)
    if random.random() < 0.97:
        load.give_back("login", key, [account])
        load.ask("ACCOUNT.LOGOUT", key, account, reply["epoch"])


def confer(load):
    number = f"49{random.randrange(10**8)}"
    record = load.ask("CONF.CREATE", load.realm, number, "END", int(time.time() * 1000) + TTL, "REQUEST", number)
    load.grant("conference", load.realm, [number], record["epoch"])
    if random.random() < 0.9:
        load.give_back("conference", load.realm, [number])
        load.ask("CONF.RELEASE", load.realm, number)
    # The units start and end a program for each conference, which takes longer than a request.
    time.sleep(0.05)


def work(load, request):
    try:
        while not load.stopping.is_set():
            request(load)
    except Exception as error:  # Any error fails the run, and ends the other threads.
        load.failures.append(f"{request.__name__}: {type(error).__name__}: {error}")
        load.stopping.set()


def compare(what, here, there):
    if here != there:
        raise Wrong(f"{what}: {here} here, {there} on the server")


def settled(load, number):
    """Whether a conference is open."""
    return load.ask("CONF.INFO", load.realm, number)["state"] == "open"


def check(load):
    for key in SHOWS:
        bucket = load.ask("SEAT.STAT", key)[0]
        sold = {token: seats for (show, token), seats in load.sold.items() if show == key}
        compare(f"{key} sold", sum(map(len, sold.values())), bucket["sold"])
        compare(f"{key} held", len(load.of("hold", key)) - bucket["sold"], bucket["held"])
        for token, seats in sold.items():
            compare(f"{key} order {token}", sorted(seats), sorted(load.ask("SEAT.ORDER", key, token)))
    for key in POOLS:
        for number in NUMBERS:
            record = load.ask("NUMPOOL.GET", key, number)
            compare(f"{key} {number}", load.of("call", key).get(number), record["lease"])
    for key in BOOKS:
        compare(f"{key} logins", len(load.of("login", key)), load.ask("ACCOUNT.INFO", key)["logins"])
    until = time.monotonic() + PATIENCE
    for number in load.of("conference", load.realm):
        while not settled(load, number):
            if time.monotonic() > until:
                raise Wrong(f"conference {number}: {load.ask('CONF.INFO', load.realm, number)}")
            time.sleep(0.1)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--realm", required=True)
    given = arguments.parse_args()
    load = Load(RedisCluster(host="127.0.0.1", port=given.port, protocol=3, decode_responses=True), given.realm)
    prepare(load)
    requests = [hold, hold, call, call, log_in, log_in, confer]
    threads = [threading.Thread(target=work, args=(load, request)) for request in requests]
    for thread in threads:
        thread.start()
    print("working", flush=True)
    sys.stdin.read()
    load.stopping.set()
    for thread in threads:
        thread.join()
    if load.failures:
        sys.exit("\n".join(load.failures))
    try:
        check(load)
    except Wrong as error:
        sys.exit(str(error))
    print(json.dumps(load.done))


if __name__ == "__main__":
    main()
