"""`acp-agent recipe`: list, show, new, check."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from support.called import call_command
from support.checkout import REPOSITORY
from support.terminal import Ran

Run: TypeAlias = Callable[..., Awaitable[Ran]]

MINE = """\
---
description: Say it
version: 1.10
arguments:
  depth: {description: how deep, required: true}
allowed_commands: ["echo *"]
---
Say {{ shell("echo", "hello") }} {{ depth }} in {{ cwd }}. {{ instructions }}
"""
BROKEN = "---\ndescription: x\nallowed_tools: [raed]\n---\nText.\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `acp-agent recipe`."""

    async def run(*words: str, cwd: Path = tmp_path) -> Ran:
        return await call_command(tmp_path, "recipe", *words, cwd=cwd)

    return run


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_recipes_are_listed_with_whose_they_are_and_what_cannot_be_used_is_told(tmp_path: Path) -> None:
    mine = write(tmp_path / "state" / "recipes" / "talk" / "mine.md", MINE)
    theirs = write(tmp_path / ".acp-agent" / "recipes" / "plan.md", "Plan it.\n")
    assert (await call_command(tmp_path, "trust")).code == 0
    listed = await call_command(tmp_path, "recipe", "list")
    assert (listed.code, listed.err) == (0, "")
    assert f"user     talk/mine (1.10)  Say it\n         {mine}\n" in listed.out
    assert f"project  plan  Plan it.\n         {theirs}\n" in listed.out
    assert "builtin  commit  Commit the changes" in listed.out
    broken = write(tmp_path / "state" / "recipes" / "broken.md", BROKEN)
    listed = await call_command(tmp_path, "recipe", "list")
    said = f"{broken}:3: allowed_tools.0: there is no tool 'raed'; did you mean `read`?"
    assert (listed.code, listed.err) == (1, f"acp-agent: {said}\n")


async def test_what_a_recipe_would_send_is_shown_below_its_front_matter(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "state" / "recipes" / "mine.md", MINE)
    shown = await run("show", "--arg", "depth=deeply", "mine", "please", "and", "soon")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0].startswith(f"{path} (user)")
    assert lines[1:-2] == MINE.splitlines()[:-1]
    assert lines[-1] == f"Say hello deeply in {tmp_path}. please and soon"
    missing = await run("show", "mine")
    assert missing.code == 1
    assert "needs the argument `depth` (how deep)" in missing.err
    unknown = await run("show", "mien")
    assert unknown.err.startswith("acp-agent: There is no recipe 'mien'. The recipes are: commit, compact,")


async def test_what_a_project_brought_is_not_shown_as_what_runs_before_it_is_trusted(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / ".acp-agent" / "recipes"
    mine = write(folder / "mine.md", MINE.replace('"echo", "hello"', '"touch", "ran"').replace("echo *", "touch *"))
    plan = write(folder / "plan.md", "Plan \x1b]0;evil\x07it.\n")
    own = REPOSITORY / "recipes" / "plan.md"
    advice = f"`acp-agent trust {tmp_path}` in a terminal allows them.\n"

    listed = await run("list")
    assert (listed.code, listed.err) == (0, "")
    assert f"project  mine  (not trusted)\n         {mine}\n" in listed.out
    assert "builtin  plan  Think" in listed.out
    assert f"         {own}\nproject  plan  (not trusted)\n         {plan}\n" in listed.out
    assert listed.out.endswith(advice)

    shown = await run("show", "--arg", "depth=2", "mine")
    assert (shown.code, shown.err) == (0, f"acp-agent: {mine} is not trusted, and does not run. {advice}")
    assert shown.out == f"{mine} (project, not trusted)\n{mine.read_text()}\n"
    other = await run("show", "plan")
    assert other.out.startswith(f"{own} (builtin)")
    assert other.err == f"acp-agent: {plan} is not trusted, and does not run. {advice}"
    write(folder / "evil.md", plan.read_text())
    evil = await run("show", "evil")
    assert evil.out.endswith("\nPlan it.\n\n")
    assert not (tmp_path / "ran").exists()

    assert (await call_command(tmp_path, "trust")).code == 0
    shown = await run("show", "--arg", "depth=2", "mine")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"{mine} (project)")
    assert (tmp_path / "ran").exists()
    listed = await run("list")
    assert "not trusted" not in listed.out
    assert "builtin  plan" not in listed.out


async def test_a_new_recipe_loads_and_nothing_is_written_over(run: Run, tmp_path: Path) -> None:
    made = await run("new", "talk/mine")
    path = tmp_path / "state" / "recipes" / "talk" / "mine.md"
    assert (made.code, made.out, made.err) == (0, f"{path}\n", "")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (await run("check")).code == 0
    shown = await run("show", "talk/mine", "Do it.")
    assert shown.out.endswith("knows nothing of it yet.\n\nDo it.\n")
    path.write_text("Mine.\n")
    again = await run("new", "talk:mine")
    assert (again.code, again.out) == (1, "")
    assert again.err == f"acp-agent: {path} is there already, and was not changed.\n"
    assert path.read_text() == "Mine.\n"
    for name, wrong in (
        ("../x", "is no recipe's name"),
        ("Mine", "is no recipe's name"),
        ("undo", "agent's own"),
        ("a/b/c/d/e/f", "there are 4 at most"),
    ):
        refused = await run("new", name)
        assert (refused.code, wrong in refused.err) == (1, True)


async def test_what_is_wrong_is_told_by_file_and_line_of_all_or_of_those_named(run: Run, tmp_path: Path) -> None:
    good = await run("check")
    assert (good.code, good.out) == (0, "0 wrong.\n")
    broken = write(tmp_path / "drafts" / "broken.md", BROKEN)
    template = write(tmp_path / "drafts" / "deep" / "odd.md", "---\n---\nOne.\n{{ two }}\n")
    fine = write(tmp_path / "drafts" / "fine.md", "Fine.\n")
    one = await run("check", str(fine), "drafts/broken.md")
    assert (one.code, one.out) == (1, "1 wrong.\n")
    assert one.err.startswith(f"acp-agent: {broken}:3: allowed_tools.0: ")
    folder = await run("check", "drafts")
    assert (folder.code, folder.out) == (1, "2 wrong.\n")
    assert f"{template}:4: the template is wrong: 'two' is undefined" in folder.err
    write(tmp_path / "state" / "recipes" / "compact.md", "No hook.\n")
    user = await run("check")
    assert (user.code, user.out) == (1, "1 wrong.\n")
    assert "compact.md:1: hooks: a recipe named `compact` must have" in user.err
    write(tmp_path / "state" / "recipes" / "compact.md", (REPOSITORY / "recipes" / "compact.md").read_text())
    shouted = write(tmp_path / "state" / "recipes" / "loud.MD", "Fine.\n")
    gone = await run("check", str(shouted))
    assert (gone.code, gone.out, "name ends in .md" in gone.err) == (1, "", True)
    write(tmp_path / "state" / "recipes" / "talk" / "Odd.md", "Fine.\n")
    part = await run("check", "state/recipes/talk")
    assert (part.code, part.out, part.err.count("\n")) == (1, "1 wrong.\n", 1)
    assert part.err.startswith(f"acp-agent: {tmp_path}/state/recipes/talk/Odd.md: a recipe's file and its folders")
