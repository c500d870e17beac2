"""`Hook`, which represents a hook of any kind, and `Services`, the functions of the
agent that a hook may call.
"""

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
"""Where a hook comes from, in the order in which hooks run. A hook in a project's
config.yaml has the origin `project`.
"""
ORIGINS: tuple[Origin, ...] = get_args(Origin)

DISABLED = ".disable"
"""Suffix of a file that disables a hook: `NAME.disable` disables the file `NAME` in the
same folder.
"""
TIME_LIMIT = 10.0
"""Default time limit of a hook, in seconds."""
_CHANGED = (
    "The project's hooks have changed since you allowed them; the agent asks you about "
    "them at your next prompt."
)


@frozen
class Summary:
    """The result of `Services.compaction`.

    :ivar tokens_before: size of the whole context before the compaction.
    :ivar tokens_after: size of the whole context after the compaction.
    """

    summary: str
    tokens_before: int
    tokens_after: int


class Services(Protocol):
    """Functions that a hook written in Python may call. They do not change the session;
    only the hook's `Outcome` does.
    """

    @property
    def store(self) -> SessionStore:
        """Return the store of all sessions and their logs."""
        ...

    @property
    def home(self) -> Path:
        """Return the agent's home, a folder that only the user can access."""
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
        :param prompt: instructions for the summary; None for the text of the recipe
            `compact`.
        :param model: the `provider/model` that writes the summary; None for the
            session's model.
        :raises AgentError: if the compaction failed.
        """
        ...

    async def ask_model(
        self, prompt: str, *, system: str = "", model: str | None = None
    ) -> str:
        """Send a single prompt to a model, without tools and without the session's
        context, and return the answer.

        :param system: the system prompt.
        :param model: `provider/model`; None for the session's model.
        :raises AgentError: if the model did not answer.
        """
        ...


Run: TypeAlias = Callable[[HookEvent, Services], Awaitable[Outcome]]


@frozen
class Hook:
    """A hook of any kind.

    :ivar source: where the hook is defined: a file, or a file and a key in it.
    :ivar events: the events at which the hook may run.
    :ivar run: runs the hook. If it is cancelled, nothing keeps running. A `HookError`
        says why the hook failed, and what the user can do.
    :ivar matcher: limits when the hook runs; see `matches`.
    :ivar time_limit: in seconds.
    :ivar on_error: the effect of a failure.
    :ivar file: the hook's file in a hooks folder; None if the hook is defined
        elsewhere.
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
        """Return whether the hook's file has been disabled since it was loaded. Reads
        from disk.
        """
        return (
            self.file is not None
            and self.file.with_name(f"{self.file.name}{DISABLED}").exists()
        )


@frozen
class FoundHooks:
    """The hooks found in one place, and an error for each hook that cannot be used as
    written.
    """

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

    A matcher of words separated by `|` matches exactly these names. Any other matcher
    is an RE2 regular expression that is searched for in the event's names, such as the
    names of a call's tool. An empty matcher and `*` match everything. At events without
    names, the matcher is ignored.
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
    """Return a hook that fails with this error before every tool call, and the error
    itself. The hook replaces one that could not be loaded and may be a guard.

    :param error: why the hook could not be loaded.
    :param source: where the hook is defined.
    :param file: the hook's file in a hooks folder, if it has one.
    """
    remedy = (
        ""
        if file is None
        else f" Repair it, or create an empty file {file}{DISABLED} to disable it."
    )

    async def fail(event: HookEvent, services: Services) -> Outcome:
        raise HookError(f"{sentence(error)}{remedy}")

    name = file.name if file else source
    return FoundHooks(
        (Hook(name, origin, source, frozenset({"before_tool_call"}), fail, file=file),),
        (error,),
    )


def guarded(hook: Hook, unchanged: Callable[[], bool]) -> Hook:
    """Wrap a project's hook so that it fails if its files are not the ones that the
    user trusted.

    :param unchanged: returns whether the files are unchanged. It is called in a worker
        thread right before each run.
    """

    async def run(event: HookEvent, services: Services) -> Outcome:
        if not await to_thread.run_sync(unchanged, abandon_on_cancel=True):
            raise HookError(_CHANGED)
        return await hook.run(event, services)

    return replace(hook, run=run)
