"""A media unit in Python, with nothing but redis and kazoo: what docs/protocol.md says under "Media units".

    unit.py --redis redis://127.0.0.1:6379 --zookeeper 127.0.0.1:2181 --realm '{allot}:conf' --host 10.0.0.1/py

It has no media; each conference tells a detail every half second.
"""

import argparse
import os
import signal
import socket
import sys
import time

import redis
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

BEAT = 0.5


def node_name(name):
    return name.replace("%", "%25").replace("/", "%2F")


class Replaced(Exception):
    """Another unit took our place."""


class Copy:
    """A copy of a conference: its epochs, the present one last, and what CREATE and UPDATE said of it."""

    def __init__(self, create):
        self.epochs = [int(create["epoch"])]
        self.updated = self.epochs[0]
        self.known = {name: create.get(name, "") for name in ("end", "size", "priority", "request")}


class Unit:
    def __init__(self, arguments):
        self.key = arguments.realm
        self.url = arguments.redis
        self.lease = arguments.lease
        self.cmu = f"{arguments.host}:{os.getpid()}:{int(time.time() * 1000)}"
        self.path = f"{arguments.root}/{node_name(self.key)}/units/{node_name(self.cmu)}"
        self.zookeeper = KazooClient(hosts=arguments.zookeeper, timeout=4.0)
        self.copies = {}  # number -> Copy
        self.ends = {}  # (number, epoch) -> when the conference ended; one for each epoch that the copy had
        self.highest = 0
        self.seq = 0
        self.told = 0
        self.ending = False

    # --- the node, which lives with the session; a new session needs a new one

    def be_present(self):
        try:
            if self.zookeeper.connected and not self.zookeeper.exists(self.path):
                self.zookeeper.create(self.path, self.cmu.encode(), ephemeral=True, makepath=True)
        except KazooException:
            pass  # somebody made it, or the connection was lost; it is looked at again with the next beat

    # --- Redis

    def ask(self, command, *words):
        return self.client.execute_command(command, self.key, *words)

    def join(self):
        # A realm that lost an end in a failover, or was restored from an older file, learns it again.
        for e164, epoch in self.ends:
            self.say("ENDED", e164, epoch)
        self.ask("CMU.JOIN", self.cmu, "CAPACITY", 1000, "LEASE", self.lease, "MACHINE", socket.gethostname())
        self.report()
        self.tell()

    def report(self):
        day = time.time() - 86400
        self.ends = {end: at for end, at in self.ends.items() if at > day}
        words = []
        if self.ends:
            words += ["ENDED", len(self.ends), *(word for end in self.ends for word in end)]
        if self.copies:
            words += ["PARAMS", len(self.copies)]
        for e164, copy in self.copies.items():
            words += [e164, *copy.known.values()]
        for e164, copy in self.copies.items():
            words += [e164, copy.epochs[-1]]
        self.ask("CMU.REPORT", self.cmu, "HIGHEST", self.highest, *words)

    def tell(self):
        """All details anew."""
        self.told += 1
        for e164, copy in self.copies.items():
            epoch = copy.epochs[-1]
            now = int(time.time() * 1000)
            self.seq = max(self.seq + 1, now * 1000)
            head = {"event": "SET", "e164": e164, "cmu": self.cmu, "epoch": epoch, "seq": self.seq}
            head["chatter"] = f"{self.cmu} {epoch} {self.told} {now}"
            self.client.xadd(f"{self.key}:info", head)

    def say(self, word, e164, epoch, *why):
        try:
            return self.ask(f"CONF.{word}", e164, self.cmu, epoch, *why)
        except redis.ResponseError:
            return None  # refused: what is to be done comes as a command

    def give_up(self, e164, is_over):
        """Ends a copy because of RELEASE. This is an end for good only if the conference itself is over."""
        copy = self.copies.pop(e164)
        if is_over:
            self.ends.update(((e164, epoch), time.time()) for epoch in copy.epochs)
            for epoch in copy.epochs:
                self.say("ENDED", e164, epoch)
        else:
            self.say("ENDED", e164, copy.epochs[-1], "RELEASED")

    def obey(self, entry):
        event, e164, epoch = entry["event"], entry["e164"], int(entry["epoch"])
        copy = self.copies.get(e164)
        if event in ("CREATE", "EPOCH"):
            is_ours = event == "EPOCH" and copy is not None and copy.epochs[-1] == int(entry.get("old", 0))
            if epoch <= self.highest and not is_ours:
                return
            self.highest = max(self.highest, epoch)
        if event == "CREATE":
            self.copies[e164] = Copy(entry)
            if self.say("ACK", e164, epoch) == "RELEASE":
                self.give_up(e164, False)
        elif event == "RELEASE" and copy is not None:
            if epoch in copy.epochs:
                self.give_up(e164, entry.get("over") == "1")
        elif event == "EPOCH" and copy is not None:
            copy.epochs.append(epoch)
            self.tell()
        elif event == "EPOCH":
            is_over = (e164, int(entry.get("old", 0))) in self.ends
            self.say("ENDED", e164, epoch, *(() if is_over else ("RELEASED",)))
        elif event == "UPDATE":
            number = int(entry["number"])
            self.highest = max(self.highest, number)
            if copy is not None and epoch in copy.epochs and number > copy.updated:
                copy.updated = number
                copy.known.update(end=entry["end"], size=entry["size"])
        elif event == "RESYNC" or (event == "REPORT" and entry.get("what") == "LIST"):
            self.report()
        elif event == "REPORT":
            self.tell()

    def beat(self):
        try:
            self.ask("CMU.BEAT", self.cmu, "LOAD", len(self.copies))
        except redis.ResponseError as error:
            if "NOTFOUND" not in str(error):
                raise
            self.join()

    def serve(self):
        """One session: from the join to the first fault."""
        self.client = redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=1.5)
        if self.client.execute_command("ROLE")[0] not in ("master", b"master"):
            raise redis.ConnectionError("not a master")
        self.join()
        position, beaten = "0", time.monotonic()
        while not self.ending:
            streams = self.client.xread({f"{self.key}:cmd:{self.cmu}": position}, count=256, block=200) or []
            for entry in (entry for _, entries in streams for entry in entries):
                position = entry[0]
                self.obey(entry[1])
            if time.monotonic() - beaten >= BEAT:
                beaten = time.monotonic()
                self.beat()
                self.tell()
                self.be_present()

    def run(self):
        self.zookeeper.start()
        self.be_present()
        while not self.ending:
            try:
                self.serve()
            except redis.ResponseError as error:
                if "STALE" in str(error):
                    raise Replaced(self.cmu) from error
                print(f"unit: {error}", file=sys.stderr)
                time.sleep(0.2)
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                print(f"unit: {error}", file=sys.stderr)
                time.sleep(0.2)
        self.copies.clear()
        try:
            self.ask("CMU.DOWN", self.cmu)
        except redis.RedisError as error:
            print(f"unit: nobody heard that it goes: {error}", file=sys.stderr)
        self.zookeeper.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", required=True)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--realm", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--root", default="/allot")
    parser.add_argument("--lease", type=int, default=5000)
    unit = Unit(parser.parse_args())

    def end(*_):
        unit.ending = True

    signal.signal(signal.SIGTERM, end)
    try:
        unit.run()
    except Replaced as replaced:
        sys.exit(f"unit: {replaced} was replaced")


main()
