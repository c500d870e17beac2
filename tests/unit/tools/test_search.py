"""The `list`, `glob` and `grep` tools."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import ToolError
from acp_agent.tools.search import grep
from acp_agent.tools.search.wildcards import matcher
from support.workspace import Workspace


async def refusal(workspace: Workspace, tool: str, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call(tool, **arguments)
    return str(caught.value)


# list


async def test_a_directory_is_listed_without_what_git_ignores(workspace: Workspace) -> None:
    for name in ("src/a.py", "src/deep/b.py", "README", "dist/x", "a.log", ".git/HEAD"):
        workspace.file(name)
    workspace.file(".gitignore", "dist/\n*.log\n")
    (workspace.root / "link").symlink_to("README")
    assert await workspace.text("list") == (
        ".gitignore\nREADME\nlink (link)\nsrc/\n(2 entries ignored by git not shown)"
    )
    assert await workspace.text("list", path="src", depth=2) == "a.py\ndeep/\n  b.py"
    (workspace.root / "empty").mkdir()
    assert await workspace.text("list", path="empty") == "(empty is empty.)"


async def test_a_long_listing_is_cut_and_says_so(workspace: Workspace) -> None:
    for number in range(600):
        workspace.file(f"{number:03}")
    lines = (await workspace.text("list")).split("\n")
    assert len(lines) == 501
    assert lines[-1].startswith("(cut after 500 entries;")


async def test_what_is_no_directory_is_refused(workspace: Workspace) -> None:
    workspace.file("a")
    assert "a cannot be listed: not a directory." in await refusal(workspace, "list", path="a")
    assert "b cannot be listed: no such file" in await refusal(workspace, "grep", pattern="x", path="b")


# glob


async def test_files_are_found_by_name_the_newest_first(workspace: Workspace) -> None:
    for age, name in enumerate(["src/a.py", "src/b/c.py", "top.py", "x.ts", "ignored/d.py"]):
        os.utime(workspace.file(name), (10**9 - age, 10**9 - age))
    workspace.file(".gitignore", "ignored\n")
    assert await workspace.text("glob", pattern="*.py") == "src/a.py\nsrc/b/c.py\ntop.py"
    assert await workspace.text("glob", pattern="src/*.py") == "src/a.py"
    assert await workspace.text("glob", pattern="**/*.{ts,py}", path="src") == "src/a.py\nsrc/b/c.py"
    assert await workspace.text("glob", pattern=f"{workspace.root}/*.ts") == "x.ts"
    assert await workspace.text("glob", pattern="*.rs") == "No file matches."


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "", "[", "a\nb", "{a,b}" * 10])
async def test_a_pattern_that_cannot_be_meant_is_refused(workspace: Workspace, pattern: str) -> None:
    assert (await refusal(workspace, "glob", pattern=pattern)).endswith(".")


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "a/b.pyx", False),
        ("db/*.py", "x/db/b.py", False),
        ("db/*.py", "db/x/b.py", False),
        ("db/**/*.py", "db/x/y/b.py", True),
        ("src", "src2", False),
        ("src", "src/a/b", True),
        ("src/", "src/a/b", True),
        ("./src/*.c", "src/a.c", True),
        ("!x", "!x", True),
        ("#x", "#x", True),
        ("**", "a/b", True),
        ("a/**/z", "a/z", True),
        ("[ab].c", "c.c", False),
    ],
)
def test_a_pattern_means_what_a_line_of_gitignore_means(pattern: str, path: str, found: bool) -> None:
    assert matcher(pattern, Path("/x"))(Path("/x", path)) == found


# grep


async def test_lines_are_found_with_their_place(workspace: Workspace) -> None:
    workspace.file("a.py", "import os\r\n\r\nx = os.path\r\n")
    workspace.file("src/b.py", "OS = 1\n")
    workspace.file("src/c.txt", "os")
    workspace.file("bin", b"os\0")
    workspace.file("skip.log", "os")
    workspace.file(".gitignore", "*.log\n")
    (workspace.root / "link.py").symlink_to("a.py")
    assert await workspace.text("grep", pattern=r"\bos\b", glob="*.py") == "a.py:1:import os\na.py:3:x = os.path"
    assert (
        await workspace.text("grep", pattern="^os", ignore_case=True, path="src") == "src/b.py:1:OS = 1\nsrc/c.txt:1:os"
    )
    assert await workspace.text("grep", pattern="os$", path="skip.log") == "skip.log:1:os"
    assert await workspace.text("grep", pattern="nowhere", glob="*.py") == "No line matches in 2 files."


async def test_the_lines_around_a_match_are_shown_once_where_context_is_asked_for(workspace: Workspace) -> None:
    workspace.file("f", "a\nb\nc\nd\nb\nx\ny\nz\n")
    found = await workspace.text("grep", pattern="b", context=1)
    assert found == "f-1-a\nf:2:b\nf-3-c\nf-4-d\nf:5:b\nf-6-x"


async def test_many_and_long_lines_are_cut_and_say_so(workspace: Workspace) -> None:
    workspace.file("many", "x\n" * 1000)
    workspace.file("long", "y" * 5000)
    many = await workspace.text("grep", pattern="x")
    assert many.count("many:") == 300
    assert many.endswith("(there are more; narrow the pattern, the directory or the glob)")
    long = await workspace.text("grep", pattern="y")
    assert long == f"long:1:{'y' * 481}… [5000 characters]"
    workspace.file("wide", ("z" * 400 + "\n") * 200)
    assert len(await workspace.text("grep", pattern="z")) < 30_100


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("(x", "missing ): (x"), (r"(?<=a)b", "has no lookaround"), (r"(a)\1", "has no backreferences")],
)
async def test_a_pattern_that_re2_cannot_match_is_refused_before_anybody_is_asked(
    workspace: Workspace, pattern: str, why: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await workspace.prepare("grep", pattern=pattern)
    assert str(caught.value).startswith(f"grep: `{pattern}` is no regular expression of RE2: ")
    assert why in str(caught.value)


async def test_a_search_that_takes_too_long_ends_and_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "MAX_SECONDS", 0)
    workspace.file("a", "x")
    assert "(stopped after 0 seconds; name fewer files" in await workspace.text("grep", pattern="x")


async def test_a_search_reads_no_pipe_and_no_device(workspace: Workspace, tmp_path: Path) -> None:
    os.mkfifo(workspace.root / "pipe")
    workspace.file("a", "x")
    with anyio.fail_after(5):
        assert await workspace.text("grep", pattern="x") == (
            "a:1:x\n(1 place not searched: unreadable, or larger than 10 MiB)"
        )
