"""How long providers keep a prompt in their cache, by server, model and option."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import acp_agent.llm.caches as caches_module
from acp_agent.config.settings import ProviderKind
from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.llm.adapters.adapter import Adapter
from acp_agent.llm.adapters.anthropic import AnthropicAdapter
from acp_agent.llm.adapters.chat import ChatAdapter
from acp_agent.llm.adapters.responses import ResponsesAdapter
from acp_agent.llm.caches import CacheLife, cache_life
from acp_agent.llm.places import Endpoint
from acp_agent.llm.profiles import ModelProfile
from acp_agent.llm.provider import ModelRequest, ToolDefinition

TABLE = Path(caches_module.__file__).with_name("caches.csv")
MINUTES_5 = 300
MINUTES_30 = 1_800
HOUR = 3_600
DAY = 86_400


def rows() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def at(host: str, kind: ProviderKind = "openai-chat", name: str = "work") -> Endpoint:
    return Endpoint(name, kind, f"https://{host}/v1")


@pytest.mark.parametrize(
    "row", rows(), ids=lambda row: f"{row['host']} {row['models']} {row['option']}"
)
def test_each_row_is_read_as_it_stands_and_nothing_is_gone_before_it_may_be(
    row: dict[str, str],
) -> None:
    life = cache_life(
        at(f"eu.{row['host']}"), row["models"].removesuffix("+"), row["option"]
    )
    assert life == CacheLife(int(row["kept"]), int(row["gone"]))
    assert 0 < int(row["kept"]) <= int(row["gone"])


@pytest.mark.parametrize(
    ("endpoint", "model", "option", "kept"),
    [
        (at("api.anthropic.com", "anthropic"), "claude-sonnet-5-5", "", MINUTES_5),
        (at("api.anthropic.com", "anthropic"), "claude-sonnet-5-5", "1h", HOUR),
        (
            at("gateway.example", "anthropic", "anthropic"),
            "claude-opus-5",
            "",
            MINUTES_5,
        ),
        (
            at("bedrock-runtime.eu-west-1.amazonaws.com", "anthropic"),
            "eu.anthropic.claude-opus-5",
            "",
            MINUTES_5,
        ),
        (at("openrouter.ai"), "anthropic/claude-sonnet-5.5", "", MINUTES_5),
        (at("api.openai.com", "openai-responses"), "gpt-5.6-luna", "", MINUTES_30),
        (at("api.openai.com", "openai-responses"), "gpt-6.2-sol", "", MINUTES_30),
        (at("api.openai.com", "openai-responses"), "gpt-10", "", MINUTES_30),
        (at("api.openai.com", "openai-responses"), "gpt-5.5", "", DAY),
        (at("api.openai.com", "openai-responses"), "gpt-5.2", "", None),
        (at("api.openai.com", "openai-responses"), "gpt-5.2", "in_memory", MINUTES_5),
        (at("api.openai.com", "openai-responses"), "gpt-5.2", "24h", DAY),
        (at("api.openai.com", "openai-responses"), "o3", "", None),
        (at("openrouter.ai"), "openai/gpt-6.2-sol", "", None),
        (at("openrouter.ai"), "deepseek/deepseek-v4", "", None),
        (at("api.deepseek.com"), "deepseek-v4", "", None),
        (at("generativelanguage.googleapis.com"), "gemini-3.8-flash", "", None),
        (at("gateway.example", "anthropic"), "claude-opus-5", "", None),
        (at("localhost:11434"), "qwen3:8b", "", None),
        (at("api.anthropic.com.example"), "claude-opus-5", "", None),
    ],
)
def test_a_cache_of_an_unknown_server_or_model_may_live_for_any_time(
    endpoint: Endpoint, model: str, option: str, kept: int | None
) -> None:
    life = cache_life(endpoint, model, option)
    assert (life and life.kept) == kept


@pytest.mark.parametrize(
    ("adapter", "host"),
    [
        (AnthropicAdapter(at("api.anthropic.com", "anthropic")), "api.anthropic.com"),
        (ChatAdapter(at("openrouter.ai")), "openrouter.ai"),
    ],
)
def test_requests_say_the_option_by_which_their_cache_is_looked_up(
    adapter: Adapter, host: str
) -> None:
    tools = (ToolDefinition("read", "Reads.", {"type": "object"}),)
    request = ModelRequest(
        "claude-opus-5", "Be brief.", (UserMessage("u", (Text("Hello."),)),), tools
    )
    marks: list[object] = []

    def look(value: object) -> None:
        if isinstance(value, dict):
            marks.extend(item for key, item in value.items() if key == "cache_control")
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    look(adapter.call(request, ModelProfile(), frozenset(), None).body)
    assert marks
    assert all(
        isinstance(mark, dict) and mark.get("ttl", "") == adapter.cache_option
        for mark in marks
    )
    assert adapter.rules("claude-opus-5").cache == CacheLife(MINUTES_5, MINUTES_5)
    assert adapter.rules("claude-opus-5", frozenset({"cache_control"})).cache is None


def test_openais_requests_leave_the_life_of_their_cache_to_the_model() -> None:
    adapter = ResponsesAdapter(at("api.openai.com", "openai-responses"))
    request = ModelRequest(
        "gpt-6.2-sol", "Be brief.", (UserMessage("u", (Text("Hello."),)),)
    )
    body = adapter.call(request, ModelProfile(), frozenset(), None).body
    assert not {"prompt_cache_retention", "prompt_cache_options"} & body.keys()
    assert adapter.cache_option == ""
    assert adapter.rules("gpt-6.2-sol").cache == CacheLife(MINUTES_30, MINUTES_30)
