"""The built-in recipes: each loads, renders in any folder, and does no more than it
may.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.errors import RecipeError
from acp_agent.hooks.handlers import known_handlers
from acp_agent.recipes.discovery import RecipeFolder, RecipeLibrary, builtin_recipes_dir
from acp_agent.recipes.model import Known
from acp_agent.session.commands import COMPACTING
from acp_agent.session.recipes.run import RecipeRun, surroundings
from acp_agent.tools.registry import built_in_tools
from acp_agent.tools.shell.allow import refusal
from support.repo import Repo, make_repo

NAMES = [
    "commit",
    "compact",
    "compact-brief",
    "explain",
    "handoff",
    "init",
    "plan",
    "pr",
    "review",
    "test-fix",
]
NEED_GIT = ("commit", "pr", "review")
SECRET_CHANGE = "return sum(line.price * line.quantity for line in self.lines)"
KNOWN = Known(
    known_handlers(),
    built_in_tools(),
    COMPACTING,
    strategies=lambda: ["summary"],
    providers=["anthropic"],
)
LIBRARY = RecipeLibrary.read([RecipeFolder("builtin", builtin_recipes_dir())], KNOWN)


def rendered(name: str, folder: Path, words: str = "", **arguments: str) -> str:
    recipe = LIBRARY.recipes[name]
    around = surroundings("sess_1", str(folder), recipe)
    return RecipeRun(recipe, words, (), arguments).render(around)


def changed(tmp_path: Path) -> Repo:
    """Return a repository with an uncommitted change and an untracked file."""
    repo = make_repo(tmp_path / "project")
    repo.fix()
    (repo.path / "notes.txt").write_text("remember\n")
    return repo


@pytest.mark.parametrize("name", NAMES)
def test_each_recipe_renders_with_the_typed_text_in_any_folder(
    name: str, tmp_path: Path
) -> None:
    repo = changed(tmp_path)
    unborn = tmp_path / "unborn"
    plain = tmp_path / "plain"
    for folder in (unborn, plain):
        folder.mkdir()
    Repo(unborn).git("init", "--quiet", "--initial-branch=main")
    (unborn / "new.txt").touch()
    # No pull request without a commit.
    for folder in (repo.path, unborn) if name != "pr" else (repo.path,):
        text = rendered(name, folder, "mind the {{ tea }}")
        assert text.count("mind the {{ tea }}") == 1
        assert "{%" not in text
        assert "\n\n\n" not in text
    if name in NEED_GIT:
        with pytest.raises(RecipeError, match="needs a git repository"):
            rendered(name, plain)
    else:
        assert rendered(name, plain)


def test_the_output_of_git_is_in_the_text(tmp_path: Path) -> None:
    repo = changed(tmp_path)
    commit, review, handoff = (
        rendered(name, repo.path) for name in ("commit", "review", "handoff")
    )
    for text in (commit, review):
        assert "?? notes.txt" in text
        assert f"+        {SECRET_CHANGE}" in text
    assert "A cart" in commit.partition("<latest-messages>")[2]
    assert "?? notes.txt" in handoff
    assert "on the branch `main`" in handoff
    repo.git("switch", "--quiet", "--create", "total")
    repo.git("commit", "--quiet", "--all", "--message", "Count every piece")
    for name, inside in (
        ("pr", "shop/cart.py | 2 +-"),
        ("review", f"+        {SECRET_CHANGE}"),
    ):
        text = rendered(name, repo.path, base="main")
        assert "Count every piece" in text
        assert inside in text
    assert "git symbolic-ref --short refs/remotes/origin/HEAD" in rendered(
        "pr", repo.path
    )


TO_LOOK = [
    "git diff --output=README.md",
    "git log --output=README.md -1",
    "git show HEAD '--output=README.md'",
    "git log -p --ext-diff",
    "git diff --no-index README.md shop/cart.py",
    "git diff /etc/hostname README.md",
    "git diff -- ../x README.md",
    "git diff .. README.md",
    "git diff -- ./.. shop",
    "git -c core.pager=touch -p log",
    "git diff *",
    "git log # --oneline",
]
TO_COMMIT = [
    *TO_LOOK,
    "git commit --amend -m x",
    "git commit -m x '--am' -a",
    "git commit --no-verify -am x",
    "git commit -anm x",
    "git restore --staged --worktree shop/cart.py",
    "git restore --staged -SW shop/cart.py",
]


@pytest.mark.parametrize(
    ("name", "refused", "allowed"),
    [
        (
            "review",
            [*TO_LOOK, "git stash", "git push"],
            ["git diff HEAD -- shop", "git blame shop/cart.py"],
        ),
        (
            "pr",
            [*TO_LOOK, "git push origin main", "gh pr create"],
            ["git merge-base HEAD main", "git branch -a"],
        ),
        (
            "handoff",
            [*TO_LOOK, "git commit -am done"],
            ["git log --oneline -5", "git status"],
        ),
        (
            "commit",
            TO_COMMIT,
            ["git restore --staged .", "git add a.py && git commit -m 'Add a'"],
        ),
    ],
)
def test_no_git_option_extends_what_a_recipe_may_do(
    name: str, refused: list[str], allowed: list[str]
) -> None:
    patterns = LIBRARY.recipes[name].allowed_commands or ()
    assert [line for line in refused if refusal(line, patterns) == ""] == []
    assert [line for line in allowed if refusal(line, patterns)] == []


def test_a_recipes_argument_never_becomes_a_git_option(tmp_path: Path) -> None:
    repo = changed(tmp_path)
    for name in ("review", "pr"):
        with pytest.raises(RecipeError, match=r"--output=README\.md\.\.HEAD"):
            rendered(name, repo.path, base="--output=README.md")
