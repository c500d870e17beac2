"""The `read` tool."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.events import FileVersion
from acp_agent.conversation.messages import Image
from acp_agent.conversation.views import Location
from acp_agent.errors import ToolError
from acp_agent.tools.files.read import numbered
from acp_agent.tools.text import MAX_CHARACTERS, MAX_LINES, digest
from support.workspace import Workspace

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def refusal(workspace: Workspace, path: str, **arguments: int) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call("read", path=path, **arguments)
    return str(caught.value)


async def test_a_text_is_returned_with_line_numbers_and_its_version_recorded(
    workspace: Workspace,
) -> None:
    path = workspace.file("src/a.py", "one\n\ttwo\n")
    outcome = await workspace.call("read", path="src/a.py")
    assert outcome.parts[0].text == "1\tone\n2\t\ttwo"  # type: ignore[union-attr]
    assert outcome.files == (FileVersion(str(path), digest("one\n\ttwo\n")),)
    assert (outcome.view.title, outcome.view.kind) == ("Read src/a.py", "read")
    assert outcome.view.locations == (Location(str(path), 1),)


async def test_a_page_of_a_file_says_how_to_read_on(workspace: Workspace) -> None:
    workspace.file("a", "".join(f"l{number}\n" for number in range(1, 11)))
    assert await workspace.text("read", path="a", offset=4, limit=2) == (
        "4\tl4\n5\tl5\n(lines 4 to 5 of 10; read on with offset 6)"
    )
    assert await workspace.text("read", path="a", offset=10) == "10\tl10"
    assert (
        await refusal(workspace, "a", offset=11)
        == "a has only 10 lines; there is no line 11."
    )


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=30),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["\n", "\r\n"]),
)
def test_reading_page_by_page_shows_every_line_once(
    lines: list[str], offset: int, limit: int, end: str
) -> None:
    text = end.join(line.replace("\n", "").replace("\r", "") for line in lines)
    total = len(text.removesuffix("\n").split("\n")) if text and text != "\ufeff" else 0
    if 1 <= total < offset:
        with pytest.raises(ToolError):
            numbered(text, offset, limit, "f")
        return
    numbers = [
        line.split("\t")[0]
        for line in numbered(text, offset, limit, "f").split("\n")
        if "\t" in line
    ]
    assert numbers[:limit] == [
        str(number) for number in range(offset, min(total, offset + limit - 1) + 1)
    ]


def test_long_files_and_long_lines_are_cut_and_say_so() -> None:
    many = numbered("x\n" * (MAX_LINES + 5), 1, 10**9, "f")
    assert many.endswith(
        f"(lines 1 to {MAX_LINES} of {MAX_LINES + 5}; read on with offset {MAX_LINES + 1})"
    )
    wide = numbered(("y" * 999 + "\n") * 500, 1, 500, "f")
    assert len(wide) <= MAX_CHARACTERS + 100
    assert "read on with offset 50)" in wide
    long = numbered("z" * 100_000 + "\nend", 1, 10, "f")
    assert len(long) < 2200
    assert "2\tend\n(1 line cut at 2000 characters)" in long


async def test_an_image_is_returned_as_an_image(workspace: Workspace) -> None:
    workspace.file("a.png", PNG)
    outcome = await workspace.call("read", path="a.png")
    image = outcome.parts[1]
    assert isinstance(image, Image)
    assert isinstance(image.data, str)
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", PNG)
    assert outcome.files == ()


async def test_binary_files_directories_pipes_and_other_encodings_are_refused(
    workspace: Workspace,
) -> None:
    workspace.file("a.bin", b"\x7fELF\0\0")
    workspace.file("latin.txt", "é".encode("latin-1"))
    os.mkfifo(workspace.root / "pipe")
    assert "binary" in await refusal(workspace, "a.bin")
    assert "not UTF-8" in await refusal(workspace, "latin.txt")
    assert "`list`" in await refusal(workspace, ".")
    assert "pipe" in await refusal(workspace, "pipe")
    assert "device" in await refusal(workspace, "/dev/zero")
