"""One conversation with everything in it, in the words of each API."""

from __future__ import annotations

from acp_agent.conversation import messages as m
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest, ToolDefinition
from support.adapters import wire_body

SIGNED = m.Thinking(
    "Look first.", "anthropic", {"type": "thinking", "signature": "c2ln"}
)
REDACTED = m.Thinking("", "anthropic", {"type": "redacted_thinking", "data": "ZW5j"})
REASONED = m.Thinking(
    "Plan.", "openai", {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}
)
GEMINI = m.Thinking(
    "", "google", {"extra_content": {"1": {"google": {"thought_signature": "sig"}}}}
)
PNG = m.Image("aWk=", "image/png")
READ = m.ToolCall("call_1", "read", {"path": "ä.py"})

MESSAGES: tuple[m.Message, ...] = (
    m.UserMessage("u1", (m.Text("Fix it."), m.Text("   "), PNG)),
    m.AssistantMessage(
        "a1",
        (
            SIGNED,
            REDACTED,
            REASONED,
            GEMINI,
            m.Text("Reading."),
            READ,
            m.ToolCall("call_2", "read", invalid="{nope"),
        ),
    ),
    m.ToolResult("call_1", (m.Text("x = 1"), PNG)),
    m.ToolResult("call_2", (), is_error=True),
    m.UserMessage("u2", (m.Text("And quickly."),)),
)
TOOLS = (ToolDefinition("read", "Reads a file.", {"type": "object"}),)
REQUEST = ModelRequest(
    "the-model", "You fix things.", MESSAGES, TOOLS, 4_096, "low", "sess_1"
)


def test_anthropic() -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aWk="},
    }
    first = [{"type": "text", "text": "x = 1"}, image]
    empty = [{"type": "text", "text": "(empty)"}]
    assert wire_body("anthropic", REQUEST, ModelProfile(thinking="adaptive")) == {
        "model": "the-model",
        "max_tokens": 4096,
        "system": [{"type": "text", "text": "You fix things.", **cached}],
        "tools": [
            {
                "name": "read",
                "description": "Reads a file.",
                "input_schema": {"type": "object"},
                **cached,
            }
        ],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Fix it."}, {**image, **cached}],
            },
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "thinking",
                        "signature": "c2ln",
                        "thinking": "Look first.",
                    },
                    {"type": "redacted_thinking", "data": "ZW5j"},
                    {"type": "text", "text": "Reading."},
                    {
                        "type": "tool_use",
                        "id": "call_1",
                        "name": "read",
                        "input": {"path": "ä.py"},
                    },
                    {"type": "tool_use", "id": "call_2", "name": "read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": first},
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_2",
                        "content": empty,
                        "is_error": True,
                    },
                    {"type": "text", "text": "And quickly.", **cached},
                ],
            },
        ],
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low"},
    }


def test_responses() -> None:
    image = {
        "type": "input_image",
        "image_url": "data:image/png;base64,aWk=",
        "detail": "auto",
    }
    first = [{"type": "input_text", "text": "x = 1"}, image]
    tool = {
        "name": "read",
        "description": "Reads a file.",
        "parameters": {"type": "object"},
    }
    assert wire_body("openai", REQUEST, ModelProfile(thinking="effort")) == {
        "model": "the-model",
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "Fix it."}, image],
            },
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "e"},
            {"role": "assistant", "content": "Reading."},
            {
                "type": "function_call",
                "call_id": "call_1",
                "name": "read",
                "arguments": '{"path":"ä.py"}',
            },
            {
                "type": "function_call",
                "call_id": "call_2",
                "name": "read",
                "arguments": "{nope",
            },
            {"type": "function_call_output", "call_id": "call_1", "output": first},
            {"type": "function_call_output", "call_id": "call_2", "output": "(empty)"},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "And quickly."}],
            },
        ],
        "max_output_tokens": 4096,
        "store": False,
        "instructions": "You fix things.",
        "tools": [{"type": "function", **tool, "strict": False}],
        "prompt_cache_key": "sess_1",
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto", "effort": "low"},
    }


def test_chat() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWk="}}
    tool = {
        "name": "read",
        "description": "Reads a file.",
        "parameters": {"type": "object"},
    }
    first = {"name": "read", "arguments": '{"path":"ä.py"}'}
    second = {"name": "read", "arguments": "{nope"}
    signature = {"extra_content": {"google": {"thought_signature": "sig"}}}
    assert wire_body("chat", REQUEST, ModelProfile(thinking="effort"), "google") == {
        "model": "the-model",
        "messages": [
            {"role": "system", "content": "You fix things."},
            {"role": "user", "content": [{"type": "text", "text": "Fix it."}, image]},
            {
                "role": "assistant",
                "content": "Reading.",
                "tool_calls": [
                    {"id": "t8wLHgKZJ", "type": "function", "function": first},
                    {
                        "id": "8q7gsYoLD",
                        "type": "function",
                        "function": second,
                        **signature,
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "t8wLHgKZJ", "content": "x = 1"},
            {"role": "tool", "tool_call_id": "8q7gsYoLD", "content": "(empty)"},
            {
                "role": "user",
                "content": [image, {"type": "text", "text": "And quickly."}],
            },
        ],
        "max_tokens": 4096,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": tool}],
        "reasoning_effort": "low",
    }
