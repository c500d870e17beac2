"""What an outcome may want at which event, and how long its texts may be: what is left of one that wants more, and what
the user is told of the rest. Does nothing of what is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from acp_agent.hooks.events import AfterToolCall, EventName, HookEvent, TurnEnd, UserMessageSend
from acp_agent.hooks.outcomes import (
    LIMIT,
    Action,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
    SwapContext,
    cut,
)

SWAP = "action: swap_context"

_CALL: tuple[EventName, ...] = ("before_tool_call",)
_ENDS: tuple[EventName, ...] = ("turn_end", "agent_stop")
_TURN: tuple[EventName, ...] = ("user_message_send", "before_tool_call", "after_tool_call", *_ENDS)
_COMPACTION: tuple[EventName, ...] = ("before_compaction",)
_TOLD: tuple[EventName, ...] = ("session_start", *_TURN, *_COMPACTION)

POSSIBLE: Mapping[str, tuple[EventName, ...]] = {
    "decision: block": (*_TURN, *_COMPACTION),
    "decision: ask": _CALL,
    "continue: false": (*_TURN, *_COMPACTION),
    "systemMessage": (*_TOLD, "after_compaction"),
    "context": _TOLD,
    "tool_input": _CALL,
    "tool_output": ("after_tool_call",),
    "message": ("user_message_send",),
    "action: compact": _TURN,
    "action: summary": _ENDS,
    "action: continue": _ENDS,
    "action: replace": _ENDS,
    SWAP: ("turn_end",),
    "summary": _COMPACTION,
}
"""At which events something can be done, in the words of an answer. `decision: allow` objects to nothing, and that is
possible everywhere; `swap_context` at the end of an answer that is a summary."""

_ACTIONS: Mapping[type[Action], str] = {
    Compact: "compact",
    Summarize: "summary",
    Continue: "continue",
    Replace: "replace",
    SwapContext: "swap_context",
}


def impossible(event: HookEvent, outcome: Outcome) -> tuple[str, ...]:
    """What an outcome wants and nobody can do at this event, in the words of `POSSIBLE`."""
    return tuple(
        word
        for word in _wanted(outcome)
        if event.name not in POSSIBLE[word] or (word == SWAP and not (isinstance(event, TurnEnd) and event.is_summary))
    )


def possible(name: EventName) -> tuple[str, ...]:
    """What can be done at an event; without `swap_context`, which is for summaries alone."""
    return tuple(word for word, names in POSSIBLE.items() if name in names and word != SWAP)


def without(outcome: Outcome, words: Sequence[str]) -> Outcome:
    """The rest of an outcome.

    :param words: what is left out of it, as `impossible` has it.
    """
    for word in words:
        key = word.partition(":")[0]
        match key:
            case "continue":
                outcome = replace(outcome, stop=None)
            case "systemMessage":
                outcome = replace(outcome, notices=())
            case "context":
                outcome = replace(outcome, context=())
            case _:
                outcome = replace(outcome, **{key: None})
    return outcome


def _wanted(outcome: Outcome) -> Iterator[str]:
    """Everything that an outcome wants, in the words of `POSSIBLE`."""
    if outcome.decision is not None and outcome.decision.verdict != "allow":
        yield f"decision: {outcome.decision.verdict}"
    if outcome.stop is not None:
        yield "continue: false"
    if outcome.notices:
        yield "systemMessage"
    if outcome.context:
        yield "context"
    if outcome.action is not None:
        yield f"action: {_ACTIONS[type(outcome.action)]}"
    for word in ("tool_input", "tool_output", "message", "summary"):
        if getattr(outcome, word) is not None:
            yield word


# --- texts ---


def bounded(event: HookEvent, outcome: Outcome) -> Outcome:
    """The same without blank texts, which are none, and with long ones cut. What takes the place of another text may be
    longer than that by as much as an added one may have in all."""
    decision, summary, stop = outcome.decision, outcome.summary, outcome.stop
    if decision is not None and len(decision.reason) > LIMIT:
        decision = Decision(decision.verdict, cut(decision.reason))
    output, message = outcome.tool_output, outcome.message
    if output is not None:
        output = cut(output, LIMIT + (len(event.text) if isinstance(event, AfterToolCall) else 0))
    if message is not None:
        message = cut(message, LIMIT + (len(event.prompt) if isinstance(event, UserMessageSend) else 0))
    return replace(
        outcome,
        decision=decision,
        tool_output=output,
        message=message,
        context=_within(outcome.context),
        action=_bounded_action(event, outcome.action),
        summary=None if summary is None else cut(summary),
        stop=None if stop is None else cut(stop),
        notices=_within(outcome.notices),
    )


def _bounded_action(event: HookEvent, action: Action | None) -> Action | None:
    match action:
        case Continue():
            said = _within(action.messages)
            return Continue(said) if said else None
        case Compact():
            return Compact(cut(action.instructions))
        case Summarize():
            return Summarize(cut(action.instructions))
        case SwapContext():
            longest = LIMIT + (len(event.response) if isinstance(event, TurnEnd) else 0)
            return replace(action, summary=cut(action.summary, longest)) if action.summary.strip() else None
        case _:
            return action


def _within(texts: Sequence[str]) -> tuple[str, ...]:
    """The texts that are not blank, which have `LIMIT` characters together: the first that has too many is the last."""
    kept: list[str] = []
    room = LIMIT
    for text in (text for text in texts if text.strip()):
        kept.append(cut(text, room))
        room -= len(text)
        if room <= 0:
            break
    return tuple(kept)


Words: TypeAlias = Mapping[EventName, str]

REFUSED: Words = {
    "user_message_send": "the prompt was kept from the model",
    "before_tool_call": "the call was refused",
    "after_tool_call": "the model is told of it below the result",
    "turn_end": "the agent goes on, and is told of it",
    "agent_stop": "the agent goes on, and is told of it",
    "before_compaction": "nothing was compacted",
}
"""What it means that a hook has failed whose `on_error` is `block`."""
