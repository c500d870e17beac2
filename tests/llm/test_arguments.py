"""The arguments of tool calls, as streams bring them and as they are sent back."""

from __future__ import annotations

import json

import pytest

from acp_agent.conversation.messages import JsonObject, ToolCall
from acp_agent.llm.anthropic_fold import MessagesFold
from acp_agent.llm.arguments import arguments_fault, arguments_text, tool_call
from acp_agent.llm.openai_chat_wire import ChatFold
from acp_agent.llm.openai_responses_wire import ResponsesFold
from acp_agent.llm.provider import Answered
from support.adapters import DIALECTS


def at_once(dialect: str, arguments: JsonObject) -> Answered:
    """An answer whose call came whole, as gateways and local servers send it."""
    fold: MessagesFold | ResponsesFold | ChatFold
    match dialect:
        case "anthropic":
            fold = MessagesFold("anthropic")
            block = {"type": "tool_use", "id": "c", "name": "write", "input": arguments}
            fold.feed({"type": "content_block_start", "index": 0, "content_block": block})
        case "openai":
            fold = ResponsesFold("openai")
            item: JsonObject = {
                "type": "function_call",
                "call_id": "c",
                "name": "write",
                "arguments": json.dumps(arguments),
            }
            fold.feed({"type": "response.output_item.done", "output_index": 0, "item": item})
        case _:
            fold = ChatFold("local")
            function = {"name": "write", "arguments": arguments}
            fold.feed({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}]})
    return fold.answer()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_found_wherever_a_server_puts_it(dialect: str, number: float) -> None:
    [call] = at_once(dialect, {"lines": [1, {"deep": number}]}).parts
    assert isinstance(call, ToolCall)
    assert call.arguments == {}
    assert "is no JSON" in arguments_fault(call.invalid or "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path": "a.tx', "Unterminated string"),
        ('["a.txt"]', "JSON of another kind"),
        ("null", "JSON of another kind"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": [-1e999]}', "-1e999 is out of the range of numbers"),
        ('{"a":' * 100_000, "nested too deeply"),
        (f'{{"a": {"9" * 5_000}}}', "4300 digits"),
    ],
)
def test_what_is_wrong_with_arguments_is_told_and_nothing_of_them_is_sent_back(arguments: str, words: str) -> None:
    call = tool_call("c", "write", arguments)
    assert call.invalid == arguments
    assert words in arguments_fault(arguments)
    assert arguments_text(call) == "{}"


def test_a_call_of_an_earlier_log_with_such_a_number_is_sent_back_empty() -> None:
    assert arguments_text(ToolCall("c", "write", {"a": [{"b": float("nan")}]})) == "{}"
    assert arguments_text(ToolCall("c", "write", {"a": [{"b": 1.5}]})) == '{"a":[{"b":1.5}]}'
