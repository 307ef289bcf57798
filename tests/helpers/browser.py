"""A headless Chromium for tests, spoken to in the DevTools protocol over a pipe: no port, no package."""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from importlib import resources
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARROWS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, **ARROWS}
AXE_LEAVES = {"exclude": [["tbody tr:nth-child(n+6)"], [".pair:nth-child(n+12)"]]}
PATIENCE = 30  # seconds until a test gives up on the browser


def executable():
    return os.environ.get("CRS_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


PROGRAM = executable()
# Of the tests that need a browser: what `make test` leaves to `make test-all`.
MARKS = [
    pytest.mark.full, pytest.mark.browser, pytest.mark.subprocess,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium found; install one, or name it in CRS_CHROMIUM"),
    pytest.mark.slow,
]  # fmt: skip


class ProtocolError(Exception):
    """The browser refused a call."""


class Browser:
    """A running browser; ``page()`` opens a tab. Use it as a context manager."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="crs-chromium-")
        ours, theirs = os.pipe(), os.pipe()  # what the browser reads, what it writes

        def wire():
            spare = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (ours[0], theirs[1])]
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)

        options = [
            "--headless=new", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
            "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
            "--force-color-profile=srgb", "--lang=en", f"--user-data-dir={self.profile}",
        ]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--no-sandbox")  # the sandbox refuses to run as root
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        line = [program, *options, "about:blank"]
        self.process = subprocess.Popen(line, pass_fds=(3, 4), preexec_fn=wire, **quiet)
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read = ours[1], theirs[0]
        self._buffer, self._number, self._answers, self.events = b"", 0, {}, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, TimeoutError):
            self.send("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def send(self, method, session=None, **params):
        """Call a method of the protocol; its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        number, end = self._number, time.monotonic() + PATIENCE
        while number not in self._answers:
            self.listen(end - time.monotonic())
        answer = self._answers.pop(number)
        if "error" in answer:
            raise ProtocolError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def listen(self, seconds):
        """Take in one bunch of messages; TimeoutError if none comes in time."""
        ready, _, _ = select.select([self._read], [], [], max(0, seconds))
        if not ready:
            raise TimeoutError("the browser does not answer")
        data = os.read(self._read, 1 << 20)
        if not data:
            raise OSError("the browser has gone")
        *whole, self._buffer = (self._buffer + data).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.events.append(message)

    def page(self, width=1400, height=900):
        return Page(self, width, height)


class Page:
    """One tab: opens addresses, types, clicks, evaluates, and remembers errors and requests."""

    def __init__(self, browser, width, height):
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.size(width, height)

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)

    def size(self, width, height):
        facts = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **facts)

    def dark(self, on=True):
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def _events(self, method):
        events = []
        for event in self.browser.events:
            if event.get("sessionId") == self.session and event["method"] == method:
                events.append(event["params"])
        return events

    def open(self, address):
        """Go to an address (a path is one, too) and wait until it is loaded."""
        url = address.as_uri() if isinstance(address, Path) else address
        for goal in ("about:blank", url):  # by way of an empty page, so that another #part loads it anew
            self.send("Page.navigate", url=goal)
            self.wait(f"location.href.startsWith({json.dumps(goal)}) && document.readyState === 'complete'")

    def js(self, expression):
        """The value of an expression in the page; an error in it is an AssertionError."""
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if value := self.js(expression):
                    return value
            except ProtocolError:  # the page has just gone to another address
                pass
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.02)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        nodes = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.js(f"{nodes}.map((node) => node.innerText)")

    def key(self, key):
        facts = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **facts, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **facts)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def choose(self, selector, value):
        self.js(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.value = {json.dumps(value)};"
            "node.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def click(self, selector):
        x, y = self.js(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); node.scrollIntoView({{block: 'nearest'}});"
            "const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def axe(self, *rules):
        """What axe-core finds wrong by these rules, or by all: rule, element and reason, one line each. The
        script comes in through the protocol, which no policy of the page stops. What is folded is unfolded:
        axe takes a closed element's content for visible, at a place where something else is. Of a table five
        rows are looked at, of a dialogue nine turns: the others are made alike.
        """
        only = {"runOnly": list(rules)} if rules else {}
        options = json.dumps({"resultTypes": ["violations"], **only})
        self.js("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        script = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
        self.js(f"{script}; 0")
        return self.js(
            f"axe.run({json.dumps(AXE_LEAVES)}, {options}).then((found) => found.violations.flatMap((rule) =>"
            " rule.nodes.map((node) => `${rule.id}: ${node.html} ${node.failureSummary}`)))"
        )

    def complaints(self):
        """What the console holds of errors and warnings, exceptions included."""
        complaints = []
        for event in self._events("Runtime.exceptionThrown"):
            complaints.append(event["exceptionDetails"]["text"])
        for call in self._events("Runtime.consoleAPICalled"):
            if call["type"] in ("error", "warning", "assert"):
                complaints.append(str(call["args"]))
        for event in self._events("Log.entryAdded"):
            entry = event["entry"]
            complaints.append(f"{entry['level']}: {entry['text']}")
        return complaints

    def requests(self):
        return [e["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))
        return path
