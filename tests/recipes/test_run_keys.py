"""The keys of the front matter that say how a recipe's run goes: `model`, `mode`, `version`."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.config.document import DocumentError
from acp_agent.recipes import Known, Recipe
from acp_agent.recipes.front_matter import parse_recipe

KNOWN = Known({"turn_end": ["swap_context"], "PostToolUse": ["log_tool_usage"]}, providers=("anthropic", "openai"))
SWAP = "hooks: {turn_end: {handler: swap_context}}\n"


def parse(matter: str) -> Recipe:
    text = f"---\n{matter}\n---\nbody\n"
    return parse_recipe(text, name="note", source=Path("/r/note.md"), origin="user", known=KNOWN)


def test_model_mode_and_version_arrive_in_the_recipe_and_may_be_left_out() -> None:
    recipe = parse("model: anthropic/claude-haiku-4-5\nmode: accept-edits\nversion: 1.2")
    assert (recipe.model, recipe.mode, recipe.version) == ("anthropic/claude-haiku-4-5", "accept-edits", "1.2")
    assert parse("version: second draft").version == "second draft"
    recipe = parse("model:\nmode:")
    assert (recipe.model, recipe.mode, recipe.version) == (None, None, "")


@pytest.mark.parametrize(
    ("matter", "line", "key", "words"),
    [
        ("model: gpt", 2, "model", "should be provider/model, such as"),
        ("version: 1\nmodel: anthropc/claude", 3, "model", "there is no provider 'anthropc'"),
        ("mode: yolo", 2, "mode", "should be 'plan', 'ask', 'accept-edits' or 'full-access'"),
        ("version: [1]", 2, "version", "should be a valid string"),
        (f"{SWAP}model: openai/gpt", 3, "model", "the model that writes a summary is `compaction.model`"),
        (f"{SWAP}mode: plan", 3, "mode", "is for recipes that run tools"),
        (
            "hooks:\n  turn_end: {handler: swap_context}\n  PostToolUse: {handler: log_tool_usage}",
            4,
            "hooks.PostToolUse",
            "is for recipes that run tools",
        ),
    ],
)
def test_a_mistake_in_them_is_named_with_its_line(matter: str, line: int, key: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(matter)
    assert words in caught.value.message
    assert (caught.value.line, caught.value.key) == (line, key)
