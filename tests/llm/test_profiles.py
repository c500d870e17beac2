"""What is known of models, and how much they are told to think."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from acp_agent.config.settings import ModelPrices, ModelSettings
from acp_agent.conversation.messages import JsonObject, Text, Usage, UserMessage
from acp_agent.llm import anthropic_wire, openai_responses_wire
from acp_agent.llm.profiles import DEFAULT_MAX_OUTPUT, DEFAULT_WINDOW, Prices, cost, profile
from acp_agent.llm.provider import ModelRequest


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-sonnet-4-5-20250929", 200_000),
        ("claude-sonnet-4-6", 1_000_000),
        ("anthropic/claude-opus-5.5", 1_000_000),
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("gpt-4.1-mini", 1_047_576),
        ("gpt-5-2025-08-07", 400_000),
        ("gpt-6.2-sol", 1_050_000),
        ("o3-mini", 200_000),
        ("gemini-3.9-flash", 1_048_576),
        ("qwen3:8b", DEFAULT_WINDOW),
    ],
)
def test_ids_find_their_family(model: str, window: int) -> None:
    assert profile(model).context_window == window


@pytest.mark.parametrize(
    ("model", "images", "megabytes"),
    [
        ("claude-haiku-4-5", 100, 32),
        ("claude-sonnet-4-5-20250929", 100, 32),
        ("claude-opus-4-6", 600, 32),
        ("anthropic/claude-sonnet-5.5", 600, 32),
        ("gpt-6.2-sol", 500, 50),
        ("o3-mini", 500, 50),
        ("gemini-3.8-flash", 3_600, 20),
        ("qwen3:8b", 20, 20),
    ],
)
def test_families_differ_in_the_images_and_bytes_of_a_request(model: str, images: int, megabytes: int) -> None:
    found = profile(model)
    assert (found.max_images, found.max_request_bytes) == (images, megabytes * 1_000_000)


def test_a_claude_named_for_its_window_of_a_million_has_it() -> None:
    extended, plain = profile("claude-sonnet-4-5[1m]"), profile("claude-sonnet-4-5")
    assert (plain.context_window, extended.context_window) == (200_000, 1_000_000)
    assert (extended.max_images, extended.prices, extended.thinking) == (600, plain.prices, plain.thinking)
    assert profile("qwen3[1m]").context_window == DEFAULT_WINDOW


def test_the_longest_prefix_wins() -> None:
    assert profile("gpt-5-mini-2025-08-07").prices == Prices(0.25, 0.025, 0.25, 2)


def test_nothing_is_made_up_about_an_unknown_model() -> None:
    unknown = profile("qwen3:8b")
    assert (unknown.prices, unknown.max_output_tokens, unknown.thinking) == (None, DEFAULT_MAX_OUTPUT, "none")
    assert unknown.priced(Usage(1, 2)).cost is None


def test_every_kind_of_token_has_its_price() -> None:
    usage = Usage(1_000_000, 2_000_000, 3_000_000, 4_000_000)
    assert cost(usage, Prices(1, 10, 100, 1_000)) == 1 + 30 + 400 + 2_000


def test_a_price_that_the_provider_told_is_kept() -> None:
    assert profile("gpt-4o").priced(Usage(1, 1, cost=0.5)).cost == 0.5


def test_the_user_knows_prices_and_limits_better_and_the_window_where_the_table_does_not() -> None:
    settings = ModelSettings(context_window=5_000, max_output_tokens=99, prices=ModelPrices(output=7))
    assert profile("qwen3:8b").with_settings(settings).context_window == 5_000
    changed = profile("gpt-4o").with_settings(settings)
    assert (changed.context_window, changed.max_output_tokens) == (128_000, 99)
    assert changed.prices == Prices(2.5, 1.25, 2.5, 7)


def test_prices_of_an_unknown_model_come_from_the_user() -> None:
    changed = profile("qwen3:8b").with_settings(ModelSettings(prices=ModelPrices(input=2, output=3)))
    assert changed.priced(Usage(1_000_000, 1_000_000, 1_000_000)).cost == 2 + 3 + 2


def thinking(model: str, level: str, limit: int = 32_000) -> JsonObject:
    request = ModelRequest(model, "", (UserMessage("u", (Text("x"),)),), (), limit, level)
    return anthropic_wire.thinking_options(request, profile(model))


def test_how_claude_is_told_to_think() -> None:
    models = "claude-3-5-sonnet-20241022", "claude-haiku-4-5", "claude-opus-4-7", "claude-sonnet-5-5", "claude-opus-5-5"
    levels = "", "off", "low", "high"
    assert {model: {level: thinking(model, level) for level in levels} for model in models} == snapshot(
        {
            "claude-3-5-sonnet-20241022": {"": {}, "off": {}, "low": {}, "high": {}},
            "claude-haiku-4-5": {
                "": {},
                "off": {},
                "low": {"thinking": {"type": "enabled", "budget_tokens": 4096}},
                "high": {"thinking": {"type": "enabled", "budget_tokens": 12288}},
            },
            "claude-opus-4-7": {
                "": {},
                "off": {},
                "low": {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
                "high": {
                    "thinking": {"type": "adaptive", "display": "summarized"},
                    "output_config": {"effort": "high"},
                },
            },
            "claude-sonnet-5-5": {
                "": {"thinking": {"type": "adaptive", "display": "summarized"}},
                "off": {"thinking": {"type": "disabled"}},
                "low": {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
                "high": {
                    "thinking": {"type": "adaptive", "display": "summarized"},
                    "output_config": {"effort": "high"},
                },
            },
            "claude-opus-5-5": {
                "": {"thinking": {"type": "adaptive", "display": "summarized"}},
                "off": {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
                "low": {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
                "high": {
                    "thinking": {"type": "adaptive", "display": "summarized"},
                    "output_config": {"effort": "high"},
                },
            },
        }
    )


def test_a_budget_leaves_room_for_the_answer() -> None:
    assert thinking("claude-haiku-4-5", "high", 8_000) == {"thinking": {"type": "enabled", "budget_tokens": 4_096}}
    assert thinking("claude-haiku-4-5", "high", 1_500) == {}


@pytest.mark.parametrize(
    ("model", "level", "effort"),
    [
        ("gpt-5", "off", "minimal"),
        ("gpt-5.5", "off", "none"),
        ("gpt-6.2-sol", "off", "low"),
        ("o3", "high", "high"),
        ("gpt-5", "", None),
    ],
)
def test_how_openai_is_told_to_think(model: str, level: str, effort: str | None) -> None:
    request = ModelRequest(model, "", (UserMessage("u", (Text("x"),)),), thought_level=level)
    body = openai_responses_wire.request_body(request, profile(model), "openai")
    assert body["reasoning"] == ({"summary": "auto"} | ({"effort": effort} if effort else {}))


def test_models_that_do_not_reason_are_not_told_to() -> None:
    request = ModelRequest("gpt-4o", "", (UserMessage("u", (Text("x"),)),), thought_level="high")
    body = openai_responses_wire.request_body(request, profile("gpt-4o"), "openai")
    assert "reasoning" not in body
    assert "include" not in body
