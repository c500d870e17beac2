"""A change as version 2 shows it: a patch that git applies, whatever is in the file or
its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_agent.conversation.events import CallView
from acp_agent.conversation.views import Diff, Location
from acp_agent.server.v2.diffs import diff_items, patch
from acp_agent.tools.files.changes import DIFF_LIMIT, _diff_of, first_changed_line
from support.repo import Repo

LINES = st.lists(
    st.sampled_from(
        ["a", "b", "c", "", " ", "\r", "\x0c", "é", "-x", "+y", "@@ -1 +1 @@"]
    ),
    max_size=12,
)
TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"])
)


def applied(folder: Path, changes: list[tuple[str, str | None, str]]) -> list[str]:
    """What git makes of the files by these changes, which are (name, old text, new
    text).
    """
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
        Repo(folder).git("apply", "-p0", "--whitespace=nowarn", "-", stdin=text)
    return [(folder / name).read_bytes().decode() for name, _, _ in changes]


def test_git_makes_of_a_patch_what_was_made(tmp_path: Path) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.tuples(st.none() | TEXTS, TEXTS), min_size=1, max_size=8))
    def check(changes: list[tuple[str | None, str]]) -> None:
        named = [(f"{index}.txt", old, new) for index, (old, new) in enumerate(changes)]
        assert applied(tmp_path, named) == [new for _, _, new in named]

    check()


def test_the_middle_of_a_large_file_has_its_place_in_the_patch(tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 40}" for number in range(3000)]
    old = "\n".join(lines)
    changed = [*lines[:2000], "one more", *lines[2000:2010], "another", *lines[2012:]]
    new = "\n".join(changed)
    assert len(old) > DIFF_LIMIT
    shown = _diff_of("large.txt", old, new)
    assert shown.old_text != old
    (tmp_path / "large.txt").write_text(old)
    text = patch(shown, first_changed_line(old, new))
    assert text is not None
    assert "@@ -1998," in text
    Repo(tmp_path).git("apply", "-p0", "-", stdin=text)
    assert (tmp_path / "large.txt").read_text() == new


@pytest.mark.parametrize("old", [None, "x" * 10 + "\n"])
def test_a_change_that_is_not_all_there_has_no_patch(old: str | None) -> None:
    shown = _diff_of("/large.txt", old, "line\n" * DIFF_LIMIT)
    assert patch(shown, 1) is None
    [item] = diff_items(
        CallView("Write", "edit", (Location("/large.txt", 1),), (shown,))
    )
    assert "patch" not in item
    assert cast("Any", item)["changes"][0]["operation"] == (
        "add" if old is None else "modify"
    )


def test_a_text_that_repeats_few_lines_very_often_has_a_patch(tmp_path: Path) -> None:
    old = "".join(f"{number % 150}\n" for number in range(9_000))
    new = old.replace("7\n", "8\n")
    assert applied(tmp_path, [("rows.csv", old, new)]) == [new]


def test_a_change_that_ends_like_one_that_was_cut_has_a_patch(tmp_path: Path) -> None:
    new = "x = 1\n# … (9 more characters)\n"
    assert applied(tmp_path, [("a.py", None, new), ("b.py", "x = 1\n", new)]) == [
        new,
        new,
    ]


def test_git_applies_the_patch_of_a_file_whatever_its_name(tmp_path: Path) -> None:
    names = st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]),
        min_size=1,
        max_size=20,
    )

    @settings(max_examples=25, deadline=None)
    @given(
        names
        | st.text(
            st.sampled_from(' a"\\\a\b\t\n\v\f\r\x1b\x7fé\u202e'),
            min_size=1,
            max_size=8,
        )
    )
    def check(name: str) -> None:
        if name not in (".", "..") and name.casefold() != ".git":
            assert applied(tmp_path, [(name, "one\n", "two\n")]) == ["two\n"]

    check()
