"""The `list`, `glob` and `grep` tools."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import ToolError
from acp_agent.patterns import compile_pattern
from acp_agent.tools.search import grep, matches
from acp_agent.tools.search.matches import Matches
from acp_agent.tools.search.wildcards import matcher
from support.workspace import Workspace


async def refusal(workspace: Workspace, tool: str, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call(tool, **arguments)
    return str(caught.value)


# list


async def test_a_directory_is_listed_without_ignored_files(
    workspace: Workspace,
) -> None:
    for name in ("src/a.py", "src/deep/b.py", "README", "dist/x", "a.log", ".git/HEAD"):
        workspace.file(name)
    workspace.file(".gitignore", "dist/\n*.log\n")
    (workspace.root / "link").symlink_to("README")
    assert await workspace.text("list") == (
        ".gitignore\nREADME\nlink (link)\nsrc/\n(2 entries that git ignores not shown)"
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


async def test_listing_anything_but_a_directory_is_refused(
    workspace: Workspace,
) -> None:
    workspace.file("a")
    assert "a cannot be listed: not a directory." in await refusal(
        workspace, "list", path="a"
    )
    assert "b cannot be listed: no such file" in await refusal(
        workspace, "grep", pattern="x", path="b"
    )


# glob


async def test_files_are_found_by_name_newest_first(workspace: Workspace) -> None:
    for age, name in enumerate(
        ["src/a.py", "src/b/c.py", "top.py", "x.ts", "ignored/d.py"]
    ):
        os.utime(workspace.file(name), (10**9 - age, 10**9 - age))
    workspace.file(".gitignore", "ignored\n")
    assert (
        await workspace.text("glob", pattern="*.py") == "src/a.py\nsrc/b/c.py\ntop.py"
    )
    assert await workspace.text("glob", pattern="src/*.py") == "src/a.py"
    assert (
        await workspace.text("glob", pattern="**/*.{ts,py}", path="src")
        == "src/a.py\nsrc/b/c.py"
    )
    assert await workspace.text("glob", pattern=f"{workspace.root}/*.ts") == "x.ts"
    assert await workspace.text("glob", pattern="*.rs") == "No file matches."


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "", "a\\", "a\nb", "{a,b}" * 10])
async def test_an_unusable_pattern_is_refused(
    workspace: Workspace, pattern: str
) -> None:
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
def test_a_pattern_has_the_meaning_of_a_gitignore_line(
    pattern: str, path: str, found: bool
) -> None:
    assert matcher(pattern, Path("/x")).matches(Path("/x", path)) == found


# grep


async def test_matching_lines_are_found_with_path_and_number(
    workspace: Workspace,
) -> None:
    workspace.file("a.py", "import os\r\n\r\nx = os.path\r\n")
    workspace.file("src/b.py", "OS = 1\n")
    workspace.file("src/c.txt", "os")
    workspace.file("bin", b"os\0")
    workspace.file("skip.log", "os")
    workspace.file(".gitignore", "*.log\n")
    (workspace.root / "link.py").symlink_to("a.py")
    assert (
        await workspace.text("grep", pattern=r"\bos\b", glob="*.py")
        == "a.py:1:import os\na.py:3:x = os.path"
    )
    assert (
        await workspace.text("grep", pattern="^os", ignore_case=True, path="src")
        == "src/b.py:1:OS = 1\nsrc/c.txt:1:os"
    )
    assert (
        await workspace.text("grep", pattern="os$", path="skip.log") == "skip.log:1:os"
    )
    assert (
        await workspace.text("grep", pattern="nowhere", glob="*.py")
        == "No line matches in 2 files."
    )


async def test_context_lines_are_shown_once(
    workspace: Workspace,
) -> None:
    workspace.file("f", "a\nb\nc\nd\nb\nx\ny\nz\n")
    found = await workspace.text("grep", pattern="b", context=1)
    assert found == "f-1-a\nf:2:b\nf-3-c\nf-4-d\nf:5:b\nf-6-x"


async def test_many_and_long_lines_are_cut_and_say_so(workspace: Workspace) -> None:
    workspace.file("many", "x\n" * 1000)
    workspace.file("long", "y" * 5000)
    many = await workspace.text("grep", pattern="x")
    assert many.count("many:") == 300
    assert many.endswith(
        "(there are more matches; narrow the pattern, the directory or the glob)"
    )
    long = await workspace.text("grep", pattern="y")
    assert long == f"long:1:{'y' * 481}… [5000 characters]"
    workspace.file("wide", ("z" * 400 + "\n") * 200)
    assert len(await workspace.text("grep", pattern="z")) < 30_100


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(x", "missing ): (x"),
        (r"(?<=a)b", "has no lookaround"),
        (r"(a)\1", "no backreferences"),
    ],
)
async def test_a_pattern_that_re2_cannot_match_is_refused_before_any_question(
    workspace: Workspace, pattern: str, why: str
) -> None:
    with pytest.raises(ToolError) as caught:
        await workspace.prepare("grep", pattern=pattern)
    assert str(caught.value).startswith(
        f"grep: `{pattern}` is not a valid RE2 regular expression: "
    )
    assert why in str(caught.value)


async def test_a_search_that_takes_too_long_stops_and_says_so(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "MAX_SECONDS", 0)
    workspace.file("a", "x")
    assert "(stopped after 0 seconds; search fewer files" in await workspace.text(
        "grep", pattern="x"
    )


async def test_a_search_does_not_read_pipes_or_devices(
    workspace: Workspace, tmp_path: Path
) -> None:
    os.mkfifo(workspace.root / "pipe")
    workspace.file("a", "x")
    with anyio.fail_after(5):
        assert await workspace.text("grep", pattern="x") == (
            "a:1:x\n(1 path not searched: unreadable, or larger than 10 MiB; pass a large file as `path`)"
        )


# names that contain wildcards, names that git ignores, and names that look alike

NEXT = (
    "src/app/[locale]/(auth)/page.tsx",
    "src/app/[locale]/[[...sign-in]]/page.tsx",
    "src/app/l/other.tsx",
)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("src/app/[locale]/(auth)/page.tsx", NEXT[:1]),
        ("src/app/[locale]/**", NEXT[:2]),
        ("src/app/[locale]/[[...sign-in]]/page.tsx", NEXT[1:2]),
        ("**/[[...sign-in]]/*.{ts,tsx}", NEXT[1:2]),
        ("**/[locale]/**/*.tsx", NEXT[:2]),
        ("[[...x]]/a.ts", ["[[...x]]/a.ts"]),
        ("src/[id/page.ts", ["src/[id/page.ts"]),
        ("[[:nonsense:]]/a.ts", ["[[:nonsense:]]/a.ts"]),
        ("a{b,c}d/f.txt", ["a{b,c}d/f.txt"]),
        ("a{b,c}d/*.{txt,md}", ["a{b,c}d/f.txt"]),
        ("{{cookiecutter.name}}/*.py", ["{{cookiecutter.name}}/a.py"]),
        ("a{b,{c,d}}/x", ["a{b,{c,d}}/x"]),
    ],
)
async def test_brackets_and_braces_also_match_literally(
    workspace: Workspace, pattern: str, found: list[str]
) -> None:
    for name in (*NEXT, *found):
        workspace.file(name, "needle\n")
    names = set((await workspace.text("glob", pattern=pattern)).split("\n"))
    assert set(found) <= names
    # The brackets also match it as a character class.
    assert names - set(found) <= {NEXT[2]}
    lines = set(
        (await workspace.text("grep", pattern="needle", glob=pattern)).split("\n")
    )
    assert {f"{name}:1:needle" for name in found} <= lines


async def test_brackets_and_braces_are_still_wildcards(
    workspace: Workspace,
) -> None:
    for name in ("a.c", "b.c", "x.c", "abd/f", "acd/f"):
        workspace.file(name)
    assert sorted((await workspace.text("glob", pattern="[ab].c")).split("\n")) == [
        "a.c",
        "b.c",
    ]
    assert await workspace.text("glob", pattern="[!ab].c") == "x.c"
    assert sorted((await workspace.text("glob", pattern="a{b,c}d/f")).split("\n")) == [
        "abd/f",
        "acd/f",
    ]
    assert await workspace.text("glob", pattern=r"\[ab\].c") == "No file matches."


@pytest.fixture
def ignoring(workspace: Workspace) -> Workspace:
    for name in (
        "dist/js/a.js",
        "dist/b.js",
        "node_modules/x/package.json",
        ".env",
        ".env.local",
        "app.log",
        "src/a.py",
    ):
        workspace.file(name, "needle\n")
    workspace.file(".gitignore", "dist/\nnode_modules\n.env*\n*.log\n")
    return workspace


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (
            "dist/**/*.js",
            "2 files that git ignores match, such as dist/b.js, dist/js/a.js;",
        ),
        ("**/.env*", "2 files that git ignores match, such as .env, .env.local;"),
        ("*.log", "1 file that git ignores matches, such as app.log;"),
    ],
)
async def test_an_empty_answer_says_how_many_ignored_files_match(
    ignoring: Workspace, pattern: str, told: str
) -> None:
    answer = await ignoring.text("glob", pattern=pattern)
    assert answer.startswith(f"No file matches.\n({told}")
    answer = await ignoring.text("grep", pattern="needle", glob=pattern)
    assert answer.startswith(f"No line matches in 0 files.\n({told}")
    assert await ignoring.text("glob", pattern="*.rs") == "No file matches."


@pytest.mark.parametrize(
    "name", ["node_modules/x/package.json", "dist/js/a.js", ".env", "app.log"]
)
async def test_a_pattern_without_wildcards_finds_a_file_that_git_ignores(
    ignoring: Workspace, name: str
) -> None:
    assert (await ignoring.text("glob", pattern=name)).split("\n")[0] == name
    assert (await ignoring.text("grep", pattern="needle", glob=name)).split("\n")[
        0
    ] == f"{name}:1:needle"


async def test_a_name_at_any_depth_finds_ignored_files_if_there_are_no_others(
    ignoring: Workspace,
) -> None:
    assert await ignoring.text("glob", pattern="package.json") == (
        "node_modules/x/package.json\n(git ignores this file)"
    )
    ignoring.file("src/package.json")
    assert await ignoring.text("glob", pattern="package.json") == "src/package.json"


async def test_nothing_in_the_git_directory_or_below_a_link_is_counted(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.file(".git/hooks/a.js")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.js").write_text("x")
    (workspace.root / "link").symlink_to(tmp_path / "elsewhere")
    assert await workspace.text("glob", pattern="**/*.js") == "No file matches."
    assert await workspace.text("glob", pattern="link/b.js") == "No file matches."


@pytest.mark.parametrize(
    ("there", "written", "told"),
    [
        (
            "Screenshot 1.01.11\u202fAM.txt",
            "Screenshot 1.01.11 AM.txt",
            "U+202F where you wrote U+0020",
        ),
        (
            "Re\u0301sume\u0301.txt",
            "R\u00e9sum\u00e9.txt",
            "U+0065 U+0301 where you wrote U+00E9",
        ),
        (
            "R\u00e9sum\u00e9.txt",
            "Re\u0301sume\u0301.txt",
            "U+00E9 where you wrote U+0065 U+0301",
        ),
        ("it’s.md", "it's.md", "U+2019 where you wrote U+0027"),
    ],
)
async def test_a_lookalike_name_is_found_if_no_name_matches(
    workspace: Workspace, there: str, written: str, told: str
) -> None:
    workspace.file(f"docs/{there}", "needle\n")
    for pattern in (written, f"docs/{written}"):
        note = (
            f"(no file has exactly this name; this one looks like it, but has {told})"
        )
        assert (await workspace.text("glob", pattern=pattern)).split("\n") == [
            f"docs/{there}",
            note,
        ]
    assert (
        await workspace.text("grep", pattern="needle", glob=f"*{written[4:]}")
    ).startswith(f"docs/{there}:1:needle")
    workspace.file(written)
    assert await workspace.text("glob", pattern=written) == written


async def test_a_search_without_a_match_shows_lookalikes(
    workspace: Workspace,
) -> None:
    workspace.file("a.txt", "one\nit’s 10\u00a0000\n")
    assert await workspace.text("grep", pattern="it's 10 \\d+") == (
        "No line matches in 1 file.\n"
        "These lines look like matches, but have other spaces, quotes, dashes or accents:\n"
        "a.txt:2:it’s 10\u00a0000"
    )
    assert await workspace.text("grep", pattern="it’s") == "a.txt:2:it’s 10\u00a0000"


# large files


async def test_a_file_too_large_to_read_is_searched_if_it_is_named(
    workspace: Workspace,
) -> None:
    line = "x" * 99
    lines = [f"{number:07} {line}" for number in range(110_000)]
    lines[97_000] += " needle"
    lines[109_999] += " needle"
    workspace.file("big.log", "\n".join(lines))
    assert "Search it with `grep` and the file as `path`" in await refusal(
        workspace, "read", path="big.log"
    )
    found = await workspace.text("grep", pattern="needle$", path="big.log", context=1)
    numbers = [int(line.replace(":", "-").split("-")[1]) for line in found.split("\n")]
    assert numbers == [97_000, 97_001, 97_002, 109_999, 110_000]
    assert (
        "(1 path not searched: unreadable, or larger than 10 MiB"
        in await workspace.text("grep", pattern="needle")
    )


@given(
    st.lists(st.text("ab", max_size=3), min_size=1, max_size=30),
    st.integers(1, 20),
    st.integers(0, 3),
    st.booleans(),
)
def test_searching_in_blocks_gives_the_same_result_as_searching_the_whole(
    lines: list[str], block: int, context: int, ends: bool
) -> None:
    data = ("\n".join(lines) + "\n" * ends).encode()

    def found(size: int) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(matches, "BLOCK", size)
            collected = Matches(
                compile_pattern("a+b", multiline=True, within_lines=True), None, context
            )
            for _ in collected.add("f", BytesIO(data)):
                pass
            return collected.lines

    assert found(block) == found(1 << 20)
