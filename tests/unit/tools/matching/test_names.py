"""File names that look like the one the model wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.errors import ToolError
from support.workspace import Workspace

ALIKE = [
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
    ("a\u00a0b.txt", "a b.txt", "U+00A0 where you wrote U+0020"),
    ("it’s.md", "it's.md", "U+2019 where you wrote U+0027"),
    ("1–2.md", "1-2.md", "U+2013 where you wrote U+002D"),
    ("a\u200bb.md", "ab.md", "U+200B where you wrote nothing"),
    ("Donne\u0301es/a.md", "Données/a.md", "U+0065 U+0301 where you wrote U+00E9"),
    ("a\nb.md", "a\\nb.md", "characters that cannot be shown"),
]


def files(workspace: Workspace) -> list[Path]:
    return [path for path in workspace.root.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("there", "written", "told"), ALIKE)
async def test_the_only_lookalike_name_is_used_and_reported(
    workspace: Workspace, there: str, written: str, told: str
) -> None:
    path = workspace.file(there, "one\n")
    read = await workspace.text("read", path=written)
    assert read.startswith("1\tone\n(")
    assert f"whose name has {told}" in read
    await workspace.call(
        "edit", path=written, edits=[{"old_text": "one", "new_text": "two"}]
    )
    assert path.read_text() == "two\n"
    await workspace.call("write", path=written, content="three\n")
    assert path.read_text() == "three\n"
    assert "three" in await workspace.text("grep", pattern="three", path=written)
    assert files(workspace) == [path]


@pytest.mark.parametrize(("there", "written", "told"), ALIKE[:-2])
async def test_creating_a_file_next_to_a_lookalike_is_reported(
    workspace: Workspace, there: str, written: str, told: str
) -> None:
    workspace.file(there, "one\n")
    made = await workspace.text("write", path=written, content="new\n")
    assert f"The directory also has {there!r}, whose name has {told}." in made
    assert len(files(workspace)) == 2


async def test_a_new_file_goes_into_the_only_lookalike_directory(
    workspace: Workspace,
) -> None:
    folder = workspace.file("Donne\u0301es/a.md").parent
    await workspace.call("write", path="Données/new/b.md", content="x")
    assert {path.relative_to(folder).as_posix() for path in files(workspace)} == {
        "a.md",
        "new/b.md",
    }


async def test_neither_of_two_lookalike_names_is_used(
    workspace: Workspace,
) -> None:
    workspace.file("a\u00a0b")
    workspace.file("a\u202fb")
    with pytest.raises(ToolError) as caught:
        await workspace.call("read", path="a b")
    assert (
        "Did you mean 'a\\xa0b', whose name has U+00A0 where you wrote U+0020 and 'a\\u202fb'"
        in str(caught.value)
    )


async def test_an_existing_name_is_used_despite_lookalikes(
    workspace: Workspace,
) -> None:
    workspace.file("a\u00a0b", "other\n")
    workspace.file("a b", "this\n")
    assert await workspace.text("read", path="a b") == "1\tthis"


async def test_a_lookalike_directory_is_listed_and_searched(
    workspace: Workspace,
) -> None:
    workspace.file("Donne\u0301es/a.md", "x\n")
    assert (await workspace.text("list", path="Données")).startswith(
        "a.md\n(Données does not exist. This is "
    )
    assert (await workspace.text("glob", pattern="*.md", path="Données")).startswith(
        "Donne\u0301es/a.md\n"
    )
    assert "\na.md\n" in (await workspace.text("shell", command="ls", cwd="Données"))
