"""The agent in marimo's agent panel: a person with a mouse and a keyboard, in a real browser.

marimo speaks with agents over a WebSocket, on a port that it knows. What stands there here is a bridge to the agent's
process, on a port of its own, to which the page is sent instead.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from support.browser import Page, browser
from support.checkout import REPOSITORY
from support.models import ModelServer, Reply, ToolCall, model_server
from support.repo import BUG, FIX, Repo, make_repo
from support.waiting import Changes

TOLD = " The total is the sum of price and quantity." * 100
SUMMARY = "## Goal and requirements\n`Cart.total` was repaired; prices are whole cents."
PROGRAM = Path(sys.executable).with_name("marimo")
NOTEBOOK = "import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n    x = 1\n    return\n"
CLAUDE = 3017
PANEL = {"selectedPanel": "ai", "isSidebarOpen": True, "isDeveloperPanelOpen": False}
PREPARED = """
localStorage.setItem("marimo:sidebar", JSON.stringify(%s));
localStorage.setItem("marimo:chrome:ai-panel-tab", JSON.stringify("agents"));
const Real = WebSocket;
WebSocket = class extends Real {
    constructor(url, protocols) { super(String(url).includes(":%d") ? "ws://127.0.0.1:%d" : url, protocols); }
};
"""
BUTTON = """[...document.querySelectorAll("button, [role=menuitem]")]
    .find((found) => found.getClientRects().length && found.innerText.trim().includes(%s))"""
INPUT = """[...document.querySelectorAll("[contenteditable=true]")]
    .find((found) => (found.getAttribute("aria-placeholder") ?? "").startsWith("Ask anything"))"""


class Person:
    """Somebody at the page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def click(self, found: str) -> None:
        """Click on what an expression finds, once it is there."""
        await self.page.until(f"!!({found})")
        middle = "((box) => [box.x + box.width / 2, box.y + box.height / 2])"
        x, y = await self.page.value(f"{middle}(({found}).getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            await self.page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def press(self, label: str) -> None:
        """Click on a button or an entry of a menu."""
        await self.click(BUTTON % json.dumps(label))

    async def sees(self, *texts: str) -> None:
        """Wait until all of these can be read."""
        await self.page.until(f"{json.dumps(texts)}.every((text) => document.body.innerText.includes(text))")

    async def says(self, text: str) -> None:
        """Type it where one types, and send it."""
        await self.click(INPUT)
        await self.page.write(text)
        await self.page.press("Enter")


class Bridge:
    """A WebSocket in front of the agent: a process for each connection.

    :ivar asked: the methods of all requests of the page, in order.
    :ivar agents: the processes.
    """

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self._env, self._cwd = env, cwd
        self.asked: list[str] = []
        self.agents: list[anyio.abc.Process] = []
        self._changes = Changes()
        self._ended = 0

    async def ended(self, turns: int) -> None:
        """Wait until so many turns have ended."""
        await self._changes.until(lambda: self._ended >= turns, 10, lambda: f"{turns} turns, but {self._ended}")

    async def serve(self, page: Any) -> None:
        """Pass everything on, both ways, until either side ends."""
        command = [sys.executable, "-m", "acp_agent"]
        async with await anyio.open_process(command, env=self._env, cwd=self._cwd, stderr=None) as agent:
            assert agent.stdin is not None
            self.agents.append(agent)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._answer, agent, page)
                with suppress(Exception):  # the page, or the agent, has gone without a word
                    async for message in page:
                        self.asked += [json.loads(message).get("method", "")]
                        sent = message.encode() if isinstance(message, str) else message
                        await agent.stdin.send(sent.strip() + b"\n")
                tasks.cancel_scope.cancel()
            await agent.stdin.aclose()

    async def _answer(self, agent: anyio.abc.Process, page: Any) -> None:
        assert agent.stdout is not None
        rest = b""
        async for piece in agent.stdout:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                await page.send(line.decode())
                self._ended += "stopReason" in json.loads(line).get("result", {})
                self._changes.notify()
        await page.close()


@asynccontextmanager
async def bridged(repo: Repo, home: Path, server: ModelServer) -> AsyncGenerator[tuple[Bridge, int]]:
    """The bridge, and its port."""
    serve = pytest.importorskip("websockets.asyncio.server").serve  # which marimo brings
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    env |= {"ACP_AGENT_HOME": str(home / "state"), **server.env()}
    env |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
    bridge = Bridge(env, repo.path)
    async with serve(bridge.serve, "127.0.0.1", 0, max_size=None) as listening:
        yield bridge, next(iter(listening.sockets)).getsockname()[1]


@asynccontextmanager
async def marimo(repo: Repo, home: Path) -> AsyncGenerator[str]:
    """marimo with a notebook in a repository: its address."""
    settings = home / ".config" / "marimo" / "marimo.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[experimental]\nexternal_agents = true\n")
    notebook = repo.path / "notebook.py"
    notebook.write_text(NOTEBOOK)
    words = ["-q", "-y", "edit", str(notebook), "--headless", "--no-token", "--skip-update-check"]
    port = free_port()
    process = subprocess.Popen(
        [PROGRAM, *words, "--host", "127.0.0.1", "--port", str(port)],
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)},
        cwd=repo.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with anyio.fail_after(20):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:  # not yet: there is nothing to wait for but the port
                    await anyio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/"
    finally:
        os.killpg(process.pid, 9)
        await anyio.to_thread.run_sync(process.wait)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.timeout(120)
@pytest.mark.skipif(not PROGRAM.is_file(), reason="marimo is not installed")
async def test_a_person_works_with_the_agent_in_the_panel_of_a_notebook(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    edit = ToolCall("edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]})
    script = [
        Reply("I look first.", tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply(tool_calls=[edit]),
        Reply(["Repaired it.", TOLD]),
        Reply(SUMMARY),
        Reply("The total was repaired."),
    ]

    async with (
        model_server(script, "openai") as server,
        bridged(repo, tmp_path, server) as (bridge, port),
        marimo(repo, tmp_path) as address,
        browser() as page,
    ):
        source = PREPARED % (json.dumps(PANEL), CLAUDE, port)
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=source)
        await page.open(address)
        person = Person(page)
        await person.press("New session")
        await person.press("New Claude session")
        await person.sees("Agent is connected")

        await person.says("Repair shop/cart.py")
        await person.sees("Permission Request", "I look first.")
        assert repo.run_tests().returncode == 1
        await person.press("Allow")
        await person.sees("Repaired it.")
        await bridge.ended(1)
        assert repo.run_tests().returncode == 0

        await person.says("/compact keep the prices")
        await person.sees("Compact conversation")
        await bridge.ended(2)

        bridge.agents[-1].kill()
        bridge.asked.clear()
        await page.open(address)
        await person.sees("Connected", "Repaired it.")
        await person.says("What was done?")
        await person.sees("The total was repaired.")
        assert bridge.asked[:2] == ["initialize", "session/load"]
        told = json.dumps(server.calls[-1].body["input"])
        assert "prices are whole cents" in told
        assert "I look first." not in told
