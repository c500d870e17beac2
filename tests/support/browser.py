"""A real browser without a window, steered over its DevTools pipe.

    async with browser() as page:                   # skips the test where there is none
        await page.open(file.as_uri())
        await page.until("document.documentElement.dataset.ready")
        assert await page.value("document.title") == "…"
        await page.press("/")
        assert page.errors == []

It is looked for as Debian, Ubuntu and Google call it; `apt-get install chromium` brings
it.

Source: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",  # which a container may have no right to make
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 30.0


def program() -> str | None:
    """The browser's program; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One page.

    :ivar errors: what it complained of: exceptions, and what its policy refused.
    :ivar requests: every address that it asked for, since it was opened.
    """

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to = to_browser
        self._from = from_browser
        self._ids = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []

    async def start(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            await self.call(f"{domain}.enable")

    async def open(self, url: str) -> None:
        self.errors.clear()
        self.requests.clear()
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """What an expression comes to; a promise is waited for."""
        answer = await self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str) -> Any:
        looks = f"""new Promise((resolve) => {{
            const look = () => {{
                let value; try {{ value = ({condition}); }} catch {{ value = null; }}
                if (value) resolve(value); else setTimeout(look, 20);
            }};
            look();
        }})"""
        with anyio.fail_after(PATIENCE):
            while True:
                try:
                    return await self.value(looks)
                except BrowserError:  # the page was left while it waited
                    await anyio.lowlevel.checkpoint()

    async def press(self, key: str) -> None:
        """Press and release a key, by the name that pages know."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        name = " " if key == "Space" else key
        code = {"Enter": 13, "Tab": 9, "Escape": 27, "Space": 32}.get(
            key, ord(key[0].upper())
        )
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                windowsVirtualKeyCode=code,
                **more,
            )

    async def write(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def colours(self, scheme: str) -> None:
        await self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    async def named(self, *roles: str) -> list[tuple[str, str]]:
        """Role and name of everything of these roles, as assistive technology is told."""
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        seen = [
            node
            for node in nodes
            if not node.get("ignored") and node.get("role", {}).get("value") in roles
        ]
        return [
            (node["role"]["value"], str(node.get("name", {}).get("value", "")))
            for node in seen
        ]

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol.

        :raises BrowserError: it failed.
        """
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        with anyio.fail_after(PATIENCE):
            await anyio.to_thread.run_sync(
                os.write, self._to, json.dumps(message).encode() + b"\0"
            )
            while True:
                answer = await self._next()
                if answer.get("id") == number:
                    if "error" in answer:
                        raise BrowserError(f"{method}: {answer['error']}")
                    return answer["result"]
                self._note(answer)

    async def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            await anyio.wait_readable(self._from)
            read = os.read(self._from, 1 << 20)
            if not read:
                raise BrowserError("the browser has ended")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _note(self, event: Mapping[str, Any]) -> None:
        match event:
            case {
                "method": "Runtime.exceptionThrown",
                "params": {"exceptionDetails": details},
            }:
                self.errors.append(str(details))
            case {
                "method": "Log.entryAdded",
                "params": {"entry": {"level": "error", "text": str(text)}},
            }:
                self.errors.append(text)
            case {
                "method": "Network.requestWillBeSent",
                "params": {"request": {"url": str(url)}},
            }:
                self.requests.append(url)
            case _:
                pass


class BrowserError(Exception):
    """The browser did not do as it was asked."""


@asynccontextmanager
async def browser() -> AsyncGenerator[Page]:
    """A page of a browser of its own, which ends with it; skips the test where no
    browser is installed.
    """
    found = program()
    if found is None:
        pytest.skip(
            f"no browser is installed: none of {', '.join(NAMES)} is on the PATH"
        )
    with tempfile.TemporaryDirectory(
        prefix="browser-", ignore_cleanup_errors=True
    ) as profile:
        read_there, to_browser = os.pipe()
        from_browser, write_there = os.pipe()
        # The browser reads on descriptor 3 and writes on 4.
        line = 'exec "$0" "$@" 3<&$IN 4>&$OUT'
        process = subprocess.Popen(
            [
                "/bin/bash",
                "-c",
                line,
                found,
                *FLAGS,
                f"--user-data-dir={profile}",
                "--window-size=1280,1000",
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": profile,
                "IN": str(read_there),
                "OUT": str(write_there),
            },
            pass_fds=(read_there, write_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(read_there)
        os.close(write_there)
        try:
            page = Page(to_browser, from_browser)
            await page.start()
            yield page
        finally:
            os.killpg(process.pid, 9)
            process.wait()
            os.close(to_browser)
            os.close(from_browser)
