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

from acp_agent.config import Share
from acp_agent.config.document import DocumentError
from acp_agent.recipes import CompactionOptions, Known, Recipe, RecipeLibrary, builtin_recipes_dir, render
from acp_agent.recipes.front_matter import parse_recipe

HANDLERS = {"turn_end": ["swap_context", "append_context"], "agent_stop": ["export_markdown"]}
KNOWN = Known(HANDLERS, strategies=("summary", "mask", "excerpts"), providers=("anthropic", "mine"))
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
  size: 40%
  sections: ["## Goal", Open   work]
  verify: mend
  model: anthropic/claude-haiku-4-5
""") == CompactionOptions(
        strategy="summary",
        size=Share(0.4),
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


def test_no_sections_and_sections_not_said_are_told_apart() -> None:
    assert options("  sections: []").sections == ()
    assert options("  size: 20%").sections is None


@pytest.mark.parametrize(
    ("written", "size"),
    [("20%", Share(0.2)), ("12.5 %", Share(0.125)), ("0.4", Share(0.4)), ("1000", 1_000), ("1000000", 1_000_000)],
)
def test_a_size_is_a_share_of_the_window_or_tokens(written: str, size: int | Share) -> None:
    assert options(f"  size: {written}").size == size


@pytest.mark.parametrize("verify", ["off", "mark", "mend", "reject"])
def test_what_to_do_about_doubtful_words_is_one_of_four_and_off_needs_no_quotes(verify: str) -> None:
    assert options(f"  verify: {verify}").verify == verify
    assert options(f"  verify: '{verify}'").verify == verify


SIZE = "should be a share of the window from 2% to 90%, such as 20% or 0.2, or a number of tokens from 1,000"


@pytest.mark.parametrize(
    ("section", "key", "words"),
    [
        ("strategy: sumary", "strategy", "there is no strategy 'sumary'; did you mean `summary`?"),
        ("strategy: zebra", "strategy", "known are: excerpts, mask, summary"),
        ("model: antropic/small", "model", "did you mean `anthropic`?"),
        ("model: zzz/small", "model", "there is no provider 'zzz' (others go under `providers` in config.yaml)"),
        ("strategy: ''", "strategy", "should have at least 1 character"),
        ("strategy: [mask]", "strategy", "should be a valid string"),
        *((f"size: {size}", "size", SIZE) for size in ("1%", "91%", "0.01", "1.0", "999", "1000001", "yes", "[5]")),
        ("sections: Goal", "sections", "should be a list, such as [one, two]"),
        ("sections: [Goal, 5]", "sections.1", "should be a valid string"),
        ("sections: ['## ']", "sections.0", "should be the text of a heading"),
        ("sections: [Goal, '# goal']", "sections.1", "is listed twice, first in line 5; keep one"),
        ("verify: maybe", "verify", "should be 'off', 'mark', 'mend' or 'reject'"),
        ("verify: on", "verify", "should be 'off', 'mark', 'mend' or 'reject'"),
        ("model: haiku", "model", "should be provider/model"),
        ("sizes: 5", "sizes", "unknown key; did you mean `size`?"),
        ("tails: 5", "tails", "unknown key; known here: strategy, size, sections, verify, model"),
    ],
)
def test_a_mistake_is_named_with_its_line_in_the_file(section: str, key: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        options(f"  {section}")
    assert words in caught.value.message
    assert (caught.value.line, caught.value.key) == (5, f"compaction.{key}")


@pytest.mark.parametrize("section", ["compaction: {}", "compaction: {size: 20%}", "compaction: {tail: 5}"])
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


def test_keys_of_earlier_versions_are_ignored_with_one_notice_that_names_file_lines_and_the_new_key() -> None:
    keys = ("tail: 10%", "target: nonsense", "ledger: -1", "requests: 0", "summary: 300", "strategy: truncate")
    recipe = parse(f"{HOOK}compaction:\n" + "".join(f"  {key}\n" for key in keys))
    assert recipe.compaction == CompactionOptions(strategy="excerpts")
    assert recipe.notice == (
        "/r/note.md: `compaction.tail` (line 5), `compaction.target` (line 6), `compaction.ledger` (line 7), "
        "`compaction.requests` (line 8) and `compaction.summary` (line 9) are no longer used: `compaction.size` says "
        "how much the new context may take. `compaction.strategy: truncate` (line 10) means `strategy: excerpts` now."
    )


def test_a_recipe_of_this_version_has_no_notice() -> None:
    assert parse(f"{HOOK}compaction: {{size: 20%, strategy: excerpts}}").notice == ""


def test_a_library_has_the_notices_of_the_recipes_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text(f"---\n{HOOK}compaction: {{tail: 5}}\n---\nx")
    (tmp_path / "wrong.md").write_text(f"---\n{HOOK}compaction: {{tail: 5, size: 5}}\n---\nx")
    library = RecipeLibrary.discover(tmp_path, None, None, HANDLERS)
    [notice] = library.notices
    assert notice.startswith(f"{tmp_path / 'old.md'}: `compaction.tail` (line 4) is no longer used")
    assert len(library.errors) == 1


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
    "strategy": st.sampled_from(["summary", "mask", "excerpts"]),
    "size": st.integers(1_000, 1_000_000) | st.integers(2, 90).map(lambda percent: f"{percent}%"),
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
            assert value["of_window"] == float(said[key].rstrip("%")) / 100
        else:
            assert value == (tuple(said[key]) if key == "sections" else said[key])


def test_the_built_in_recipe_requires_the_sections_that_it_asks_for_in_their_order() -> None:
    compact = RecipeLibrary.discover(builtin_recipes_dir(), None, None, HANDLERS).recipes["compact"]
    text = render(compact, {}, "")
    assert compact.compaction == CompactionOptions(
        sections=tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)), verify="mark"
    )
    assert "[#12]" in text
