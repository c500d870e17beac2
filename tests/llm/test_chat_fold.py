"""Streams of Chat Completions as odd servers send them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.llm.failures import CallFailed, verdict
from acp_agent.llm.openai_chat_wire import ChatFold
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(arguments: Any, name: str | None = None, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"function": function, **fields}


def folded(*chunks: dict[str, Any]) -> Answered:
    fold = ChatFold("local")
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


def test_arguments_in_pieces() -> None:
    pieces = call("", "read", index=0, id="a"), call('{"p"', index=0), call(":1}", index=0)
    assert calls(*pieces, call("{}", "list", index=1, id="b")) == [("read", {"p": 1}), ("list", {})]


def test_pieces_of_two_calls_in_turns() -> None:
    first = call('{"p"', "read", index=0, id="a"), call('{"q"', "list", index=1, id="b")
    assert calls(*first, call(":1}", index=0), call(":2}", index=1)) == [("read", {"p": 1}), ("list", {"q": 2})]


def test_whole_calls_at_once_without_index_or_id_and_a_plain_stop() -> None:
    whole = call('{"p":1}', "read"), call('{"p":2}', "read")
    assert calls(*whole, finish="stop") == [("read", {"p": 1}), ("read", {"p": 2})]


def test_whole_calls_in_one_chunk() -> None:
    event = chunk(tool_calls=[call('{"p":1}', "read", id=""), call('{"p":2}', "read", id="")])
    answer = folded(event, chunk("stop"))
    assert [part.arguments for part in answer.parts if isinstance(part, m.ToolCall)] == [{"p": 1}, {"p": 2}]


def test_all_calls_at_index_0_with_ids_of_their_own() -> None:
    assert calls(call('{"p":1}', "read", index=0, id="a"), call('{"p":2}', "read", index=0, id="b")) == [
        ("read", {"p": 1}),
        ("read", {"p": 2}),
    ]


def test_a_call_without_arguments_before_another_at_the_same_index() -> None:
    assert calls(call("", "list", index=0, id="a"), call('{"p":2}', "read", index=0, id="b")) == [
        ("list", {}),
        ("read", {"p": 2}),
    ]


def test_repeated_ids_at_different_places_are_two_calls() -> None:
    assert len(calls(call("{}", "read", index=0, id="a"), call("{}", "read", index=1, id="a"))) == 2


def test_a_name_and_an_id_repeated_with_every_piece_are_one_call() -> None:
    pieces = [call(piece, "read", index=0, id="a") for piece in ("", '{"p"', ":1", "}")]
    assert calls(*pieces) == [("read", {"p": 1})]


def test_arguments_as_an_object() -> None:
    assert calls(call({"p": 1}, "read")) == [("read", {"p": 1})]


def test_the_signatures_of_gemini_are_kept_for_it() -> None:
    extra: dict[str, Any] = {"google": {"thought_signature": "sig"}}
    first, second = call("{}", "read", index=0, id="a"), call("{}", "list", index=1, id="b", extra_content=extra)
    answer = folded(chunk(tool_calls=[first]), chunk(tool_calls=[second]), chunk("stop"))
    assert answer.parts[0] == m.Thinking("", "local", {"extra_content": {"1": extra}})


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking(field: str) -> None:
    fold = ChatFold("local")
    assert list(fold.feed(chunk(**{field: "Hm."}))) == [ThinkingDelta("Hm.")]
    assert list(fold.feed(chunk(content="Yes."))) == [TextDelta("Yes.")]


def test_usage_in_a_chunk_without_choices_and_a_routers_own_price() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60},
        "cost": 0.002,
    }
    answer = folded(chunk("stop", content="x"), {"choices": [], "usage": usage})
    assert answer.usage == m.Usage(40, 7, 60, 0, 0.002)


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}, m.Usage(10, 7, 60, 30)),
        ({"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}, m.Usage(40, 7, 60)),  # DeepSeek
        ({"prompt_tokens_details": {"cached_tokens": 160}}, m.Usage(0, 7, 160)),
        ({"cost": True}, m.Usage(100, 7)),
    ],
)
def test_what_came_from_a_cache_or_went_into_it_is_counted_once(counted: dict[str, Any], expected: m.Usage) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, **counted}
    assert folded(chunk("stop", content="x"), {"choices": [], "usage": usage}).usage == expected


def test_a_refusal_is_shown_and_ends_the_answer_as_one_whatever_the_reason_to_finish() -> None:
    answer = folded(chunk(refusal="I may "), chunk(refusal="not."), chunk("stop"))
    assert (answer.stop_reason, answer.parts) == ("refusal", (m.Text("I may not."),))


def test_an_error_in_a_chunk_that_carries_a_status() -> None:
    with pytest.raises(CallFailed) as caught:
        ChatFold("local").feed({"error": {"code": 502, "message": "upstream"}, "choices": []})
    assert (caught.value.status, verdict(caught.value)) == (502, "again")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["choices", "delta", "content", "tool_calls", "function", "index", "usage", "arguments"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "object"]), JUNK, max_size=3), max_size=4))
def test_no_junk_breaks_the_fold(events: list[dict[str, Any]]) -> None:
    fold = ChatFold("local")
    for event in events:
        list(fold.feed(event))
    assert isinstance(fold.answer(), Answered)
