"""How a recipe says what a compaction by it should be like."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.config.document import DocumentError
from acp_agent.recipes import CompactionOptions, Known, Recipe, RecipeLibrary, Share, builtin_recipes_dir, render
from acp_agent.recipes.front_matter import parse_recipe

HANDLERS = {"turn_end": ["swap_context", "append_context"], "agent_stop": ["export_markdown"]}
KNOWN = Known(HANDLERS, strategies=("summary", "mask", "ledger"), providers=("anthropic", "mine"))
HOOK = "hooks:\n  turn_end: {handler: swap_context}\n"


def parse(matter: str, known: Known = KNOWN) -> Recipe:
    text = f"---\n{matter}\n---\nSummarise.\n"
    return parse_recipe(text, name="note", source=Path("/r/note.md"), origin="user", known=known)


def options(section: str) -> CompactionOptions:
    found = parse(f"{HOOK}compaction:\n{section}").compaction
    assert found is not None
    return found


def test_every_key_arrives() -> None:
    assert options("""\
  strategy: summary
  tail: 8000
  target: 40%
  ledger: 2000
  requests: 4000
  summary: 3000
  sections: ["## Goal", Open   work]
  verify: mend
  model: anthropic/claude-haiku-4-5
""") == CompactionOptions(
        strategy="summary",
        tail=8000,
        target=0.4,
        ledger=2000,
        requests=4000,
        summary=3000,
        sections=("Goal", "Open work"),
        verify="mend",
        model="anthropic/claude-haiku-4-5",
    )


def test_what_is_not_said_is_left_to_whoever_compacts() -> None:
    assert parse(f"{HOOK}compaction: {{}}").compaction == CompactionOptions()
    empty = "".join(f"  {name}:\n" for name in asdict(CompactionOptions()))
    assert options(empty) == CompactionOptions()


@pytest.mark.parametrize("matter", ["name: note", HOOK, "compaction:", f"{HOOK}compaction: null"])
def test_a_recipe_that_says_nothing_of_compaction_has_no_options(matter: str) -> None:
    assert parse(matter).compaction is None


@pytest.mark.parametrize("key", ["ledger", "requests", "tail"])
def test_nothing_at_all_is_a_budget_too(key: str) -> None:
    assert getattr(options(f"  {key}: 0"), key) == 0


def test_no_sections_and_sections_not_said_are_told_apart() -> None:
    assert options("  sections: []").sections == ()
    assert options("  ledger: 0").sections is None


@pytest.mark.parametrize(("written", "tail"), [("20%", Share(0.2)), ("12.5 %", Share(0.125)), ("0%", Share(0.0))])
def test_a_tail_may_be_a_percentage_of_the_window(written: str, tail: Share) -> None:
    assert options(f"  tail: {written}").tail == tail


@given(st.integers(0, 900), st.integers(0, 2_000_000))
def test_a_percentage_becomes_tokens_of_the_window_rounded_down(tenths: int, window: int) -> None:
    tokens = options(f"  tail: {tenths / 10}%").tail_tokens(window)
    assert tokens is not None
    assert abs(tokens - tenths * window / 1000) <= 1
    assert tokens <= window


def test_tokens_stay_tokens_whatever_the_window_is() -> None:
    assert CompactionOptions(tail=500).tail_tokens(1_000_000) == 500
    assert CompactionOptions().tail_tokens(1_000_000) is None


@pytest.mark.parametrize(
    ("written", "target"), [("40%", 0.4), ("0.4", 0.4), ("5%", 0.05), ("90%", 0.9), ("0.05", 0.05)]
)
def test_a_target_is_a_percentage_or_a_share(written: str, target: float) -> None:
    assert options(f"  target: {written}").target == target


@pytest.mark.parametrize("verify", ["off", "mark", "mend", "reject"])
def test_what_to_do_about_doubtful_words_is_one_of_four_and_off_needs_no_quotes(verify: str) -> None:
    assert options(f"  verify: {verify}").verify == verify
    assert options(f"  verify: '{verify}'").verify == verify


TAIL = "should be a number of tokens from 0 to 1000000, or a percentage of the window up to 90%, such as 20%"
TARGET = "should be a percentage of the window from 5% to 90%, such as 50%"


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ("strategy: sumary", "strategy", "there is no strategy 'sumary'; did you mean `summary`?"),
        ("strategy: zebra", "strategy", "known are: ledger, mask, summary"),
        ("model: antropic/small", "model", "did you mean `anthropic`?"),
        ("model: zzz/small", "model", "there is no provider 'zzz' (others go under `providers` in config.yaml)"),
        ("strategy: ''", "strategy", "should have at least 1 character"),
        ("strategy: [mask]", "strategy", "should be a valid string"),
        ("tail: -1", "tail", TAIL),
        ("tail: 0.2", "tail", TAIL),
        ("tail: yes", "tail", TAIL),
        ("tail: 95%", "tail", TAIL),
        ("tail: twenty%", "tail", TAIL),
        ("tail: 9999999", "tail", TAIL),
        ("tail: [5]", "tail", TAIL),
        ("target: 4%", "target", TARGET),
        ("target: 100%", "target", TARGET),
        ("target: 50", "target", TARGET),
        ("target: half", "target", TARGET),
        ("target: .nan", "target", TARGET),
        ("target: yes", "target", TARGET),
        ("ledger: -5", "ledger", "should be greater than or equal to 0, not -5"),
        ("ledger: some", "ledger", "should be a valid integer"),
        ("requests: 1.5", "requests", "should be a valid integer"),
        ("requests: 9999999", "requests", "should be less than or equal to 1000000"),
        ("summary: 0", "summary", "should be greater than 0"),
        ("sections: Goal", "sections", "should be a list, such as [one, two]"),
        ("sections: [Goal, 5]", "sections.1", "should be a valid string"),
        ("sections: ['## ']", "sections.0", "should be the text of a heading"),
        ("sections: [Goal, '# goal']", "sections.1", "is listed twice, first in line 5; keep one"),
        ("verify: maybe", "verify", "should be 'off', 'mark', 'mend' or 'reject'"),
        ("verify: on", "verify", "should be 'off', 'mark', 'mend' or 'reject'"),
        ("model: haiku", "model", "should be provider/model"),
        ("tails: 5", "tails", "unknown key; did you mean `tail`?"),
        ("tail: 60%\n  target: 50%", "tail", "should be less than `target`, which is 50%"),
        ("tail: 50%\n  target: 0.5", "tail", "should be less than `target`, which is 50%"),
    ],
)
def test_a_mistake_is_named_with_its_line_in_the_file(section: str, key: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        options(f"  {section}")
    assert words in caught.value.message
    assert (caught.value.line, caught.value.key) == (5, f"compaction.{key}")


@pytest.mark.parametrize("section", ["compaction: {}", "compaction: {tail: 5}"])
@pytest.mark.parametrize(
    "hooks",
    [
        "description: x",
        "hooks: {turn_end: {handler: append_context}}",
        "hooks: {agent_stop: {handler: export_markdown}}",
    ],
)
def test_only_a_recipe_that_compacts_may_say_how(hooks: str, section: str) -> None:
    with pytest.raises(DocumentError, match=r"add the hook `turn_end: \{handler: swap_context\}`") as caught:
        parse(f"{hooks}\n{section}")
    assert (caught.value.line, caught.value.key) == (3, "compaction")


def test_a_section_that_is_no_mapping_is_a_mistake() -> None:
    with pytest.raises(DocumentError, match="should be `key: value` lines") as caught:
        parse(f"{HOOK}compaction: mask")
    assert (caught.value.line, caught.value.key) == (4, "compaction")


def test_a_caller_who_does_not_know_what_exists_gets_any_name() -> None:
    found = parse(f"{HOOK}compaction: {{strategy: zebra, model: zzz/small}}", Known(HANDLERS)).compaction
    assert found == CompactionOptions(strategy="zebra", model="zzz/small")


def test_a_library_checks_strategies_and_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text(f"---\n{HOOK}compaction: {{strategy: mask}}\n---\nx")
    (tmp_path / "bad.md").write_text(f"---\n{HOOK}compaction:\n  strategy: maks\n---\nx")
    library = RecipeLibrary.discover(tmp_path, None, None, HANDLERS, strategies=("mask",))
    assert list(library.recipes) == ["good"]
    [error] = library.errors
    assert (error.source, error.line) == (str(tmp_path / "bad.md"), 5)
    assert "compaction.strategy: there is no strategy 'maks'; did you mean `mask`?" in str(error)


GOOD: dict[str, st.SearchStrategy[Any]] = {
    "strategy": st.sampled_from(["summary", "mask", "ledger"]),
    "tail": st.integers(0, 1_000_000) | st.integers(0, 40).map(lambda percent: f"{percent}%"),
    "target": st.integers(41, 90).map(lambda percent: f"{percent}%") | st.floats(0.41, 0.9),
    "ledger": st.integers(0, 1_000_000),
    "requests": st.integers(0, 1_000_000),
    "summary": st.integers(1, 1_000_000),
    "sections": st.lists(st.sampled_from(["Goal", "Files", "Open work"]), unique=True),
    "verify": st.sampled_from(["off", "mark", "mend", "reject"]),
    "model": st.sampled_from(["anthropic/b", "mine/d/e"]),
}


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional=GOOD))
def test_every_key_is_independent_of_the_others(said: dict[str, Any]) -> None:
    found = asdict(parse(HOOK + yaml.safe_dump({"compaction": said})).compaction or CompactionOptions())
    for key, value in found.items():
        if key not in said:
            assert value is None
        elif str(said[key]).endswith("%"):
            share = value if key == "target" else value["of_window"]
            assert share == float(said[key].rstrip("%")) / 100
        else:
            assert value == (tuple(said[key]) if key == "sections" else said[key])


def test_the_built_in_recipe_requires_the_sections_that_it_asks_for_in_their_order() -> None:
    compact = RecipeLibrary.discover(builtin_recipes_dir(), None, None, HANDLERS).recipes["compact"]
    text = render(compact, {}, "")
    assert compact.compaction == CompactionOptions(
        sections=tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)), verify="mark"
    )
    assert "[#12]" in text
