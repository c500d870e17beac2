"""The agent in marimo's agent panel: a person with a mouse and a keyboard, in a real
browser.

marimo speaks with agents over a WebSocket, on a port that it knows. `acp-agent serve`
listens on one of its own here, to which the page is sent instead.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from support.browser import Page, browser
from support.models import Reply, ToolCall, model_server
from support.remote import serving
from support.repo import BUG, FIX, Repo, make_repo

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
    constructor(url, protocols) { super(String(url).replace(":%d/", ":%d/"), protocols); }
};
"""
BUTTON = """[...document.querySelectorAll("button, [role=menuitem]")]
    .find((found) => found.getClientRects().length && found.innerText.trim().includes(%s))"""
INPUT = """[...document.querySelectorAll("[contenteditable=true]")]
    .filter((found) => (found.getAttribute("aria-placeholder") ?? "").startsWith("Ask anything"))
    .find((found) => !found.closest(".pointer-events-none") && found.querySelector(".cm-placeholder"))"""
"""Where one types, as long as no turn runs: the page takes no clicks there meanwhile,
and then takes away the prompt that stands there still.
"""


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
            await self.page.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
            )

    async def press(self, label: str) -> None:
        """Click on a button or an entry of a menu."""
        await self.click(BUTTON % json.dumps(label))

    async def sees(self, *texts: str) -> None:
        """Wait until all of these can be read."""
        await self.page.until(
            f"{json.dumps(texts)}.every((text) => document.body.innerText.includes(text))"
        )

    async def says(self, text: str) -> None:
        """Type it where one types, and send it."""
        await self.click(INPUT)
        await self.page.write(text)
        await self.page.press("Enter")


def recorded(home: Path) -> list[dict[str, Any]]:
    """All messages of the page and the agent, in order."""
    lines = [
        line
        for path in sorted((home / "state" / "wire").glob("*.jsonl"))
        for line in path.read_text().splitlines(keepends=True)
    ]
    return [json.loads(line)["message"] for line in lines if line.endswith("\n")]


async def ended(home: Path, turns: int) -> None:
    """Wait until so many turns have ended."""
    with anyio.fail_after(30):
        while True:
            if (
                sum(
                    "stopReason" in (message.get("result") or {})
                    for message in recorded(home)
                )
                >= turns
            ):
                return
            await anyio.sleep(0.05)  # the page does not show it


@asynccontextmanager
async def marimo(repo: Repo, home: Path, port: int) -> AsyncGenerator[str]:
    """marimo with a notebook in a repository: its address.

    :param port: where it is to listen.
    """
    settings = home / ".config" / "marimo" / "marimo.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[experimental]\nexternal_agents = true\n")
    notebook = repo.path / "notebook.py"
    notebook.write_text(NOTEBOOK)
    words = [
        "-q",
        "-y",
        "edit",
        str(notebook),
        "--headless",
        "--no-token",
        "--skip-update-check",
    ]
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
        yield origin(port)
    finally:
        os.killpg(process.pid, 9)
        await anyio.to_thread.run_sync(process.wait)


def origin(port: int) -> str:
    return f"http://localhost:{port}"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.timeout(120)
@pytest.mark.skipif(not PROGRAM.is_file(), reason="marimo is not installed")
async def test_a_person_works_with_the_agent_in_the_panel_of_a_notebook(
    tmp_path: Path,
) -> None:
    repo = make_repo(tmp_path / "shop")
    edit = ToolCall(
        "edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]}
    )
    script = [
        Reply("I look first.", tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply(tool_calls=[edit]),
        Reply(["Repaired it.", TOLD]),
        Reply(SUMMARY),
        Reply("The total was repaired."),
    ]

    port = free_port()
    home = tmp_path / "agent"
    words = ["--origin", origin(port), "--websocket"]

    async with (
        model_server(script, "openai") as server,
        marimo(repo, tmp_path, port) as address,
        browser() as page,
    ):
        person = Person(page)
        env = {**server.env(), "ACP_AGENT_WIRE": "1"}
        async with serving(home, *words, "127.0.0.1:0", env=env) as served:
            source = PREPARED % (json.dumps(PANEL), CLAUDE, served.port)
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=source)
            await page.open(address)
            await person.press("New session")
            await person.press("New Claude session")
            await person.sees("Agent is connected")

            await person.says("Repair shop/cart.py")
            await person.sees("Permission Request", "I look first.")
            assert repo.run_tests().returncode == 1
            await person.press("Allow")
            await person.sees("Repaired it.")
            await ended(home, 1)
            assert repo.run_tests().returncode == 0

            await person.says("/compact keep the prices")
            await person.sees("Compact conversation")
            await ended(home, 2)
            await served.kill()

        async with serving(home, *words, f"127.0.0.1:{served.port}", env=env):
            before = len(recorded(home))
            await page.open(address)
            await person.sees("Connected", "Repaired it.")
            await person.says("What was done?")
            await person.sees("The total was repaired.")
            asked = [
                message["method"]
                for message in recorded(home)[before:]
                if "id" in message and "method" in message
            ]
            assert asked[:2] == ["initialize", "session/load"]
        told = json.dumps(server.calls[-1].body["input"])
        assert "prices are whole cents" in told
        assert "I look first." not in told
