"""`Hook`, the common form of all kinds of hooks, and `Services`, the functions of the agent that a hook may call."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, get_args

from anyio import to_thread

from acp_agent.config.hook_events import EventName, OnError
from acp_agent.conversation.messages import Message
from acp_agent.errors import HookError, sentence
from acp_agent.frozen import frozen
from acp_agent.hooks.events import HookEvent
from acp_agent.hooks.outcomes import Outcome
from acp_agent.hooks.payload import names_to_match
from acp_agent.patterns import compile_pattern
from acp_agent.storage.store import SessionStore

Origin: TypeAlias = Literal["config", "user", "project", "recipe"]
"""The source of a hook, in the order in which hooks run. A hook in a project's config.yaml has the origin `project`."""
ORIGINS: tuple[Origin, ...] = get_args(Origin)

DISABLED = ".disable"
"""Suffix of a file that disables a hook: `NAME.disable` disables the file `NAME` in the same folder."""
TIME_LIMIT = 10.0
"""Default time limit of a hook, in seconds."""
_CHANGED = "The project's hooks have changed since you allowed them; the next prompt asks you about them."


@frozen
class Summary:
    """The result of a compaction: the summary, and the tokens of the whole context before and after it."""

    summary: str
    tokens_before: int
    tokens_after: int


class Services(Protocol):
    """Functions that a hook written in Python may call. They do not change the session; only outcomes do."""

    @property
    def store(self) -> SessionStore:
        """Return the store of all sessions with their logs."""
        ...

    @property
    def home(self) -> Path:
        """Return the agent's home folder, which only the user can access."""
        ...

    @property
    def log(self) -> logging.Logger:
        """Return the logger for the agent's log file."""
        ...

    async def compaction(
        self,
        messages: Sequence[Message] | None = None,
        *,
        prompt: str | None = None,
        model: str | None = None,
    ) -> Summary:
        """Summarize a conversation as a compaction would, without changing it.

        :param messages: the messages to compact; None for the session's context.
        :param prompt: instructions for the summary; None for the text of the recipe `compact`.
        :param model: the `provider/model` that writes the summary; None for the session's model.
        :raises AgentError: if the compaction failed.
        """
        ...

    async def ask_model(
        self, prompt: str, *, system: str = "", model: str | None = None
    ) -> str:
        """Ask a model one question, without tools and without the session's context.

        :param model: `provider/model`; None for the session's model.
        :raises AgentError: if the model did not answer.
        """
        ...


Run: TypeAlias = Callable[[HookEvent, Services], Awaitable[Outcome]]


@frozen
class Hook:
    """A hook of any kind.

    :ivar source: where it is defined: a file, or a file and a key in it.
    :ivar events: the events at which it may run.
    :ivar run: runs it. Cancellation leaves nothing running. If it fails, a `HookError` says why and what to do.
    :ivar matcher: see `matches`.
    :ivar time_limit: in seconds.
    :ivar file: its file in a hooks folder; None if it is defined elsewhere.
    """

    name: str
    origin: Origin
    source: str
    events: frozenset[EventName]
    run: Run
    matcher: str = ""
    time_limit: float = TIME_LIMIT
    on_error: OnError = "ask"
    file: Path | None = None

    def wants(self, event: HookEvent) -> bool:
        """Return whether the hook runs at this event."""
        return event.name in self.events and matches(self.matcher, event)

    def is_disabled(self) -> bool:
        """Return whether its file has been disabled since it was loaded. Reads from disk."""
        return (
            self.file is not None
            and self.file.with_name(f"{self.file.name}{DISABLED}").exists()
        )


@frozen
class FoundHooks:
    """The hooks found in one place, and an error for each hook that cannot be used."""

    hooks: tuple[Hook, ...] = ()
    errors: tuple[HookError, ...] = ()


def joined(found: Iterable[FoundHooks]) -> FoundHooks:
    """Combine the hooks and errors of several places, in order."""
    places = tuple(found)
    return FoundHooks(
        tuple(hook for each in places for hook in each.hooks),
        tuple(error for each in places for error in each.errors),
    )


def matches(matcher: str, event: HookEvent) -> bool:
    """Return whether a matcher matches this event.

    A matcher of words separated by `|` matches exactly these names. Any other matcher is an RE2 regular expression that
    is searched for in the event's names. An empty matcher and `*` match everything. At events without names, the
    matcher is ignored.
    """
    names = names_to_match(event)
    if matcher in ("", "*") or not names:
        return True
    if re.fullmatch(r"[\w|-]+", matcher):
        return not names.isdisjoint(matcher.split("|"))
    pattern = compile_pattern(matcher)
    return any(pattern.search(name) is not None for name in names)


def unusable(
    error: HookError, origin: Origin, source: str, file: Path | None = None
) -> FoundHooks:
    """Return a hook that fails at every tool call. It replaces a hook that could not be loaded and may be a guard."""
    remedy = (
        ""
        if file is None
        else f" Repair it, or switch it off with an empty file {file}{DISABLED}."
    )

    async def fail(event: HookEvent, services: Services) -> Outcome:
        raise HookError(f"{sentence(error)}{remedy}")

    name = file.name if file else source
    return FoundHooks(
        (Hook(name, origin, source, frozenset({"before_tool_call"}), fail, file=file),),
        (error,),
    )


def guarded(hook: Hook, unchanged: Callable[[], bool]) -> Hook:
    """Wrap a project's hook so that it runs only while its files are the ones that the user trusted.

    :param unchanged: checks the files; called in a worker thread right before each run.
    """

    async def run(event: HookEvent, services: Services) -> Outcome:
        if not await to_thread.run_sync(unchanged, abandon_on_cancel=True):
            raise HookError(_CHANGED)
        return await hook.run(event, services)

    return replace(hook, run=run)
