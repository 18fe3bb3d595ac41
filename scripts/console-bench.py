#!/usr/bin/env python3
"""Measures the seat map of a running console, and what its browsers cost Redis.

    make run                                       # in another terminal
    scripts/console-bench.py --redis 6380

Prints the time of the first paint, the time of a frame while the map is moved, the time from a change in Redis until
the map has it while 5,000 other seats a second are held and expire, the processor time and the frames of this rush, and
the calls that one and a hundred listeners cost Redis. The console must run on this machine. Needs chromium,
chromedriver and redis-cli.
"""

import argparse
import contextlib
import http.client
import os
import pathlib
import socket
import statistics
import subprocess
import threading
import time

from chromium import Browser

SHOW = "show:stadium"
MAP = "document.querySelector('.map')?.view?.show"
# Moves the map at each frame, between two marks in the trace.
MOVE = """const view = document.querySelector('.map').view; let frames = 0; performance.mark('begin');
const step = () => { view.pan(3, 2); if (++frames < 240) requestAnimationFrame(step); else performance.mark('end'); };
requestAnimationFrame(step);"""
# Trace events of marks, of frames, and of the work for a frame.
TRACED = ["blink.user_timing", "benchmark", "cc", "disabled-by-default-devtools.timeline.frame"]


def redis(port, *words):
    command = ["redis-cli", "-p", str(port), *words]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def calls(port, command):
    """Calls of a command since the start of the server."""
    for line in redis(port, "INFO", "commandstats").splitlines():
        name, _, values = line.lower().partition(":")
        if name == f"cmdstat_{command}":
            return int(values.split(",")[0].removeprefix("calls="))
    return 0


class Load(threading.Thread):
    """Holds seats of the show at a steady rate; each hold expires soon."""

    def __init__(self, port, rate):
        super().__init__(daemon=True)
        self.port, self.rate, self.ends = port, rate, threading.Event()

    def run(self):
        batch, sent, began = 50, 0, time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            answers = threading.Thread(target=self.discard, args=[connection], daemon=True)
            answers.start()
            while not self.ends.is_set():
                lines = "".join(f"SEAT.HOLD {SHOW} load-{sent + n} 1 TTL 300\r\n" for n in range(batch))
                connection.sendall(lines.encode())
                sent += batch
                time.sleep(max(0, began + sent / self.rate - time.monotonic()))
            connection.shutdown(socket.SHUT_RDWR)
            answers.join()

    @staticmethod
    def discard(connection):
        while connection.recv(1 << 20):
            pass


def first_paint(browser, console):
    browser.go(f"{console}/show?key={SHOW}", MAP)
    time.sleep(1)
    paints = browser.run("return performance.getEntriesByType('paint').map((paint) => [paint.name, paint.startTime])")
    print(", ".join(f"{name}: {at:.0f} ms" for name, at in paints))


@contextlib.contextmanager
def opened(console, traced=()):
    """A browser of its own that shows the map."""
    browser = Browser(traced)
    try:
        browser.look(1440, 960, "light")
        browser.go(f"{console}/show?key={SHOW}", MAP)
        yield browser
    finally:
        browser.close()


def frames(console, look, name):
    """Moves the map, and says how long the page's thread worked for each frame."""
    with opened(console, TRACED) as browser:
        browser.run(look)
        time.sleep(2)
        browser.run(MOVE)
        time.sleep(8)
        tell_frames(browser.trace(), f"frame while the map moves, {name}")


def tell_frames(events, what):
    """Reads from a trace how long the page's thread worked for each frame between two marks: scripts, layout, drawing
    and hand-over to the compositor."""
    times = {event["name"]: event["ts"] for event in events if event.get("cat") == "blink.user_timing"}
    within = [event for event in events if times["begin"] <= event["ts"] <= times["end"]]
    work = sorted(event["dur"] / 1000 for event in within
                  if event["name"] == "ProxyMain::BeginMainFrame" and event["ph"] == "X")
    states = [event["args"]["frame_reporter"] for event in within
              if event["name"] == "PipelineReporter" and event["ph"] == "b"]
    dropped = sum(state["state"] == "STATE_DROPPED" and state["affects_smoothness"] for state in states)
    rate = 1e6 * len(work) / (times["end"] - times["begin"])
    print(f"{what}: median {statistics.median(work):.1f} ms, 95 % within "
          f"{work[int(len(work) * 0.95)]:.1f} ms, {sum(ms >= 16 for ms in work)} of {len(work)} took 16 ms or more; "
          f"{rate:.0f} frames a second, {dropped} dropped")


@contextlib.contextmanager
def load(port):
    """Seats are held and expire; gives a function that says how many changes a second there were."""
    holds = Load(port, 5000)
    holds.start()
    try:
        time.sleep(2)
        before, began = calls(port, "seat.hold"), time.monotonic()
        # Each hold expires: two changes.
        yield lambda: 2 * (calls(port, "seat.hold") - before) / (time.monotonic() - began)
    finally:
        holds.ends.set()
        holds.join()


def listening(port):
    """The process that listens on a port of this machine."""
    sockets = {line.split()[9] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
               if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"}
    for file in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(file).removeprefix("socket:[").removesuffix("]") in sockets:
                return int(file.parts[2])
    raise SystemExit(f"no process of this user listens on port {port}")


def stat(process):
    """The parent of a process, and the processor time that it has used, in seconds."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def renderers(browser):
    """The processes of a browser's pages."""
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = stat(folder.name)[0]
    inside = {browser.driver.pid}
    while more := {process for process, parent in parents.items() if parent in inside} - inside:
        inside |= more
    command = "/proc/{}/cmdline".format
    return [process for process in inside if "--type=renderer" in pathlib.Path(command(process)).read_text()]


def rush(console, port):
    """Says what a rush costs the console and the page that shows it, and how its frames are."""
    server = listening(int(console.rsplit(":", 1)[1]))
    with opened(console) as browser, load(port) as rate:
        pages = renderers(browser)

        def used():
            return stat(server)[1], sum(stat(page)[1] for page in pages)

        before, began = used(), time.monotonic()
        time.sleep(15)
        cores = [(now - earlier) / (time.monotonic() - began) for earlier, now in zip(before, used(), strict=True)]
        print(f"processor time at {rate():,.0f} changes a second: console {cores[0]:.2f} cores, page {cores[1]:.2f}")
    with opened(console, TRACED) as browser, load(port) as rate:
        browser.run(MOVE)
        time.sleep(8)
        tell_frames(browser.trace(), f"frame while the map moves at {rate():,.0f} changes a second")


def delays(browser, port):
    browser.run("document.querySelector('.map').view.fit()")
    # A free seat of an area with the worst priority: the load takes the best seats.
    seat = browser.run("const show = document.querySelector('.map').view.show;"
                       "const last = Math.max(...show.areas.map((area) => area.priority)); let at = show.size - 1;"
                       "while (show.state[at] !== 1 || show.seat(at).area.priority < last) at -= 1;"
                       "return [at, show.seat(at).id]")
    measured = []
    with load(port) as changes:
        for turn in range(10):
            word, state = ("SEAT.BLOCK", 4) if turn % 2 == 0 else ("SEAT.UNBLOCK", 1)
            reply = redis(port, word, SHOW, "1", seat[1]).strip()
            if reply != "1":
                raise SystemExit(f"{word} {seat[1]}: {reply}")
            changed = time.monotonic()
            read = f"return document.querySelector('.map').view.show.state[{seat[0]}]"
            while browser.run(read) != state:
                if time.monotonic() - changed > 30:
                    raise SystemExit("the map does not show a change")
            measured.append(time.monotonic() - changed)
        rate = changes()
    print(f"from a change to the map, at {rate:,.0f} changes a second: median {statistics.median(measured):.2f} s, "
          f"at most {max(measured):.2f} s, of {len(measured)}")


def listeners(console, port, count):
    open_streams = []
    for _ in range(count):
        connection = http.client.HTTPConnection(console.removeprefix("http://"))
        connection.request("GET", f"/api/v1/events?topics=[%22{SHOW}%22]")
        connection.getresponse()
        open_streams.append(connection)
    time.sleep(2)
    before, began = calls(port, "seat.map"), time.monotonic()
    time.sleep(5)
    rate = (calls(port, "seat.map") - before) / (time.monotonic() - began)
    for connection in open_streams:
        connection.close()
    print(f"{count} listeners: {rate:.0f} calls of SEAT.MAP a second")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--console", default="http://127.0.0.1:8470", help="address of the console")
    options.add_argument("--redis", default=6380, type=int, help="port of the server of `make run`")
    chosen = options.parse_args()
    browser = Browser()
    try:
        browser.look(1440, 960, "light")
        first_paint(browser, chosen.console)
        delays(browser, chosen.redis)
    finally:
        browser.close()
    frames(chosen.console, "", "whole stadium")
    frames(chosen.console, "document.querySelector('.map').view.zoom(4)", "four times enlarged")
    rush(chosen.console, chosen.redis)
    # The reader of the browser's show ends some seconds after the browser.
    time.sleep(15)
    listeners(chosen.console, chosen.redis, 1)
    listeners(chosen.console, chosen.redis, 100)


if __name__ == "__main__":
    main()
