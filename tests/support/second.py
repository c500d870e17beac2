"""An editor that speaks version 2 of the protocol, a draft.

    async with second_agent(home=tmp_path, env=server.env("openai")) as agent:
        session_id = await agent.open(repo.path)
        message_id = await agent.say(session_id, "Fix the test")
        assert (await agent.idle(session_id))["stopReason"] == "end_turn"

Everything that the agent sends is checked against the official schema of version 2,
results included, and against the rules that the schema cannot say.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from support.client import AgentProcess, start_agent
from support.lines import Line
from support.schema import SchemaViolationError, validate_outgoing

INFO = {"name": "second-editor", "version": "1"}
HAND_MADE = {"protocolVersion": 2, "info": INFO}


class SecondEditor:
    """One connection.

    :ivar agent: the process, its lines and its desk.
    """

    def __init__(self, agent: AgentProcess) -> None:
        self.agent = agent
        self.initialized: dict[str, Any] = {}

    async def initialize(self, **over: Any) -> dict[str, Any]:
        self.initialized = await self.agent.request("initialize", HAND_MADE | over)
        return self.initialized

    async def open(self, cwd: Path, **over: Any) -> str:
        result = await self.agent.request("session/new", {"cwd": str(cwd), **over})
        await self.agent.wait_update("available_commands_update", result["sessionId"])
        return result["sessionId"]

    async def resume(
        self, session_id: str, cwd: Path, *, replay: bool = False, **over: Any
    ) -> dict[str, Any]:
        cursor = {"replayFrom": {"type": "start"}} if replay else {}
        return await self.agent.request(
            "session/resume",
            {"sessionId": session_id, "cwd": str(cwd), **cursor, **over},
        )

    async def say(
        self, session_id: str, prompt: str | Sequence[Mapping[str, Any]]
    ) -> str:
        """Send a prompt, and wait until it is taken.

        :returns: the id of its message.
        """
        return (await self.agent.prompt(session_id, prompt))["messageId"]

    async def idle(self, session_id: str, *, since: int = 0) -> Mapping[str, Any]:
        return await self.agent.wait_update(
            "state_update", session_id, state="idle", since=since, timeout=20
        )

    async def answer(self, session_id: str, prompt: str) -> Mapping[str, Any]:
        since = len(self.agent.lines)
        await self.say(session_id, prompt)
        return await self.idle(session_id, since=since)

    def states(self, session_id: str, *, since: int = 0) -> list[str]:
        return [
            update["state"]
            for update in self.agent.updates(session_id, "state_update", since=since)
        ]

    def calls(self, *, since: int = 0) -> dict[str, dict[str, Any]]:
        """The tool calls as an editor shows them: null clears, what is left out stays,
        a chunk is one item more.
        """
        calls: dict[str, dict[str, Any]] = {}
        for update in self.agent.updates(since=since):
            if update["sessionUpdate"] == "tool_call_content_chunk":
                call = calls[update["toolCallId"]]
                call["content"] = [*call.get("content", ()), update["content"]]
            elif update["sessionUpdate"] == "tool_call_update":
                _patch(calls.setdefault(update["toolCallId"], {}), update)
        return calls

    def terminals(self, *, since: int = 0) -> dict[str, dict[str, Any]]:
        """The terminals likewise, with their output as `text`."""
        terminals: dict[str, dict[str, Any]] = {}
        for update in self.agent.updates(since=since):
            if "terminalId" not in update:
                continue
            terminal = terminals.setdefault(update["terminalId"], {"bytes": b""})
            if update["sessionUpdate"] == "terminal_output_chunk":
                terminal["bytes"] += b64decode(update["data"], validate=True)
            else:
                _patch(terminal, update)
                if output := update.get("output"):
                    terminal["bytes"] = b64decode(output["data"], validate=True)
        return terminals

    def messages(self, *, since: int = 0) -> dict[tuple[str, str], list[Any]]:
        """The content of each message, by whose it is and its id: a whole message
        replaces, a chunk is added.
        """
        messages: dict[tuple[str, str], list[Any]] = {}
        for update in self.agent.updates(since=since):
            kind = update["sessionUpdate"].removesuffix("_chunk")
            if kind not in ("user_message", "agent_message", "agent_thought"):
                continue
            key = (kind, update["messageId"])
            if update["sessionUpdate"].endswith("_chunk"):
                messages.setdefault(key, []).append(update["content"])
            else:
                messages[key] = [*(update["content"] or [])]
        return messages

    def text(self, kind: str = "agent_message", *, since: int = 0) -> list[str]:
        """The text of each message of one kind."""
        return [
            "".join(block.get("text", "") for block in blocks)
            for (whose, _), blocks in self.messages(since=since).items()
            if whose == kind
        ]


@asynccontextmanager
async def second_agent(
    *,
    home: Path,
    capabilities: Mapping[str, Any] | None = None,
    start: Callable[..., AbstractAsyncContextManager[AgentProcess]] = start_agent,
    **options: Any,
) -> AsyncGenerator[SecondEditor]:
    """Run an agent, and initialize it in version 2.

    :param capabilities: what stands in `initialize` under that name; left out where it
        is None.
    :param start: starts the agent: a process, or as `support.memory` does.
    :param options: of `start_agent`.
    """
    async with start(home=home, validate=False, laws=False, **options) as agent:
        editor = SecondEditor(agent)
        await editor.initialize(
            **({} if capabilities is None else {"capabilities": capabilities})
        )
        yield editor
        agent.problems += problems(agent.lines)


def problems(lines: Sequence[Line]) -> list[str]:
    found: list[str] = []
    rules = _Rules()
    for line in lines:
        try:
            validate_outgoing(line.message, line.method or None, version=2)
        except SchemaViolationError as error:
            found.append(f"{line.label} is not what the schema says: {error}")
        found += rules.judge(line)
    return found


class _Rules:
    """What the documents of version 2 demand and the schema does not say."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._calls: set[str] = set()
        self._terminals: set[str] = set()

    def judge(self, line: Line) -> list[str]:
        update = line.update
        match update.get("sessionUpdate"):
            case "state_update":
                session_id = line.params["sessionId"]
                before = self._states.get(session_id, "idle")
                now = update["state"]
                self._states[session_id] = now
                if now == "requires_action" and before != "running":
                    return [f"{line.label}: {now} after {before}"]
            case "tool_call_update":
                new = update["toolCallId"] not in self._calls
                self._calls.add(update["toolCallId"])
                if new and not (update.get("title") and update.get("name")):
                    return [f"{line.label}: a call without a title and a name"]
            case "tool_call_content_chunk" if update["toolCallId"] not in self._calls:
                return [f"{line.label}: content of an unknown call"]
            case "terminal_update":
                new = update["terminalId"] not in self._terminals
                self._terminals.add(update["terminalId"])
                if new and not update.get("command"):
                    return [f"{line.label}: a terminal without a command"]
            case "terminal_output_chunk" if update["terminalId"] not in self._terminals:
                return [f"{line.label}: output of an unknown terminal"]
            case "agent_message_chunk" | "agent_thought_chunk" if (
                self._states.get(line.params["sessionId"]) == "idle"
            ):
                return [f"{line.label}: a message while the session is idle"]
            case _:
                pass
        return []


def _patch(entity: dict[str, Any], update: Mapping[str, Any]) -> None:
    for key, value in update.items():
        if value is None:
            entity.pop(key, None)
        else:
            entity[key] = value
