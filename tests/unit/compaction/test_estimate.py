"""Estimating tokens that no provider has counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.estimate import (
    MAX_CALIBRATION,
    RunningEstimate,
    Sizes,
    count_images,
    estimate_kept,
    estimate_message,
    estimate_messages,
    estimate_part,
    request_bytes,
    used_tokens,
)
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    Image,
    Message,
    Resource,
    ResourceLink,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from support.logs import LogBuilder, legal_logs

FULL: list[Message] = [
    UserMessage("m", (Text("x" * 4_000),)),
    UserMessage("m", (Resource("file:///a", text="x" * 4_000),)),
    UserMessage("m", (Resource("file:///a", blob="x" * 4_000),)),
    UserMessage("m", (ResourceLink("file:///" + "x" * 4_000, "a"),)),
    UserMessage("m", (Image("eA==", "image/png"),)),
    UserMessage(
        "m", (Resource("file:///a.png", blob="x" * 400_000, mime_type="image/png"),)
    ),
    AssistantMessage("m", (Thinking("x" * 4_000),)),
    AssistantMessage("m", (Thinking("", "anthropic", {"signature": "x" * 4_000}),)),
    AssistantMessage(
        "m", (ToolCall("c", "edit", {"edits": [{"new_text": "x" * 4_000}]}),)
    ),
    AssistantMessage("m", (ToolCall("c", "edit", invalid="x" * 4_000),)),
    ToolResult("c", (Text("x" * 4_000),)),
    ToolResult("c", (Image("eA==", "image/png"),)),
]


@pytest.mark.parametrize(
    "message", FULL, ids=[f"{m.role} {type(m.parts[0]).__name__}" for m in FULL]
)
def test_the_estimate_counts_everything_that_is_sent(message: Message) -> None:
    assert 1_000 <= estimate_message(message) <= 2_000


@given(st.lists(st.sampled_from(FULL)), st.lists(st.sampled_from(FULL)))
def test_sizes_of_later_messages_are_added(
    first: list[Message], later: list[Message]
) -> None:
    both = [*first, *later]
    assert Sizes().plus(first).plus(later) == Sizes(
        count_images(both), request_bytes(both)
    )


@given(st.text(), st.text())
def test_more_text_never_takes_fewer_tokens(text: str, more: str) -> None:
    short = estimate_message(UserMessage("m", (Text(text),)))
    assert short <= estimate_message(UserMessage("m", (Text(text + more),)))
    assert short < estimate_messages(
        [UserMessage("m", (Text(text),)), UserMessage("m", (Text(more),))]
    )


@given(legal_logs(), st.integers(0, 50))
def test_the_providers_count_is_used_and_newer_messages_are_added(
    log: tuple[LoggedEvent, ...], prefix: int
) -> None:
    context = Context.from_log(log)
    used = used_tokens(context, prefix)
    if context.baseline:
        since = estimate_messages(
            entry.message
            for entry in context.entries
            if entry.seq > context.baseline_seq
        )
        assert (
            context.baseline + since
            <= used
            <= context.baseline + since * MAX_CALIBRATION + 1
        )
    elif context.entries:
        assert used == prefix + estimate_messages(context.messages)
    else:
        assert used == 0


@given(legal_logs(), st.lists(st.integers(0), max_size=8), st.integers(0, 50))
def test_a_running_estimate_equals_a_fresh_estimate(
    log: tuple[LoggedEvent, ...], steps: list[int], prefix: int
) -> None:
    # The conversation grows, is compacted, undone, and asked for as it was before.
    running = RunningEstimate()
    for length in (*range(len(log) + 1), *(step % (len(log) + 1) for step in steps)):
        context = Context.from_log(log[:length])
        assert used_tokens(context, prefix, 1.5, running) == used_tokens(
            context, prefix, 1.5
        )
        assert running.tokens(context.entries) == estimate_messages(context.messages)
        texts = [
            [part for part in message.parts if isinstance(part, Text | ToolCall)]
            for message in context.messages
        ]
        assert running.words(context.entries) == sum(
            estimate_part(part) for parts in texts for part in parts
        )


class _Watched(UserMessage):
    """A message that counts how often its parts are read."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        if name == "parts":
            type(self).looks += 1
        return super().__getattribute__(name)


def test_each_message_of_a_growing_conversation_is_estimated_once() -> None:
    # Counts that are not believed leave no baseline, so that all of the conversation is
    # estimated for each request.
    running = RunningEstimate()
    entries: tuple[Entry, ...] = ()
    for seq in range(1, 101):
        entries = (*entries, Entry(seq, _Watched("m", (Text("word"),))))
        for _ in range(5):
            used_tokens(Context(head=seq, entries=entries), 10, estimate=running)
    assert _Watched.looks == 100


@pytest.mark.parametrize(
    ("counts", "factor"), [(2, 2), (0.2, 1), (50, MAX_CALIBRATION)]
)
def test_newer_messages_are_calibrated_by_the_providers_counts(
    counts: float, factor: float
) -> None:
    log = LogBuilder()
    log.prompt("One?")
    # Most of it is not in the messages, and says nothing of them.
    log.step("One.", usage=Usage(9_000, 0))
    log.end()
    log.prompt("x" * 8_000)
    assert used_tokens(log.context, 0) == 9_000 + 2_004
    second = 9_000 + int(2_009 * counts)
    log.step("Two.", usage=Usage(second, 0))
    log.end()
    log.prompt("x" * 40)
    # Of a few words, more would change nothing.
    assert used_tokens(log.context, 0) == second + 14
    log.end()
    log.prompt("x" * 400_000)
    assert used_tokens(log.context, 0) == pytest.approx(
        second + 100_020 * factor, rel=0.01
    )
    log.end()
    # Counts from before a compaction say nothing any more.
    log.swap()
    log.prompt("x" * 4_000)
    assert used_tokens(log.context, 0) == 100 + 1_004
    log.step("Three.", usage=Usage(1_200, 0))
    log.end()
    log.prompt("x" * 4_000)
    assert used_tokens(log.context, 0) == 1_200 + 1_004


def test_the_rate_from_a_refusal_is_used_until_the_provider_reports_counts() -> None:
    log = LogBuilder()
    log.prompt("x" * 8_000)
    assert used_tokens(log.context, 96, 1.5) == (96 + 2_004) * 1.5
    log.step("One.", usage=Usage(2_000, 0))
    log.end()
    log.prompt("x" * 8_000)
    assert used_tokens(log.context, 96, 1.5) == 2_000 + 2_004 * 1.5
    log.step("Two.", usage=Usage(2_000 + 2 * 2_009, 0))
    log.end()
    log.prompt("x" * 8_000)
    assert used_tokens(log.context, 96, 1.5) == pytest.approx(6_018 + 2_004 * 2, abs=2)


def growing(*counts: int) -> tuple[Entry, ...]:
    """Ten tokens of a prompt and ten of an answer for each count of a provider."""
    entries: list[Entry] = []
    for number, count in enumerate(counts):
        prompt = UserMessage("msg_p", (Text("p" * 24),))
        answer = AssistantMessage("msg_a", (Text("a" * 24),), usage=Usage(count, 0))
        entries += [Entry(2 * number + 1, prompt), Entry(2 * number + 2, answer)]
    return tuple(entries)


@pytest.mark.parametrize(
    ("counts", "exempt", "rate", "tokens"),
    [
        ((100, 500, 900), (), 1.0, 10 + 400 + 400 + 10),
        ((100, 500, 900), (), 2.0, 10 + 200 + 200 + 10),
        ((100, 105, 110), (), 1.0, 60),
        ((900, 200, 600), (), 1.0, 10 + 20 + 400 + 10),
        ((100, 500, 900), (3,), 1.0, 10 + 390 + 400 + 10),
        ((100,), (), 1.0, 20),
        ((), (), 1.0, 0),
    ],
    ids=[
        "grown",
        "in our tokens",
        "never less",
        "compacted between",
        "exempt",
        "one count",
        "nothing",
    ],
)
def test_messages_kept_with_reasoning_take_the_providers_count(
    counts: tuple[int, ...], exempt: tuple[int, ...], rate: float, tokens: int
) -> None:
    assert estimate_kept(growing(*counts), exempt, rate) == tokens


def test_a_stored_file_counts_with_the_bytes_that_are_sent() -> None:
    def file(kind: str | None, *, text: bool = False) -> Message:
        return UserMessage(
            "m",
            (
                Resource(
                    "file:///a", blob=Stored("a" * 64, 30_000_000, text), mime_type=kind
                ),
            ),
        )

    binary = file("application/zip")
    text = file(None, text=True)
    picture = file("image/png")
    sizes = [request_bytes([each]) for each in (binary, text)]
    # An address is sent as well.
    assert sizes == pytest.approx([0, 30_000_000], abs=20)
    assert request_bytes([picture]) < 10_000_000  # it is scaled before it is sent
