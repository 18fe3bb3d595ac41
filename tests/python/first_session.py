#!/usr/bin/env python3
"""Runs the first sessions of README.md through Python's redis client and compares every reply.

    first_session.py --port 6380 --protocol 2|3 [FILE]

In RESP3 a record is a map; in RESP2 it is a flat list of names and values, and two lines make a dict of it.
Needs redis 5.0 or newer (`make deps`).
"""

import argparse
import pathlib
import re
import shlex
import sys

try:
    import redis
except ImportError:
    sys.exit("Python's redis is not installed: make deps, or pip install 'redis>=5'")

if int(redis.__version__.split(".")[0]) < 5:
    sys.exit(f"Python's redis is {redis.__version__} and speaks no RESP3: make deps, or pip install 'redis>=5'")

RECORD = {"SEAT.HOLD", "SEAT.PICK", "SEAT.GET", "NUMPOOL.CALL", "NUMPOOL.RECONCILE"}
RECORDS = {"SEAT.HOLDS", "SEAT.STAT"}
# The client gives a status line and a string alike.
STATUS = {"SEAT.CREATE", "TYPE"}


class Status(str):
    """A status line, which redis-cli shows without quotes."""


def session(text):
    """Commands and the replies they shall have: lines that begin with '> ', and the lines that follow."""
    steps = []
    for block in re.findall(r"^```redis-cli\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("> "):
                steps.append((line[2:], []))
            elif line.strip():
                steps[-1][1].append(line.rstrip())
    return steps


def record(flat):
    return dict(zip(flat[::2], flat[1::2]))


def ask(client, command, protocol):
    words = shlex.split(command)
    try:
        reply = client.execute_command(*words)
    except redis.ResponseError as error:
        # The client takes the code ERR away, and leaves every other where it is.
        text = str(error)
        return redis.ResponseError(text if re.match(r"[A-Z]+ ", text) else f"ERR {text}")
    if words[0] in STATUS:
        return Status(reply)
    if protocol == 2 and reply is not None:
        if words[0] in RECORD:
            return record(reply)
        if words[0] in RECORDS:
            return [record(flat) for flat in reply]
    return reply


def shown(reply, indent=0):
    """A reply as `redis-cli -3` shows it."""
    if isinstance(reply, redis.ResponseError):
        return f"(error) {reply}"
    if reply is None:
        return "(nil)"
    if isinstance(reply, int):
        return f"(integer) {reply}"
    if isinstance(reply, Status):
        return reply
    if isinstance(reply, str):
        return '"{}"'.format(reply.replace("\\", "\\\\").replace('"', '\\"'))
    if not reply:
        return "(empty hash)" if isinstance(reply, dict) else "(empty array)"
    width = len(str(len(reply)))
    lines = []
    for number, item in enumerate(reply, 1):
        inner = indent + width + 2
        if isinstance(reply, dict):
            value = shown(reply[item], inner)
            below = isinstance(reply[item], (list, dict)) and len(reply[item]) > 1
            text = f"{number:>{width}}# {shown(item)} => " + (f"\n{' ' * inner}" if below else "") + value
        else:
            text = f"{number:>{width}}) " + shown(item, inner)
        lines.append(text)
    return f"\n{' ' * indent}".join(lines)


def agrees(expected, line):
    """Whether a line is as expected; `...` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), line) is not None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--protocol", type=int, choices=(2, 3), default=3)
    arguments.add_argument("file", nargs="?", default=pathlib.Path(__file__).parents[2] / "README.md")
    given = arguments.parse_args()
    client = redis.Redis(port=given.port, protocol=given.protocol, decode_responses=True)
    steps = session(pathlib.Path(given.file).read_text(encoding="utf-8"))
    if not steps:
        sys.exit(f"{given.file} has no session")
    for command, expected in steps:
        lines = [line.rstrip() for line in shown(ask(client, command, given.protocol)).splitlines()]
        if len(lines) != len(expected) or not all(map(agrees, expected, lines)):
            sys.exit("\n".join([f"> {command}", "", *lines, "", "differs from what is written:", "", *expected]))
    print(f"{len(steps)} commands in RESP{given.protocol}: all replies as written")


if __name__ == "__main__":
    main()
