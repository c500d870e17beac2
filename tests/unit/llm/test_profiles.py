"""What is known of models, and how much they are told to think."""

from __future__ import annotations

import pytest

from acp_agent.conversation.messages import JsonObject, Text, Usage, UserMessage
from acp_agent.llm.profiles import DEFAULT_WINDOW, ModelProfile, Prices, profile
from acp_agent.llm.provider import ModelRequest
from support.adapters import wire_body


@pytest.mark.parametrize(
    ("model", "window", "images", "megabytes"),
    [
        ("claude-sonnet-4-5-20250929", 200_000, 100, 32),
        ("anthropic/claude-opus-5.5", 1_000_000, 600, 32),
        ("gpt-5-mini-2025-08-07", 400_000, 500, 50),
        ("gpt-6.2-sol", 1_050_000, 500, 50),
        ("gemini-3.9-flash", 1_048_576, 3_600, 20),
        ("qwen3:8b", DEFAULT_WINDOW, 20, 20),
    ],
)
def test_ids_find_their_family(
    model: str, window: int, images: int, megabytes: int
) -> None:
    found = profile(model)
    assert found.context_window == window
    assert (found.max_images, found.max_request_bytes) == (
        images,
        megabytes * 1_000_000,
    )


def test_every_kind_of_token_has_its_price() -> None:
    usage = Usage(1_000_000, 2_000_000, 3_000_000, 4_000_000)
    assert (
        ModelProfile(prices=Prices(1, 10, 100, 1_000)).priced(usage).cost
        == 1 + 30 + 400 + 2_000
    )


def thinking(model: str, level: str) -> JsonObject:
    request = ModelRequest(
        model, "", (UserMessage("u", (Text("x"),)),), (), 64_000, level
    )
    body: JsonObject = wire_body("anthropic", request, profile(model))
    return {key: body[key] for key in ("thinking", "output_config") if key in body}


SHOWN = {"type": "adaptive", "display": "summarized"}
LOW, HIGH = (
    {"thinking": SHOWN, "output_config": {"effort": effort}}
    for effort in ("low", "high")
)
CHECKED = SHOWN | {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def with_effort(effort: str) -> object:
    return {"thinking": CHECKED, "output_config": {"effort": effort}}


TOLD: dict[str, list[object]] = {
    "claude-untold": [{}, {}, {}, {}],
    "claude-haiku-4-5": [
        {},
        {},
        {"thinking": {"type": "enabled", "budget_tokens": 4_096}},
        {"thinking": {"type": "enabled", "budget_tokens": 24_576}},
    ],
    "claude-opus-4-7": [{}, {}, LOW, HIGH],
    "claude-opus-5": [
        {"thinking": SHOWN},
        {"thinking": {"type": "disabled"}},
        LOW,
        HIGH,
    ],
    "claude-haiku-5-5": [
        {"thinking": CHECKED},
        {"thinking": {"type": "disabled"}},
        with_effort("low"),
        with_effort("high"),
    ],
    "claude-sonnet-5-5": [
        {"thinking": CHECKED},
        {"thinking": {"type": "between_tools"}},
        with_effort("low"),
        with_effort("high"),
    ],
    "claude-opus-5-5": [
        {"thinking": CHECKED},
        with_effort("low"),
        with_effort("low"),
        with_effort("high"),
    ],
}
"""For the levels "", off, low and high."""


@pytest.mark.parametrize("model", TOLD)
def test_how_claude_is_told_to_think(model: str) -> None:
    assert [thinking(model, level) for level in ("", "off", "low", "high")] == TOLD[
        model
    ]


@pytest.mark.parametrize(
    ("model", "level", "effort"),
    [
        ("gpt-5", "off", "minimal"),
        ("gpt-5.5", "off", "none"),
        ("gpt-6.2-sol", "off", "low"),
        ("gpt-5.1-codex", "off", "low"),
        ("gpt-5", "", None),
    ],
)
def test_how_openai_is_told_to_think(
    model: str, level: str, effort: str | None
) -> None:
    request = ModelRequest(
        model, "", (UserMessage("u", (Text("x"),)),), thought_level=level
    )
    body = wire_body("openai", request, profile(model))
    assert body["reasoning"] == (
        {"summary": "auto"} | ({"effort": effort} if effort else {})
    )
