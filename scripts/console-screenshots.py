#!/usr/bin/env python3
"""Takes the screenshots of docs/console.md from a running console, such as that of `make run`.

    scripts/console-screenshots.py                                  all, into docs/images/
    scripts/console-screenshots.py --only stadium --out /tmp/look   one page, elsewhere

Adds some holds, blocked seats and calls to the values of `make run` first, if --redis names its port. Needs chromium, chromedriver and pngquant, which reduces the pictures to 256 colours and a third of their size.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import time

from chromium import Browser

# Name, address, and what is true in the page when it can be taken.
PAGES = [
    ("overview", "/", "document.querySelector('.chart canvas')"),
    ("shows", "/show", "document.querySelector('main tbody .meter')"),
    ("theatre", "/show?key=show:theatre", "document.querySelector('.map')?.view?.show"),
    ("stadium", "/show?key=show:stadium", "document.querySelector('.map')?.view?.show"),
    ("train", "/show?key=show:train", "document.querySelector('.map')?.view?.show"),
    ("ball-park", "/show?key=show:ball-park", "document.querySelector('.map')?.view?.show"),
    ("concert-hall", "/show?key=show:concert-hall", "document.querySelector('.map')?.view?.show"),
    ("gala", "/show?key=show:gala", "document.querySelector('.map')?.view?.show"),
    ("realm", "/realm?key={allot}:conf&conference=4930102", "document.querySelector('.timeline')"),
    ("pool", "/pool?key={sales}:pool", "document.querySelector('.stack')"),
    ("compaction", "/compaction", "document.querySelector('#history, .table')"),
    ("accounts", "/accounts?key={allot}:accounts", "document.querySelector('.tree')"),
    ("actions", "/actions", "document.querySelector('.table')"),
]
# Name of the size, width and height in pixels.
SIZES = {"wide": (1440, 960), "phone": (390, 844)}


def fill(port):
    """Adds holds, blocked seats, calls and logins to the values of `make run`."""
    lines = [f"SEAT.HOLD show:theatre user-{n} {2 + n % 3} TTL {240000 + 31000 * n} TOKEN cart-{n}" for n in range(14)]
    lines += [f"SEAT.HOLD show:stadium user-{n} {1 + n % 4} TTL {300000 + 17000 * n} TOKEN cart-{n}" for n in range(60)]
    lines += [f"SEAT.HOLD show:train family-{n} 4 TTL {200000 + 40000 * n} TOKEN cart-{n}" for n in range(6)]
    for hall in ("ball-park", "concert-hall", "gala"):
        lines += [f"SEAT.HOLD show:{hall} user-{n} {2 + n % 4} TTL {250000 + 23000 * n} TOKEN cart-{n}" for n in range(12)]
    found = json.loads(redis(port, "--json SEAT.FIND show:train 16", ""))
    free = found[0]["seats"]
    # Seats that were found are blocked before holds take them.
    lines.insert(0, f"SEAT.BLOCK show:train {len(free)} " + " ".join(free))
    lines += [f"NUMPOOL.CALL {{sales}}:pool TTL 1800000 LEASE call-{100 + n} PEER +4930{5550000 + 7919 * n % 99999}"
              for n in range(160)]
    # Some of these calls end; their numbers cool down, or go into quarantine.
    lines.append("NUMPOOL.CAUSE {sales}:pool spam COOLDOWN 86400000")
    lines += [f"NUMPOOL.HANGUP {{sales}}:pool +44207946{1 + n:04} LEASE call-{100 + n} COOLDOWN {120000 + 40000 * n}"
              + (" CAUSE spam" if n % 4 == 3 else "") for n in range(8)]
    redis(port, "", "\n".join(lines))


def redis(port, arguments, text):
    command = ["redis-cli", "-p", str(port), *arguments.split()]
    return subprocess.run(command, input=text, capture_output=True, check=True, text=True).stdout


def shrink(file):
    """Reduces a picture to 256 colours."""
    subprocess.run(["pngquant", "--force", "--strip", "--speed", "1", "--ext", ".png", "256", file], check=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--console", default="http://127.0.0.1:8470", help="address of the console")
    options.add_argument("--out", default=pathlib.Path(__file__).parent.parent / "docs/images", type=pathlib.Path)
    options.add_argument("--only", help="names of pages, with commas in between")
    options.add_argument("--sizes", default="wide", help="wide, phone, or both with a comma in between")
    options.add_argument("--schemes", default="light,dark")
    options.add_argument("--redis", type=int, help="port of the server of `make run`, to which values are added")
    options.add_argument("--wait", default=2.0, type=float, help="seconds for charts to get points")
    chosen = options.parse_args()
    for tool in ("chromium", "chromedriver", "pngquant"):
        if not shutil.which(tool):
            options.error(f"there is no {tool}; apt-get install chromium chromium-driver pngquant installs all")
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.redis:
        fill(chosen.redis)
    browser = Browser()
    try:
        for name, path, ready in PAGES:
            if chosen.only and name not in chosen.only.split(","):
                continue
            for size in chosen.sizes.split(","):
                for scheme in chosen.schemes.split(","):
                    browser.look(*SIZES[size], scheme)
                    browser.go(chosen.console + path, ready)
                    time.sleep(chosen.wait)
                    file = chosen.out / f"console-{name}-{scheme}{'' if size == 'wide' else '-' + size}.png"
                    file.write_bytes(browser.picture(False))
                    shrink(file)
                    print(f"{file} {file.stat().st_size // 1024} KB", flush=True)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
