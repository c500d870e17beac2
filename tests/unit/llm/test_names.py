"""Names of models from their ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.llm.names import display_name


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-haiku-4-5", "Claude Haiku 4.5"),
        ("claude-haiku-4-5-20251001", "Claude Haiku 4.5"),
        ("claude-3-5-sonnet-20241022", "Claude 3.5 Sonnet"),
        ("claude-opus-5", "Claude Opus 5"),
        ("gpt-6.2-sol", "GPT-6.2 Sol"),
        ("gpt-5.1-codex-mini", "GPT-5.1 Codex Mini"),
        ("gpt-4o", "GPT-4o"),
        ("gpt-5-2025-08-07", "GPT-5"),
        ("gemini-2.5-flash-lite", "Gemini 2.5 Flash Lite"),
        ("grok-4-fast", "Grok 4 Fast"),
        ("deepseek-chat", "DeepSeek Chat"),
        ("qwen3:8b", "qwen3:8b"),
        ("anthropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("claude-opus-4@20250514", "claude-opus-4@20250514"),
        ("claude", "claude"),
        ("", ""),
    ],
)
def test_a_model_has_the_name_that_its_maker_gives_it_and_an_unknown_one_its_id(
    model: str, name: str
) -> None:
    assert display_name(model) == name


@given(st.text(alphabet="abcgptclaude-0123456789.:/@ \n", max_size=40))
def test_any_id_has_a_name_on_one_line_or_stays_as_it_is(model: str) -> None:
    name = display_name(model)
    assert name == model or (name.strip() == name and "\n" not in name)
