"""Line endings of edited files."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from acp_agent.tools.matching.line_ends import Lines, shown_lines
from acp_agent.tools.matching.replace import Editing, notation_of, whole
from support.workspace import Workspace

KINDS = [
    ("\n",),
    ("\r\n",),
    ("\r",),
    ("\n", "\r\n"),
    ("\r", "\r\n"),
    ("\n", "\r", "\r\n"),
]


@st.composite
def texts_and_lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw a text and lines to insert. If it has both LF and CR, no line is empty: CR
    and LF in a row are a CRLF.
    """
    kinds = draw(st.sampled_from(KINDS))
    words = st.text("ab ", min_size="\n" in kinds and "\r" in kinds, max_size=3)
    lines = draw(st.lists(words, min_size=1, max_size=8))
    text = "".join(
        chain.from_iterable((line, draw(st.sampled_from(kinds))) for line in lines)
    ) + draw(words)
    return text, draw(st.lists(words, max_size=4))


@given(st.text("ab\r\n", max_size=20))
def test_lines_and_line_ends_join_to_the_text(text: str) -> None:
    assert Lines.of(text).text == text


@given(texts_and_lines(), st.integers(0, 7), st.integers(1, 4))
@example(("a\r\nb\nc\r\n", ["a", "x", "b"]), 0, 2)
def test_an_edit_changes_no_other_lines_and_adds_no_new_kind_of_end(
    case: tuple[str, list[str]], first: int, count: int
) -> None:
    text, new = case
    lines = Lines.of(text)
    plain = lines.plain.split("\n")
    # The replaced text begins with a unique line, so that it occurs only once.
    plain[min(first, len(plain) - 1)] = "unique"
    text = Lines("\n".join(plain), lines.ends).text
    at = plain.index("unique")
    old = "\n".join(plain[at : at + count])
    editing = Editing(text)
    editing.replace(
        old, "\n".join(["changed", *new]), everywhere=False, name="old_text"
    )
    after = Lines.of(editing.text)
    lines_after = after.plain.split("\n")
    assert lines_after == [*plain[:at], "changed", *new, *plain[at + count :]]
    assert after.ends[:at] == lines.ends[:at]
    untouched = len(plain) - min(at + count, len(plain))
    assert (
        after.ends[len(after.ends) - untouched :]
        == lines.ends[len(lines.ends) - untouched :]
    )
    assert set(after.ends) <= set(lines.ends)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a\r\nb\nc\r\n", "a\nb", "a\nB", "a\r\nB\nc\r\n"),
        ("a\r\nb\nc\r\n", "b\nc", "B\nC", "a\r\nB\nC\r\n"),
        ("a\nb\r\nc\n", "b", "b\nNEW", "a\nb\r\nNEW\r\nc\n"),
        ("a\nb\r\nc\n", "b\n", "b\nNEW\n", "a\nb\r\nNEW\r\nc\n"),
        ("a\nb\r\nc\n", "b\n", "NEW\nb\n", "a\nNEW\r\nb\r\nc\n"),
        ("a\nb\r\nc\n", "a\nb\nc", "a\nc", "a\nc\n"),
        ("a\rb\rc\r", "b\nc", "b\nNEW\nc", "a\rb\rNEW\rc\r"),
        ("a\rb\r\nc\n", "a\nb\nc", "A\nB\nC", "A\rB\r\nC\n"),
        ("a\nb\r\nc", "c", "c\nd", "a\nb\r\nc\r\nd"),
        (
            "a\r\nb\r\nc\nd\r\ne\n",
            "b\nc\nd",
            "B\nNEW\nc\nD",
            "a\r\nB\r\nNEW\r\nc\nD\r\ne\n",
        ),
        (
            "a\r\nb\r\nc\nd\r\ne\n",
            "a\nb\nc\nd\ne",
            "A\nc\nd\nE",
            "A\r\nc\nd\r\nE\n",
        ),
        ("one\ntwo\n", "one\r\ntwo", "1\r\n2", "1\n2\n"),
        ("1%\r2%\ndone\n", "1%␍2%", "1%␍3%", "1%\r3%\ndone\n"),
        ("1%\r2%\ndone\n", "1%␍2%", "1%\n2%", "1%\n2%\ndone\n"),
    ],
)
def test_a_changed_line_keeps_the_end_of_the_line_it_replaces(
    before: str, old: str, new: str, after: str
) -> None:
    editing = Editing(before)
    editing.replace(old, new, everywhere=False, name="old_text")
    assert editing.text == after


def test_every_occurrence_is_changed_with_its_own_line_ends() -> None:
    editing = Editing("x\ny\n--\nx\r\ny\r\n")
    editing.replace("x\ny", "x\nz", everywhere=True, name="old_text")
    assert editing.text == "x\nz\n--\nx\r\nz\r\n"


@given(st.data())
def test_every_unchanged_line_keeps_its_line_end(data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.sampled_from(["\n", "\r\n"]), min_size=1, max_size=9))
    kept = {f"line {number}": end for number, end in enumerate(ends)}
    new: list[str] = []
    for line in kept:
        new += data.draw(st.lists(st.sampled_from(["new", ""]), max_size=2))
        new.append(data.draw(st.sampled_from([line, line, f"changed {line}"])))
    before = "".join(chain.from_iterable(kept.items()))
    old_text = "".join(f"{line}\n" for line in kept)
    new_text = "".join(f"{line}\n" for line in new)
    assume(new_text != old_text)
    editing = Editing(before)
    editing.replace(old_text, new_text, everywhere=False, name="old_text")
    for text in (editing.text, whole(before, new_text)):
        after = Lines.of(text)
        assert after.plain == new_text
        for line, end in zip(new, after.ends, strict=True):
            assert end == kept.get(line, end)


async def test_a_file_with_mixed_line_ends_keeps_them_when_edited_or_written(
    workspace: Workspace,
) -> None:
    path = workspace.file("a", before := b"one\r\ntwo\nthree\r\nfour\n")
    assert await workspace.text("read", path="a") == "1\tone\n2\ttwo\n3\tthree\n4\tfour"
    await workspace.call(
        "edit",
        path="a",
        edits=[{"old_text": "one\ntwo\nthree", "new_text": "one\n2\n2.5\nthree"}],
    )
    assert path.read_bytes() == b"one\r\n2\n2.5\nthree\r\nfour\n"
    await workspace.call("write", path="a", content="one\ntwo\nthree\nfour\n")
    assert path.read_bytes() == before


async def test_a_file_with_cr_line_ends_is_read_edited_and_searched_by_line(
    workspace: Workspace,
) -> None:
    path = workspace.file("mac", b"one\rtwo\rthree\r")
    assert await workspace.text("read", path="mac") == "1\tone\n2\ttwo\n3\tthree"
    assert await workspace.text("grep", pattern="^two$") == "mac:2:two"
    prepared = await workspace.prepare(
        "edit", path="mac", edits=[{"old_text": "two\nthree", "new_text": "2\n3\n4"}]
    )
    assert prepared.view.locations[0].line == 2
    await workspace.run(prepared)
    assert path.read_bytes() == b"one\r2\r3\r4\r"
    await workspace.call("write", path="mac", content="eins\nzwei\n")
    assert path.read_bytes() == b"eins\rzwei\r"


def test_a_carriage_return_within_a_line_is_shown() -> None:
    text = "1%\r2%\ndone\n"
    assert [notation_of(text).show(line) for line in shown_lines(text)] == [
        "1%␍2%",
        "done",
        "",
    ]
