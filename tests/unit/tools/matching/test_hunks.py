"""The changed lines of a text as hunks: complete, in order, and computed in linear
time.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.tools.matching.hunks import added_in, change_counts, hunks
from acp_agent.tools.text import whole_lines
from support.growth import grows_too_fast

TEXTS = st.lists(
    st.sampled_from(["a", "b", "c", "d", "e", "f", "", "+a", "-b"]), max_size=30
).map("\n".join)


def applied(old_text: str, text: str) -> str:
    """Apply hunks by their line numbers."""
    old = whole_lines(old_text)
    new: list[str] = []
    at = 0
    mark = ""
    for line in whole_lines(text):
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (0 if count == "0" else 1)
            new += old[at:first]
            at = first
        elif line.startswith("\\"):
            if mark in "+ ":
                new[-1] = new[-1].removesuffix("\n")
        else:
            mark = line[0]
            if mark in "- ":
                assert old[at].removesuffix("\n") == line[1:].removesuffix("\n")
                at += 1
            if mark in "+ ":
                new.append(line[1:])
    return "".join([*new, *old[at:]])


@given(old=TEXTS, new=TEXTS)
def test_applying_the_hunks_gives_the_new_text(old: str, new: str) -> None:
    text = hunks(old, new)
    assert applied(old, text) == new
    assert (text == "") == (old == new)
    added, removed = change_counts(text)
    assert added - removed == len(whole_lines(new)) - len(whole_lines(old))


def test_only_the_changed_line_among_equal_lines_is_shown() -> None:
    old = "    pass\n" * 1_500 + "x = 1\n"
    text = hunks(old, old + "y = 2\n")
    assert added_in(text) == "y = 2\n"
    assert change_counts(text) == (1, 0)


def test_two_changes_far_apart_are_two_hunks() -> None:
    lines = [f"line {number}\n" for number in range(20_000)]
    changed = [*lines[:10], "one\n", *lines[10:19_990], "two\n", *lines[19_991:]]
    text = hunks("".join(lines), "".join(changed), first_changed=111)
    assert text.count("@@ -") == 2
    assert "@@ -108,6 +108,7 @@\n" in text
    assert added_in(text) == "one\ntwo\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[::-1],
        lambda lines: [
            f"{line}x" if number % 2 else line for number, line in enumerate(lines)
        ],
        lambda lines: [line[:2] for line in lines],
        lambda lines: [*lines[len(lines) // 2 :], *lines[: len(lines) // 2]],
    ],
    ids=[
        "reversed",
        "every second line",
        "few different lines",
        "two halves exchanged",
    ],
)
def test_hunks_take_linear_time(
    change: Callable[[list[str]], list[str]],
) -> None:
    def work(text: str) -> None:
        lines = text.split("\n")
        hunks(text, "\n".join(change(lines)))

    assert not grows_too_fast(
        work, lambda size: "\n".join(map(str, range(size))), 4_000
    )
