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
"""Where a hook comes from, in the order in which they are asked. A project's config.yaml is the project's."""
ORIGINS: tuple[Origin, ...] = get_args(Origin)

DISABLED = ".disable"
"""Suffix of a file that switches off the file of a hooks folder that it is named after."""
TIME_LIMIT = 10.0
"""Seconds that a hook may take, where it says nothing else."""
_CHANGED = "The project's hooks have changed since you allowed them; the next prompt asks you about them."


@frozen
class Summary:
    """The result of a compaction: the summary, and the tokens of the whole context before and with it."""

    summary: str
    tokens_before: int
    tokens_after: int


class Services(Protocol):
    """What a hook that is written in Python may use. None of it changes the session: outcomes do."""

    @property
    def store(self) -> SessionStore:
        """Return the store of all sessions with their logs."""
        ...

    @property
    def home(self) -> Path:
        """Return the agent's own folder, which is the user's alone."""
        ...

    @property
    def log(self) -> logging.Logger:
        """Return the logger that writes into the agent's log file."""
        ...

    async def compaction(
        self, messages: Sequence[Message] | None = None, *, prompt: str | None = None, model: str | None = None
    ) -> Summary:
        """Compact a conversation without changing it.

        :param messages: what to compact; the session's context where None.
        :param prompt: instructions for the summary; the text of the recipe `compact` where None.
        :param model: `provider/model` that writes it; the session's own where None.
        :raises AgentError: nothing came of it.
        """
        ...

    async def ask_model(self, prompt: str, *, system: str = "", model: str | None = None) -> str:
        """Have a model answer one question, with no tools and nothing of the session.

        :param model: `provider/model`; the session's own where None.
        :raises AgentError: it did not answer.
        """
        ...


Run: TypeAlias = Callable[[HookEvent, Services], Awaitable[Outcome]]


@frozen
class Hook:
    """A hook of any kind.

    :ivar source: where it stands: a file, or a file and a key of it.
    :ivar events: those that it may be asked about.
    :ivar run: asks it. A cancel leaves nothing running. A failure is a `HookError` that says how and what to do.
    :ivar matcher: see `matches`.
    :ivar time_limit: seconds that it may take.
    :ivar file: the file of a hooks folder that it stands in; None where it stands elsewhere.
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
        """Return whether it is to be asked about this event."""
        return event.name in self.events and matches(self.matcher, event)

    def is_disabled(self) -> bool:
        """Return whether its file has been switched off by now. Touches the disk."""
        return self.file is not None and self.file.with_name(f"{self.file.name}{DISABLED}").exists()


@frozen
class Found:
    """The hooks of a place, and an error for each that cannot be used."""

    hooks: tuple[Hook, ...] = ()
    errors: tuple[HookError, ...] = ()


def joined(found: Iterable[Found]) -> Found:
    """Return what was found in several places, in their order."""
    places = tuple(found)
    return Found(
        tuple(hook for each in places for hook in each.hooks), tuple(error for each in places for error in each.errors)
    )


def matches(matcher: str, event: HookEvent) -> bool:
    """Return whether a matcher means this event.

    A matcher of words and `|` means exactly these names; any other is a regular expression of RE2 that is to be found
    in a name. Empty, or `*`, it means all; at events that have nothing to match it means nothing.
    """
    names = names_to_match(event)
    if matcher in ("", "*") or not names:
        return True
    if re.fullmatch(r"[\w|-]+", matcher):
        return not names.isdisjoint(matcher.split("|"))
    pattern = compile_pattern(matcher)
    return any(pattern.search(name) is not None for name in names)


def unusable(error: HookError, origin: Origin, source: str, file: Path | None = None) -> Found:
    """Return a hook that fails at every call, in place of one that could not be loaded and may have been a guard."""
    remedy = "" if file is None else f" Repair it, or switch it off with an empty file {file}{DISABLED}."

    async def fail(event: HookEvent, services: Services) -> Outcome:
        raise HookError(f"{sentence(error)}{remedy}")

    name = file.name if file else source
    return Found((Hook(name, origin, source, frozenset({"before_tool_call"}), fail, file=file),), (error,))


def guarded(hook: Hook, unchanged: Callable[[], bool]) -> Hook:
    """Return a project's hook wrapped so that it runs only while its files are those that the user has trusted.

    :param unchanged: looks at the files; called in a worker thread right before each run.
    """

    async def run(event: HookEvent, services: Services) -> Outcome:
        if not await to_thread.run_sync(unchanged, abandon_on_cancel=True):
            raise HookError(_CHANGED)
        return await hook.run(event, services)

    return replace(hook, run=run)
