"""The agent with an editor made of the official Python SDK, a version that does not know compaction."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest
from acp import schema
from acp.client.connection import ClientSideConnection

from support.client import ROOT
from support.editors import Editor
from support.models import ModelServer, Reply, ToolCall, model_server
from support.repo import BUG, FIX, make_repo
from support.serving import Desk
from support.waiting import Changes

TOLD = " The total is the sum of price and quantity." * 100
SUMMARY = ["## Goal and requirements\n", "`Cart.total` was repaired; prices are whole cents."]
CAPABILITIES = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)


@dataclass
class SdkEditor:
    """What the SDK calls, and what it has understood.

    :ivar updates: of the session, as the SDK's own models, since `forget` was called.
    :ivar kinds: of all updates, as they stood on the wire.
    """

    desk: Desk
    changes: Changes
    updates: list[Any] = field(default_factory=list[Any])
    kinds: set[str] = field(default_factory=set[str])

    def observe(self, event: Any) -> None:
        """See each message before the SDK reads it."""
        if event.message.get("method") == "session/update":
            self.kinds.add(event.message["params"]["update"]["sessionUpdate"])

    def forget(self) -> None:
        """Begin anew."""
        self.updates.clear()

    def said(self) -> str:
        """The agent's text."""
        return "".join(each.content.text for each in self.updates if isinstance(each, schema.AgentMessageChunk))

    def of(self, kind: type[Any]) -> list[Any]:
        """The updates of one of the SDK's classes."""
        return [update for update in self.updates if isinstance(update, kind)]

    async def until(self, kind: type[Any]) -> None:
        """Wait for an update of one of the SDK's classes."""
        await self.changes.until(lambda: bool(self.of(kind)), 10, lambda: f"a {kind.__name__}: {self.updates}")

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.changes.notify()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        params = {"sessionId": session_id, "options": [each.model_dump(by_alias=True) for each in options]}
        return schema.RequestPermissionResponse.model_validate(await self.desk.ask({**params, "toolCall": tool_call}))

    async def read_text_file(self, path: str, **_: Any) -> schema.ReadTextFileResponse:
        return schema.ReadTextFileResponse.model_validate(await self.desk.read({"path": path}))

    async def write_text_file(self, path: str, content: str, **_: Any) -> None:
        await self.desk.write({"path": path, "content": content})

    async def create_terminal(
        self, command: str, args: list[str] | None = None, cwd: str | None = None, **_: Any
    ) -> schema.CreateTerminalResponse:
        created = await self.desk.create({"command": command, "args": args, "cwd": cwd})
        return schema.CreateTerminalResponse.model_validate(created)

    async def terminal_output(self, terminal_id: str, **_: Any) -> schema.TerminalOutputResponse:
        return schema.TerminalOutputResponse.model_validate(await self.desk.output({"terminalId": terminal_id}))

    async def wait_for_terminal_exit(self, terminal_id: str, **_: Any) -> schema.WaitForTerminalExitResponse:
        ended = await self.desk.wait_for_exit({"terminalId": terminal_id})
        return schema.WaitForTerminalExitResponse.model_validate(ended)

    async def kill_terminal(self, terminal_id: str, **_: Any) -> None:
        await self.desk.kill({"terminalId": terminal_id})

    async def release_terminal(self, terminal_id: str, **_: Any) -> None:
        await self.desk.release({"terminalId": terminal_id})


@asynccontextmanager
async def connected(
    server: ModelServer, home: Path
) -> AsyncGenerator[tuple[ClientSideConnection, SdkEditor, Any], None]:
    """An agent that the SDK has started and that has answered `initialize`: the connection, the editor, the process."""
    env = {
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "ACP_AGENT_HOME": str(home / "state"),
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
        **server.env(),
    }
    changes = Changes()
    async with anyio.create_task_group() as tasks:
        desk = Desk(Editor(files=True, terminal=True), changes, tasks.start_soon)
        editor = SdkEditor(desk, changes)
        try:
            async with acp.spawn_agent_process(
                lambda _: editor,  # type: ignore[arg-type, return-value]  # the SDK calls only what was advertised
                sys.executable,
                *("-m", "acp_agent"),
                env=env,
                observers=[editor.observe],
            ) as (connection, process):
                await connection.initialize(acp.PROTOCOL_VERSION, CAPABILITIES)
                yield connection, editor, process
        finally:
            desk.close()
            tasks.cancel_scope.cancel()


async def ask(connection: ClientSideConnection, session: str, text: str) -> str:
    """Send a prompt, and return why the turn ended."""
    return (await connection.prompt(session, [acp.text_block(text)])).stop_reason


async def test_a_session_is_one_that_a_client_without_compaction_understands(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    repo = make_repo(tmp_path / "shop")
    cwd = str(repo.path)
    script = [
        Reply("I look first.", thinking="Where?", tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply(tool_calls=[ToolCall("edit", {"path": "shop/cart.py", "edits": [{"old_text": BUG, "new_text": FIX}]})]),
        Reply(tool_calls=[ToolCall("shell", {"command": "echo checked"})]),
        Reply(["Repaired it.", TOLD]),
        Reply(["Well, ", "..."], hold=anyio.Event(), hold_after=1),
        Reply(SUMMARY),
        Reply("The total was repaired."),
        Reply("Nothing."),
    ]

    async with model_server(script) as server:
        async with connected(server, tmp_path) as (connection, editor, process):
            opened = await connection.new_session(cwd)
            session = opened.session_id
            await editor.until(schema.AvailableCommandsUpdate)
            [offered] = editor.of(schema.AvailableCommandsUpdate)

            done = await ask(connection, session, "Repair shop/cart.py")
            assert done == "end_turn"
            assert repo.run_tests().returncode == 0
            assert editor.said() == f"I look first.\n\nRepaired it.{TOLD}"
            assert {call.kind for call in editor.of(schema.ToolCallStart)} == {"read", "edit", "execute"}
            assert [asked["toolCall"].kind for asked in editor.desk.permissions] == ["edit", "execute"]
            assert set(editor.desk.reads) == {path for path, _ in editor.desk.writes} == {str(repo.program)}
            [terminal] = editor.desk.terminals.values()
            assert (terminal.output, terminal.released) == ("checked\n", True)
            assert editor.of(schema.UsageUpdate)

            editor.forget()
            thinking = asyncio.ensure_future(ask(connection, session, "Think about it"))
            await editor.until(schema.AgentMessageChunk)
            await connection.cancel(session)
            assert await thinking == "cancelled"

            editor.forget()
            await connection.set_session_mode(session_id=session, mode_id="plan")
            changed = await connection.set_config_option(config_id="mode", session_id=session, value="accept-edits")
            assert [option.current_value for option in changed.config_options if option.id == "mode"] == [
                "accept-edits"
            ]
            await editor.until(schema.ConfigOptionUpdate)

            editor.forget()
            compacted = await ask(connection, session, "/compact keep the prices")
            assert compacted == "end_turn"
            [begun] = editor.of(schema.ToolCallStart)
            assert (begun.kind, begun.status) == ("other", "in_progress")
            ended = editor.of(schema.ToolCallProgress)[-1]
            assert (ended.tool_call_id, ended.status) == (begun.tool_call_id, "completed")
            assert "".join(SUMMARY) in "".join(block.content.text for block in ended.content)
            assert editor.of(schema.UsageUpdate)
            assert editor.said() == ""
            seen = editor.kinds
            process.kill()
            await process.wait()

        async with connected(server, tmp_path) as (connection, editor, process):
            [listed] = (await connection.list_sessions(cwd=cwd)).sessions
            loaded = await connection.load_session(cwd=cwd, session_id=session)
            replayed = {call.tool_call_id: call for call in editor.of(schema.ToolCallStart)}
            assert loaded.modes
            assert loaded.modes.current_mode_id == "accept-edits"
            assert "I look first." in editor.said()
            assert "".join(SUMMARY) in "".join(b.content.text for b in replayed[begun.tool_call_id].content)
            assert {call.status for call in replayed.values()} == {"completed"}

            editor.forget()
            await ask(connection, session, "What was done?")
            assert editor.said() == "The total was repaired."
            await connection.close_session(session)

            editor.forget()
            await connection.resume_session(cwd=cwd, session_id=session)
            await editor.until(schema.UsageUpdate)
            kinds = {schema.AvailableCommandsUpdate, schema.SessionInfoUpdate, schema.UsageUpdate}
            assert {type(update) for update in editor.updates} == kinds
            await ask(connection, session, "And now?")
            assert editor.said() == "Nothing."
            seen |= editor.kinds
        assert process.returncode == 0

        told = json.dumps(server.calls[-2].body["messages"])

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert {kind for kind in seen if kind.startswith("compaction") or kind == "notice"} == set()
    assert "compact" in [command.name for command in offered.available_commands]
    assert listed.session_id == session
    assert json.dumps("".join(SUMMARY))[1:-1] in told
    assert "I look first." not in told
