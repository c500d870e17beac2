"""Rules: hooks that are written down as YAML, when they fire and what should happen then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from acp_agent.config.document import DocumentError, parse_mappings, read_text
from acp_agent.errors import HookError, located
from acp_agent.hooks.conditions import Conditions, Memory
from acp_agent.hooks.contract import TIME_LIMIT, Hook, OnError, Origin, Services
from acp_agent.hooks.events import AfterToolCall, EventName, HookEvent
from acp_agent.hooks.outcomes import NOTHING, Outcome

_CALLED: frozenset[EventName] = frozenset({"after_tool_call"})
_CALLS: frozenset[EventName] = frozenset({"before_tool_call", "after_tool_call"})


def load(path: Path, origin: Origin) -> tuple[tuple[Hook, ...], tuple[HookError, ...]]:
    """Read a file with a rule, or with a list of them.

    :returns: the rules, and an error with file, line and key for each that is wrong.
    """
    from acp_agent.hooks.rule_schema import read_rule

    hooks: list[Hook] = []
    errors: list[HookError] = []

    def wrong(error: DocumentError) -> None:
        errors.append(HookError(located(error.message, source=str(path), line=error.line, key=error.key)))

    try:
        text = read_text(path)
        if text is None:
            raise DocumentError("does not exist")
        documents = parse_mappings(text, words=("on",))
    except DocumentError as error:
        wrong(error)
        return (), tuple(errors)
    for number, (line, document) in enumerate(documents, start=1):
        name = path.stem if len(documents) == 1 else f"{path.stem} {number}"
        try:
            on, conditions, outcome, on_error = read_rule(document)
        except DocumentError as error:
            wrong(error)
        else:
            hooks.append(RuleHook(name, origin, f"{path}:{line}", on, conditions, outcome, on_error, path))
    return tuple(hooks), tuple(errors)


@dataclass(slots=True, eq=False)
class RuleHook:
    """A rule, with what it knows of its session.

    :ivar on: events at which it may fire.
    :ivar outcome: what it wants then.
    :ivar clock: seconds that never go back.
    """

    name: str
    origin: Origin
    source: str
    on: frozenset[EventName]
    conditions: Conditions
    outcome: Outcome
    on_error: OnError = "ask"
    file: Path | None = None
    clock: Callable[[], float] = time.monotonic
    time_limit: float = TIME_LIMIT
    memory: Memory = field(default=Memory(), init=False)

    @property
    def events(self) -> frozenset[EventName]:
        """Those at which it may fire, and where it has to know of calls for that, those of calls that have run."""
        return self.on | _CALLED if self.conditions.about_calls and not self.on <= _CALLS else self.on

    def wants(self, event: HookEvent) -> bool:
        """Always: hooks that are asked earlier may change the event."""
        return True

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """What it wants, where it fires; otherwise it remembers a call that it is about."""
        now = self.clock()
        if event.name in self.on and self.conditions.hold(event, self.memory, now):
            self.memory = Memory(fired_at=now)
            return self.outcome
        if isinstance(event, AfterToolCall) and not event.is_error and self.conditions.about_calls:
            self.memory = replace(self.memory, called=self.memory.called or self.conditions.fit(event))
        return NOTHING
