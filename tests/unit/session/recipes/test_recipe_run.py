"""Rendering a recipe's text within a time limit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from acp_agent.errors import RecipeError
from acp_agent.recipes.model import Recipe
from acp_agent.session.recipes.run import RecipeRun


async def test_a_template_that_runs_too_long_is_abandoned_and_named() -> None:
    # The template works for a tenth of a second and produces no text. On a busy machine
    # it takes much longer, so the second call has no limit.
    numbers = ", ".join(["0"] * 500)
    body = f"{{% for x in [{numbers}] if ('{'a' * 20_000}' ~ x)|title == 'q' %}}{{% endfor %}}x"
    recipe = Recipe("slow", "Slow", body, 1, Path("/recipes/slow.md"), "user", "")
    with pytest.raises(
        RecipeError, match=r"slow\.md: was not rendered within 0\.01 seconds"
    ):
        await RecipeRun(recipe, "").rendered(seconds=0.01)
    assert await RecipeRun(recipe, "").rendered(seconds=math.inf) == "x"
