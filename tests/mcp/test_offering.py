"""What a server offers, while it changes: it is listed anew until it is the same as the server's own."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acp_agent.config.settings import McpServer
from acp_agent.tools.mcp import Connection, connect
from acp_agent.tools.mcp_elicitation import Calling
from acp_agent.tools.mcp_offering import Offering
from acp_agent.tools.mcp_server import Place, SessionServer
from acp_agent.tools.mcp_stdio import server_process
from support.mcp import McpProgram, mcp_program, says, tool


class Kept:
    """What one server offers, kept as a session does; `seconds` is what a listing may take."""

    def __init__(self, program: McpProgram, folder: Path, seconds: float) -> None:
        command, *args = program.configured["command"], *program.configured["args"]
        self._server = McpServer(program.name, "stdio", command, tuple(args))
        self._folder = folder
        self._seconds = seconds
        self._listed = anyio.Event()
        place = Place((folder,), os.environ)
        self.offering: Offering = SessionServer(self._server, program.name, place, self._tell, self._changed).offering

    async def _tell(self, text: str) -> None:
        raise AssertionError(text)

    def _changed(self) -> None:
        self._listed.set()

    def names(self) -> list[str]:
        """Its tools, as it knows them."""
        return [each.name for each in self.offering.last.tools]

    async def until(self, *names: str) -> None:
        """Wait until these are its tools."""
        while self.names() != [*names]:
            await self._listed.wait()
            self._listed = anyio.Event()

    @asynccontextmanager
    async def followed(self) -> AsyncGenerator[Connection]:
        """Connected, listed once and followed."""
        server, folder = self._server, self._folder
        async with (
            server_process(server.command, server.args, folder, dict(os.environ)) as process,
            connect(server, process, [folder], "legacy", self.offering.hear) as connection,
            anyio.create_task_group() as tasks,
        ):
            await self.offering.take(connection)
            tasks.start_soon(self.offering.follow, connection, self._seconds, self._changed)
            with anyio.fail_after(20):
                yield connection
            tasks.cancel_scope.cancel()


async def nothing(progress: str) -> None:
    """Is told how far a call is."""


async def test_a_list_that_changes_while_it_is_listed_is_listed_again(tmp_path: Path) -> None:
    leaf, twig, root = tool("leaf"), tool("twig"), tool("root")
    changes = [{"tools": [leaf, twig]}, {"tools": [leaf, twig, root]}]
    program = mcp_program(tmp_path, "tree", tools=[leaf], while_listed=changes)
    kept = Kept(program, tmp_path, 20)
    async with kept.followed():
        await kept.until("leaf", "twig", "root")
    assert sum(note.get("got") == "tools/list" for note in program.notes()) == 3


async def test_a_server_that_does_not_say_what_has_changed_is_in_the_log_and_heard_when_it_says_so_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leaf, twig = tool("leaf"), tool("twig")
    grown = says("It grows.") | {"then": {"tools": [leaf, twig]}}
    program = mcp_program(tmp_path, "tree", tools=[leaf], while_listed=[{}, None], results={"leaf": grown})
    kept = Kept(program, tmp_path, 2)
    with caplog.at_level(logging.WARNING):
        async with kept.followed() as connection:
            while "within 2 seconds" not in caplog.text:  # noqa: ASYNC110 - the log tells nobody
                await anyio.sleep(0.02)
            assert kept.names() == ["leaf"]
            await connection.call("leaf", {}, 20, nothing, Calling())
            await kept.until("leaf", "twig")
    assert "the MCP server tree said that what it offers has changed" in caplog.text
