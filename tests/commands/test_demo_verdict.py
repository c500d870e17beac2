"""What the demo makes of what it measured, and how it writes on a screen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.commands.demo.editor import Editor
from acp_agent.commands.demo.scratch import TestRun as Outcome  # pytest would take the name for a test's
from acp_agent.commands.demo.screen import Screen
from acp_agent.commands.demo.story import Facts
from acp_agent.commands.demo.verdict import checks, report
from acp_agent.commands.demo.view import View


def all_kept() -> tuple[Facts, Editor]:
    """What a demo measures in which everything happened as promised."""
    facts = Facts(
        Outcome(4, 1),
        Outcome(4, 0),
        Outcome(5, 0),
        full=4000,
        short=2000,
        resumed=2500,
        stops=["end_turn"],
        listed=True,
    )
    editor = Editor(Path("/project"), View(Screen(io.StringIO()), Path("/project")))
    editor.allowed = 3
    editor.plans = [("in_progress", "pending"), ("completed", "completed")]
    editor.compactions = ["in_progress", "completed"]
    editor.summary_chunks = 9
    return facts, editor


def broken(facts: Facts, editor: Editor) -> list[str]:
    """The names of the promises that were not kept, after asserting that the exit status says so."""
    found = checks(facts, editor)
    names = [check.name for check in found if not check.kept]
    out = io.StringIO()
    assert report(Screen(out), found, strict=True) == bool(names)
    assert report(Screen(out), found, strict=False) == 0
    assert all(name in out.getvalue().splitlines()[-1] for name in names)
    return names


def test_a_demo_that_kept_its_promises_succeeds() -> None:
    assert broken(*all_kept()) == []


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ("before", Outcome(4, 0), ["Tests"]),
        ("mended", Outcome(4, 1), ["Tests"]),
        ("after", Outcome(4, 0), ["Restart"]),
        ("after", Outcome(5, 1), ["Restart"]),
        ("listed", False, ["Restart"]),
        ("resumed", 4000, ["Restart"]),
        ("short", 4000, ["Compaction"]),
        ("stops", ["end_turn", "max_tokens"], ["Prompts"]),
    ],
)
def test_a_demo_in_which_something_did_not_happen_fails_by_name(
    changed: str, value: object, expected: list[str]
) -> None:
    facts, editor = all_kept()
    setattr(facts, changed, value)

    assert broken(facts, editor) == expected


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ("allowed", 0, ["Permission"]),
        ("plans", [], ["Plan"]),
        ("plans", [("completed", "completed")], ["Plan"]),
        ("plans", [("pending", "pending"), ("completed", "pending")], ["Plan"]),
        ("compactions", ["in_progress", "failed"], ["Compaction"]),
        ("summary_chunks", 0, ["Compaction"]),
    ],
)
def test_a_demo_in_which_the_editor_was_not_shown_something_fails_by_name(
    changed: str, value: object, expected: list[str]
) -> None:
    facts, editor = all_kept()
    setattr(editor, changed, value)

    assert broken(facts, editor) == expected


@given(st.lists(st.text("ab -\n", max_size=40), max_size=12))
def test_streamed_text_is_wrapped_in_the_same_way_however_it_is_cut_into_pieces(pieces: list[str]) -> None:
    def written(parts: list[str]) -> str:
        out = io.StringIO()
        screen = Screen(out)
        for part in parts:
            screen.stream("message", part)
        screen.end()
        return out.getvalue()

    text = "".join(pieces)

    assert written(pieces or [""]) == written([text])
    assert written([text]).split() == text.split()


def test_streamed_text_keeps_within_the_width() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.stream("message", "- " + "word " * 60)
    screen.end()

    first, *others = out.getvalue().splitlines()
    assert all(len(line) <= screen.width for line in (first, *others))
    assert first.startswith("  - word")
    assert others
    assert all(line.startswith("    word") for line in others)
