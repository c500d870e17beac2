"""Rules: hooks written in YAML, each with events, conditions and an outcome."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from acp_agent.config.document import (
    Document,
    DocumentError,
    parse_mappings,
    read_text,
    validate,
)
from acp_agent.config.forms import share_of
from acp_agent.config.hook_events import (
    OBSERVED,
    OF_CALLS,
    EventName,
    OnError,
    events_named,
)
from acp_agent.config.settings import Mode
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.errors import HookError, located
from acp_agent.hooks.contract import FoundHooks, Hook, Origin, Services
from acp_agent.hooks.events import (
    AfterToolCall,
    BeforeToolCall,
    HookEvent,
    UserMessageSend,
)
from acp_agent.hooks.outcomes import (
    NOTHING,
    POSSIBLE,
    Action,
    Compact,
    Continue,
    Decision,
    Outcome,
    Summarize,
    Verdict,
    listed,
)
from acp_agent.patterns import compile_wildcards

Call: TypeAlias = BeforeToolCall | AfterToolCall
T = TypeVar("T")

RULE_POSSIBLE: dict[str, tuple[EventName, ...]] = {
    "compact": POSSIBLE["action: compact"],
    "summary": POSSIBLE["action: summary"],
    "continue": POSSIBLE["action: continue"],
    "block": POSSIBLE["decision: block"],
    "allow": POSSIBLE["decision: ask"],
    "ask": POSSIBLE["decision: ask"],
    "context": POSSIBLE["context"],
    "notice": POSSIBLE["systemMessage"],
    "stop": POSSIBLE["continue: false"],
}
"""The events at which each key of `then` is possible."""
_KNOWN_AT: dict[str, EventName] = {
    "source": "session_start",
    "reason": "before_compaction",
    "prompt": "user_message_send",
}
"""Conditions that are known at only one event."""
_CALLED: frozenset[EventName] = frozenset({"after_tool_call"})
_COMMAND = re.compile(
    r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^;&|\n()'"\\])+""", re.DOTALL
)
"""Matches a single command of a command line. Separators in quotes do not end it."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


# --- the contents of a file ---


def _share(value: object) -> float:
    share = 1.0 if value == 1 and value is not True else share_of(value)
    if share is not None and 0 < share <= 1:
        return share
    raise ValueError("should be a share of the window, such as 70% or 0.7")


def _seconds(value: object) -> object:
    duration = (
        re.fullmatch(r"(\d{1,9}(?:\.\d+)?) ?([smhd])", value)
        if isinstance(value, str)
        else None
    )
    if duration is None:
        raise ValueError("should be a time, such as 30s, 10m, 2h or 1d")
    return float(duration[1]) * _UNITS[duration[2]]


def _action(value: object) -> object:
    return {"action": value} if isinstance(value, str) else value


class _OrOne:
    """Extends the JSON Schema of a list with the single value that `listed` also
    accepts.
    """

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


def _wildcard(value: str) -> str:
    compile_wildcards([value])
    return value


Word = Annotated[str, Field(min_length=1)]
Wildcard = Annotated[Word, AfterValidator(_wildcard)]
Listed = Annotated[list[T], BeforeValidator(listed), Field(min_length=1), _OrOne()]
Usage = Annotated[
    float | None,
    BeforeValidator(_share),
    WithJsonSchema({"type": ["number", "string"], "title": "`70%` or `0.7`"}),
]
Since = Annotated[
    float | None,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string", "title": "a time: `30s`, `10m`, `2h`, `1d`"}),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class When(_Section):
    """`when`: conditions that must all hold. A condition that is not set always holds."""

    usage: Usage = Field(
        default=None,
        description="the context takes up at least this share of the model's window",
    )
    tool: Listed[Word] | None = Field(
        default=None, description='the call uses this tool: `shell`, `"mcp_*"`'
    )
    path: Listed[Wildcard] | None = Field(
        default=None, description="the call names this file or folder"
    )
    command: Listed[Word] | None = Field(
        default=None, description="the shell call runs this command: `git commit*`"
    )
    mode: Listed[Mode] | None = Field(
        default=None, description="the session is in this permission mode"
    )
    since: Since = Field(
        default=None,
        description="the rule has not fired for this long, or has not fired at all",
    )
    prompt: Listed[Annotated[Word, AfterValidator(str.lower)]] | None = Field(
        default=None,
        description='at `user_message_send`: the message matches this pattern, ignoring case: `"*deploy*"`',
    )
    source: Listed[Literal["new", "load", "resume", "compact"]] | None = Field(
        default=None, description="at `session_start`: the session begins in this way"
    )
    reason: Listed[CompactionTrigger] | None = Field(
        default=None,
        description="at `before_compaction`: the compaction starts for this reason",
    )

    @property
    def about_calls(self) -> bool:
        """Return whether there are conditions about tool calls."""
        return bool(self.tool or self.path or self.command)

    def hold(self, event: HookEvent, *, called: bool, idle: float | None) -> bool:
        """Return whether all conditions hold.

        :param called: whether a matching call has succeeded since the rule last fired.
        :param idle: seconds since the rule last fired; None if it has not fired.
        """
        return (
            (self.usage is None or event.at.usage.share >= self.usage)
            and (self.since is None or idle is None or idle >= self.since)
            and (not self.mode or event.at.mode in self.mode)
            and (not self.source or getattr(event, "source", "") in self.source)
            and (not self.reason or getattr(event, "reason", "") in self.reason)
            and (
                not self.prompt
                or (
                    isinstance(event, UserMessageSend)
                    and _fits(event.prompt.lower(), self.prompt)
                )
            )
            and (
                not self.about_calls
                or (self.fit(event) if isinstance(event, Call) else called)
            )
        )

    def fit(self, call: Call) -> bool:
        """Return whether the conditions about tool calls hold for this call."""
        line = str(call.input.get("command") or "") if call.tool == "shell" else ""
        return (
            (not self.tool or _fits(call.tool, self.tool))
            and (not self.path or _paths_fit(call, self.path))
            and (
                not self.command
                or any(
                    _fits(part, self.command)
                    for part in (line, *_COMMAND.findall(line))
                )
            )
        )


def _fits(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text.strip(), glob.strip()) for glob in globs)


def _paths_fit(call: Call, wildcards: Sequence[str]) -> bool:
    """Return whether one of a call's paths matches a wildcard. Paths are relative to
    the session's folder. Each is compared both as written and with links resolved.
    """
    pattern = compile_wildcards(wildcards)
    cwd = call.at.cwd
    written = [(path, cwd) for path in call.paths]
    real = [
        (os.path.realpath(path), os.path.realpath(folder)) for path, folder in written
    ]
    names = (
        "" if path == folder else path.removeprefix(folder.rstrip("/") + "/")
        for path, folder in written + real
    )
    return any(pattern.search(name.lstrip("/")) for name in names)


class Then(_Section):
    """`then`: what should happen."""

    action: Literal["compact", "summary", "continue"] | None = Field(
        default=None,
        description="`compact` compacts the conversation like `/compact`, at the end of the turn or before the next "
        "request. `summary` writes a summary and shows it, without changing the conversation. `continue` lets the "
        "agent continue with `messages`",
    )
    messages: Listed[Word] | None = Field(
        default=None,
        description="messages with which the agent continues, as if you had sent them",
    )
    block: Word | None = Field(
        default=None,
        description="refuses the action for this reason. At the end of a turn, the agent gets the reason and "
        "continues; after a call, the reason is added to the result",
    )
    allow: str | None = Field(
        default=None,
        description="runs the call without asking you; the text is the reason",
    )
    ask: str | None = Field(
        default=None,
        description="asks you about the call for this reason, even if the mode would not",
    )
    context: Word | None = Field(
        default=None, description="adds this text to the context for the model"
    )
    notice: Word | None = Field(default=None, description="shows you this text")
    stop: Word | None = Field(default=None, description="ends the turn for this reason")


Done = Annotated[
    Then,
    BeforeValidator(
        _action, json_schema_input_type=Literal["compact", "summary"] | Then
    ),
]


class Rule(_Section):
    """A whole rule."""

    on: Listed[str] = Field(
        description="an event, or a list of events; Claude Code's names also work (`Stop`, `PreToolUse`)"
    )
    when: When = Field(
        default=When(),
        description="[conditions](#conditions) that must all hold. Default: none, so the rule always fires",
    )
    then: Done = Field(description="[what happens](#what-should-happen)")
    on_error: OnError = Field(
        default="ask",
        description="what happens if the rule [fails](hooks.md#failures). Default: `ask`",
    )


# --- from a file to hooks ---


def load(path: Path, origin: Origin) -> FoundHooks:
    """Read a file with a rule or a list of rules.

    :returns: the hooks, and an error with file, line and key for each invalid rule.
    """
    hooks: list[Hook] = []
    errors: list[HookError] = []

    def report(error: DocumentError) -> None:
        errors.append(
            HookError(
                located(error.message, source=str(path), line=error.line, key=error.key)
            )
        )

    documents: list[Document] = []
    try:
        text = read_text(path)
        if text is None:
            raise DocumentError("does not exist")
        documents = parse_mappings(text)
    except DocumentError as error:
        report(error)
    for number, document in enumerate(documents, start=1):
        name = path.stem if len(documents) == 1 else f"{path.stem} {number}"
        try:
            rule = validate(Rule, document)
            bound = _BoundRule(
                _events(rule, document), rule.when, _outcome(rule.then, document)
            )
        except DocumentError as error:
            report(error)
        else:
            source = f"{path}:{document.lines[()]}"
            hooks.append(
                Hook(
                    name,
                    origin,
                    source,
                    bound.events,
                    bound.run,
                    on_error=rule.on_error,
                    file=path,
                )
            )
    return FoundHooks(tuple(hooks), tuple(errors))


def _events(rule: Rule, document: Document) -> frozenset[EventName]:
    """Return the events of a rule.

    :raises DocumentError: if an event does not exist, or a condition or action of the
        rule is not possible there.
    """
    events, unknown = events_named(rule.on)
    if unknown:
        raise document.error_at(unknown[0], "on")
    for name in events & OBSERVED:
        raise document.error_at(
            f"a rule cannot do anything at {name}, which happens after the fact", "on"
        )
    limits: list[tuple[str, tuple[EventName, ...], tuple[str, ...]]] = [
        ("is known only at", (_KNOWN_AT[key],), ("when", key))
        for key in sorted(rule.when.model_fields_set & _KNOWN_AT.keys())
    ]
    for key, value in rule.then:
        if value is not None and key != "messages":
            word, place = (
                (str(value), ("then",)) if key == "action" else (key, ("then", key))
            )
            limits.append((f"{word} is possible only at", RULE_POSSIBLE[word], place))
    for words, possible, place in limits:
        for event in sorted({*events} - {*possible}):
            raise document.error_at(
                f"{words} {', '.join(possible)}, but this rule runs at {event}", *place
            )
    return events


def _outcome(then: Then, document: Document) -> Outcome:
    verdicts: dict[Verdict, str | None] = {
        "block": then.block,
        "allow": then.allow,
        "ask": then.ask,
    }
    decisions = [
        Decision(verdict, reason)
        for verdict, reason in verdicts.items()
        if reason is not None
    ]
    if len(decisions) > 1:
        raise document.error_at(
            "has more than one of block, allow and ask; keep one", "then"
        )
    if (then.action == "continue") != (then.messages is not None):
        raise document.error_at(
            "`action: continue` requires `messages`, and `messages` requires `action: continue`",
            "then",
        )
    actions: dict[str | None, Action] = {"compact": Compact(), "summary": Summarize()}
    outcome = Outcome(
        decision=decisions[0] if decisions else None,
        context=() if then.context is None else (then.context,),
        action=Continue(tuple(then.messages))
        if then.messages
        else actions.get(then.action),
        stop=then.stop,
        notices=() if then.notice is None else (then.notice,),
    )
    if outcome == NOTHING:
        raise document.error_at(
            f"does nothing; use one of: {', '.join(RULE_POSSIBLE)}", "then"
        )
    return outcome


@dataclass(slots=True, eq=False)
class _BoundRule:
    """The state of a rule in one session.

    :ivar clock: returns a monotonic time in seconds.
    :ivar called: whether a matching call has succeeded since the rule last fired.
    """

    on: frozenset[EventName]
    when: When
    outcome: Outcome
    clock: Callable[[], float] = time.monotonic
    fired_at: float | None = None
    called: bool = False

    @property
    def events(self) -> frozenset[EventName]:
        """Return the events at which the rule may fire, and `after_tool_call` if the
        rule has to track calls.
        """
        return (
            self.on | _CALLED
            if self.when.about_calls and not self.on <= OF_CALLS
            else self.on
        )

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Return the rule's outcome if the rule fires. Otherwise remember whether a
        matching call succeeded.
        """
        now = self.clock()
        idle = None if self.fired_at is None else now - self.fired_at
        if event.name in self.on and self.when.hold(
            event, called=self.called, idle=idle
        ):
            self.fired_at = now
            self.called = False
            return self.outcome
        if (
            isinstance(event, AfterToolCall)
            and not event.is_error
            and self.when.about_calls
        ):
            self.called = self.called or self.when.fit(event)
        return NOTHING
