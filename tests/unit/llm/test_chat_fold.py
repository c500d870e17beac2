"""Streams of Chat Completions as odd servers send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.llm.provider import Answered
from support.adapters import fold_of


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(arguments: Any, name: str | None = None, **fields: Any) -> dict[str, Any]:
    function = (
        {"arguments": arguments}
        if name is None
        else {"name": name, "arguments": arguments}
    )
    return {"function": function, **fields}


def folded(*chunks: dict[str, Any]) -> Answered:
    fold = fold_of("chat")
    for event in chunks:
        list(fold.feed(event))
    assert fold.complete
    return fold.answer()


def calls(*deltas: dict[str, Any], finish: str = "tool_calls") -> list[tuple[str, Any]]:
    chunks = [chunk(tool_calls=[delta]) for delta in deltas]
    answer = folded(*chunks, chunk(finish))
    assert answer.stop_reason == "tool_use"
    return [
        (part.name, part.arguments if part.invalid is None else part.invalid)
        for part in answer.parts
        if isinstance(part, m.ToolCall)
    ]


READ = ("read", {"p": 1})
OTHER = ("read", {"p": 2})
LIST = ("list", {})
STREAMS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, Any]]]] = {
    "in pieces": (
        [
            call("", "read", index=0, id="a"),
            call('{"p"', index=0),
            call(":1}", index=0),
            call("{}", "list", index=1, id="b"),
        ],
        [READ, LIST],
    ),
    "in turns": (
        [
            call('{"p"', "read", index=0, id="a"),
            call('{"p"', "read", index=1, id="b"),
            call(":1}", index=0),
            call(":2}", index=1),
        ],
        [READ, OTHER],
    ),
    "whole, without index or id": (
        [call('{"p":1}', "read"), call('{"p":2}', "read")],
        [READ, OTHER],
    ),
    "whole, all at index 0": (
        [
            call('{"p":1}', "read", index=0, id="a"),
            call('{"p":2}', "read", index=0, id="b"),
        ],
        [READ, OTHER],
    ),
    "name and id repeated with every piece": (
        [call(piece, "read", index=0, id="a") for piece in ("", '{"p"', ":1", "}")],
        [READ],
    ),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_calls_are_told_apart_however_they_come(stream: str) -> None:
    deltas, expected = STREAMS[stream]
    assert calls(*deltas, finish="stop") == expected


def test_the_signatures_of_gemini_are_kept_for_it() -> None:
    extra: dict[str, Any] = {"google": {"thought_signature": "sig"}}
    first = call("{}", "read", index=0, id="a")
    second = call("{}", "list", index=1, id="b", extra_content=extra)
    answer = folded(
        chunk(tool_calls=[first]), chunk(tool_calls=[second]), chunk("stop")
    )
    assert answer.parts[0] == m.Thinking("", "local", {"extra_content": {"1": extra}})


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        (
            {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
            m.Usage(10, 7, 60, 30),
        ),
        ({"prompt_tokens_details": {"cached_tokens": 160}}, m.Usage(0, 7, 160)),
        # OpenRouter.
        (
            {"prompt_tokens_details": {"cached_tokens": 60}, "cost": 0.002},
            m.Usage(40, 7, 60, 0, 0.002),
        ),
        ({"cost": True}, m.Usage(100, 7)),
    ],
)
def test_what_came_from_a_cache_or_went_into_it_is_counted_once(
    counted: dict[str, Any], expected: m.Usage
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, **counted}
    assert (
        folded(chunk("stop", content="x"), {"choices": [], "usage": usage}).usage
        == expected
    )


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "index",
                    "usage",
                    "arguments",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["choices", "usage", "object"]), JUNK, max_size=3
        ),
        max_size=4,
    )
)
def test_no_junk_breaks_the_fold(events: list[dict[str, Any]]) -> None:
    fold = fold_of("chat")
    for event in events:
        list(fold.feed(event))
    assert isinstance(fold.answer(), Answered)
