"""Where a history may be cut, one rule at a time.

A cut before `index` leaves `entries[index:]` behind a user's message with a summary, and hands `entries[:index]` to
whoever writes it. Each rule returns whether a place is legal, and names the error that a provider answers with where
it is not; a place is legal where all of them allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)


def calls_keep_their_results(entries: tuple[Entry, ...], index: int) -> bool:
    """Forbid a cut between an answer that calls tools and the results, or behind calls that still wait for them.

    Anthropic: "unexpected `tool_use_id` found in `tool_result` blocks"; OpenAI Responses: "No tool call found for
    function call output"; Chat Completions: a `tool` message has to follow one with `tool_calls`.
    """
    calls, waiting = _calls_before(entries, index)
    return not calls or waiting < calls


def batches_stay_whole(entries: tuple[Entry, ...], index: int) -> bool:
    """Forbid a cut between the results of calls that were made side by side.

    Anthropic: "`tool_use` ids were found without `tool_result` blocks immediately after"; OpenAI Responses: "No tool
    output found for function call".
    """
    calls, waiting = _calls_before(entries, index)
    return waiting in (0, calls)


def thinking_stays_with_its_call(entries: tuple[Entry, ...], index: int) -> bool:
    """Forbid a cut between two answers in a row of which an earlier one holds the thinking for a later one's call.

    An answer that was paused and went on is one message for the provider. Anthropic: "Expected `thinking` or
    `redacted_thinking`, but found `tool_use`"; OpenAI Responses: a `function_call` "was provided without its required
    'reasoning' item". Thinking that no provider gave a form of its own is never sent.
    """
    behind = (entries[after] for after in range(index, len(entries)))
    before = (entries[earlier] for earlier in range(index - 1, -1, -1))
    calls = _answers_hold(behind, lambda part: isinstance(part, ToolCall))
    return not (calls and _answers_hold(before, lambda part: isinstance(part, Thinking) and part.data))


def no_result_is_first(entries: tuple[Entry, ...], index: int) -> bool:
    """Forbid a cut before a tool's result: a transcript of another agent may hold one whose call is gone.

    The errors are those of `calls_keep_their_results`.
    """
    return index == len(entries) or isinstance(entries[index].message, UserMessage | AssistantMessage)


INVARIANTS = (calls_keep_their_results, batches_stay_whole, thinking_stays_with_its_call, no_result_is_first)


def legal_cuts(entries: tuple[Entry, ...], turn_from: int | None) -> list[int]:
    """Return every place before which the history may be cut, in order; the place behind the last entry counts as one.

    :param turn_from: seq of the prompt of the running turn; None where none runs.
    """
    last = unanswered_from(entries, turn_from)
    return [index for index in range(last + 1) if all(allows(entries, index) for allows in INVARIANTS)]


def unanswered_from(entries: tuple[Entry, ...], turn_from: int | None) -> int:
    """Return the index of the first entry that must stay in a running turn; the number of entries where none runs.

    It is the newest answer, whose results or continuation the model has not answered yet, or the prompt. No provider
    notices a cut behind it, but the model would go on without the results it waits for.
    """
    if turn_from is None:
        return len(entries)
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if entry.summary or entry.seq < turn_from:
            return index + 1
        if isinstance(entry.message, AssistantMessage):
            return index
    return 0


def _calls_before(entries: tuple[Entry, ...], index: int) -> tuple[int, int]:
    """Return how many calls the newest answer before this place makes, and how many of them still wait there."""
    answered: set[str] = set()
    for before in range(index - 1, -1, -1):
        message = entries[before].message
        if isinstance(message, ToolResult):
            answered.add(message.call_id)
        elif isinstance(message, AssistantMessage):
            calls = message.tool_calls
            return len(calls), sum(call.id not in answered for call in calls)
    return 0, 0


def _answers_hold(entries: Iterable[Entry], wanted: Callable[[AssistantPart], object]) -> bool:
    """Return whether a part of this kind comes before the first message that is no answer."""
    for entry in entries:
        if not isinstance(entry.message, AssistantMessage):
            return False
        if any(wanted(part) for part in entry.message.parts):
            return True
    return False
