"""Streams of Anthropic's and OpenAI's own APIs, folded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation import messages as m
from acp_agent.llm.anthropic_fold import MessagesFold
from acp_agent.llm.failures import CallFailed, verdict
from acp_agent.llm.openai_responses_wire import ResponsesFold
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def messages(*events: dict[str, Any]) -> tuple[list[TextDelta | ThinkingDelta], Answered]:
    fold = MessagesFold("anthropic")
    shown = [shown for event in [*events, {"type": "message_stop"}] for shown in fold.feed(event)]
    assert fold.complete
    return shown, fold.answer()


def test_blocks_of_every_kind_keep_their_order() -> None:
    shown, answer = messages(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "signature_delta", signature="c2ln"),
        start(1, type="redacted_thinking", data="ZW5j"),
        start(2, type="text", text=""),
        delta(2, "text_delta", text="Look."),
        start(3, type="tool_use", id="toolu_1", name="read", input={}),
        delta(3, "input_json_delta", partial_json='{"pa'),
        delta(3, "input_json_delta", partial_json='th": "a"}'),
        start(4, type="tool_use", id="toolu_2", name="list", input={}),
        start(5, type="something_new"),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    )
    assert shown == [ThinkingDelta("Hm"), TextDelta("Look.")]
    assert answer.stop_reason == "tool_use"
    assert answer.parts == (
        m.Thinking("Hm", "anthropic", {"type": "thinking", "signature": "c2ln"}),
        m.Thinking("", "anthropic", {"type": "redacted_thinking", "data": "ZW5j"}),
        m.Text("Look."),
        m.ToolCall("toolu_1", "read", {"path": "a"}),
        m.ToolCall("toolu_2", "list", {}),
    )


def test_counts_are_replaced_and_never_added_up() -> None:
    counted = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": None}
    last = {"output_tokens": 40, "input_tokens": None}
    _, answer = messages(
        {"type": "message_start", "message": {"usage": counted}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
    )
    assert answer.usage == m.Usage(9, 40, 5, 0)


def test_a_zero_takes_no_count_back() -> None:
    counted = {"input_tokens": 1000, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7}
    last = {"input_tokens": 0, "output_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    _, answer = messages(
        {"type": "message_start", "message": {"usage": counted}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
    )
    assert answer.usage == m.Usage(1000, 20, 5, 7)


def test_a_call_that_was_cut_off_keeps_its_raw_arguments() -> None:
    _, answer = messages(
        start(0, type="tool_use", id="toolu_1", name="write", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    assert answer.stop_reason == "max_tokens"
    assert answer.parts == (m.ToolCall("toolu_1", "write", {}, invalid='{"path": "a'),)


def test_a_refusal_without_a_word_shows_its_explanation() -> None:
    details = {"type": "refusal", "category": None, "explanation": "I may not."}
    shown, answer = messages({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}})
    assert shown == [TextDelta("I may not.")]
    assert (answer.stop_reason, answer.parts) == ("refusal", (m.Text("I may not."),))


@given(st.lists(st.text(min_size=1, max_size=5), max_size=8))
def test_the_answer_is_what_was_shown(pieces: list[str]) -> None:
    said = [delta(0, "text_delta", text=piece) for piece in pieces]
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    shown, answer = messages(start(0, type="text", text=""), *said, end)
    assert [piece.text for piece in shown] == pieces
    assert "".join(part.text for part in answer.parts if isinstance(part, m.Text)) == "".join(pieces)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", "again"),
        ("api_error", "again"),
        ("rate_limit_error", "again"),
        ("authentication_error", "auth"),
        ("invalid_request_error", "refused"),
    ],
)
def test_an_error_event_means_what_its_status_would(kind: str, expected: str) -> None:
    with pytest.raises(CallFailed) as caught:
        MessagesFold("anthropic").feed({"type": "error", "error": {"type": kind, "message": "no"}})
    assert verdict(caught.value) == expected


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def responses(*events: dict[str, Any], **response: Any) -> tuple[list[TextDelta | ThinkingDelta], Answered]:
    fold = ResponsesFold("openai")
    last = {"type": "response.completed", "response": response}
    shown = [shown for event in [*events, last] for shown in fold.feed(event)]
    assert fold.complete
    return shown, fold.answer()


def test_reasoning_is_kept_in_its_encrypted_form() -> None:
    summary = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "e"}
    shown, answer = responses(
        {"type": "response.reasoning_summary_part.added", "summary_index": 0},
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "One."},
        {"type": "response.reasoning_summary_part.added", "summary_index": 1},
        {"type": "response.reasoning_summary_text.delta", "summary_index": 1, "delta": "Two."},
        done(0, **item, status="completed", content=None),
    )
    assert "".join(piece.text for piece in shown) == "One.\n\nTwo."
    assert answer.parts == (m.Thinking("One.\n\nTwo.", "openai", item),)


def test_reasoning_without_that_is_never_sent_back() -> None:
    _, answer = responses(done(0, type="reasoning", id="rs_1", summary=[]))
    assert answer.parts == (m.Thinking("", "openai", {}),)


def test_items_stand_in_their_order_and_calls_use_the_calls_id() -> None:
    _, answer = responses(
        done(1, type="function_call", id="fc_1", call_id="call_1", name="read", arguments='{"path":"a"}'),
        done(0, type="message", content=[{"type": "output_text", "text": "Look."}]),
    )
    assert answer.parts == (m.Text("Look."), m.ToolCall("call_1", "read", {"path": "a"}))
    assert answer.stop_reason == "tool_use"


def test_the_final_response_serves_where_no_item_was_announced() -> None:
    _, answer = responses(output=[{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}])
    assert answer.parts == (m.Text("Hi"),)


def test_cached_tokens_are_not_counted_twice() -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    _, answer = responses(usage={"input_tokens": 100, "output_tokens": 7, "input_tokens_details": details})
    assert answer.usage == m.Usage(10, 7, 60, 30)
    assert answer.usage.prompt_tokens == 100


def test_an_overflow_reported_by_a_failed_response() -> None:
    error: dict[str, Any] = {"code": "context_length_exceeded", "message": "too much"}
    with pytest.raises(CallFailed) as caught:
        ResponsesFold("openai").feed({"type": "response.failed", "response": {"error": error}})
    assert verdict(caught.value) == "overflow"
