"""What a person does with sessions, providers and accounts beside talking, in version
2: it is as in version 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.memory import second_agent
from support.models import Reply, model_server
from support.second import SecondEditor


async def listed(it: SecondEditor, **params: Any) -> dict[str, tuple[str | None, bool]]:
    """Title, and whether it is archived, by session id."""
    rows = (await it.agent.request("session/list", params))["sessions"]
    return {row["sessionId"]: (row.get("title"), row["archived"]) for row in rows}


async def status(it: SecondEditor, session: str) -> tuple[str, str | None]:
    """Whether it is open, and what it does."""
    answer = await it.agent.request("session/status", {"sessionId": session})
    return answer["status"], (answer.get("state") or {}).get("state")


async def test_a_session_is_forked_named_archived_and_asked_for_its_state(
    tmp_path: Path,
) -> None:
    hold = anyio.Event()
    replies = [
        Reply("First."),
        Reply("Second."),
        Reply(["Wo", "rk."], hold=hold, hold_after=1),
        Reply("Forked."),
    ]
    async with (
        model_server(replies) as server,
        second_agent(home=tmp_path, env=server.env("openai")) as it,
    ):
        session = await it.open(tmp_path)
        assert await status(it, session) == ("open", "idle")
        await it.answer(session, "One")
        await it.answer(session, "Two")
        first = next(
            id for (kind, id), _ in it.messages().items() if kind == "agent_message"
        )
        await it.say(session, "Three")
        await server.wait_held(timeout=30)
        assert await status(it, session) == ("open", "running")
        # A fork at a message, while the other one works.
        params = {
            "sessionId": session,
            "cwd": str(tmp_path),
            "_meta": {"acp-agent": {"messageId": first}},
        }
        forked = await it.agent.request("session/fork", params)
        assert "modes" not in forked
        assert forked["configOptions"]
        # Who begins a session knows its commands at once.
        assert {command["name"] for command in forked["availableCommands"]} >= {
            "compact",
            "pin",
        }
        resumed = await it.resume(forked["sessionId"], tmp_path)
        begun = await it.agent.request("session/new", {"cwd": str(tmp_path)})
        await it.agent.wait_update("available_commands_update", begun["sessionId"])
        [offered] = it.agent.updates(begun["sessionId"], "available_commands_update")
        for answer in (forked, resumed, begun):
            assert answer["availableCommands"] == offered["availableCommands"]
        await it.agent.request("session/delete", {"sessionId": begun["sessionId"]})
        made = forked["sessionId"]
        await it.agent.wait_update("available_commands_update", made)
        assert (await it.answer(made, "Go on"))["stopReason"] == "end_turn"
        asked = str(server.calls[-1].body)
        assert "First." in asked
        assert "Second." not in asked
        renamed = await it.agent.request(
            "session/set_title", {"sessionId": made, "title": " My\nfork "}
        )
        assert renamed == {"title": "My fork"}
        assert (
            await it.agent.wait_update("session_info_update", made, title="My fork")
        ) is not None
        # Archiving ends what it does.
        since = len(it.agent.lines)
        assert await it.agent.request("session/archive", {"sessionId": session}) == {}
        assert (await it.idle(session, since=since))["stopReason"] == "cancelled"
        assert await status(it, session) == ("saved", None)
        assert await listed(it) == {made: ("My fork", False)}
        assert (await listed(it, archived="only"))[session][1] is True
        assert await it.agent.request("session/unarchive", {"sessionId": session}) == {}
        assert set(await listed(it, archived="include")) == {session, made}
        for method in (
            "session/status",
            "session/set_title",
            "session/archive",
            "session/fork",
        ):
            with pytest.raises(AgentError) as error:
                await it.agent.request(
                    method,
                    {"sessionId": "sess_none", "title": "x", "cwd": str(tmp_path)},
                )
            assert error.value.code == -32002
