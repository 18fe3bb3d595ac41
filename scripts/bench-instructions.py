#!/usr/bin/env python3
"""Counts the instructions that redis-server executes for a request, with two builds of the module side by side.

    scripts/bench-instructions.py OLD.so NEW.so

Each build runs in a redis-server of its own under `valgrind --tool=callgrind`. After a warm-up, one connection sends
many requests of a kind, sixteen in flight, and the instructions executed meanwhile are divided by their number. Counts
of the same build differ by about one in a thousand from run to run, on a busy machine as on a quiet one, because the
server's timer runs meanwhile. Each count includes what the server itself does for the request.
"""

import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UNIT = "10.0.0.1:4711:1700000000000"
REALM = "{b}:conf"
# Requests of a kind; a multiple of the requests in flight.
REQUESTS = 8000
IN_FLIGHT = 16


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(word).encode() for word in words)]
    return b"".join(parts)


class Server:
    """A redis-server with a build of the module, under callgrind; its clients wait for each reply."""

    def __init__(self, module, folder):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"]
            + ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--hz", "1", "--dir", folder]
            + ["--loadmodule", module],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise SystemExit(f"redis-server does not start with {module}")
                time.sleep(0.1)
        self.replies = self.socket.makefile("rb")

    def read(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise SystemExit(f"the server replies {rest.decode()}")
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        return rest

    def send(self, requests):
        """The replies to these requests."""
        replies = []
        for first in range(0, len(requests), IN_FLIGHT):
            batch = requests[first : first + IN_FLIGHT]
            self.socket.sendall(b"".join(batch))
            replies += [self.read() for _ in batch]
        return replies

    def control(self, *arguments):
        subprocess.run(["callgrind_control", *arguments, str(self.process.pid)], check=True, capture_output=True)

    def count(self, requests):
        """Instructions of a request."""
        for old in Path(self.folder).glob("out*"):
            old.unlink()
        self.control("-i", "on")
        self.send(requests)
        self.control("-i", "off")
        self.control("-d")
        text = "".join(found.read_text(errors="replace") for found in Path(self.folder).glob("out*"))
        totals = re.findall(r"^(?:totals|summary): (\d+)", text, re.M)
        return max(map(int, totals)) / len(requests)

    def stop(self):
        self.process.kill()
        self.process.wait()


def kinds(server):
    """For each kind of request: name, and the requests to count. What they need is made before."""
    rows = ",".join(f'{{"label":"{row}","rank":{row},"tier":"gold","seats":"1-50"}}' for row in range(1, 1201))
    server.send([encode("SEAT.CREATE", "show", f'{{"areas":[{{"id":"stalls","rule":"center","rows":[{rows}]}}]}}')])
    holds = [encode("SEAT.HOLD", "show", f"u{n}", 2, "TTL", 100000, "TOKEN", f"t{n}") for n in range(2 * REQUESTS)]
    releases = [encode("SEAT.RELEASE", "show", f"t{n}") for n in range(2 * REQUESTS)]
    server.send(holds[REQUESTS:])
    yield "SEAT.HOLD", holds[:REQUESTS]
    server.send(releases[REQUESTS:])
    yield "SEAT.RELEASE", releases[:REQUESTS]
    numbers = [str(100_000 + number) for number in range(2 * REQUESTS)]
    for command in ("NUMPOOL.ADD", "NUMPOOL.REG"):
        server.send([encode(command, "pool", number) for number in numbers])
    calls = [encode("NUMPOOL.CALL", "pool", "TTL", 100000, "LEASE", number) for number in numbers]
    hang_ups = [encode("NUMPOOL.HANGUP", "pool", number, "LEASE", number) for number in numbers]
    server.send(calls[:REQUESTS])
    yield "NUMPOOL.CALL", calls[REQUESTS:]
    server.send(hang_ups[:REQUESTS])
    yield "NUMPOOL.HANGUP", hang_ups[REQUESTS:]
    server.send([encode("CONF.REALM", REALM)])
    server.send([encode("CMU.JOIN", REALM, UNIT, "CAPACITY", 1000000, "LEASE", 3600000000)])
    records = server.send([encode("CONF.CREATE", REALM, number) for number in range(1000)])
    epochs = [int(record[7]) for record in records]
    server.send([encode("CONF.ACK", REALM, number, UNIT, epoch) for number, epoch in enumerate(epochs)])
    details = ("members", 4, "speaker", "bob", "state", "on")
    sets = [
        encode("CONF.SET", REALM, n % 1000, UNIT, epochs[n % 1000], n // 1000 + 1, *details) for n in range(2 * REQUESTS)
    ]
    server.send(sets[:REQUESTS])
    yield "CONF.SET of 3 fields", sets[REQUESTS:]
    book = "{b}:book"
    server.send([encode("ACCOUNT.BOOK", book)])
    server.send([encode("ACCOUNT.MODULE", book, "m", "DEPARTMENT", "d", "INSTANCES", 1)])
    names = [f"a{number}" for number in range(1000)]
    server.send([encode("ACCOUNT.ADD", book, "m", "QUOTA", 1000000, "ACCOUNTS", len(names), *names)])
    # Attaching an instance assigns 256 accounts, and the timer the others: then each has an epoch.
    server.send([encode("ACCOUNT.ATTACH", book, "m", "i:1")])
    while server.send([encode("ACCOUNT.INFO", book, "ACCOUNT", names[-1])])[0][9] is None:
        time.sleep(0.1)
    logins = [encode("ACCOUNT.LOGIN", book, names[n % 1000], "i:1", "t", "TTL", 3600000) for n in range(2 * REQUESTS)]
    server.send(logins[:REQUESTS])
    yield "ACCOUNT.LOGIN", logins[REQUESTS:]
    records = server.send([encode("ACCOUNT.LOGIN", book, name, "i:1", "t", "TTL", 3600000) for name in names])
    epochs = [int(record[3]) for record in records]
    uses = [encode("ACCOUNT.USE", book, names[n % 1000], epochs[n % 1000], "COUNT", 1) for n in range(REQUESTS)]
    yield "ACCOUNT.USE", uses


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    counts = []
    for module in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(str(Path(module).resolve()), folder)
            try:
                counts.append({name: server.count(requests) for name, requests in kinds(server)})
            finally:
                server.stop()
    old, new = counts
    print("| request | instructions, old | new | new / old |\n|---|---|---|---|")
    for name, before in old.items():
        print(f"| {name} | {before:,.0f} | {new[name]:,.0f} | {new[name] / before:.3f} |")


if __name__ == "__main__":
    main()
