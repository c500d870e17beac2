"""What a rule's YAML may say, and what that means at its events. Imported with the first rule, since it imports
pydantic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from acp_agent.config.document import Document, DocumentError, did_you_mean, dotted, validate
from acp_agent.config.hook_events import OnError
from acp_agent.config.settings import Mode
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.hooks.conditions import Conditions
from acp_agent.hooks.events import ALIASES, EVENT_NAMES, OBSERVED, EventName, event_name
from acp_agent.hooks.outcomes import DEFERRED, Action, Compact, Continue, Decision, Outcome, Summarize, Verdict

_ENDS: tuple[EventName, ...] = ("turn_end", "agent_stop")
_TURN: tuple[EventName, ...] = ("user_message_send", "before_tool_call", "after_tool_call", *_ENDS)
POSSIBLE: dict[str, tuple[EventName, ...]] = {
    "compact": _TURN,
    "summary": _ENDS,
    "continue": _ENDS,
    "block": (*_TURN, "before_compaction"),
    "allow": ("before_tool_call",),
    "ask": ("before_tool_call",),
    "context": ("session_start", *_TURN),
    "notice": ("session_start", *_TURN, "before_compaction"),
    "stop": _TURN,
}
"""At which events a rule can do what."""
_CHECKED: dict[str, tuple[EventName, ...]] = {**POSSIBLE, "defer": ("before_compaction",)}
ASKED: dict[str, tuple[EventName, ...]] = {
    "source": ("session_start",),
    "reason": ("before_compaction",),
    "prompt": ("user_message_send",),
}
"""Conditions that say something at these events alone."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _share(value: object) -> object:
    number = re.fullmatch(r"(\d{1,3}(?:\.\d+)?) ?%", value) if isinstance(value, str) else None
    share = float(number[1]) / 100 if number else value
    if isinstance(share, int | float) and share is not True and 0 < share <= 1:
        return float(share)
    raise PydanticCustomError("share", "should be a share of the window, such as 70% or 0.7")


def _seconds(value: object) -> object:
    said = re.fullmatch(r"(\d{1,9}(?:\.\d+)?) ?([smhd])", value) if isinstance(value, str) else None
    if said is None:
        raise PydanticCustomError("time", "should be a time, such as 30s, 10m, 2h or 1d")
    return float(said[1]) * _UNITS[said[2]]


def _action(value: object) -> object:
    return {"action": value} if isinstance(value, str) else value


class _OrOne:
    """Tells the JSON Schema of a list what `_listed` takes as well."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


T = TypeVar("T")
Word = Annotated[str, Field(min_length=1)]
Listed = Annotated[list[T], BeforeValidator(_listed), Field(min_length=1), _OrOne()]
Usage = Annotated[
    float | None,
    BeforeValidator(_share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^(?!0+(?:\.0+)? ?%)(?:\d{1,2}|0\d\d)(?:\.\d+)? ?%$|^100(?:\.0+)? ?%$"},
            ],
            "title": "`70%` or `0.7`",
        }
    ),
]
Since = Annotated[
    float | None,
    BeforeValidator(_seconds),
    WithJsonSchema(
        {"type": "string", "pattern": r"^\d{1,9}(?:\.\d+)? ?[smhd]$", "title": "a time: `30s`, `10m`, `2h`, `1d`"}
    ),
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class When(_Section):
    """`when`."""

    usage: Usage = Field(default=None, description="when the context takes up this share of the model's window")
    tool: Listed[Word] | None = Field(default=None, description='for a call of this tool: `shell`, `"mcp_*"`')
    path: Listed[Word] | None = Field(default=None, description="for a call about this file or folder")
    command: Listed[Word] | None = Field(default=None, description="for a shell call that runs this: `git commit*`")
    mode: Listed[Mode] | None = Field(default=None, description="in this permission mode")
    since: Since = Field(default=None, description="when the rule has not fired for so long, or has not fired at all")
    prompt: Listed[Word] | None = Field(
        default=None,
        description='at `user_message_send`, for such a message: `"*deploy*"`; capitals do not count',
    )
    source: Listed[Literal["new", "load", "resume", "compact"]] | None = Field(
        default=None, description="at `session_start`: how the session begins"
    )
    reason: Listed[CompactionTrigger] | None = Field(default=None, description="at `before_compaction`: why it is due")


class Then(_Section):
    """`then`."""

    action: Literal["compact", "summary", "continue"] | None = Field(
        default=None,
        description="`compact`: the conversation is compacted, as by `/compact`, at the end of a turn or amid one "
        "before the next request. `summary`: a summary is written and shown; the conversation stays as it is. "
        "`continue`: the agent goes on, with `messages`",
    )
    messages: Listed[Word] | None = Field(default=None, description="what it goes on with, as if you had said it")
    block: Word | None = Field(
        default=None,
        description="it does not happen, for this reason; at the end of a turn the agent goes on, told the reason; "
        "behind a call the reason stands with the result",
    )
    allow: str | None = Field(default=None, description="the call runs, and you are not asked")
    ask: str | None = Field(default=None, description="you are asked, also where the mode would not")
    context: Word | None = Field(default=None, description="the model reads this as well")
    notice: Word | None = Field(default=None, description="you are told this")
    stop: Word | None = Field(default=None, description="the turn ends, for this reason")
    defer: SkipJsonSchema[object] = Field(default=None, description="of earlier versions: see `DEFERRED`")


Done = Annotated[Then, BeforeValidator(_action, json_schema_input_type=Literal["compact", "summary"] | Then)]


class Rule(_Section):
    """A whole rule."""

    on: Listed[str] = Field(description="an event or a list of them; Claude Code's names too (`Stop`, `PreToolUse`)")
    when: When = Field(
        default=When(),
        description="[conditions](#conditions), which must all hold; without any the rule fires at each of its events",
    )
    then: Done = Field(description="[what should happen](#what-should-happen)")
    on_error: OnError = Field(default="ask", description="what it means when the rule [fails](hooks.md#failures)")


def read_rule(document: Document) -> tuple[frozenset[EventName], Conditions, Outcome, OnError]:
    """The events, the conditions and the outcome of a rule, and what its failure means.

    :raises DocumentError: it is wrong; with line and key.
    """
    rule = validate(Rule, document)
    events: list[EventName] = [_event(word, document) for word in rule.on]
    for key in sorted(rule.when.model_fields_set & ASKED.keys()):
        _check(events, ASKED[key], document, ("when", key), "is known only at")
    for key in Then.model_fields:
        if getattr(rule.then, key) is not None and key != "messages":
            name, place = (rule.then.action, ("then",)) if key == "action" else (key, ("then", key))
            _check(events, _CHECKED[str(name)], document, place, f"{name} is possible only at")
    return frozenset(events), _conditions(rule.when), _outcome(rule.then, document), rule.on_error


def _event(word: str, document: Document) -> EventName:
    name = event_name(word)
    if name is None:
        raise _wrong(f"there is no event {word!r}; {did_you_mean(word, (*EVENT_NAMES, *ALIASES))}", document, ("on",))
    if name in OBSERVED:
        raise _wrong(f"at {name} it is done, and nothing that a rule could do is possible", document, ("on",))
    return name


def _check(
    events: Sequence[EventName], possible: Sequence[EventName], document: Document, place: tuple[str, ...], words: str
) -> None:
    for event in events:
        if event not in possible:
            raise _wrong(f"{words} {', '.join(possible)}; this rule is asked at {event}", document, place)


def _conditions(when: When) -> Conditions:
    return Conditions(
        usage=when.usage,
        tool=tuple(when.tool or ()),
        path=tuple(when.path or ()),
        command=tuple(when.command or ()),
        source=tuple(when.source or ()),
        reason=tuple(when.reason or ()),
        mode=tuple(when.mode or ()),
        since=when.since,
        prompt=tuple(when.prompt or ()),
    )


def _outcome(then: Then, document: Document) -> Outcome:
    verdicts: dict[Verdict, str | None] = {"block": then.block, "allow": then.allow, "ask": then.ask}
    decisions = [Decision(verdict, reason) for verdict, reason in verdicts.items() if reason is not None]
    if len(decisions) > 1:
        raise _wrong("has more than one of block, allow and ask; keep one", document, ("then",))
    if (then.action == "continue") != (then.messages is not None):
        raise _wrong("action: continue and messages need each other", document, ("then",))
    actions: dict[str | None, Action | None] = {
        "compact": Compact(),
        "summary": Summarize(),
        "continue": Continue(tuple(then.messages or ())),
    }
    if not decisions and then.defer:
        decisions = [DEFERRED]
    outcome = Outcome(
        decision=decisions[0] if decisions else None,
        context=() if then.context is None else (then.context,),
        action=actions.get(then.action),
        stop=then.stop,
        notices=() if then.notice is None else (then.notice,),
    )
    if outcome == Outcome():
        raise _wrong(f"says nothing to do; possible are {', '.join(POSSIBLE)}", document, ("then",))
    return outcome


def _wrong(message: str, document: Document, place: tuple[str, ...]) -> DocumentError:
    line = document.lines.get(place) or document.lines.get(place[:1])
    return DocumentError(message, line, dotted(place))
