"""Walking a tree without what git ignores, against git itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.tools import walk as walk_module
from acp_agent.tools.walk import Walk

NAMES = ["a", "b", "build", "x.py", "y.log", "z.min.js", ".hidden", "A", "with space", "[x]", "#h", "!n"]
PATTERNS = [
    "a", "a/", "/a", "b/", "*.py", "*.log", "!x.py", "!*.log", "build", "build/", "!build/", "/build/*", "a/b", "a/**",
    "**/b", "a/**/b", "*", "!*/", "!*.py", "/*", "!/a", "!/a/", "*.min.*", "[ab]", "[!a]", "?", "x.*", "**/build/**",
    "\\#h", "\\!n", "\\[x\\]", "with space", "with\\ space", "a   ", "# comment", "", "!a/b/", "a/*", "!a/x.py", ".*",
    "*/", "[a-c]/y.log", "/", "!", "b/*/", "**", "!**/x.py", "build/**/", "[",
    "a/**/", "**b", "a/**b", "***", "a/***/b", "*i*l*", "x*y", "*.*.*", "[[:alpha:]]", "[[:nope:]]", "[]x[]*",
    "[^a-c]*", "[b/c]", "a//", "//", "a\\", "\\a/\\b", "a\\/b", "[a-", "[\\]]", "[a\\-c]", "[c-a]", "[!c-a]", "a\\ ",
    "/**", "?*?",
]  # fmt: skip

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
odd_patterns = st.text("abx.*?[]!^-:\\/ ", max_size=8)
rules = st.lists(st.sampled_from(PATTERNS) | odd_patterns, max_size=4)


def make_tree(root: Path, files: list[str], ignores: dict[str, list[str]], end: str = "\n") -> None:
    for name in files:
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:  # it would have to be a file and a directory
            continue
    for directory, patterns in ignores.items():
        if (root / directory).is_dir():
            (root / directory / ".gitignore").write_bytes((end.join(patterns) + end).encode())


def by_git(root: Path) -> set[str]:
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "XDG_CONFIG_HOME": "/",
    }
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True, timeout=20).stdout
    return {name for name in listing.decode().split("\0") if name}


async def by_walk(root: Path, base: Path | None = None) -> set[str]:
    def walked() -> set[str]:
        return {str(found.path.relative_to(root)) for found in Walk(base or root) if not found.is_directory}

    return await anyio.to_thread.run_sync(walked)


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(paths, max_size=12),
    ignores=st.dictionaries(st.sampled_from([".", "a", "b", "build", "a/b", "a/build"]), rules, max_size=3),
    exclude=rules,
    end=st.sampled_from(["\n", "\r\n"]),
)
@example(["src/x.log", "x.log"], {".": ["*.log", "!src/"]}, [], "\n")
@example(["x.py", "a/x.py", "a/b/x.py", "a/y.log"], {".": ["*", "!*/", "!*.py"]}, [], "\n")
@example(["a/b/x.py"], {".": ["/a/b"], "a": ["!b"]}, [], "\n")
@example(["a/x.py"], {}, ["a"], "\n")
@example(["build/a", "build/b/a"], {".": ["build/**/"]}, [], "\n")
@example(["a/x.py", "b/x.py"], {".": ["\ufeffa/"]}, [], "\n")
async def test_a_walk_finds_what_git_finds(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[str],
    ignores: dict[str, list[str]],
    exclude: list[str],
    end: str,
) -> None:
    root = tmp_path_factory.mktemp("tree")
    (root / ".git" / "info").mkdir(parents=True)
    (root / ".git" / "objects").mkdir()
    (root / ".git" / "refs").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git" / "info" / "exclude").write_bytes((end.join(exclude) + end).encode())
    make_tree(root, files, ignores, end)
    assert await by_walk(root) == by_git(root)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*a" * 14 + "*b", "a" * 200),
        ("**/a/" * 14 + "b", "a/" * 90 + "c"),
        ("*a/" * 14 + "b", "a/" * 90 + "c"),
        ("[a]*" * 60 + "b", "a" * 200),
        ("?*" * 100 + "b", "a" * 200),
    ],
)
def test_no_pattern_takes_for_ever(pattern: str, name: str) -> None:
    # In a process of its own: an expression that backtracks could not be interrupted in this one.
    code = (
        "import sys; from acp_agent.tools.patterns import matcher;"
        "pattern, name = sys.argv[1:]; print(matcher(pattern)(name))"
    )
    command = [sys.executable, "-c", code, pattern, name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
    assert done.stdout == "False\n"


async def test_the_rules_above_a_directory_count_in_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    make_tree(tmp_path, ["src/a.py", "src/a.log", "src/deep/b.log"], {".": ["*.log"]})
    assert await by_walk(tmp_path, tmp_path / "src") == {"src/a.py"}


async def test_an_ignored_directory_can_be_walked_when_it_is_named_itself(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    make_tree(tmp_path, ["node_modules/pkg/index.js"], {".": ["node_modules/"]})
    assert await by_walk(tmp_path, tmp_path / "node_modules") == {"node_modules/pkg/index.js"}
    assert await by_walk(tmp_path) == {".gitignore"}


async def test_the_rules_of_a_directory_above_the_repository_do_not_count(tmp_path: Path) -> None:
    make_tree(tmp_path, ["repo/a.log", "plain/a.log"], {".": ["*.log"]})
    (tmp_path / "repo" / ".git").mkdir()
    assert await by_walk(tmp_path / "repo") == {"a.log"}
    assert await by_walk(tmp_path) == {".gitignore", "repo/a.log"}


async def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert await by_walk(tmp_path) == {"d/up", "self"}


async def test_a_walk_in_a_tree_that_is_too_large_stops_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path, [f"{number}" for number in range(20)], {})
    monkeypatch.setattr(walk_module, "MAX_ENTRIES", 10)

    def walked() -> tuple[int, str]:
        walk = Walk(tmp_path)
        return len(list(walk)), walk.cut

    assert await anyio.to_thread.run_sync(walked) == (10, "after 10 entries")


async def test_a_cancel_ends_a_walk(tmp_path: Path) -> None:
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


async def test_a_directory_that_cannot_be_read_is_refused_or_passed_over(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be read"):
        await by_walk(tmp_path / "absent")
