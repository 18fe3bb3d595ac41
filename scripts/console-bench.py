#!/usr/bin/env python3
"""Measures the seat map of a running console, and what its browsers cost Redis.

    make run                                       # in another terminal
    scripts/console-bench.py --redis 6380

Prints the time of the first paint, the time of a frame while the map is moved, the time from a change in Redis until the
map has it while 5,000 other seats a second are held and expire, and the calls that one and a hundred listeners cost
Redis. Needs chromium, chromedriver and redis-cli.
"""

import argparse
import http.client
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


def frames(console, look, name):
    """Moves the map in a browser of its own, and reads from its trace how long the page's thread worked for each frame:
    scripts, layout, drawing and hand-over to the compositor."""
    browser = Browser(TRACED)
    try:
        browser.look(1440, 960, "light")
        browser.go(f"{console}/show?key={SHOW}", MAP)
        browser.run(look)
        time.sleep(2)
        browser.run(MOVE)
        time.sleep(8)
        events = browser.trace()
    finally:
        browser.close()
    times = {event["name"]: event["ts"] for event in events if event.get("cat") == "blink.user_timing"}
    within = [event for event in events if times["begin"] <= event["ts"] <= times["end"]]
    work = sorted(event["dur"] / 1000 for event in within
                  if event["name"] == "ProxyMain::BeginMainFrame" and event["ph"] == "X")
    states = [event["args"]["frame_reporter"] for event in within
              if event["name"] == "PipelineReporter" and event["ph"] == "b"]
    dropped = sum(state["state"] == "STATE_DROPPED" and state["affects_smoothness"] for state in states)
    rate = 1e6 * len(work) / (times["end"] - times["begin"])
    print(f"frame while the map moves, {name}: median {statistics.median(work):.1f} ms, 95 % within "
          f"{work[int(len(work) * 0.95)]:.1f} ms, {sum(ms >= 16 for ms in work)} of {len(work)} took 16 ms or more; "
          f"{rate:.0f} frames a second, {dropped} dropped")


def delays(browser, port):
    browser.run("document.querySelector('.map').view.fit()")
    # A free seat of an area with the worst priority: the load takes the best seats.
    seat = browser.run("const show = document.querySelector('.map').view.show;"
                       "const last = Math.max(...show.areas.map((area) => area.priority)); let at = show.size - 1;"
                       "while (show.state[at] !== 1 || show.seat(at).area.priority < last) at -= 1;"
                       "return [at, show.seat(at).id]")
    load = Load(port, 5000)
    load.start()
    try:
        time.sleep(2)
        before, began, measured = calls(port, "seat.hold"), time.monotonic(), []
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
        # Each hold expires: two changes.
        rate = 2 * (calls(port, "seat.hold") - before) / (time.monotonic() - began)
    finally:
        load.ends.set()
        load.join()
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
    # The reader of the browser's show ends some seconds after the browser.
    time.sleep(15)
    listeners(chosen.console, chosen.redis, 1)
    listeners(chosen.console, chosen.redis, 100)


if __name__ == "__main__":
    main()
