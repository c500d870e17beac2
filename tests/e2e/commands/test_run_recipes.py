"""The built-in recipes where there is nothing for them to work on: one sentence, and no
model is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.called import call_command
from support.models import Reply, model_server
from support.repo import make_repo


def no_repository(folder: Path) -> Path:
    folder.mkdir()
    return folder


def clean(folder: Path) -> Path:
    return make_repo(folder).path


@pytest.mark.parametrize(
    ("prompt", "made", "said"),
    [
        (
            "/commit",
            no_repository,
            "`/commit` needs a git repository, and {place} is in none",
        ),
        (
            "/review",
            no_repository,
            "`/review` needs a git repository, and {place} is in none",
        ),
        ("/pr", no_repository, "`/pr` needs a git repository, and {place} is in none"),
        (
            "/commit",
            clean,
            "There is nothing to commit: {place} has no changes since the last commit.",
        ),
        (
            "/review",
            clean,
            "There is nothing to review: {place} has no changes since the last commit.",
        ),
        (
            "/review base=HEAD",
            clean,
            "There is nothing to review: there are no commits since HEAD.",
        ),
        (
            "/pr base=HEAD",
            clean,
            "There is nothing for a pull request: there are no commits since HEAD.",
        ),
    ],
)
async def test_a_built_in_recipe_says_in_one_sentence_what_it_lacks(
    tmp_path: Path, prompt: str, made: Callable[[Path], Path], said: str
) -> None:
    place = made(tmp_path / "shop")
    async with model_server([], "openai") as server:
        ran = await call_command(tmp_path, "run", prompt, env=server.env(), cwd=place)
    assert (ran.code, ran.out) == (1, "")
    [line] = ran.err.splitlines()
    assert line.startswith(f"acp-agent: {said.format(place=place)}")
    assert (await call_command(tmp_path, "sessions")).out == ""


async def test_a_built_in_recipe_runs_where_there_is_a_change_also_before_the_first_commit(
    tmp_path: Path,
) -> None:
    place = clean(tmp_path / "shop")
    (place / "new.txt").touch()
    async with model_server([Reply("Committed."), Reply("Fine.")], "openai") as server:
        for prompt in ("/commit", "/review"):
            assert (
                await call_command(tmp_path, "run", prompt, env=server.env(), cwd=place)
            ).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{% if not instructions %}{{ stop("Say " ~ "what.") }}{% endif %}Go.',
            "acp-agent: Say what.\n",
        ),
        ("{{ stop() }}", "stop() takes one text"),
        (
            "{{ halt('x') }}",
            "recipes cannot call functions but shell(...) and stop(...)",
        ),
    ],
)
async def test_a_recipe_of_the_users_own_may_stop_with_a_sentence(
    tmp_path: Path, text: str, said: str
) -> None:
    recipes = tmp_path / "state" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "go.md").write_text(text)
    async with model_server([], "openai") as server:
        ran = await call_command(tmp_path, "run", "-r", "go", env=server.env())
        checked = await call_command(tmp_path, "recipe", "check")
    assert ran.code == 1
    assert said in ran.err + checked.out + checked.err
