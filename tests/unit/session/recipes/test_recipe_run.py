"""What a recipe's run is given: its text, within a time limit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from acp_agent.errors import RecipeError
from acp_agent.recipes.model import Recipe
from acp_agent.session.recipes.run import RecipeRun


async def test_a_template_that_makes_work_without_end_is_given_up_and_named() -> None:
    # A tenth of a second of work, and no text; on a busy machine many times that, so
    # that the second call has no limit.
    numbers = ", ".join(["0"] * 500)
    body = f"{{% for x in [{numbers}] if ('{'a' * 20_000}' ~ x)|title == 'q' %}}{{% endfor %}}x"
    recipe = Recipe("slow", "Slow", body, 1, Path("/recipes/slow.md"), "user", "")
    with pytest.raises(
        RecipeError, match=r"slow\.md: was not rendered within 0\.01 seconds"
    ):
        await RecipeRun(recipe, "").rendered(seconds=0.01)
    assert await RecipeRun(recipe, "").rendered(seconds=math.inf) == "x"
