"""Headless Chromium by its DevTools protocol over a pipe: sizes, colour schemes, keys, and what it complains of."""

import base64
import json
import os
import subprocess
import time


# Virtual key codes, and the text that a key makes.
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "End": (35, ""), "Home": (36, ""), "ArrowLeft": (37, ""),
        "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, "")}


class Browser:
    """A tab. What the page writes to the console as an error or a warning is in `complaints`."""

    def __init__(self, profile):
        asks, self.asks = os.pipe()
        self.told, tells = os.pipe()

        def hand_over():  # Chromium reads descriptor 3 and writes descriptor 4.
            low, high = os.dup2(asks, 30), os.dup2(tells, 31)
            os.dup2(low, 3)
            os.dup2(high, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--hide-scrollbars", f"--user-data-dir={profile}", "about:blank"],
            close_fds=False, preexec_fn=hand_over, stderr=subprocess.DEVNULL)
        os.close(asks)
        os.close(tells)
        self.rest, self.next, self.session, self.complaints = b"", 0, None, []
        page = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self.next += 1
        message = {"id": self.next, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.asks, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.next:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.told, 1 << 20)
            assert more, "chromium ended"
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        told = json.loads(one)
        params = told.get("params", {})
        if told.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"])
        if told.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"])
        if told.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(params["args"])
        return told

    def look(self, width, height, scheme):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, script):
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script, seconds=20):
        end = time.time() + seconds
        while not self.value(script):
            assert time.time() < end, f"it never came: {script}: {self.complaints}"
            time.sleep(0.1)

    def press(self, key):
        """A key by its name."""
        number, text = KEYS[key]
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        for how in (down, {"type": "keyUp"}):
            self.ask("Input.dispatchKeyEvent", key=key, code=key, windowsVirtualKeyCode=number, **how)

    def screenshot(self, path):
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
