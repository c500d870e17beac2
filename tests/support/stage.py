"""An editor, an agent with an open session, a model and a folder to work in: where most
tests of a whole turn begin.

    async with stage(tmp_path, Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]), Reply("Done.")) as it:
        assert await it.prompt("Read it") == {"stopReason": "end_turn"}
        [call] = it.calls()                             # as the editor shows it now
        [result] = results(it.server.calls[1].body)     # as the model got it
        async with it.restarted() as later: ...         # another process on the same state

The model is OpenAI's by default: most tests say nothing of a provider, and every
process loads an SDK for itself, which takes a third of the time that Anthropic's takes.
A test of what only Anthropic's API has says so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.client import AgentProcess, connected_agent
from support.compactions import messages
from support.editors import ZED, Editor
from support.lines import Line
from support.models import Binding, DialectName, ModelServer, Script, model_server
from support.replies import Reply
from support.stored import outside_turns
from support.trust import trust

PATIENCE = 30.0
"""Seconds; the first turn of a process loads an SDK, which takes long on a machine that
is busy otherwise.
"""
Connect = Callable[..., AbstractAsyncContextManager[AgentProcess]]
FILES = {"a.txt": "one\ntwo\nthree\n"}


@dataclass(frozen=True, slots=True)
class Result:
    """A tool's result as the model gets it.

    :ivar marked: whether it is marked as an error; None where the API has no such mark.
    """

    call_id: str
    text: str
    marked: bool | None

    @property
    def is_error(self) -> bool:
        """Whether it is marked as an error, which only Anthropic's API can tell."""
        assert self.marked is not None, (
            "OpenAI's API has no mark for a result that is an error"
        )
        return self.marked


@dataclass(frozen=True, slots=True)
class Stage:
    """What `stage` has set up.

    :ivar folder: the session's working directory.
    :ivar session: the open session's id.
    """

    agent: AgentProcess
    server: ModelServer
    home: Path
    folder: Path
    session: str
    options: Mapping[str, Any]
    connect: Connect

    async def prompt(
        self, prompt: str | list[dict[str, Any]] = "Go on", timeout: float = PATIENCE
    ) -> dict[str, Any]:
        return await self.agent.prompt(self.session, prompt, timeout)

    async def update(self, kind: str, **fields: Any) -> Mapping[str, Any]:
        return await self.agent.wait_update(kind, timeout=PATIENCE, **fields)

    async def line(self, method: str) -> Line:
        return await self.agent.wait_for(
            lambda line: line.method == method and bool(line.params), PATIENCE
        )

    async def held(self) -> None:
        await self.server.wait_held(timeout=PATIENCE)

    def calls(self) -> list[dict[str, Any]]:
        """Every tool call as the editor shows it now, in order of announcement."""
        ids = dict.fromkeys(
            str(update["toolCallId"]) for update in self.agent.updates(kind="tool_call")
        )
        return [self.agent.tool(id) for id in ids]

    def statuses(self, call_id: str) -> list[str]:
        """The status that each update of a call gave it, repetitions left out."""
        seen: list[str] = []
        for update in self.agent.updates():
            status = update.get("status")
            if update.get("toolCallId") == call_id and status and seen[-1:] != [status]:
                seen.append(str(status))
        return seen

    @asynccontextmanager
    async def restarted(self, **over: Any) -> AsyncGenerator[Stage, None]:
        """Another agent with the same state and the same session's id, which is not
        opened.
        """
        options = {**self.options, **over}
        async with self.connect(home=self.home, **options) as agent:
            yield replace(self, agent=agent, options=options)


@asynccontextmanager
async def stage(
    tmp_path: Path,
    *replies: Reply,
    script: Script | None = None,
    dialect: DialectName = "openai",
    editor: Editor = ZED,
    mode: str | None = None,
    files: Mapping[str, str] = FILES,
    config: Mapping[str, Any] | None = None,
    env: Mapping[str, str | None] | None = None,
    trusted: bool = False,
    mcp: Sequence[Mapping[str, Any]] = (),
    connect: Connect = connected_agent,
    allow: Callable[[Path, Path], None] = trust,
    binding: Binding | None = None,
    **options: Any,
) -> AsyncGenerator[Stage, None]:
    """Open a session in a folder with some files.

    :param script: instead of `replies`.
    :param config: keys of `config.yaml`.
    :param env: added to what sends the agent to the model; None removes a variable.
    :param trusted: the hooks and recipes among the files may run without a question.
    :param connect: starts the agent: a process, or as `support.memory` does; and so
        `allow`, which trusts the folder.
    :param binding: how the server checks reasoning that comes back; None checks
        nothing.
    :param options: of `start_agent`.
    """
    folder = tmp_path / "project"
    home = tmp_path / "home"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    folder.mkdir(exist_ok=True)
    async with model_server(
        replies if script is None else script, dialect, binding=binding
    ) as server:
        if config is not None:
            server.write_config(home, config)
        if trusted:
            allow(home, folder)
        options = {
            "env": {**server.env(), **(env or {})},
            "capabilities": editor,
            **options,
        }
        async with connect(home=home, **options) as agent:
            session = await agent.new_session(
                folder, **({"mcpServers": list(mcp)} if mcp else {})
            )
            await agent.wait_update("available_commands_update")
            if mode is not None:
                await agent.set_mode(session, mode)
            yield Stage(agent, server, home, folder, session, options, connect)
            if options.get("laws", True):
                assert outside_turns(home) == []


def results(request: Mapping[str, Any]) -> list[Result]:
    """The tools' results in the last message of a request to Anthropic's API, or at the
    end of one to OpenAI's.
    """
    last = messages(request)[-1]
    blocks = last["content"] if last["role"] == "user" else []
    marks = "input" not in request
    return [
        Result(
            block["tool_use_id"],
            said(block["content"]),
            bool(block.get("is_error")) if marks else None,
        )
        for block in blocks
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]


def said(content: Any) -> str:
    """The text of a message's content, in Anthropic's words."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def conversation(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and text of every message of a request to Anthropic's API, or to OpenAI's
    put into the same words.
    """
    return [
        (message["role"], said(message["content"])) for message in messages(request)
    ]
