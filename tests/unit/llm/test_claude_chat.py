"""Claude through Chat Completions, as LiteLLM and OpenRouter serve it: cache marks and
thinking.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile, profile
from acp_agent.llm.provider import Answered
from support.adapters import fold_of, request

MARK = {"type": "ephemeral"}
CALL = m.ToolCall("call_1", "read", {"path": "a.txt"}, provider_id="toolu_1")
BLOCKS: list[Any] = [
    {"type": "thinking", "thinking": "Hm", "index": 0},
    {"type": "thinking", "thinking": ".", "index": 0},
    {"type": "thinking", "thinking": "", "signature": "sig", "index": 0},
    {"type": "redacted_thinking", "data": "d", "index": 1},
]
"""As LiteLLM streams them."""


def body(model: str, *messages: m.Message, name: str = "gateway", **more: Any) -> Any:
    known: ModelProfile = more.pop("profile", profile(model))
    refused = more.pop("refused", frozenset())
    used = ChatAdapter(Endpoint(name, "openai-chat", "http://localhost/v1"))
    return json.loads(
        used.call(request(*messages, model=model, **more), known, refused, None).content
    )


def said(text: str, number: int = 1) -> m.UserMessage:
    return m.UserMessage(f"u{number}", (m.Text(text),))


HISTORY = (
    said("One"),
    m.AssistantMessage("a1", (CALL,), "gateway/claude-opus-5"),
    m.ToolResult("call_1", (m.Text("1\tone"),)),
    m.AssistantMessage("a2", (m.Text("Yes."),), "gateway/claude-opus-5"),
    said("Two", 2),
)


def marked(sent: Any) -> list[str]:
    """Return where a request has cache marks."""
    found: list[str] = []
    for at, message in enumerate(sent["messages"]):
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if "cache_control" in part:
                assert part["cache_control"] == MARK
                found.append(f"{at} {message['role']} {part['text']}")
    return found


@pytest.mark.parametrize("name", ["gateway", "openrouter"])
@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-5",
        "anthropic/claude-sonnet-4.5",
        "bedrock/us.anthropic.claude-sonnet-4-5-v1:0",
    ],
)
async def test_the_system_prompt_and_the_two_newest_messages_of_the_user_are_marked_for_the_cache(
    model: str, name: str
) -> None:
    assert marked(body(model, *HISTORY, name=name)) == [
        "0 system Be brief.",
        "3 tool 1\tone",
        "5 user Two",
    ]
    assert marked(body(model, *HISTORY[:3], name=name)) == [
        "0 system Be brief.",
        "1 user One",
        "3 tool 1\tone",
    ]


def test_the_marks_move_and_nothing_else_of_a_request_changes() -> None:
    def without_marks(sent: Any) -> list[Any]:
        plain: list[Any] = []
        for message in sent["messages"]:
            content = message.get("content")
            if isinstance(content, list):
                content = "".join(part["text"] for part in content)
            plain.append({**message, "content": content})
        return plain

    before, after = (
        without_marks(body("claude-opus-5", *each)) for each in (HISTORY[:3], HISTORY)
    )
    assert after[: len(before)] == before


def test_other_models_and_servers_that_refuse_marks_get_text() -> None:
    assert marked(body("gpt-oss-120b", *HISTORY)) == []
    sent = body("claude-opus-5", *HISTORY, refused=frozenset({"cache_control"}))
    assert marked(sent) == []
    assert [
        message["content"] for message in sent["messages"] if message["role"] == "tool"
    ] == ["1\tone"]


THINKING: dict[tuple[str, str], dict[str, Any]] = {
    ("claude-opus-5", ""): {"thinking": {"type": "adaptive", "display": "summarized"}},
    ("claude-opus-5", "high"): {"reasoning_effort": "high"},
    ("claude-opus-5", "off"): {"thinking": {"type": "disabled"}},
    ("claude-opus-5-5", "off"): {"reasoning_effort": "low"},
    ("claude-opus-4-6", ""): {},
    ("claude-opus-4-6", "low"): {"reasoning_effort": "low"},
    ("claude-sonnet-4-5", ""): {},
    ("claude-sonnet-4-5", "off"): {},
    ("claude-sonnet-4-5", "medium"): {
        "thinking": {"type": "enabled", "budget_tokens": 12_288}
    },
    ("claude-3-haiku", "high"): {},
}


@pytest.mark.parametrize(("model", "level"), THINKING)
def test_the_level_of_thinking_is_what_it_is_at_anthropic(
    model: str, level: str
) -> None:
    sent = body(model, thought_level=level, max_output_tokens=32_000)
    members = {
        key: sent[key]
        for key in ("thinking", "reasoning_effort", "reasoning")
        if key in sent
    }
    assert members == THINKING[model, level]


def test_openrouter_is_told_an_effort() -> None:
    sent = body("anthropic/claude-opus-5", thought_level="high", name="openrouter")
    assert sent["reasoning"] == {"effort": "high"}
    assert "thinking" not in sent


def test_a_budget_waits_for_the_end_of_a_step_that_began_without_thinking() -> None:
    sent = body(
        "claude-sonnet-4-5",
        *HISTORY[:3],
        thought_level="high",
        max_output_tokens=64_000,
    )
    assert "thinking" not in sent


def test_thinking_blocks_are_put_together_and_go_back_with_their_signatures() -> None:
    fold = fold_of("chat")
    each: Any
    for each in BLOCKS:
        list(
            fold.feed(
                {
                    "choices": [
                        {
                            "delta": {
                                "reasoning_content": each.get("thinking"),
                                "thinking_blocks": [each],
                            }
                        }
                    ]
                }
            )
        )
    function: m.JsonObject = {"name": "read", "arguments": "{}"}
    list(
        fold.feed(
            {
                "choices": [
                    {
                        "delta": {
                            "tool_calls": [
                                {"index": 0, "id": "t", "function": function}
                            ]
                        }
                    }
                ]
            }
        )
    )
    list(fold.feed({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}))
    answer = fold.answer()
    assert isinstance(answer, Answered)
    thought = answer.parts[0]
    assert isinstance(thought, m.Thinking)
    assert thought.text == "Hm."
    kept = m.AssistantMessage(
        "a1",
        (m.Thinking(thought.text, "gateway", thought.data), CALL),
        "gateway/claude-opus-5",
    )
    sent = body(
        "claude-opus-5", said("One"), kept, m.ToolResult("call_1", (m.Text("Yes."),))
    )
    assert sent["messages"][2]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    assert "reasoning_content" not in sent["messages"][2]
