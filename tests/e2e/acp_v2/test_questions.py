"""What the user is asked through an editor, in either version, and what the session tells of itself meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import ToolCall
from acp_agent.conversation.updates import AgentSaid
from acp_agent.errors import ToolError
from acp_agent.server.handshake import Capabilities
from acp_agent.server.mcp_messages import EditorServers
from acp_agent.server.v1.client import EditorClient
from acp_agent.server.v2.client import EditorClient as SecondClient
from acp_agent.session.client import TrustQuestion
from acp_agent.tools.forms import Choice, Form, FormField, Link
from support.ends import serving
from support.schema import validate_outgoing

Answer: TypeAlias = Callable[[str, dict[str, Any]], Any]
"""What an editor answers to a method and its params: a result, an error, or None for no answer."""

VERSIONS = [1, 2]
FORM = Form("Which one?", (FormField("which", "choice", "Which", choices=(Choice("a", "A"), Choice("b", "B"))),))
COLOURS = [Choice(name, name) for name in ("red", "green", "blue")]
ASKING = ToolCall("call_1", "ask_user"), "Which colour?"
TRUST = TrustQuestion("call_1", "trust", CallView("Trust?", "other"), "- hooks/rule.yaml", ("/project",))
UNKNOWN = {"code": -32601, "message": "Method not found"}
NO_WINDOW = {"code": -32603, "message": "No window is open"}


class Editor:
    """The other end of a connection.

    :ivar asked: the params of what it was asked, in order.
    :ivar told: the updates that it was sent.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self._read = anyio.Event()

    def reads(self, line: dict[str, Any]) -> None:
        """Take a line of the agent's."""
        if "id" in line:
            self.asked.append(line["params"])
        elif line["method"] == "session/update":
            self.told.append(line["params"]["update"])
        self._read.set()
        self._read = anyio.Event()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until it has read what a test waits for; the connection has a limit of time."""
        while not ready():
            await self._read.wait()

    @property
    def states(self) -> list[str]:
        """What it was told of the session's work."""
        return [update["state"] for update in self.told if update["sessionUpdate"] == "state_update"]


@asynccontextmanager
async def connected(version: int, answer: Answer, **has: bool) -> AsyncGenerator[tuple[EditorClient, Editor]]:
    """A session's client and its editor; each line between them is one of the schema."""
    editor = Editor()
    async with serving({}) as wire, anyio.create_task_group() as tasks:

        async def read() -> None:
            while True:
                line = await wire.receive()
                validate_outgoing(line, version=version)
                editor.reads(line)
                reply = answer(line["method"], line["params"]) if "id" in line else None
                if reply is not None:
                    member = "error" if "code" in reply else "result"
                    await wire.send({"jsonrpc": "2.0", "id": line["id"], member: reply})

        tasks.start_soon(read)
        servers, capabilities = EditorServers(wire.peer), Capabilities(**has)
        if version == 1:
            yield EditorClient(wire.peer, "s", capabilities, servers), editor
        else:
            yield SecondClient(wire.peer, "s", "/project", capabilities, servers), editor
        tasks.cancel_scope.cancel()


def always(reply: Any) -> Answer:
    return lambda method, params: reply


def selected(option: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def choosing(name: str) -> Answer:
    """Chooses an option by its name, or else goes on to the next dialog."""

    def answer(method: str, params: dict[str, Any]) -> Any:
        by_name = {option["name"]: option["optionId"] for option in params["options"]}
        return selected(by_name.get(name, by_name.get("More …")))

    return answer


async def permission(client: EditorClient, **arguments: Any) -> str:
    view = CallView("Run it", "execute" if arguments else "edit")
    return await client.ask_permission("call_1", "shell", view, arguments, "make", "A hook asks.")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("reply", "came"),
    [
        (selected("allow_once"), "allow_once"),
        (selected("allow_always"), "allow_always"),
        (selected("reject_once"), "reject_once"),
        ({"outcome": {"outcome": "cancelled"}}, "cancelled"),
        (selected("allow_everything"), "which it was not offered"),
        ({"outcome": {"outcome": "_later", "optionId": "allow_once"}}, "'_later'"),
        ({}, "outcome is missing"),
        (NO_WINDOW, "No window is open"),
    ],
)
async def test_only_an_allow_option_that_was_offered_is_consent(version: int, reply: Any, came: str) -> None:
    async with connected(version, always(reply)) as (client, _):
        if " " in came or "'" in came:
            with pytest.raises(ToolError, match=f"could not be asked, so nothing was done.*{came}"):
                await permission(client)
        else:
            assert await permission(client) == came


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_choice_is_made_in_one_dialog_after_the_other(version: int) -> None:
    async with connected(version, choosing("blue")) as (client, editor):
        assert await client.questions.choose(*ASKING, COLOURS) == COLOURS[2]
        names = [[option["name"] for option in params["options"]] for params in editor.asked]
        assert names == [["red", "More …", "None of these"], ["green", "blue", "None of these"]]
    async with connected(version, choosing("None of these")) as (client, _):
        assert await client.questions.choose(*ASKING, COLOURS) is None
    async with connected(version, always(selected("7"))) as (client, _):
        with pytest.raises(ToolError, match="not offered"):
            await client.questions.choose(*ASKING, COLOURS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("reply", "came"),
    [
        ({"action": "accept", "content": {"which": "b"}}, {"which": "b"}),
        ({"action": "decline"}, "decline"),
        ({"action": "cancel"}, "cancel"),
        ({"action": "later"}, "cancel"),
        ({"action": "accept", "content": {"which": "c"}}, ToolError),
        (UNKNOWN, ToolError),
        (NO_WINDOW, ToolError),
    ],
)
async def test_what_came_of_a_form_is_what_the_editor_answered(version: int, reply: Any, came: Any) -> None:
    async with connected(version, always(reply), forms=True) as (client, editor):
        if isinstance(came, type):
            with pytest.raises(came):
                await client.questions.fill(FORM, "call_1")
        else:
            assert await client.questions.fill(FORM, "call_1") == came
        assert [params["toolCallId"] for params in editor.asked] == ["call_1"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_address_is_visited_or_not(version: int) -> None:
    link = Link("link_1", "Sign in", "https://example.com/")
    for action in ("accept", "decline", "cancel"):
        async with connected(version, always({"action": action}), urls=True) as (client, _):
            assert await client.questions.visit(link) == action
            await client.questions.visited(link.id)


@pytest.mark.parametrize("version", VERSIONS)
async def test_trust_is_asked_by_a_dialog_that_lists_what_may_run(version: int) -> None:
    async with connected(version, always(selected("allow_once")), forms=True) as (client, editor):
        assert await client.ask_trust(TRUST) == "allow_once"
        assert "hooks/rule.yaml" in str(editor.asked[0])


# --- version 2 tells whether the session works ---


@pytest.mark.parametrize("reply", [selected("allow_once"), NO_WINDOW])
async def test_a_session_waits_while_a_question_is_open_and_works_again_whatever_came_of_it(reply: Any) -> None:
    async with connected(2, always(reply)) as (client, editor):
        for _ in range(2):
            try:
                await permission(client)
            except ToolError:
                assert reply is NO_WINDOW
        await client.show(AgentSaid("m", "."))
        await editor.until(lambda: len(editor.told) == 5)
        assert editor.states == ["requires_action", "running"] * 2


async def test_a_session_works_again_when_a_question_is_taken_back() -> None:
    async with connected(2, always(None)) as (client, editor):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(permission, client)
            await editor.until(lambda: bool(editor.asked))
            tasks.cancel_scope.cancel()
        await editor.until(lambda: editor.states == ["requires_action", "running"])


async def test_a_command_is_asked_about_as_such_and_anything_else_as_its_call(tmp_path: Path) -> None:
    async with connected(2, always(selected("allow_once"))) as (client, editor):
        await permission(client, command="make", cwd="sub")
        await permission(client)
        command, call = [params["subject"] for params in editor.asked]
        assert command == {"type": "command", "command": "make", "cwd": "/project/sub", "toolCallId": "call_1"}
        assert (call["type"], call["toolCall"]["status"]) == ("tool_call", "pending")
        assert {params["description"] for params in editor.asked} == {"A hook asks."}
