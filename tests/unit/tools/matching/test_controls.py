"""Control characters in texts for the model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from acp_agent.errors import ToolError
from acp_agent.tools.matching.controls import CONTROL, PICTURES, REPLACEMENT, Notation
from acp_agent.tools.matching.line_ends import shown_lines
from acp_agent.tools.matching.replace import notation_of, whole
from support.workspace import Workspace

any_text = st.text(
    st.one_of(
        st.characters(codec=None), st.sampled_from("\x0c\x1b\r\n\x7f" + PICTURES + "─━")
    )
)
PAGE = "int a;\n\x0c\nint b; /* \x1b[31mred\x1b[0m */\n"


@given(any_text)
@example("\x1b␛─")
def test_shown_text_has_no_control_characters_and_converts_back(
    text: str,
) -> None:
    notation = Notation.of(text)
    shown = notation.show(text)
    assert not CONTROL.search(shown)
    assert len(shown) == len(text)
    assert notation.read(shown) == text


@given(any_text)
@example("a\r\r\nb")
@example("a\rb\r\nc\n\x1b␛")
def test_writing_a_file_as_shown_keeps_every_byte(text: str) -> None:
    notation = notation_of(text)
    shown = "\n".join(
        notation.show(line) for line in shown_lines(text.removeprefix("\ufeff"))
    )
    assert whole(text, shown) == text


async def test_control_characters_are_shown_matched_and_written_back(
    workspace: Workspace,
) -> None:
    path = workspace.file("a.c", PAGE)
    read = await workspace.text("read", path="a.c")
    assert read == (
        "1\tint a;\n2\t␌\n3\tint b; /* ␛[31mred␛[0m */\n"
        "(control characters are shown as ␌ for U+000C, ␛ for U+001B; write them the same way)"
    )
    edits: list[Any] = [
        {
            "old_text": "␌\nint b; /* ␛[31mred␛[0m */",
            "new_text": "␌\nint c; /* ␛[32mgreen␛[0m */",
        }
    ]
    await workspace.call("edit", path="a.c", edits=edits)
    changed = PAGE.replace("int b", "int c").replace("31mred", "32mgreen")
    assert path.read_text() == changed
    await workspace.call(
        "write", path="a.c", content="int a;\n␌\nint d; /* ␛[32mgreen␛[0m */\n"
    )
    assert path.read_text() == changed.replace("int c", "int d")


async def test_control_characters_also_match_as_such(workspace: Workspace) -> None:
    path = workspace.file("a.c", PAGE)
    await workspace.call("read", path="a.c")
    await workspace.call(
        "edit", path="a.c", edits=[{"old_text": "\x1b[0m */", "new_text": "\x1b[0m*/"}]
    )
    assert path.read_text() == PAGE.replace("m */", "m*/")


async def test_a_picture_in_a_file_without_the_control_character_is_literal(
    workspace: Workspace,
) -> None:
    path = workspace.file("keys.md", "␛ leaves\n")
    assert await workspace.text("read", path="keys.md") == "1\t␛ leaves"
    await workspace.call(
        "edit",
        path="keys.md",
        edits=[{"old_text": "␛ leaves", "new_text": "␛ goes back"}],
    )
    assert path.read_text() == "␛ goes back\n"


async def test_a_picture_and_its_control_character_are_distinguished(
    workspace: Workspace,
) -> None:
    path = workspace.file("keys.md", "␛ is \x1b\n")
    assert (await workspace.text("read", path="keys.md")).startswith(
        "1\t␛ is ─\n(control characters are shown as ─ for"
    )
    await workspace.call(
        "edit", path="keys.md", edits=[{"old_text": "␛ is ─", "new_text": "␛ was ─"}]
    )
    assert path.read_text() == "␛ was \x1b\n"


@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_the_replacement_character_never_replaces_control_characters(
    workspace: Workspace, tool: str
) -> None:
    path = workspace.file("a.c", PAGE)
    await workspace.call("read", path="a.c")
    shown = CONTROL.sub(REPLACEMENT, PAGE)
    if tool == "write":
        with pytest.raises(ToolError, match=r"might be lost \(U\+000C, U\+001B\)"):
            await workspace.call("write", path="a.c", content=shown)
        assert path.read_text() == PAGE
        return
    line = shown.splitlines()[-1]
    await workspace.call(
        "edit",
        path="a.c",
        edits=[{"old_text": line, "new_text": line.replace("int b", "int c")}],
    )
    assert path.read_text() == PAGE.replace("int b", "int c")
    with pytest.raises(ToolError, match="might be lost"):
        await workspace.call(
            "edit", path="a.c", edits=[{"old_text": "int a;", "new_text": "\ufffd"}]
        )


async def test_grep_shows_the_control_characters_that_an_edit_matches(
    workspace: Workspace,
) -> None:
    workspace.file("a.c", PAGE)
    assert "a.c:3:int b; /* ␛[31mred␛[0m */" in await workspace.text(
        "grep", pattern="int b"
    )


async def test_writing_a_picture_of_a_control_character_is_reported(
    workspace: Workspace,
) -> None:
    told = "␌ (U+240C) was written as this visible character; to write a control character, send it as \\u001b in JSON"
    assert told in await workspace.text("write", path="new.c", content="␌\nint a;\n")
    workspace.file("b.c", "int b;\n")
    await workspace.call("read", path="b.c")
    edits: list[Any] = [{"old_text": "int b;", "new_text": "␌\nint b;"}]
    assert told in await workspace.text("edit", path="b.c", edits=edits)
    edits = [{"old_text": "␌", "new_text": "\x0c"}]
    assert "written as this" not in await workspace.text(
        "edit", path="b.c", edits=edits
    )
    assert (workspace.root / "b.c").read_text() == "\x0c\nint b;\n"
