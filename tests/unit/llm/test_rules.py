"""The rules of reasoning, by family of models and by server, as the two tables have
them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import acp_agent.llm.rules as rules_module
from acp_agent.llm.places import Endpoint
from acp_agent.llm.rules import rules_at, rules_of

TABLES = Path(rules_module.__file__).parent
FIRST = Endpoint("anthropic", "anthropic", "https://api.anthropic.com")


def rows(name: str) -> list[dict[str, str]]:
    with (TABLES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "row", rows("reasoning.csv"), ids=lambda row: row["models"].split()[0]
)
def test_each_row_of_the_models_is_read_as_it_stands(row: dict[str, str]) -> None:
    for family in row["models"].split():
        rules = rules_of(family)
        assert rules.family == family
        assert rules.reads == tuple(row["reads"].split())
        for name in (
            "checks",
            "off",
            "tools",
            "effort",
            "instructions",
            "compaction",
            "compacts_to",
            "asked_by",
            "echo",
        ):
            assert getattr(rules, name) == row[name]


@pytest.mark.parametrize("row", rows("platforms.csv"), ids=lambda row: row["host"])
def test_each_row_of_the_servers_is_read_as_it_stands(row: dict[str, str]) -> None:
    kind, model = (
        ("openai-responses", "gpt-6.2-sol")
        if "openai" in row["host"]
        else ("anthropic", "claude-opus-5-5")
    )
    rules = rules_at(Endpoint("work", kind, f"https://eu.{row['host']}/v1"), model)
    assert rules.controls == (kind == "anthropic" and row["controls"] == "yes")
    assert rules.native_first == (row["compaction"] == "yes")
    assert (rules.asked_by == "item") == (row["trigger"] == "yes")
    assert rules.tools == row["tools"]
    assert (rules.effort != "top") == (row["effort"] == "yes")
    assert rules.binds


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("us.anthropic.claude-sonnet-5-5-v1:0", "claude-sonnet-5-5"),
        ("global.anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("anthropic/claude-sonnet-5.5", "claude-sonnet-5-5"),
        ("claude-fable-5-2@20261001", "claude-fable-5-2"),
        ("claude-sonnet-5-20260601", "claude-sonnet-5"),
        ("claude-sonnet-5-6", "claude-"),
        ("claude-opus-5-6-20270101", "claude-"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("gpt-6.2-astra", "gpt-6.2"),
        ("gpt-6.10-sol", "gpt-6.2"),
        ("gpt-10", "gpt-6.2"),
        ("gpt-6.1-sol", "gpt-"),
        ("DeepSeek-Reasoner", "deepseek"),
        ("llama-4", ""),
    ],
)
def test_the_longest_beginning_that_fits_names_the_family(
    model: str, family: str
) -> None:
    assert rules_of(model).family == family


@pytest.mark.parametrize(
    "older", ["claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-5", "claude-opus-5"]
)
def test_no_older_model_reads_the_reasoning_of_one_that_checks_it_and_the_newer_ones_read_theirs(
    older: str,
) -> None:
    assert not rules_of(older).can_read("claude-sonnet-5-5")
    assert rules_of("claude-opus-5-5").can_read(older)
    assert rules_of(older).can_read(older)


def test_a_model_that_is_not_known_gets_no_betas_and_binds_its_reasoning() -> None:
    rules = rules_at(FIRST, "claude-next-9")
    assert (rules.controls, rules.tools, rules.effort, rules.native_first) == (
        False,
        "plain",
        "top",
        False,
    )
    assert rules.binds
    assert rules_at(FIRST, "another-model").family == ""


def test_a_gateway_of_another_name_gets_no_betas_and_its_reasoning_is_bound() -> None:
    rules = rules_at(
        Endpoint("proxy", "anthropic", "https://llm.example.com"), "claude-sonnet-5-5"
    )
    assert (rules.controls, rules.tools, rules.effort, rules.native_first) == (
        False,
        "plain",
        "top",
        False,
    )
    assert rules.binds
    assert rules.checks == "anthropic"


def test_chat_completions_bind_no_reasoning() -> None:
    assert not rules_at(
        Endpoint("local", "openai-chat", "http://localhost/v1"), "deepseek-reasoner"
    ).binds


@pytest.mark.parametrize(
    ("reader", "maker", "reads"),
    [
        ("claude-sonnet-5-5", "claude-haiku-5-5", True),
        ("claude-haiku-5-5", "claude-sonnet-5-5", False),
        ("claude-opus-5-5", "claude-sonnet-5-5", True),
        ("claude-sonnet-5-5", "claude-opus-5-5", False),
        ("claude-fable-5-2", "claude-opus-5-5", True),
        ("claude-sonnet-5-5", "claude-opus-4-8", True),
        ("gpt-6.2-sol", "gpt-6.1-sol", True),
        ("gpt-6.1-sol", "gpt-6.2-sol", False),
    ],
)
def test_a_model_reads_the_reasoning_of_the_families_in_its_row(
    reader: str, maker: str, reads: bool
) -> None:
    assert rules_of(reader).can_read(rules_of(maker).family) == reads
