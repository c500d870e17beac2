"""OpenRouter's `reasoning_details`: merged from the fragments of a stream, and sent
back unchanged.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from acp_agent.conversation import messages as m
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.adapters.encoding import ModelCall
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest, ThinkingDelta

CLAUDE = "anthropic-claude-v1"
GPT = "openai-responses-v1"
GEMINI = "google-gemini-v1"


def api(
    name: str = "openrouter", base_url: str = "https://openrouter.ai/api/v1"
) -> ChatAdapter:
    return ChatAdapter(Endpoint(name, "openai-chat", base_url))


def text(value: str | None, **more: Any) -> dict[str, Any]:
    return {
        "type": "reasoning.text",
        "text": value,
        "format": CLAUDE,
        "index": 0,
        **more,
    }


def summary(value: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "reasoning.summary",
        "summary": value,
        "format": GPT,
        "index": 0,
        **more,
    }


def encrypted(value: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "reasoning.encrypted",
        "data": value,
        "format": GPT,
        "index": 0,
        **more,
    }


def folded(*deltas: dict[str, Any]) -> tuple[tuple[m.AssistantPart, ...], str]:
    """The parts of an answer, and the reasoning that was shown of it."""
    fold = api().fold(ModelCall("", {}))
    shown = ""
    for delta in [*deltas, {}]:
        finish = None if delta else "stop"
        for event in fold.feed(
            {"choices": [{"delta": delta, "finish_reason": finish}]}
        ):
            shown += event.text if isinstance(event, ThinkingDelta) else ""
    return fold.answer().parts, shown


def details(*fragments: dict[str, Any]) -> list[Any]:
    """The entries that remain of fragments."""
    parts, _ = folded(*({"reasoning_details": [fragment]} for fragment in fragments))
    assert isinstance(parts[0], m.Thinking)
    found = parts[0].data["reasoning_details"]
    assert isinstance(found, list)
    return found


def test_fragments_of_a_text_become_one_entry_with_the_signature_that_comes_last() -> (
    None
):
    merged = details(
        text("So "), text("then"), text(".", signature=None), text("", signature="sig")
    )
    assert merged == [text("So then.", signature="sig")]


def test_a_signature_without_a_text_joins_the_text_that_it_signs() -> None:
    last = {"type": "reasoning.text", "signature": "sig", "format": CLAUDE, "index": 0}
    assert details(text("So."), last) == [text("So.", signature="sig")]


def test_a_signature_closes_an_entry() -> None:
    merged = details(
        text("One."), text("", signature="s1"), text("Two."), text("", signature="s2")
    )
    assert merged == [text("One.", signature="s1"), text("Two.", signature="s2")]


def test_fragments_of_summaries_become_one_entry_each_by_index() -> None:
    merged = details(
        summary("**A"), summary("**"), summary("B", index=1), summary("C", index=1)
    )
    assert merged == [summary("**A**"), summary("BC", index=1)]


def test_an_id_tells_entries_apart_and_one_that_comes_later_is_filled_in() -> None:
    assert details(summary("A", id="r1"), summary("B", id="r2")) == [
        summary("A", id="r1"),
        summary("B", id="r2"),
    ]
    assert details(
        summary("A", id=None), summary("B", id="r1"), summary("C", id=None)
    ) == [summary("ABC", id="r1")]


def test_encrypted_entries_and_unknown_ones_are_never_merged() -> None:
    other = {"type": "reasoning.server_tool_call", "id": "t", "index": 0}
    fragments = [
        encrypted("e1", id="c1"),
        encrypted("e1", id="c1"),
        encrypted("e2"),
        other,
        other,
    ]
    assert details(*fragments) == fragments


def test_only_neighbours_are_merged() -> None:
    assert details(text("A"), encrypted("e"), text("B")) == [
        text("A"),
        encrypted("e"),
        text("B"),
    ]


def test_reasoning_that_comes_twice_is_shown_once() -> None:
    parts, shown = folded(
        {"reasoning": "So.", "reasoning_details": [text("So.")]},
        {"reasoning_details": [text(" Then.")]},
        {"content": "Yes."},
    )
    assert shown == "So. Then."
    assert parts[0] == m.Thinking(
        "So. Then.",
        "openrouter",
        {"key": "reasoning", "reasoning_details": [text("So. Then.")]},
    )


def test_encrypted_reasoning_alone_is_kept() -> None:
    parts, shown = folded({"reasoning_details": [encrypted("e")]}, {"content": "Yes."})
    assert shown == ""
    assert parts[0] == m.Thinking(
        "", "openrouter", {"reasoning_details": [encrypted("e")]}
    )


def sent(
    model: str, *answers: m.AssistantMessage, used: ChatAdapter | None = None
) -> list[Any]:
    used = used or api()
    hello = m.UserMessage("u", (m.Text("Hi"),))
    messages: list[m.Message] = [hello]
    for answer in answers:
        messages += [
            answer,
            *(m.ToolResult(call.id, (m.Text("Done."),)) for call in answer.tool_calls),
        ]
    call = used.call(
        ModelRequest(model, "", (*messages, hello)), ModelProfile(), frozenset(), None
    )
    return [
        each
        for each in json.loads(call.content)["messages"]
        if each["role"] == "assistant"
    ]


def made_by(
    model: str,
    *entries: dict[str, Any],
    key: str = "reasoning",
    name: str = "openrouter",
) -> Any:
    thinking = m.Thinking("So.", name, {"key": key, "reasoning_details": list(entries)})
    return m.AssistantMessage(
        "a", (thinking, m.ToolCall("c", "read")), f"{name}/{model}"
    )


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-sonnet-5.5",
        "openai/gpt-6.2-sol",
        "google/gemini-3.8-flash",
        "google/gemini-2.5-pro",
        "x/y",
    ],
)
def test_the_merged_entries_go_back_unchanged_and_alone_whatever_the_model(
    model: str,
) -> None:
    entries = [text("So.", signature="sig", unknown=[1]), encrypted("e", id="c1")]
    [wire] = sent(model, made_by(model, *entries))
    assert wire["reasoning_details"] == entries
    assert set(wire) == {"role", "tool_calls", "reasoning_details"}
    assert "extra_content" not in wire["tool_calls"][0]


@pytest.mark.parametrize("model", ["deepseek/deepseek-v4-pro", "moonshotai/kimi-k2.6"])
def test_deepseek_and_kimi_get_the_text_as_reasoning_content_as_well(
    model: str,
) -> None:
    [wire] = sent(model, made_by(model, text("So.")))
    assert wire["reasoning_details"] == [text("So.")]
    assert wire["reasoning_content"] == "So."
    assert "reasoning" not in wire


def test_kimi_gets_the_text_of_an_answer_without_calls_as_well() -> None:
    thinking = m.Thinking("So.", "openrouter", {"key": "reasoning"})
    made = m.AssistantMessage(
        "a", (thinking, m.Text("Yes.")), "openrouter/moonshotai/kimi-k2.6"
    )
    [wire] = sent("moonshotai/kimi-k2.6", made)
    assert wire == {"role": "assistant", "content": "Yes.", "reasoning_content": "So."}


def test_a_model_does_not_get_the_entries_of_another_maker() -> None:
    made = made_by("z-ai/glm-5", text("So."))
    assert "reasoning_details" not in sent("anthropic/claude-sonnet-5.5", made)[0]


def test_a_model_does_not_get_the_entries_of_a_model_that_it_cannot_read() -> None:
    newer = made_by("anthropic/claude-opus-5.5", text("So.", signature="sig"))
    assert "reasoning_details" not in sent("anthropic/claude-sonnet-5.5", newer)[0]
    older = made_by("anthropic/claude-sonnet-5.5", text("So.", signature="sig"))
    assert "reasoning_details" in sent("anthropic/claude-opus-5.5", older)[0]


def test_openrouter_is_known_by_its_host_as_well() -> None:
    used = api("router")
    [wire] = sent(
        "qwen/qwen3.5", made_by("qwen/qwen3.5", text("So."), name="router"), used=used
    )
    assert set(wire) == {"role", "tool_calls", "reasoning_details"}
