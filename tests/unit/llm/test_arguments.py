"""The arguments of tool calls, as streams bring them and as they are sent back."""

from __future__ import annotations

from typing import Any

import pytest

from acp_agent.conversation.messages import ToolCall
from acp_agent.llm.parts import arguments_fault, arguments_text, tool_call
from acp_agent.llm.provider import Answered
from support.adapters import DIALECTS, adapter, encoded, outcome, request
from support.http_server import Exchange, http_server

BEGUN: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {
            "type": "message_start",
            "message": {"usage": {"input_tokens": 9, "output_tokens": 1}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {
                "type": "tool_use",
                "id": "c",
                "name": "write",
                "input": {},
            },
        },
    ],
    "openai": [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {
                "type": "function_call",
                "call_id": "c",
                "name": "write",
                "arguments": "",
            },
        }
    ],
    "chat": [
        {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [
                            {"index": 0, "id": "c", "function": {"name": "write"}}
                        ]
                    }
                }
            ]
        }
    ],
}
"""A stream as far as the name of a call."""


def more(dialect: str, text: str) -> dict[str, Any]:
    """An event with more of the call's arguments."""
    match dialect:
        case "anthropic":
            delta = {"type": "input_json_delta", "partial_json": text}
            return {"type": "content_block_delta", "index": 0, "delta": delta}
        case "openai":
            return {
                "type": "response.function_call_arguments.delta",
                "output_index": 0,
                "delta": text,
            }
        case _:
            return {
                "choices": [
                    {
                        "delta": {
                            "tool_calls": [
                                {"index": 0, "function": {"arguments": text}}
                            ]
                        }
                    }
                ]
            }


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_of_arguments_without_an_end_is_closed_and_they_are_dropped(
    dialect: str,
) -> None:
    sent = 0
    piece = encoded([more(dialect, "x" * 65_536)])

    async def app(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.start()
        await exchange.send(encoded(BEGUN[dialect]))
        while True:
            await exchange.send(piece)
            sent += len(piece)

    async with http_server(app) as url:
        seen, error = await outcome(adapter(dialect, url), request())
    assert error is None
    assert isinstance(seen[-1], Answered)
    [call] = seen[-1].parts
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments, seen[-1].stop_reason) == (
        "write",
        {},
        "tool_use",
    )
    assert "longer than 1,048,576 characters" in arguments_fault(call.invalid or "")
    assert len(call.invalid or "") < 100
    assert seen[-1].usage.total_tokens > 0
    assert sent < 32 * 1024 * 1024  # what the sockets hold, and no more


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path": "a.tx', "Unterminated string"),
        ('["a.txt"]', "another kind of JSON value"),
        ("null", "another kind of JSON value"),
        (f'{{"a": [{"[]," * 40_000} 0]}}', "more than 20,000 values"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": [-1e999]}', "-1e999 is out of the range of numbers"),
        ('{"a":' * 100_000, "nested too deeply"),
        (f'{{"a": {"9" * 5_000}}}', "4300 digits"),
    ],
)
def test_what_is_wrong_with_arguments_is_told_and_nothing_of_them_is_sent_back(
    arguments: str, words: str
) -> None:
    call = tool_call("c", "write", arguments)
    assert call.invalid == arguments
    assert words in arguments_fault(arguments)
    assert arguments_text(call) == "{}"


def test_a_call_of_an_earlier_log_with_such_a_number_is_sent_back_empty() -> None:
    assert arguments_text(ToolCall("c", "write", {"a": [{"b": float("nan")}]})) == "{}"
    assert (
        arguments_text(ToolCall("c", "write", {"a": [{"b": 1.5}]}))
        == '{"a":[{"b":1.5}]}'
    )
