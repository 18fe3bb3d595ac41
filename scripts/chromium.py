"""Chromium without a window, driven by chromedriver, for the scripts that look at the console."""

import base64
import json
import socket
import subprocess
import tempfile
import time
import urllib.request


class Browser:
    """Chromium without a window, by the WebDriver protocol."""

    def __init__(self, traced=()):
        """Starts it. With categories of trace events, `trace` returns what the browser has done."""
        self.folder = tempfile.TemporaryDirectory(prefix="allot-screenshots-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--hide-scrollbars", f"--user-data-dir={self.folder.name}"]
        options = {"args": arguments}
        wanted = {"goog:chromeOptions": options}
        if traced:
            options["perfLoggingPrefs"] = {"traceCategories": ",".join(traced), "enableNetwork": False}
            wanted["goog:loggingPrefs"] = {"performance": "ALL"}
        wanted = {"capabilities": {"alwaysMatch": wanted}}
        for _ in range(100):
            try:
                self.session = "/session/" + self.call("/session", wanted)["sessionId"]
                return
            except (ConnectionError, OSError):
                time.sleep(0.1)
        raise SystemExit("chromedriver does not answer")

    def call(self, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def devtools(self, command, **parameters):
        body = {"cmd": command, "params": parameters}
        return self.call(f"{self.session}/goog/cdp/execute", body)

    def look(self, width, height, scheme):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def go(self, address, ready):
        """Goes to an address, and waits until an expression is true in the page."""
        self.call(f"{self.session}/url", {"url": address})
        for _ in range(100):
            if self.call(f"{self.session}/execute/sync", {"script": f"return Boolean({ready})", "args": []}):
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"{address} does not show {ready}")

    def run(self, script):
        return self.call(f"{self.session}/execute/sync", {"script": script, "args": []})

    def trace(self):
        """The trace events since the start. Chromium traces no further."""
        entries = self.call(f"{self.session}/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [message["params"] for message in messages if message["method"] == "Tracing.dataCollected"]

    def picture(self, whole):
        taken = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(taken["data"])

    def close(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}", method="DELETE")
        urllib.request.urlopen(request, timeout=60).close()
        self.driver.terminate()
        self.driver.wait()
        self.folder.cleanup()
