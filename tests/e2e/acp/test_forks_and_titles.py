"""What a person does with sessions beside talking: fork, rename, archive, and ask
whether one is open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from support.called import call_command
from support.client import AgentError, AgentProcess
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import conversation


async def fork(agent: AgentProcess, session: str, folder: Path, **meta: Any) -> str:
    """The id of a fork."""
    params: dict[str, Any] = {
        "sessionId": session,
        "cwd": str(folder),
        "mcpServers": [],
    }
    if meta:
        params["_meta"] = {"acp-agent": meta, "somebody-else": [1]}
    return (await agent.request("session/fork", params))["sessionId"]


async def test_a_fork_ends_at_an_entry_or_a_message_while_the_other_session_works(
    tmp_path: Path,
) -> None:
    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        Reply("I have read it."),
        Reply("Second."),
    ]
    replies += [
        Reply(["Thi", "rd."], hold=anyio.Event(), hold_after=1),
        Reply("Forked."),
    ]
    async with stage(tmp_path, *replies) as it:
        await it.prompt("Read it")
        await it.prompt("And now?")
        running = await it.agent.start_prompt(it.session, "Work on")
        await it.held()
        answer = next(
            each
            for each in it.agent.updates(kind="agent_message_chunk")
            if each["content"]["text"]
        )
        at_message = await fork(
            it.agent, it.session, it.folder, messageId=answer["messageId"]
        )
        heard = len(it.agent.lines)
        await it.agent.load(at_message, it.folder)
        assert it.agent.text(since=heard) == "I have read it."
        first = (
            await it.agent.request(
                "session/fork", {"sessionId": at_message, "cwd": str(it.folder)}
            )
        )["sessionId"]
        for point in (
            {"at": 0},
            {"at": 9999},
            {"messageId": "msg_none"},
            {"at": True},
            {"at": 1, "messageId": "x"},
        ):
            with pytest.raises(AgentError) as error:
                await fork(it.agent, it.session, it.folder, **point)
            assert error.value.code == -32602, point
        for params in ({"cwd": "here"}, {"cwd": str(it.folder / "gone")}):
            with pytest.raises(AgentError, match="cwd") as error:
                await it.agent.request(
                    "session/fork", {"sessionId": it.session, **params}
                )
            assert error.value.code == -32602
        with pytest.raises(AgentError) as error:
            await fork(it.agent, "sess_none", it.folder)
        assert error.value.code == -32002
        await it.agent.cancel(it.session)
        assert await running.result() == {"stopReason": "cancelled"}
        assert await it.agent.prompt(first, "Go on", 30) == {"stopReason": "end_turn"}
        request = conversation(it.server.calls[-1].body)
        assert [text for role, text in request if role == "user" and text] == [
            "Read it",
            "Go on",
        ]
        # In a terminal, from an entry; what it prints is the id alone.
        ran = await call_command(it.home, "sessions", "fork", it.session, "--at", "3")
        assert ran.code == 0
        heard = len(it.agent.lines)
        await it.agent.load(ran.out.strip(), it.folder)
        assert it.agent.text(since=heard) == ""
        assert [
            update["content"]["text"]
            for update in it.agent.updates(kind="user_message_chunk", since=heard)
        ] == ["Read it"]
