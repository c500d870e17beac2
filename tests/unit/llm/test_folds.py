"""Streams of Anthropic's and OpenAI's own APIs, folded."""

from __future__ import annotations

from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.llm.provider import Answered, TextDelta, ThinkingDelta
from support.adapters import fold_of


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": kind, **fields},
    }


def messages(
    *events: dict[str, Any],
) -> tuple[list[TextDelta | ThinkingDelta], Answered]:
    fold = fold_of("anthropic")
    shown = [
        shown
        for event in [*events, {"type": "message_stop"}]
        for shown in fold.feed(event)
    ]
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


@pytest.mark.parametrize("unknown", [0, None])
def test_counts_are_replaced_and_not_added_up_nor_taken_back_by_one_that_is_not_known(
    unknown: int | None,
) -> None:
    counted = {
        "input_tokens": 9,
        "output_tokens": 1,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": None,
    }
    last = {
        "output_tokens": 40,
        "input_tokens": unknown,
        "cache_read_input_tokens": unknown,
    }
    _, answer = messages(
        {"type": "message_start", "message": {"usage": counted}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
    )
    assert answer.usage == m.Usage(9, 40, 5, 0)


def test_a_call_that_was_cut_off_keeps_its_raw_arguments() -> None:
    _, answer = messages(
        start(0, type="tool_use", id="toolu_1", name="write", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
    )
    assert answer.stop_reason == "max_tokens"
    assert answer.parts == (m.ToolCall("toolu_1", "write", {}, invalid='{"path": "a'),)


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def responses(
    *events: dict[str, Any], **response: Any
) -> tuple[list[TextDelta | ThinkingDelta], Answered]:
    fold = fold_of("openai")
    last = {"type": "response.completed", "response": response}
    shown = [shown for event in [*events, last] for shown in fold.feed(event)]
    assert fold.complete
    return shown, fold.answer()


def test_reasoning_is_kept_in_its_encrypted_form() -> None:
    summary = [
        {"type": "summary_text", "text": "One."},
        {"type": "summary_text", "text": "Two."},
    ]
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": summary,
        "encrypted_content": "e",
    }
    shown, answer = responses(
        {"type": "response.reasoning_summary_part.added", "summary_index": 0},
        {
            "type": "response.reasoning_summary_text.delta",
            "summary_index": 0,
            "delta": "One.",
        },
        {"type": "response.reasoning_summary_part.added", "summary_index": 1},
        {
            "type": "response.reasoning_summary_text.delta",
            "summary_index": 1,
            "delta": "Two.",
        },
        done(0, **item, status="completed", content=None),
    )
    assert "".join(piece.text for piece in shown) == "One.\n\nTwo."
    assert answer.parts == (m.Thinking("One.\n\nTwo.", "openai", item),)


def test_items_stand_in_their_order_and_calls_use_the_calls_id() -> None:
    _, answer = responses(
        done(
            1,
            type="function_call",
            id="fc_1",
            call_id="call_1",
            name="read",
            arguments='{"path":"a"}',
        ),
        done(0, type="message", content=[{"type": "output_text", "text": "Look."}]),
    )
    assert answer.parts == (
        m.Text("Look."),
        m.ToolCall("call_1", "read", {"path": "a"}),
    )
    assert answer.stop_reason == "tool_use"


def test_cached_tokens_are_not_counted_twice() -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    _, answer = responses(
        usage={"input_tokens": 100, "output_tokens": 7, "input_tokens_details": details}
    )
    assert answer.usage == m.Usage(10, 7, 60, 30)
    assert answer.usage.prompt_tokens == 100
