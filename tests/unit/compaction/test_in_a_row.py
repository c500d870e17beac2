"""Ten compactions in a row, each of the previous result and newer messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.compaction import (
    CompactedState,
    CompactionPolicy,
    CompactionService,
    ConversationState,
)
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.layers import unanswered
from acp_agent.conversation.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.conversation.swaps import Memory, Pin
from acp_agent.llm.provider import ModelEvent, ModelRequest
from support.logs import is_legal

SIZE = 2_000
POLICY = CompactionPolicy("", strategy="excerpts", size=SIZE)
RULES = (
    "Never touch `legacy/` or anything below it.",
    "Always run `make check` before you say that something works!",
    "Ändere nie die Datei »Größen.toml«.",
    "Ne modifie jamais le fichier « prix.csv ».",
    "No borres nunca la carpeta «datos».",
)
Turn = tuple[str, list[int], str]
"""A prompt, lines of the results of each step, and an answer."""
SAID = st.lists(
    st.sampled_from(
        [
            "The cart adds prices.",
            "See shop/cart_7.py, line 300.",
            "\n",
            "値段は300円です。",
        ]
    )
    | st.text(max_size=60),
    max_size=20,
).map(" ".join)
TURNS = st.tuples(SAID, st.lists(st.integers(0, 120), max_size=3), SAID)


async def no_model(request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    raise AssertionError("a model was asked")
    yield


def user(text: str) -> UserMessage:
    return UserMessage("u", (Text(text),))


def answer(*parts: Text | ToolCall) -> AssistantMessage:
    return AssistantMessage("a", parts)


def spoken(turn: Turn, name: str) -> Iterator[Message]:
    asked, results, said = turn
    yield user(asked or "Go on.")
    for batch, lines in enumerate(results):
        calls = [
            ToolCall(
                f"{name}_{batch}_{n}", "shell", {"command": f"python run_{name}.py"}
            )
            for n in range(2)
        ]
        yield answer(Text(f"Step {batch} of page_{name}."), *calls)
        for call in calls:
            shown = "".join(
                f"row_{name}_{line} holds {line * 37 + batch}\n"
                for line in range(lines)
            )
            yield ToolResult(call.id, (Text(f"{shown}exit 0"),))
    yield answer(Text(said or "Well."))


def compacted(state: ConversationState) -> CompactedState:
    async def compact() -> CompactedState | None:
        return await CompactionService()(state, POLICY, no_model)

    result = anyio.run(compact)
    assert result is not None
    return result


def whole(messages: tuple[Message, ...]) -> str:
    return "\n".join(
        part.text
        for message in messages
        for part in message.parts
        if isinstance(part, Text)
    )


@given(
    st.lists(
        st.tuples(st.lists(TURNS, min_size=1, max_size=3), st.booleans()),
        min_size=10,
        max_size=10,
    ),
    st.lists(st.text(min_size=1, max_size=60), max_size=2),
)
@settings(max_examples=5, deadline=None)
def test_ten_compactions_in_a_row_keep_size_rules_pins_source_and_form(
    rounds: list[tuple[list[Turn], bool]], pins: list[str]
) -> None:
    begin: list[Message] = []
    for rule in RULES:
        begin += [user(f"Fix the cart.\n{rule} Thanks."), answer(Text("I will."))]
    state = ConversationState.of(
        begin,
        window=200_000,
        memory=Memory(
            pins=tuple(Pin(number, text) for number, text in enumerate(pins, 1))
        ),
    )
    said = list(begin)
    result = None
    for number, (turns, runs) in enumerate(rounds):
        drawn = [("Run it all.", [120, 120], "It ran."), *turns]
        since = [
            message
            for n, turn in enumerate(drawn)
            for message in spoken(turn, f"{number}_{n}")
        ]
        since = since[:-1] if runs else since
        said += since
        if result is None:
            state = ConversationState.of(
                [*begin, *since], window=200_000, memory=state.memory
            )
        else:
            state = result.next_state(state, since)
        prompts = [
            entry.seq
            for entry in state.entries
            if isinstance(entry.message, UserMessage) and not entry.summary
        ]
        state = replace(state, turn_from=prompts[-1] if runs else None)
        result = compacted(state)
        assert tuple(entry.message for entry in result.source) == tuple(said)
        beside = {entry.seq for entry in unanswered(state)}
        inside = [
            entry.message
            for entry in result.entries
            if entry.summary or entry.seq not in beside
        ]
        assert estimate_messages(inside) <= SIZE
        assert beside <= {entry.seq for entry in result.entries if not entry.summary}
        assert isinstance(result.messages[0], UserMessage)
        assert is_legal(result.messages)
        text = whole(result.messages)
        assert "Fix the cart." in text
        assert all(rule in text for rule in RULES)
        assert all(f"\n{pin}\n" in text for pin in pins)
