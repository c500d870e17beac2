"""The conversation that a background summary covers."""

from __future__ import annotations

from acp_agent.conversation.events import AssistantAnswered, ToolReturned
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, ToolResult
from acp_agent.conversation.views import CallView
from acp_agent.session.compact.order import before_open_calls
from support.logs import LogBuilder, is_legal


def test_a_summary_request_leaves_out_an_answer_with_running_calls() -> None:
    log = LogBuilder()
    log.prompt("Fix it.")
    log.step("I look.", calls=2)
    whole = log.context
    calls = (
        ToolCall("call_x", "read", {"path": "a.py"}),
        ToolCall("call_y", "read", {"path": "b.py"}),
    )
    log.add(
        AssistantAnswered(
            AssistantMessage(
                "msg_x", (Text("I look again."), *calls), "scripted/one", "tool_use"
            )
        )
    )
    log.add(
        ToolReturned(
            ToolResult("call_x", (Text("text"),)), CallView("Read a.py", "read")
        )
    )
    assert not is_legal(log.context.messages)
    assert before_open_calls(log.context).messages == whole.messages
    log.add(
        ToolReturned(
            ToolResult("call_y", (Text("text"),)), CallView("Read b.py", "read")
        )
    )
    assert before_open_calls(log.context) == log.context
