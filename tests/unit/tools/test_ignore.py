"""Walking a tree without the files that git ignores, compared with git."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.tools.search import walk as walk_module
from acp_agent.tools.search.walk import Walk
from support.repo import Repo

NAMES = [
    "a",
    "b",
    "build",
    "x.py",
    "y.log",
    "z.min.js",
    ".hidden",
    "A",
    "with space",
    "[x]",
    "#h",
    "!n",
]
PATTERNS = [
    "a", "a/", "/a", "b/", "*.py", "*.log", "!x.py", "!*.log", "build", "build/", "!build/", "/build/*", "a/b", "a/**",
    "**/b", "a/**/b", "*", "!*/", "!*.py", "/*", "!/a", "!/a/", "*.min.*", "[ab]", "[!a]", "?", "x.*", "**/build/**",
    "\\#h", "\\!n", "\\[x\\]", "with space", "with\\ space", "a   ", "# comment", "", "!a/b/", "a/*", "!a/x.py", ".*",
    "*/", "[a-c]/y.log", "/", "!", "b/*/", "**", "!**/x.py", "build/**/", "[",
    "a/**/", "**b", "a/**b", "***", "a/***/b", "*i*l*", "x*y", "*.*.*", "[[:alpha:]]", "[[:nope:]]", "[]x[]*",
    "[^a-c]*", "[b/c]", "a//", "//", "a\\", "\\a/\\b", "a\\/b", "[a-", "[\\]]", "[a\\-c]", "[c-a]", "[!c-a]", "a\\ ",
    "/**", "?*?", "[!]", "[^]a]", "[[:alpha:]",
]  # fmt: skip

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
odd_patterns = st.text("abx.*?[]!^-:\\/ ", max_size=8)
rules = st.lists(st.sampled_from(PATTERNS) | odd_patterns, max_size=4)


def make_tree(
    root: Path, files: list[str], ignores: dict[str, list[str]], end: str = "\n"
) -> None:
    for name in files:
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:  # it would have to be a file and a directory
            continue
    for directory, patterns in ignores.items():
        if (root / directory).is_dir():
            (root / directory / ".gitignore").write_bytes(
                (end.join(patterns) + end).encode()
            )


def make_repository(root: Path) -> None:
    for folder in ("info", "objects", "refs"):
        (root / ".git" / folder).mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def by_git(root: Path) -> set[str]:
    listing = Repo(root).git(
        "ls-files", "-z", "--others", "--exclude-standard", env=os.environ
    )
    return {name for name in listing.split("\0") if name}


async def by_walk(root: Path, base: Path | None = None) -> set[str]:
    def walked() -> set[str]:
        return {
            str(found.path.relative_to(root))
            for found in Walk(base or root)
            if not found.is_directory
        }

    return await anyio.to_thread.run_sync(walked)


@given(
    files=st.lists(paths, max_size=12),
    ignores=st.dictionaries(
        st.sampled_from([".", "a", "b", "build", "a/b", "a/build"]), rules, max_size=3
    ),
    exclude=rules,
    users=rules,
    end=st.sampled_from(["\n", "\r\n"]),
)
@example(["src/x.log", "x.log"], {".": ["*.log", "!src/"]}, [], [], "\n")
@example(
    ["x.py", "a/x.py", "a/b/x.py", "a/y.log"],
    {".": ["*", "!*/", "!*.py"]},
    [],
    [],
    "\n",
)
@example(["a/b/x.py"], {".": ["/a/b"], "a": ["!b"]}, [], [], "\n")
@example(["a/x.py"], {}, ["a"], [], "\n")
@example(
    ["x.py", "y.log", "a/y.log"], {"a": ["!y.log"]}, ["!x.py"], ["x.py", "*.log"], "\n"
)
@example(["build/a", "build/b/a"], {".": ["build/**/"]}, [], [], "\n")
@example(["a/x.py", "b/x.py"], {".": ["\ufeffa/"]}, [], [], "\n")
async def test_a_walk_finds_the_same_files_as_git(
    tmp_path_factory: pytest.TempPathFactory,
    users_git: Path,
    files: list[str],
    ignores: dict[str, list[str]],
    exclude: list[str],
    users: list[str],
    end: str,
) -> None:
    root = tmp_path_factory.mktemp("tree")
    make_repository(root)
    (root / ".git" / "info" / "exclude").write_bytes((end.join(exclude) + end).encode())
    make_tree(root, files, ignores, end)
    (users_git / "ignore").write_bytes((end.join(users) + end).encode())
    try:
        assert await by_walk(root) == by_git(root)
    finally:
        (users_git / "ignore").unlink()


@pytest.mark.parametrize(
    "place", ["user", "included", "repository", "empty", "relative", "missing"]
)
async def test_the_users_ignore_file_is_the_one_configured_in_git(
    tmp_path: Path, users_git: Path, place: str
) -> None:
    root = tmp_path / "root"
    make_repository(root)
    make_tree(root, ["a/x.log", "x.tmp", "sub/y.log"], {})
    home = users_git.parents[1]
    (home / "mine").write_text("*.log\n")
    (root / "theirs").write_text("/x.tmp\n/theirs\n")
    (users_git / "ignore").write_text("*.tmp\n")
    named = {"empty": "", "relative": "theirs", "missing": "~/nowhere"}.get(
        place, "~/mine"
    )
    setting = f"[core]\n\texcludesFile = {named}\n"
    if place == "included":
        (home / "more").write_text(setting)
        setting = "[include]\n\tpath = more\n"
    config = root / ".git" / "config" if place == "repository" else home / ".gitconfig"
    config.write_text(setting)
    try:
        found = await by_walk(root)
        assert found == by_git(root)
    finally:
        (home / ".gitconfig").unlink(missing_ok=True)
        (users_git / "ignore").unlink()
    left_out = {
        "empty": set[str](),
        "relative": {"x.tmp", "theirs"},
        "missing": set[str](),
    }
    assert {"a/x.log", "x.tmp", "sub/y.log", "theirs"} - found == left_out.get(
        place, {"a/x.log", "sub/y.log"}
    )


@pytest.mark.parametrize("git", ["there", "absent"])
async def test_the_users_ignore_file_applies_inside_and_outside_repositories(
    tmp_path: Path, users_git: Path, monkeypatch: pytest.MonkeyPatch, git: str
) -> None:
    make_repository(tmp_path / "inner")
    make_tree(
        tmp_path, ["a.tmp", "a.py", "inner/b.tmp", "inner/b.py", "inner/d/c.tmp"], {}
    )
    (users_git / "ignore").write_text("/*.tmp\nd\n")
    if git == "absent":
        monkeypatch.setenv("PATH", str(tmp_path))
    try:
        assert await by_walk(tmp_path) == {"a.py", "inner/b.py"}
    finally:
        (users_git / "ignore").unlink()


async def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert await by_walk(tmp_path) == {"d/up", "self"}


async def test_a_walk_of_a_tree_that_is_too_large_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path, [f"{number}" for number in range(20)], {})
    (tmp_path / "zz").mkdir()
    monkeypatch.setattr(walk_module, "MAX_SECONDS", 0)

    def walked() -> tuple[int, str]:
        walk = Walk(tmp_path)
        return len(list(walk)), walk.cut

    assert await anyio.to_thread.run_sync(walked) == (0, "after 0 seconds")


async def test_cancellation_ends_a_walk(tmp_path: Path) -> None:
    make_tree(tmp_path, [f"{number}" for number in range(250)], {})
    seen: list[int] = []

    def walk_again_and_again() -> None:
        while True:
            seen.append(len(list(Walk(tmp_path))))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, walk_again_and_again)
            while not seen:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert seen
