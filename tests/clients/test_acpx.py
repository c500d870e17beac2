"""The agent with acpx, a client for scripts, which starts a new process of the agent
whenever it sees fit.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from acp_agent.cli.setup import program, sample
from support.checkout import environment
from support.models import ModelServer, Reply, ToolCall, model_server
from support.npm import newer_node, npm_package
from support.processes import Process, marked
from support.repo import BUG, FIX, Repo, make_repo

TOLD = " The total is the sum of price and quantity." * 100
SUMMARY = "## Goal and requirements\n`Cart.total` was repaired; prices are whole cents."
TIME_LIMIT = 30


@dataclass(frozen=True, slots=True)
class Heard:
    """What acpx printed of one command: the wire, both ways, where it talked to the
    agent itself.
    """

    lines: list[dict[str, Any]]

    def asked(self) -> list[str]:
        """The methods of the requests that acpx sent, in order."""
        ours = ("fs/", "terminal/", "session/request_permission")
        methods = [
            line["method"] for line in self.lines if "id" in line and "method" in line
        ]
        return [method for method in methods if not method.startswith(ours)]

    def updates(self) -> list[dict[str, Any]]:
        """The updates of the session."""
        return [
            line["params"]["update"]
            for line in self.lines
            if line.get("method") == "session/update"
        ]

    def said(self) -> str:
        """The agent's text."""
        chunks = [
            each
            for each in self.updates()
            if each["sessionUpdate"] == "agent_message_chunk"
        ]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def stopped(self) -> list[str]:
        """Why its turns ended."""
        return [
            line["result"]["stopReason"]
            for line in self.lines
            if "stopReason" in line.get("result", {})
        ]


@dataclass(frozen=True, slots=True)
class Acpx:
    """acpx at work in one repository, for a person with a home of their own."""

    home: Path
    repo: Repo
    env: dict[str, str]

    async def __call__(self, *words: str) -> Heard:
        """Run a command of it for our agent.

        :raises AssertionError: it failed, or complained.
        """
        command = [
            newer_node(),
            npm_package("acpx") / "dist" / "cli.js",
            "--cwd",
            self.repo.path,
            "--format",
            "json",
        ]
        with anyio.fail_after(TIME_LIMIT):
            done = await anyio.run_process(
                [
                    *map(str, command),
                    "--approve-all",
                    "--ttl",
                    "60",
                    "--timeout",
                    str(TIME_LIMIT),
                    "acp-agent",
                    *words,
                ],
                env=self.env,
                cwd=self.repo.path,
                check=False,
            )
        complained = [
            line
            for line in done.stderr.decode().splitlines()
            if not line.startswith("[acpx]")
        ]
        assert (done.returncode, complained) == (0, []), done.stdout.decode()
        return Heard([json.loads(line) for line in done.stdout.splitlines()])

    def agents(self) -> list[Process]:
        """The processes of the agent that it has running."""
        running = marked(f"ACP_AGENT_HOME={self.home / 'state'}")
        return [
            process
            for process in running
            if Path(process.command.split()[1]).name == "acp-agent"
        ]


@asynccontextmanager
async def acpx_in(
    repo: Repo, home: Path, server: ModelServer
) -> AsyncGenerator[Acpx, None]:
    """acpx, set up with the file that is meant to be copied."""
    settings = home / ".acpx" / "config.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(sample("acpx/config.json", program()))
    try:
        yield Acpx(home, repo, {**environment(home), **server.env()})
    finally:
        for process in marked(f"ACP_AGENT_HOME={home / 'state'}"):
            os.kill(process.pid, signal.SIGKILL)


async def test_a_session_goes_through_processes_of_the_agent_that_come_and_go(
    tmp_path: Path,
) -> None:
    npm_package("acpx")
    repo = make_repo(tmp_path / "shop")
    script = [
        Reply("I look first.", tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply(
            tool_calls=[
                ToolCall(
                    "edit",
                    {
                        "path": "shop/cart.py",
                        "edits": [{"old_text": BUG, "new_text": FIX}],
                    },
                )
            ]
        ),
        Reply(["Repaired it.", TOLD]),
        Reply(SUMMARY),
        Reply("The total was repaired."),
    ]

    async with (
        model_server(script, "openai") as server,
        acpx_in(repo, tmp_path, server) as acpx,
    ):
        [made] = (await acpx("sessions", "new")).lines
        session = made["acpxSessionId"]
        assert acpx.agents() == [], "acpx ends the process that made the session"

        edited = await acpx("prompt", "Repair shop/cart.py")
        assert edited.asked() == ["initialize", "session/resume", "session/prompt"]
        assert edited.stopped() == ["end_turn"]
        assert edited.said() == f"I look first.\n\nRepaired it.{TOLD}"
        asked = [
            line["params"]
            for line in edited.lines
            if line.get("method") == "session/request_permission"
        ]
        assert [(each["sessionId"], each["toolCall"]["kind"]) for each in asked] == [
            (session, "edit")
        ]
        assert repo.run_tests().returncode == 0

        compacted = await acpx("prompt", "/compact keep the prices")
        assert compacted.stopped() == ["end_turn"]
        begun, ended, used = compacted.updates()
        assert (begun["sessionUpdate"], begun["kind"], begun["status"]) == (
            "tool_call",
            "other",
            "in_progress",
        )
        assert (ended["toolCallId"], ended["status"]) == (
            begun["toolCallId"],
            "completed",
        )
        assert "prices are whole cents" in json.dumps(ended["content"])
        assert used["sessionUpdate"] == "usage_update"

        [agent] = acpx.agents()
        os.kill(agent.pid, signal.SIGKILL)
        after = await acpx("prompt", "What was done?")
        assert after.asked() == ["initialize", "session/resume", "session/prompt"]
        assert after.said() == "The total was repaired."
        told = json.dumps(server.calls[-1].body["input"])
        assert "prices are whole cents" in told
        # Excerpts may quote the words, but the call is gone.
        assert "function_call" not in told

        [closed] = (await acpx("sessions", "close")).lines
        assert (closed["action"], closed["acpxSessionId"]) == (
            "session_closed",
            session,
        )
        assert acpx.agents() == []
