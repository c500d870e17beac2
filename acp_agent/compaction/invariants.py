"""Where a history may be cut, one rule at a time.

A cut before `index` leaves `entries[index:]` behind a user's message with a summary, and hands `entries[:index]` to
whoever writes it. Each class names what would break and the error that a provider answers with; a place is legal where
all of them allow it. They look no further than the steps around that place, and know nothing of sizes.
"""

from __future__ import annotations

from typing import Protocol

from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import AssistantMessage, Thinking, ToolResult, UserMessage
from acp_agent.frozen import frozen


class Invariant(Protocol):
    """One thing that a cut must not break."""

    def allows(self, entries: tuple[Entry, ...], index: int) -> bool:
        """Whether the history may be cut before this place.

        :param index: from 0, which cuts nothing off, to the number of entries, which leaves nothing.
        """
        ...


@frozen
class CallsKeepTheirResults:
    """Not between an answer that calls tools and the results, nor behind calls that still wait for them.

    Anthropic: "unexpected `tool_use_id` found in `tool_result` blocks"; OpenAI Responses: "No tool call found for
    function call output"; Chat Completions: a `tool` message has to follow one with `tool_calls`.
    """

    def allows(self, entries: tuple[Entry, ...], index: int) -> bool:
        """See `Invariant.allows`."""
        calls, waiting = _calls_before(entries, index)
        return not calls or waiting < calls


@frozen
class BatchesStayWhole:
    """Not between the results of calls that were made side by side.

    Anthropic: "`tool_use` ids were found without `tool_result` blocks immediately after"; OpenAI Responses: "No tool
    output found for function call"; Chat Completions: the ids that did not have response messages are named.
    """

    def allows(self, entries: tuple[Entry, ...], index: int) -> bool:
        """See `Invariant.allows`."""
        calls, waiting = _calls_before(entries, index)
        return waiting in (0, calls)


@frozen
class ThinkingStaysWithItsCall:
    """Not between two answers in a row of which an earlier one holds the thinking for a later one's call.

    An answer that was paused or cut off and then went on is one message for the provider. Anthropic: "Expected
    `thinking` or `redacted_thinking`, but found `tool_use`", or thinking blocks in the latest answer "cannot be
    modified"; OpenAI Responses: a `function_call` "was provided without its required 'reasoning' item". Thinking that
    no provider gave a form of its own is never sent, so nothing can be parted from it.
    """

    def allows(self, entries: tuple[Entry, ...], index: int) -> bool:
        """See `Invariant.allows`."""
        return not (_run_calls(entries, index) and _run_thought(entries, index))


@frozen
class FirstMessageStandsByItself:
    """Not before a tool's result, whatever became of its call.

    Behind a summary every provider takes a user's message or an answer, and none takes a result: Anthropic's and
    OpenAI's errors are those of `CallsKeepTheirResults`. Where each result follows its call the other rules see to
    this; a transcript of another agent may hold a second result, or one whose call is not there any more.
    """

    def allows(self, entries: tuple[Entry, ...], index: int) -> bool:
        """See `Invariant.allows`."""
        return index == len(entries) or isinstance(entries[index].message, UserMessage | AssistantMessage)


@frozen
class UnansweredStepsStay:
    """Not behind anything that the model still has to answer in a turn that runs.

    No provider notices, but the model would: it would be asked to go on without the results it waits for, or, where
    the request ends with an answer, hear "this model does not support assistant message prefill" from Anthropic.

    :ivar turn_from: seq of the prompt of the running turn; None where none runs.
    """

    turn_from: int | None

    def allows(self, entries: tuple[Entry, ...], index: int) -> bool:
        """See `Invariant.allows`."""
        return index <= unanswered_from(entries, self.turn_from)


INVARIANTS: tuple[Invariant, ...] = (
    CallsKeepTheirResults(),
    BatchesStayWhole(),
    ThinkingStaysWithItsCall(),
    FirstMessageStandsByItself(),
)
"""What holds for every history; `UnansweredStepsStay` joins them for one whose last turn runs."""


def invariants_of(turn_from: int | None) -> tuple[Invariant, ...]:
    """All that a cut has to respect.

    :param turn_from: seq of the prompt of the running turn; None where none runs.
    """
    return INVARIANTS if turn_from is None else (*INVARIANTS, UnansweredStepsStay(turn_from))


def legal_cuts(entries: tuple[Entry, ...], turn_from: int | None) -> list[int]:
    """Every place before which the history may be cut, in order; the place behind the last entry counts as one."""
    invariants = invariants_of(turn_from)
    return [
        index for index in range(len(entries) + 1) if all(invariant.allows(entries, index) for invariant in invariants)
    ]


def unanswered_from(entries: tuple[Entry, ...], turn_from: int | None) -> int:
    """Index of the first entry that must stay in a running turn: the newest answer, whose results or continuation the
    model has not answered yet, or the prompt where there is no answer; the number of entries where no turn runs."""
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
    """How many calls the newest answer before this place makes, and how many of them have no result before it."""
    answered: set[str] = set()
    for before in range(index - 1, -1, -1):
        message = entries[before].message
        if isinstance(message, ToolResult):
            answered.add(message.call_id)
        elif isinstance(message, AssistantMessage):
            calls = message.tool_calls
            return len(calls), sum(call.id not in answered for call in calls)
    return 0, 0


def _run_calls(entries: tuple[Entry, ...], index: int) -> bool:
    """Whether a call comes in the answers from here to the next message of another kind."""
    for after in range(index, len(entries)):
        message = entries[after].message
        if not isinstance(message, AssistantMessage):
            return False
        if message.tool_calls:
            return True
    return False


def _run_thought(entries: tuple[Entry, ...], index: int) -> bool:
    """Whether the answers right before this place hold thinking that goes back to its provider."""
    for before in range(index - 1, -1, -1):
        message = entries[before].message
        if not isinstance(message, AssistantMessage):
            return False
        if any(isinstance(part, Thinking) and part.data for part in message.parts):
            return True
    return False
