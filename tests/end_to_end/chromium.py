"""A page in headless Chromium, driven through its DevTools: for tests of pages.

Chromium listens on a port of its own choice of 127.0.0.1, writes it into its profile's
folder, and ends with the ``with`` block.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 120.0  # seconds until the browser must answer, on a loaded machine


def executable() -> str | None:
    """Where Chromium is; None: it is not installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page. Requests and errors are recorded from its first moment on."""

    def __init__(self, url: str, width: int = 1200, height: int = 900):
        self._size = (width, height)
        self._url = url
        self._count = 0
        self.requests: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Tab:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        flags += ["--disable-dev-shm-usage", "--remote-debugging-port=0"]
        flags += ["--disable-background-networking", "--hide-scrollbars"]
        where = f"--user-data-dir={self._folder.name}"
        self._process = subprocess.Popen(
            [executable() or "chromium", *flags, where, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._loop = asyncio.new_event_loop()
        try:
            self._socket: WebSocketClientConnection = self._loop.run_until_complete(
                self._connect()
            )
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.send(f"{domain}.enable")
            self.resize(*self._size)
            self.send("Page.navigate", url=self._url)
            self._wait_for("document.readyState === 'complete'")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object):
        self._process.terminate()
        self._process.wait()
        self._loop.close()
        self._folder.cleanup()

    async def _connect(self) -> WebSocketClientConnection:
        end = time.monotonic() + PATIENCE
        port = Path(self._folder.name) / "DevToolsActivePort"
        while not (port.exists() and port.read_text().strip()):
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError("Chromium did not open its DevTools.")
            await asyncio.sleep(0.1)
        number = port.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/json") as answer:
            tabs = json.load(answer)
        address = next(t for t in tabs if t["type"] == "page")["webSocketDebuggerUrl"]
        return await websocket_connect(address)

    def send(self, method: str, **params) -> dict[str, Any]:
        """One command and its answer; events that come before it are recorded."""
        return self._loop.run_until_complete(self._send(method, params))

    async def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        command = {"id": self._count, "method": method, "params": params}
        await self._socket.write_message(json.dumps(command))
        while True:
            text = await asyncio.wait_for(self._socket.read_message(), PATIENCE)
            assert text is not None, "Chromium closed the connection."
            message = json.loads(text)
            if message.get("id") == self._count:
                assert "error" not in message, message
                answer: dict[str, Any] = message["result"]
                return answer
            self._record(message)

    def _record(self, message: dict[str, Any]):
        kind, params = message.get("method"), message.get("params", {})
        if kind == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif kind == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        elif kind == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def run(self, script: str):
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def _wait_for(self, condition: str):
        end = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def press(self, key: str):
        """A key of the keyboard, where the focus is."""
        for kind in ("rawKeyDown", "keyUp"):
            code = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}[key]
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
            )

    def resize(self, width: int, height: int, *, phone: bool = False):
        """Another size of the window."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
