"""Legal cuts of a history: properties of the requests that three providers would
receive.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given

from acp_agent.compaction.cuts import legal_cuts
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from support.histories import (
    SHORT,
    History,
    anthropic,
    begins_with_result,
    behind_summary,
    chat,
    faults,
    histories,
    responses,
    thinking_of_calls,
)

SIGNED = Thinking("Hm.", "anthropic", {"type": "thinking", "signature": "s"})


def entries_of(
    *messages: UserMessage | AssistantMessage | ToolResult,
) -> tuple[Entry, ...]:
    return tuple(Entry(number, message) for number, message in enumerate(messages, 1))


def user(text: str = "Fix it.") -> UserMessage:
    return UserMessage("u", (Text(text),))


def answer(*parts: Text | Thinking | ToolCall) -> AssistantMessage:
    return AssistantMessage("a", parts)


def result(call_id: str) -> ToolResult:
    return ToolResult(call_id, (Text("done"),))


def legal(history: History) -> list[int]:
    return legal_cuts(history.entries, history.turn_from)


@given(histories(texts=SHORT))
def test_calls_stay_with_their_results_batch_and_thinking(
    history: History,
) -> None:
    before = faults(behind_summary(history.messages))
    thought = thinking_of_calls(behind_summary(history.messages))
    results = {
        entry.message.call_id
        for entry in history.entries
        if isinstance(entry.message, ToolResult)
    }
    for index in legal(history):
        tail = behind_summary(history.messages[index:])
        kept = faults(tail)
        assert kept <= before
        assert not [fault for fault in kept if "has no call" in fault]
        assert {
            call.id for entry in history.entries[:index] for call in calls_of(entry)
        } <= results
        # What is summarised in pieces is sent as well.
        assert not faults((*history.messages[:index], user("Summarise.")))
        led = thinking_of_calls(tail)
        assert led == {
            call: thoughts for call, thoughts in thought.items() if call in led
        }


@given(histories(texts=SHORT, strays=True))
def test_the_first_message_after_the_summary_is_never_a_result(
    history: History,
) -> None:
    for index in legal(history):
        assert not begins_with_result(history.messages[index:])


@given(histories(texts=SHORT))
def test_unanswered_entries_reach_every_provider_unchanged(
    history: History,
) -> None:
    open_steps = unanswered(history)
    for index in legal(history):
        kept = history.messages[index:]
        assert ends_with(kept, open_steps)
        if open_steps and not isinstance(open_steps[0], UserMessage):
            # Neighbours are one message on two of the wires: what follows the first is
            # the same in any case.
            for wire in (anthropic, chat):
                assert ends_with(
                    wire(behind_summary(kept)), wire(behind_summary(open_steps))[2:]
                )
            assert ends_with(responses(behind_summary(kept)), responses(open_steps))


def ends_with(whole: Sequence[object], end: Sequence[object]) -> bool:
    return whole[len(whole) - len(end) :] == end


def unanswered(
    history: History,
) -> tuple[UserMessage | AssistantMessage | ToolResult, ...]:
    """From the newest answer of the running turn on; all of the turn where it has none."""
    if history.turn_from is None:
        return ()
    turn = [
        entry.message
        for entry in history.entries
        if not entry.summary and entry.seq >= history.turn_from
    ]
    answers = [
        index
        for index, message in enumerate(turn)
        if isinstance(message, AssistantMessage)
    ]
    return tuple(turn[answers[-1] if answers else 0 :])


def calls_of(entry: Entry) -> tuple[ToolCall, ...]:
    return (
        entry.message.tool_calls if isinstance(entry.message, AssistantMessage) else ()
    )


def test_thinking_of_a_paused_answer_stays_with_its_continuations_call() -> None:
    paused = entries_of(
        user(),
        answer(SIGNED, Text("I look.")),
        answer(Text("On.")),
        answer(ToolCall("1", "read")),
    )
    assert legal_cuts(paused, None) == [0, 1]
    unsigned = entries_of(
        user(), answer(Thinking("Hm."), Text("I look.")), answer(ToolCall("1", "read"))
    )
    assert legal_cuts(unsigned, None) == [0, 1, 2]
    # Another step's thinking is another message for every provider.
    steps = entries_of(
        user(),
        answer(SIGNED, ToolCall("1", "read")),
        result("1"),
        answer(ToolCall("2", "read")),
    )
    assert legal_cuts(steps, None) == [0, 1, 3]
