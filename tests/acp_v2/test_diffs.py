"""A change as version 2 shows it: a patch that git applies, whatever is in the file or its name."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.conversation.events import CallView, Diff, FileChange, Location
from acp_agent.server.v2.diffs import change_items, diff_items, mime_type, patch, quoted
from acp_agent.tools.changes import DIFF_LIMIT, diff_of, first_changed_line

LINES = st.lists(st.sampled_from(["a", "b", "c", "", " ", "\r", "\x0c", "é", "-x", "+y", "@@ -1 +1 @@"]), max_size=12)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
NAMES = ["plain.txt", "with space.txt", 'quo"te\\back.txt', "täb\tnew\nline.txt", "trail "]


def applied(folder: Path, changes: list[tuple[str, str | None, str]]) -> list[str]:
    """What git makes of the files by these changes, which are (name, old text, new text)."""
    text = ""
    for name, old, new in changes:
        path = folder / name
        path.unlink(missing_ok=True)
        if old is not None:
            path.write_bytes(old.encode())
        found = patch(Diff(name, old, new), first_changed_line(old or "", new))
        assert found is not None or old == new
        text += found or ""
    if text:
        subprocess.run(["git", "apply", "-p0", "--whitespace=nowarn", "-"], cwd=folder, input=text.encode(), check=True)
    return [(folder / name).read_bytes().decode() for name, _, _ in changes]


def test_git_makes_of_a_patch_what_was_made(tmp_path: Path) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.tuples(st.none() | TEXTS, TEXTS), min_size=1, max_size=8))
    def check(changes: list[tuple[str | None, str]]) -> None:
        named = [(f"{index}.txt", old, new) for index, (old, new) in enumerate(changes)]
        assert applied(tmp_path, named) == [new for _, _, new in named]

    check()


def test_names_are_quoted_as_git_quotes_them(tmp_path: Path) -> None:
    changes: list[tuple[str, str | None, str]] = [(name, "old\n", "new\n") for name in NAMES]
    assert applied(tmp_path, changes) == ["new\n"] * len(NAMES)
    assert applied(tmp_path, [(name, None, "new\n") for name in NAMES]) == ["new\n"] * len(NAMES)
    assert quoted("/tmp/ä") == '"/tmp/\\303\\244"'


def test_the_middle_of_a_large_file_has_its_place_in_the_patch(tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 40}" for number in range(3000)]
    old = "\n".join(lines)
    changed = [*lines[:2000], "one more", *lines[2000:2010], "another", *lines[2012:]]
    new = "\n".join(changed)
    assert len(old) > DIFF_LIMIT
    shown = diff_of("large.txt", old, new)
    assert shown.old_text != old
    (tmp_path / "large.txt").write_text(old)
    text = patch(shown, first_changed_line(old, new))
    assert text is not None
    assert "@@ -1998," in text
    subprocess.run(["git", "apply", "-p0", "-"], cwd=tmp_path, input=text, text=True, check=True)
    assert (tmp_path / "large.txt").read_text() == new


@pytest.mark.parametrize("mark", ["\r", "\x0c", "\u2028"])
def test_a_line_of_a_large_file_ends_where_git_ends_it_whatever_is_in_it(tmp_path: Path, mark: str) -> None:
    bar = mark.join(f"{percent}%" for percent in range(60))
    old = "".join(f"step {number}: {bar}\n" for number in range(600))
    new = old.replace("step 300: 0%", "step 300: none")
    assert len(old) > DIFF_LIMIT
    (tmp_path / "large.log").write_bytes(old.encode())
    text = patch(diff_of("large.log", old, new), first_changed_line(old, new))
    assert text is not None
    apply = ["git", "apply", "-p0", "--whitespace=nowarn", "-"]
    subprocess.run(apply, cwd=tmp_path, input=text.encode(), check=True)
    assert (tmp_path / "large.log").read_bytes().decode() == new


@pytest.mark.parametrize("old", [None, "x" * 10 + "\n"])
def test_a_change_that_is_not_all_there_has_no_patch(old: str | None) -> None:
    shown = diff_of("/large.txt", old, "line\n" * DIFF_LIMIT)
    assert patch(shown, 1) is None
    [item] = diff_items(CallView("Write", "edit", (Location("/large.txt", 1),), (shown,)))
    assert "patch" not in item
    assert cast("Any", item)["changes"][0]["operation"] == ("add" if old is None else "modify")


def test_a_call_that_changes_nothing_has_no_diff() -> None:
    assert diff_items(CallView("Read", "read")) == []


@pytest.mark.parametrize(("operation", "left"), [("move", False), ("copy", True)])
def test_git_moves_and_copies_by_a_patch_what_was_moved_and_copied(
    tmp_path: Path, operation: Literal["move", "copy"], left: bool
) -> None:
    changes: list[FileChange] = []
    for name in NAMES:
        (tmp_path / name).write_bytes(b"a\0b\n")
        changes.append(FileChange(operation, f"new {name}", name, "binary"))
    [item] = cast("Any", change_items(CallView("mv", "execute", changes=tuple(changes))))
    text = item["patch"]["text"]
    subprocess.run(["git", "apply", "-p0", "-"], cwd=tmp_path, input=text, text=True, check=True)
    for name in NAMES:
        assert (tmp_path / f"new {name}").read_bytes() == b"a\0b\n"
        assert (tmp_path / name).exists() is left


def test_what_was_deleted_and_directories_have_no_patch() -> None:
    gone, moved = FileChange("delete", "/a.py", kind="text"), FileChange("move", "/new", "/old", "directory")
    [item] = change_items(CallView("rm", "execute", changes=(gone, moved)))
    assert item == {
        "type": "diff",
        "changes": [
            {"operation": "delete", "path": "/a.py", "fileType": "text", "mimeType": "text/x-python"},
            {"operation": "move", "oldPath": "/old", "path": "/new", "fileType": "directory"},
        ],
    }
    [unknown] = cast("Any", change_items(CallView("rm", "execute", changes=(FileChange("delete", "/pipe.py"),))))
    assert unknown["changes"] == [{"operation": "delete", "path": "/pipe.py"}]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.py", "text/x-python"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.html", "text/html"),
        # by the name alone a video, an archive and nothing, which a text is not
        ("a.ts", None),
        ("a.txt.gz", None),
        ("Makefile", None),
    ],
)
def test_a_text_has_the_type_of_its_name_where_that_is_one_of_text(name: str, told: str | None) -> None:
    assert mime_type(f"/some where/{name}") == told
