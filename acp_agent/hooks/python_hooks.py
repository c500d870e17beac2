"""`hook`, which makes a Python function a hook, and the hook that such a function becomes. Knows no files."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar, cast, get_args

from anyio import to_thread

from acp_agent.config.document import did_you_mean
from acp_agent.errors import HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.claude import matches
from acp_agent.hooks.contract import TIME_LIMIT, OnError, Origin, Services
from acp_agent.hooks.events import (
    ALIASES,
    EVENT_NAMES,
    AfterToolCall,
    BeforeToolCall,
    EventName,
    HookEvent,
    event_name,
)
from acp_agent.hooks.outcomes import NOTHING, Action, Continue, Decision, Outcome
from acp_agent.patterns import PatternError, compile_pattern

Function: TypeAlias = Callable[..., "Outcome | Awaitable[Outcome | None] | None"]
F = TypeVar("F", bound=Function)

_MARK = "__acp_agent_hooks__"
_KINDS: dict[str, tuple[type, ...]] = {
    "decision": (Decision,),
    "tool_input": (dict,),
    "tool_output": (str,),
    "message": (str,),
    "action": get_args(Action),
    "summary": (str,),
    "stop": (str,),
}
"""What an outcome holds, if anything."""


@frozen
class Mark:
    """What `hook` says of a function."""

    events: frozenset[EventName]
    matcher: str
    time_limit: float
    on_error: OnError


def hook(
    *events: str, matcher: str = "", time_limit: float = TIME_LIMIT, on_error: OnError = "ask"
) -> Callable[[F], F]:
    """Make a function a hook. It is called with the event and the `Services`, and returns an `Outcome`, or None.

    An `async` function is awaited and cancelled at its time limit. A plain one runs in a thread of its own, which
    nobody can end: at its time limit it is left alone, and what it returns is not used. The function itself stays as
    it is, so that a test can call it.

    :param events: names of events, ours or Claude Code's.
    :param matcher: see `acp_agent.hooks.claude.matches`.
    :param time_limit: seconds that it may take.
    :param on_error: what a failure means: `ask`, that the user is asked about the call; `allow`, that it wants nothing;
        `block`, that what it was asked about may not happen.
    :raises HookError: one of these is impossible, or the function does not take two arguments.
    """
    names: set[EventName] = set()
    for word in events:
        name = event_name(word)
        if name is None:
            raise HookError(f"There is no event {word!r}; {did_you_mean(word, (*EVENT_NAMES, *ALIASES))}.")
        names.add(name)
    if not names:
        raise HookError("@hook names no event. Write for example @hook('before_tool_call').")
    if not 0 < time_limit < float("inf"):
        raise HookError(f"The time limit should be a number of seconds above 0, not {time_limit!r}.")
    if on_error not in get_args(OnError):
        raise HookError(f"`on_error` should be 'ask', 'allow' or 'block', not {on_error!r}.")
    try:
        compile_pattern("" if matcher == "*" else matcher)
    except PatternError as error:
        raise HookError(f"The matcher {error}.") from error
    mark = Mark(frozenset(names), matcher, time_limit, on_error)

    def marked(function: F) -> F:
        try:
            inspect.signature(function).bind(None, None)
        except TypeError as error:
            raise HookError("A hook is called with two arguments, the event and the services.") from error
        setattr(function, _MARK, (*marks_of(function), mark))
        return function

    return marked


def marks_of(value: object) -> tuple[Mark, ...]:
    """What `hook` has said of a function; nothing of anything else."""
    marks = getattr(value, _MARK, ()) if inspect.isroutine(value) else ()
    return cast("tuple[Mark, ...]", marks)


def hooks_of(function: Function, origin: Origin, source: str, file: Path | None = None) -> Iterator[PythonHook]:
    """The hooks that a marked function is: one for each mark, the uppermost last.

    :param source: the file or the package that it comes from.
    """
    for mark in marks_of(function):
        yield PythonHook(function, mark, origin, source, file)


@frozen
class PythonHook:
    """A function as a hook.

    :ivar source: where the function stands.
    """

    function: Function
    mark: Mark
    origin: Origin
    source: str
    file: Path | None = None

    @property
    def name(self) -> str:
        """The function's."""
        return str(getattr(self.function, "__name__", "hook"))

    @property
    def events(self) -> frozenset[EventName]:
        """Those that `hook` names."""
        return self.mark.events

    @property
    def time_limit(self) -> float:
        """Seconds that it may take."""
        return self.mark.time_limit

    @property
    def on_error(self) -> OnError:
        """What its failure means."""
        return self.mark.on_error

    def wants(self, event: HookEvent) -> bool:
        """Whether the matcher names it."""
        return matches(self.mark.matcher, event)

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Call the function.

        :raises HookError: it returned something else than an outcome as it should be, or wanted to end the process.
        """
        event = _own(event)
        answer: object
        try:
            if inspect.iscoroutinefunction(self.function):
                answer = await self.function(event, services)
            else:
                answer = await to_thread.run_sync(self.function, event, services, abandon_on_cancel=True)
                if inspect.isawaitable(answer):
                    answer = await answer
        except SystemExit as error:
            raise HookError("It called sys.exit(), which a hook cannot do. Have it return instead.") from error
        if answer is None:
            return NOTHING
        if not isinstance(answer, Outcome):
            raise HookError(f"It returned a {type(answer).__name__}; a hook returns an Outcome, or None.")
        return _checked(answer)


def _checked(outcome: Outcome) -> Outcome:
    """An outcome whose values are what they should be, since nobody has checked the types of the function.

    :raises HookError: one of them is not.
    """
    for name, kinds in _KINDS.items():
        value: object = getattr(outcome, name)
        if value is not None and not isinstance(value, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise HookError(f"`{name}` of its Outcome is a {type(value).__name__}; it should be a {wanted}.")
    try:
        json.dumps(outcome.tool_input, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise HookError(f"`tool_input` of its Outcome cannot be written as JSON: {error}.") from error
    texts = {"context": outcome.context, "notices": outcome.notices}
    if isinstance(outcome.action, Continue):
        texts["messages"] = outcome.action.messages
    for name, value in texts.items():
        if not _are_texts(value):
            raise HookError(f"`{name}` of its Outcome should be a tuple of texts, such as ('one', 'two').")
    return outcome


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(text, str) for text in cast("Sequence[object]", value))


def _own(event: HookEvent) -> HookEvent:
    """The event with arguments of the function's own: what it changes in them is no outcome."""
    if isinstance(event, BeforeToolCall | AfterToolCall):
        return replace(event, input=deepcopy(event.input))
    return event
