"""`acp-agent recipe`: list, show, new, check."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from acp_agent.cli import recipe
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.config.project import MadeStore
from acp_agent.recipes.model import Known
from acp_agent.recipes.parser import parse_recipe
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.session.permissions import grant_subject
from acp_agent.session.recipes.questions import access_of
from support.called import call_command
from support.checkout import REPOSITORY
from support.repo import hostile_repository
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
needs_bubblewrap = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
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


async def test_recipes_are_listed_with_whose_they_are_and_what_cannot_be_used_is_told(
    tmp_path: Path,
) -> None:
    mine = write(tmp_path / "state" / "recipes" / "talk" / "mine.md", MINE)
    theirs = write(tmp_path / ".acp-agent" / "recipes" / "plan.md", "Plan it.\n")
    assert (await call_command(tmp_path, "trust", "--yes")).code == 0
    listed = await call_command(tmp_path, "recipe", "list")
    assert (listed.code, listed.err) == (0, "")
    assert f"user     talk/mine (1.10)  Say it\n         {mine}\n" in listed.out
    assert f"project  plan  Plan it.\n         {theirs}\n" in listed.out
    assert "builtin  commit  Commit the changes" in listed.out
    broken = write(tmp_path / "state" / "recipes" / "broken.md", BROKEN)
    listed = await call_command(tmp_path, "recipe", "list")
    said = f"{broken}:3: allowed_tools.0: there is no tool 'raed'; did you mean `read`?"
    assert (listed.code, listed.err) == (1, f"acp-agent: {said}\n")


@needs_bubblewrap
async def test_what_a_recipe_would_send_is_shown_below_its_front_matter(
    run: Run, tmp_path: Path
) -> None:
    path = write(tmp_path / "state" / "recipes" / "mine.md", MINE)
    (folder := tmp_path / "project").mkdir()
    shown = await run(
        "show", "--arg", "depth=deeply", "mine", "please", "and", "soon", cwd=folder
    )
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0].startswith(f"{path} (user)")
    assert lines[1:-2] == MINE.splitlines()[:-1]
    assert lines[-1] == f"Say hello deeply in {folder}. please and soon"
    missing = await run("show", "mine", cwd=folder)
    assert missing.code == 1
    assert "needs the argument `depth` (how deep)" in missing.err
    unknown = await run("show", "mien")
    assert unknown.err.startswith(
        "acp-agent: There is no recipe 'mien'. The recipes are: commit, compact,"
    )


@needs_bubblewrap
async def test_what_a_project_brought_is_not_shown_as_what_runs_before_it_is_trusted(
    run: Run, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    folder = project / ".acp-agent" / "recipes"
    mine = write(
        folder / "mine.md",
        MINE.replace('"echo", "hello"', '"touch", "ran"').replace("echo *", "touch *"),
    )
    plan = write(folder / "plan.md", "Plan \x1b]0;evil\x07it.\n")
    own = REPOSITORY / "recipes" / "plan.md"
    advice = f"To allow them, run `acp-agent trust {project}` in a terminal.\n"

    listed = await run("list", cwd=project)
    assert (listed.code, listed.err) == (0, "")
    assert f"project  mine  (not trusted)\n         {mine}\n" in listed.out
    assert "builtin  plan  Think" in listed.out
    assert (
        f"         {own}\nproject  plan  (not trusted)\n         {plan}\n" in listed.out
    )
    assert listed.out.endswith(advice)

    shown = await run("show", "--arg", "depth=2", "mine", cwd=project)
    assert (shown.code, shown.err) == (
        0,
        f"acp-agent: {mine} is not trusted, and does not run. {advice}",
    )
    assert shown.out == f"{mine} (project, not trusted)\n{mine.read_text()}\n"
    other = await run("show", "plan", cwd=project)
    assert other.out.startswith(f"{own} (builtin)")
    assert other.err == f"acp-agent: {plan} is not trusted, and does not run. {advice}"
    write(folder / "evil.md", plan.read_text())
    evil = await run("show", "evil", cwd=project)
    assert evil.out.endswith("\nPlan it.\n\n")
    assert not (project / "ran").exists()

    assert (await call_command(tmp_path, "trust", "--yes", cwd=project)).code == 0
    shown = await run("show", "--arg", "depth=2", "mine", cwd=project)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"{mine} (project)")
    assert (project / "ran").exists()
    listed = await run("list", cwd=project)
    assert "not trusted" not in listed.out
    assert "builtin  plan" not in listed.out


WITHOUT_SANDBOX = "sandbox: {commands: 'off'}\n"


@pytest.mark.parametrize("answer", ["", "n", "y", "file"])
@pytest.mark.parametrize("text", ['{{ shell("touch", "ran") }}', "{{ git.dirty }}"])
async def test_without_a_sandbox_the_commands_of_a_shown_recipe_run_if_the_person_at_the_terminal_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, text: str
) -> None:
    write(tmp_path / "state" / "config.yaml", WITHOUT_SANDBOX)
    path = write(
        tmp_path / "state" / "recipes" / "mine.md",
        f"---\nallowed_commands: [touch *]\n---\nIt is {text}.\n",
    )
    folder = tmp_path / "project"
    folder.mkdir()
    ran = hostile_repository(folder)
    asked: list[str] = []

    async def typed(question: str) -> str:
        asked.append(question)
        return answer

    if answer != "file":  # which no person answers
        monkeypatch.setattr(recipe, "typed", typed)
    shown = await run("show", "mine", cwd=folder)
    assert asked == ([] if answer == "file" else ["Run them? [y]es, [n]o: "])
    assert text in shown.err
    has_run = (folder / "ran").exists() or ran.exists()
    assert (shown.code, has_run) == ((0, True) if answer == "y" else (1, False))
    assert (
        answer == "y"
        or f"{path}: its commands did not run: there is no sandbox for them"
        in shown.err
    )


async def test_what_was_always_allowed_in_a_session_is_not_asked_for_when_a_recipe_is_shown(
    run: Run, tmp_path: Path
) -> None:
    write(tmp_path / "state" / "config.yaml", WITHOUT_SANDBOX)
    path = write(tmp_path / "state" / "recipes" / "mine.md", MINE)
    words = ("show", "--arg", "depth=1", "mine")
    refused = await run(*words)
    assert (refused.code, "did not run" in refused.err) == (1, True)
    mine = parse_recipe(MINE, name="mine", source=path, origin="user", known=Known({}))
    PermissionRules(tmp_path / "state").allow(
        tmp_path, grant_subject(access_of(mine, "ask", ""))
    )
    shown = await run(*words)
    assert (shown.code, "Say hello 1 in" in shown.out) == (0, True)


async def test_a_recipe_whose_text_runs_nothing_is_shown_without_a_question(
    run: Run, tmp_path: Path
) -> None:
    write(tmp_path / "state" / "config.yaml", WITHOUT_SANDBOX)
    write(
        tmp_path / "state" / "recipes" / "mine.md", "The branch is {{ git.branch }}.\n"
    )
    shown = await run("show", "mine")
    assert (shown.code, shown.err) == (0, "")


@needs_bubblewrap
async def test_a_repository_that_a_shown_recipe_makes_is_told_and_does_not_count(
    run: Run, tmp_path: Path
) -> None:
    write(
        tmp_path / "state" / "recipes" / "mine.md",
        '---\nallowed_commands: [git *]\n---\n{{ shell("git", "init", "x") }}\n',
    )
    (folder := tmp_path / "project").mkdir()
    shown = await run("show", "mine", cwd=folder)
    assert shown.code == 0
    assert f"A command created a git repository in {folder}/x" in shown.err
    assert MadeStore(tmp_path / "state").has(folder / "x" / ".git")


async def test_a_new_recipe_loads_and_nothing_is_written_over(
    run: Run, tmp_path: Path
) -> None:
    made = await run("new", "talk/mine")
    path = tmp_path / "state" / "recipes" / "talk" / "mine.md"
    assert (made.code, made.out, made.err) == (0, f"{path}\n", "")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert (await run("check")).code == 0
    shown = await run("show", "talk/mine", "Do it.")
    assert shown.out.endswith("who is new to it.\n\nDo it.\n")
    path.write_text("Mine.\n")
    again = await run("new", "talk:mine")
    assert (again.code, again.out) == (1, "")
    assert again.err == f"acp-agent: {path} exists already, and was not changed.\n"
    assert path.read_text() == "Mine.\n"
    for name, wrong in (
        ("../x", "is not a valid recipe name"),
        ("Mine", "is not a valid recipe name"),
        ("undo", "built-in command"),
        ("a/b/c/d/e/f", "at most 4 folders"),
    ):
        refused = await run("new", name)
        assert (refused.code, wrong in refused.err) == (1, True)


async def test_what_is_wrong_is_told_by_file_and_line_of_all_or_of_those_named(
    run: Run, tmp_path: Path
) -> None:
    good = await run("check")
    assert (good.code, good.out) == (0, "0 wrong.\n")
    broken = write(tmp_path / "drafts" / "broken.md", BROKEN)
    template = write(
        tmp_path / "drafts" / "deep" / "odd.md", "---\n---\nOne.\n{{ two }}\n"
    )
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
    write(
        tmp_path / "state" / "recipes" / "compact.md",
        (REPOSITORY / "recipes" / "compact.md").read_text(),
    )
    shouted = write(tmp_path / "state" / "recipes" / "loud.MD", "Fine.\n")
    gone = await run("check", str(shouted))
    assert (gone.code, gone.out, "names of recipe files end in .md" in gone.err) == (
        1,
        "",
        True,
    )
    write(tmp_path / "state" / "recipes" / "talk" / "Odd.md", "Fine.\n")
    part = await run("check", "state/recipes/talk")
    assert (part.code, part.out, part.err.count("\n")) == (1, "1 wrong.\n", 1)
    assert part.err.startswith(
        f"acp-agent: {tmp_path}/state/recipes/talk/Odd.md: a recipe's file and its folders"
    )


async def test_a_new_recipe_of_a_trusted_project_leaves_it_trusted_and_says_what_ends_that(
    run: Run, tmp_path: Path
) -> None:
    first = await run("new", "--project", "first")
    assert "The recipe does not run until you trust the project." in first.err
    assert f"`acp-agent trust {tmp_path}`" in first.err
    assert (await call_command(tmp_path, "trust", "--yes")).code == 0
    second = await run("new", "--project", "second")
    assert second.err == (
        "The project stays trusted. Once you edit the recipe, you are asked to trust it again.\n"
    )
    listed = await call_command(tmp_path, "trust", "--list")
    assert "changed since" not in listed.out
    assert "(not trusted)" not in (await run("list")).out
    recipes = tmp_path / ".acp-agent" / "recipes"
    (recipes / "first.md").write_text("Changed by somebody else.")
    third = await run("new", "--project", "third")
    assert "The recipe does not run until you trust the project." in third.err
    assert (await run("list")).out.count("(not trusted)") == 3
