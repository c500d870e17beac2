"""`acp-agent recipe`: list, show, new, check."""

from __future__ import annotations

import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from acp_agent.schemas import schema_path
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
    listed = await call_command(tmp_path, "recipe", "list", "--json")
    said = f"{broken}:3: allowed_tools.0: there is no tool 'raed'; did you mean `read`?"
    assert (listed.code, listed.err) == (1, f"acp-agent: {said}\n")
    report = json.loads(listed.out)
    assert report["errors"] == [{"file": str(broken), "line": 3, "error": said}]
    [entry] = [entry for entry in report["recipes"] if entry["name"] == "talk/mine"]
    assert (entry["command"], entry["origin"], entry["version"], entry["file"]) == (
        "/talk:mine",
        "user",
        "1.10",
        str(mine),
    )


async def test_what_a_recipe_would_send_is_shown_below_its_front_matter(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "state" / "recipes" / "mine.md", MINE)
    shown = await run("show", "mine", "--arg", "depth=deeply", "please", "and", "soon")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0].startswith(f"{path} (user, ")
    assert lines[1:-2] == MINE.splitlines()[:-1]
    assert lines[-1] == f"Say hello deeply in {tmp_path}. please and soon"
    dashed = await run("show", "mine", "--arg", "depth=2", "all", "--", "-v", "--", "it")
    assert (dashed.code, dashed.err) == (0, "")
    assert dashed.out.splitlines()[-1] == f"Say hello 2 in {tmp_path}. all -v -- it"
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
    report = json.loads((await run("list", "--json")).out)
    found = [(entry["name"], entry["origin"], entry["trusted"]) for entry in report["recipes"]]
    assert [entry for entry in found if entry[0] in ("mine", "plan")] == [
        ("mine", "project", False),
        ("plan", "builtin", True),
        ("plan", "project", False),
    ]

    shown = await run("show", "mine", "--arg", "depth=2")
    assert (shown.code, shown.err) == (0, f"acp-agent: This recipe is not trusted. {advice}")
    assert shown.out.startswith(f"{mine} (project, not trusted, ")
    assert "\nSay [what `touch ran` prints, which runs once it is trusted] 2 in " in shown.out
    other = await run("show", "plan")
    assert other.out.startswith(f"{own} (builtin, ")
    assert other.err == f"acp-agent: {plan} is not trusted, so that this one runs. {advice}"
    write(folder / "evil.md", plan.read_text())
    evil = await run("show", "evil")
    assert "\x1b" not in evil.out
    assert evil.out.endswith("\nPlan it.\n")
    assert not (tmp_path / "ran").exists()

    assert (await call_command(tmp_path, "trust")).code == 0
    shown = await run("show", "mine", "--arg", "depth=2")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"{mine} (project, ")
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


async def test_a_new_recipe_of_a_built_in_one_s_name_begins_as_that_in_the_project(run: Run, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    for name in (".git", "docs"):
        (shop / name).mkdir(parents=True)
    made = await run("new", "compact", "--project", cwd=shop / "docs")
    path = shop / ".acp-agent" / "recipes" / "compact.md"
    assert (made.code, made.out) == (0, f"{path}\n")
    fence, modeline, *rest = path.read_text().splitlines(keepends=True)
    assert fence + "".join(rest) == (REPOSITORY / "recipes" / "compact.md").read_text()
    # What is committed names no place of this machine.
    assert modeline == "# yaml-language-server: $schema=../schemas/recipe.schema.json\n"
    schema = shop / ".acp-agent" / "schemas" / "recipe.schema.json"
    assert schema.read_bytes() == schema_path("recipe").read_bytes()
    # A link in its place is replaced, and never written through.
    precious = tmp_path / "precious"
    precious.write_text("mine")
    schema.unlink()
    schema.symlink_to(precious)
    nested = await run("new", "talk/mine", "--project", cwd=shop)
    assert nested.code == 0
    assert "$schema=../../schemas/recipe.schema.json\n" in Path(nested.out.strip()).read_text()
    assert (schema.is_symlink(), precious.read_text()) == (False, "mine")
    schema.unlink()
    schema.parent.rmdir()
    schema.parent.symlink_to(tmp_path)
    refused = await run("new", "other", "--project", cwd=shop)
    assert (refused.code, "leads out of" in refused.err) == (1, True)
    assert not (path.parent / "other.md").exists()
    assert not (tmp_path / "recipe.schema.json").exists()


async def test_what_is_wrong_is_told_by_file_and_line_of_all_or_of_those_named(run: Run, tmp_path: Path) -> None:
    good = await run("check")
    assert (good.code, good.out) == (0, "10 checked, 0 wrong.\n")
    broken = write(tmp_path / "drafts" / "broken.md", BROKEN)
    template = write(tmp_path / "drafts" / "deep" / "odd.md", "---\n---\nOne.\n{{ two }}\n")
    fine = write(tmp_path / "drafts" / "fine.md", "Fine.\n")
    one = await run("check", str(fine), "drafts/broken.md")
    assert (one.code, one.out) == (1, "2 checked, 1 wrong.\n")
    assert one.err.startswith(f"acp-agent: {broken}:3: allowed_tools.0: ")
    folder = await run("check", "drafts")
    assert (folder.code, folder.out) == (1, "3 checked, 2 wrong.\n")
    assert f"{template}:4: the template is wrong: 'two' is undefined" in folder.err
    write(tmp_path / "state" / "recipes" / "compact.md", "No hook.\n")
    user = await run("check")
    assert (user.code, user.out) == (1, "11 checked, 1 wrong.\n")
    assert "compact.md:1: hooks: a recipe named `compact` must have" in user.err
    write(tmp_path / "state" / "recipes" / "compact.md", (REPOSITORY / "recipes" / "compact.md").read_text())
    shouted = write(tmp_path / "state" / "recipes" / "loud.MD", "Fine.\n")
    left_out = await run("check", str(shouted))
    assert (left_out.code, left_out.out) == (1, "1 checked, 1 wrong.\n")
    assert f"{shouted}: is no recipe by its name, which has to end in .md" in left_out.err
    # Of a folder in theirs only what is in it, under the name that it has there, and nothing twice.
    write(tmp_path / "state" / "recipes" / "talk" / "Odd.md", "Fine.\n")
    for words in (
        ("state/recipes/talk",),
        ("state/recipes/talk", "state/x/../recipes/talk/Odd.md", "state/recipes/talk"),
    ):
        part = await run("check", *words)
        assert (part.code, part.out, part.err.count("\n")) == (1, "1 checked, 1 wrong.\n", 1)
        assert part.err.startswith(f"acp-agent: {tmp_path}/state/recipes/talk/Odd.md: a recipe's file and its folders")
    gone = await run("check", "nowhere.md")
    assert (gone.code, gone.out) == (1, "")
