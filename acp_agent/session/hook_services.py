"""What a session provides to hooks: the functions that Python hooks may call, and the
transcript file.

The transcript is the log as JSON lines. It is written when a hook first needs it, and
extended on each later use. The lines follow the format of Claude Code's session files
as far as there is an equivalent, so that programs for those files can read them: `user`
and `assistant` lines with one message each, and a `summary` line for each compaction,
after the messages that it replaced. Calls have Claude Code's names and keys in addition
to ours.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
from anyio import to_thread

from acp_agent import __version__
from acp_agent.compaction.state import CompactionPolicy, ConversationState
from acp_agent.compaction.strategy import Writer
from acp_agent.config.hook_events import CLAUDE_TOOLS
from acp_agent.conversation.events import (
    AssistantAnswered,
    ContextAdded,
    ContextSwapped,
    ContinuationAsked,
    DirectoriesChanged,
    EditsUndone,
    LoggedEvent,
    PinRemoved,
    SessionForked,
    SessionStarted,
    TextPinned,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    Text,
    UserMessage,
)
from acp_agent.errors import CompactionError, HookError
from acp_agent.hooks.contract import Summary
from acp_agent.hooks.payload import blocks_of, with_claude_keys
from acp_agent.session.log import transcript_file
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.requests import Requests
from acp_agent.session.recipes.available import SessionRecipes
from acp_agent.session.recipes.run import RecipeRun
from acp_agent.session.services import SessionServices
from acp_agent.storage.store import SessionStore


class HookServices:
    """Implements `acp_agent.hooks.contract.Services` for one session."""

    def __init__(
        self, services: SessionServices, requests: Requests, recipes: SessionRecipes
    ) -> None:
        self._services = services
        self._requests = requests
        self._recipes = recipes
        self.log = logging.getLogger("acp_agent.hooks")

    @property
    def store(self) -> SessionStore:
        """Return the store of all sessions."""
        return self._services.store

    @property
    def home(self) -> Path:
        """Return the agent's own folder."""
        return self._services.home

    async def compaction(
        self,
        messages: Sequence[Message] | None = None,
        *,
        prompt: str | None = None,
        model: str | None = None,
    ) -> Summary:
        """Compact a conversation without changing it.

        :param messages: the messages to compact; the session's context if None.
        :param prompt: the instructions for the summary; the text of the recipe
            `compact` if None.
        :param model: the model that writes the summary, `provider/model`; the session's
            own if None.
        :raises AgentError: if the compaction failed.
        """
        own = await self._requests.active()
        request = self._requests.request(own)
        if messages is None:
            state = ConversationState.from_context(
                self._requests.context, request, own.budget
            )
        else:
            state = ConversationState.of(
                messages,
                window=own.budget.window,
                model=own.model_id,
                system=request.system,
                tools=request.tools,
                max_output_tokens=own.max_output_tokens,
                cwd=self._requests.context.cwd,
            )
        # The session itself does not change, so the running prompt may be summarised
        # too.
        state = replace(state, turn_from=None)
        writing = await self._named(model)
        writer = None
        if writing.name != own.name:
            writer = Writer(
                writing.model_id, writing.budget.window, writing.max_output_tokens
            )
        if not prompt:
            prompt = await self._recipes.render(
                RecipeRun(await self._recipes.compact_recipe(), "")
            )
        policy = CompactionPolicy(prompt=prompt)
        result = await self._services.compaction()(
            state, policy, writing.stream, writer=writer
        )
        if result is None:
            raise CompactionError("There is nothing to compact yet.")
        return Summary(result.summary, result.tokens_before, result.tokens_after)

    async def ask_model(
        self, prompt: str, *, system: str = "", model: str | None = None
    ) -> str:
        """Ask a model one question, without tools or the session's context.

        :param model: `provider/model`; the session's own if None.
        :raises AgentError: if the model did not answer.
        """
        active = await self._named(model)
        answered = await active.answer(prompt, system)
        if answered is None:
            raise HookError(
                f"The answer of the model {active.name} was cut off. Try again."
            )
        return answered[0]

    async def _named(self, model: str | None) -> ActiveModel:
        return await (
            self._requests.active() if model is None else self._requests.named(model)
        )


class Transcript:
    """The transcript of one session."""

    def __init__(self, store: SessionStore, session_id: str, home: Path) -> None:
        self._store = store
        self._session_id = session_id
        self._path = transcript_file(home, session_id)
        self._written = 0
        self._cwd = ""
        self._last: str | None = None
        self._model = ""
        self._lock = anyio.Lock()

    async def write(self) -> str:
        """Bring the file up to date.

        :returns: its absolute path.
        """
        # Hooks that handle an event concurrently may need the file at the same time.
        async with self._lock:
            if not self._path.exists():
                self._written = 0
            events = [
                event
                async for event in self._store.events(
                    self._session_id, after=self._written
                )
            ]
            if events or not self._written:
                await to_thread.run_sync(self._append, events)
        return str(self._path)

    def _append(self, events: Sequence[LoggedEvent]) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        if not self._written:
            self._last = None
            self._model = ""
        flags = (
            os.O_WRONLY | os.O_CREAT | (os.O_APPEND if self._written else os.O_TRUNC)
        )
        with os.fdopen(
            os.open(self._path, flags, 0o600), "w", encoding="utf-8", errors="replace"
        ) as file:
            for event in events:
                for line in self._lines(event):
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if events:
            self._written = events[-1].seq

    def _lines(self, logged: LoggedEvent) -> Iterator[JsonObject]:
        match logged.event:
            case (
                SessionStarted(cwd=cwd)
                | SessionForked(cwd=cwd)
                | DirectoriesChanged(cwd=cwd)
            ):
                self._cwd = cwd or self._cwd
            case UserPrompted() as prompt:
                said = prompt.shown if prompt.sent is None else prompt.sent
                # A command such as `/compact` is for the agent. No model reads it.
                message = UserMessage(prompt.message_id, said or prompt.shown)
                yield self._message(
                    logged, message, **({} if said else {"isMeta": True})
                )
            case AssistantAnswered() as answer:
                yield self._message(logged, answer.message)
            case ToolReturned() as returned:
                yield self._message(logged, returned.result)
            case (
                ContextAdded()
                | ContinuationAsked()
                | TextPinned()
                | PinRemoved()
                | EditsUndone() as added
            ):
                yield self._message(
                    logged,
                    UserMessage(added.message_id, (Text(added.sent),)),
                    isMeta=True,
                )
            case ContextSwapped() as swap if swap.sent:
                yield {
                    "type": "summary",
                    "summary": swap.summary,
                    "leafUuid": self._last,
                    "compactMetadata": {
                        "trigger": "manual" if swap.trigger == "manual" else "auto",
                        "preTokens": swap.tokens_before,
                    },
                }
                yield self._message(
                    logged,
                    UserMessage(swap.message_id, swap.sent),
                    isCompactSummary=True,
                )
            case _:
                pass

    def _message(
        self, logged: LoggedEvent, message: Message, **marks: JsonValue
    ) -> JsonObject:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks: list[JsonValue] = [*_blocks(message, self._cwd)]
        content: JsonObject = {"role": role, "content": blocks}
        if isinstance(message, AssistantMessage):
            # Use the provider's own model id, as hooks for Claude Code expect. An
            # answer that was cut off has none.
            self._model = message.model.partition("/")[2] or self._model
            content = {
                "id": message.id,
                "type": "message",
                "model": self._model,
                **content,
                **_ending(message),
            }
        at = datetime.fromtimestamp(logged.at / 1000, UTC)
        line: JsonObject = {
            "type": role,
            "uuid": str(
                uuid.uuid5(uuid.NAMESPACE_URL, f"{self._session_id}/{logged.seq}")
            ),
            "parentUuid": self._last,
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "sessionId": self._session_id,
            "cwd": self._cwd,
            "version": __version__,
            "userType": "external",
            "isSidechain": False,
            **marks,
            "message": content,
        }
        self._last = str(line["uuid"])
        return line


def _blocks(message: Message, cwd: str) -> Iterator[JsonObject]:
    for block in blocks_of(message):
        name = block.get("name")
        arguments = block.get("input")
        if isinstance(name, str) and isinstance(arguments, dict):
            yield {
                **block,
                "name": CLAUDE_TOOLS.get(name, name),
                "input": dict(with_claude_keys(name, arguments, cwd)),
            }
        else:
            yield block


def _ending(message: AssistantMessage) -> JsonObject:
    usage = message.usage
    counted: JsonValue = None
    if usage is not None:
        counted = {
            "input_tokens": usage.input_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "output_tokens": usage.output_tokens,
        }
    return {"stop_reason": message.stop_reason, "usage": counted}
