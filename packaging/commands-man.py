#!/usr/bin/env python3
"""Writes the man page allot-commands(7) from the command documentation of a server that has loaded the module.

    redis-cli -3 --json COMMAND DOCS | commands-man.py VERSION > allot-commands.7
"""

import json
import sys

ORDER = ["SEAT", "NUMPOOL", "CONF", "CMU", "ACCOUNT", "ALLOT"]
HEAD = r"""'\" t
.TH ALLOT-COMMANDS 7 "" "allot {version}" "Commands of the Redis module allot"
.SH NAME
allot-commands \- commands of the Redis module allot
.SH DESCRIPTION
The Redis module
.B allot
gives out scarce things, each to one holder at a time: seats, telephone numbers, conferences and accounts.
Load it with a line
.B loadmodule /usr/lib/redis/modules/liballot.so
in redis.conf.
On a server,
.B COMMAND DOCS
.I name
has the same text as this page.
"""


def text(words):
    """Text for roff: a backslash, and a dot or quote at the start of a line, have meanings of their own."""
    words = words.replace("\\", r"\e").replace("-", r"\-")
    return r"\&" + words if words.startswith((".", "'")) else words


def syntax(argument):
    """An argument as the documentation of Redis writes it."""
    inner = argument.get("arguments", [])
    kind, flags = argument["type"], argument.get("flags", [])
    if kind == "oneof":
        words = "|".join(syntax(each) for each in inner)
        # Around an optional argument the brackets below say where the choice ends.
        words = words if "optional" in flags else f"<{words}>"
    elif kind == "block":
        words = " ".join(syntax(each) for each in inner)
    elif kind == "pure-token":
        words = argument.get("token", argument["name"])
    else:
        words = argument["name"]
    token = argument.get("token")
    if token and kind != "pure-token":
        words = f"{token} {words}"
    if "multiple" in flags:
        again = words if "multiple_token" in flags or not token else words[len(token) + 1 :]
        words = f"{words} [{again} ...]"
    return f"[{words}]" if "optional" in flags else words


def section(name, docs):
    words = " ".join([name, *(syntax(argument) for argument in docs.get("arguments", []))])
    lines = [f'.SS "{name}"', ".B " + text(words), ".PP", text(docs["summary"]).rstrip(".") + "."]
    lines += ["Time complexity: " + text(docs["complexity"]).rstrip(".") + "."] if "complexity" in docs else []
    lines += [f"Since allot {docs['since']}."] if "since" in docs else []
    return "\n".join(lines)


def main():
    commands = {name.upper(): docs for name, docs in json.load(sys.stdin).items() if docs.get("module") == "allot"}
    if not commands:
        sys.exit("the server has no command of the module allot")
    print(HEAD.format(version=sys.argv[1]), end="")
    print(".SH COMMANDS")
    for name in sorted(commands, key=lambda name: (ORDER.index(name.split(".")[0]), name)):
        print(section(name, commands[name]))
    print('.SH "SEE ALSO"\n.BR redis-server (1),\n.BR allot (1),\n.BR allotd (1)')


if __name__ == "__main__":
    main()
