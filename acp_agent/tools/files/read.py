"""The `read` tool: a text file with line numbers, or an image."""

from __future__ import annotations

import base64
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.events import CallView, FileVersion, Location
from acp_agent.conversation.messages import Image, JsonObject, Text
from acp_agent.errors import ToolError
from acp_agent.llm.pictures import can_scale
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import FROM_DISK, DiskText, current_text
from acp_agent.tools.paths import Target, because, refuse_keys
from acp_agent.tools.text import clean, counted, cut_line, digest, one_line
from acp_agent.tools.tool import Outcome, PreparedCall

MAX_LINES = 2000
MAX_CHARACTERS = 50_000
MAX_LINE = 2000
MAX_IMAGE_BYTES = 3_750_000
"""5 MB in base64, which is what the providers take."""
_MAX_SCALED_BYTES = 20_000_000
"""Bytes of an image file that is scaled down to fit that."""
_MAGIC = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


class _ReadArguments(Arguments):
    path: str = Field(description="The file.")
    offset: int = Field(1, ge=1, description="First line, from 1.")
    limit: int = Field(MAX_LINES, ge=1, description="How many lines at most.")


class ReadTool(BuiltIn):
    """Shows a file to the model and remembers which version it was."""

    # Lines are numbered: models then name places rightly and read on at the right line. The number is kept apart from
    # the line by a tab, and `edit` notices where a model copied it.
    name = "read"
    description = (
        "Read a text file, or look at an image (png, jpg, gif, webp). Each line of a text comes as its number, a tab "
        f"and the line itself. At most {MAX_LINES} lines or {MAX_CHARACTERS // 1000} KB come at once; read on with "
        "`offset`. Read a file before you change it."
    )
    arguments = _ReadArguments
    verb = "Read"

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Find out which file; see `Tool.prepare`."""
        asked = _ReadArguments.read(self.name, arguments)
        target = Target.of(asked.path, environment)
        path, label = target.path, target.label
        whole = asked.offset == 1 and asked.limit >= MAX_LINES
        lines = "" if whole else f" (lines {asked.offset}-{asked.offset + asked.limit - 1})"
        refuse_keys(path, environment.private, label)
        title = one_line(f"Read {label}") + lines + target.links
        view = CallView(title, "read", (Location(str(path), asked.offset),))

        async def run() -> Outcome:
            image = await anyio.to_thread.run_sync(_image, path, label)
            if image:
                return Outcome((Text(f"{label} ({image.mime_type}):"), image), view)
            text = await current_text(environment, path)
            if text is None:
                raise ToolError(f"{label} does not exist. Use `glob` or `list` to find it.")
            if "\0" in text:
                raise ToolError(f"{label} is a binary file, so it cannot be read as text.")
            content = numbered(text, asked.offset, asked.limit, label)
            if isinstance(text, DiskText):
                content = f"{content}\n{FROM_DISK}"
            return Outcome((Text(content),), view, files=(FileVersion(str(path), digest(text)),))

        return target.call(self.name, view, run)


def numbered(text: str, offset: int, limit: int, label: str) -> str:
    """Return lines of a text with their numbers, cut to bounds, with a last line that says what is missing.

    :param offset: first line, from 1.
    :param limit: lines at most; `MAX_LINES` counts as well.
    :raises ToolError: the text has no such line.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        return f"({label} is empty.)"
    if offset > len(lines):
        raise ToolError(f"{label} has only {counted(len(lines), 'line')}; there is no line {offset}.")
    shown_lines: list[str] = []
    size = shortened = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + min(limit, MAX_LINES)], offset):
        plain = clean(line.removesuffix("\r"))
        entry = f"{number}\t{cut_line(plain, MAX_LINE)}"
        if size + len(entry) + 1 > MAX_CHARACTERS:
            break
        size += len(entry) + 1
        shortened += len(plain) > MAX_LINE
        shown_lines.append(entry)
    last = offset + len(shown_lines) - 1
    notes: list[str] = []
    if shortened:
        notes.append(f"{counted(shortened, 'line')} cut at {MAX_LINE} characters")
    if last < len(lines):
        notes.append(f"lines {offset} to {last} of {len(lines)}; read on with offset {last + 1}")
    if notes:
        shown_lines.append(f"({'; '.join(notes)})")
    return "\n".join(shown_lines)


def _image(path: Path, label: str) -> Image | None:
    """Return the file on the disk as an image, where it is one by its name and its first bytes."""
    if path.suffix.lower() not in _IMAGE_SUFFIXES or not path.is_file():
        return None
    limit = _MAX_SCALED_BYTES if can_scale() else MAX_IMAGE_BYTES
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise ToolError(f"{label} cannot be read: {because(error)}.") from error
    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        return None
    if len(data) > limit:
        raise ToolError(
            f"{label} is an image of more than {limit / 1e6:g} MB, which cannot be shown to you. Make a smaller copy "
            "of it with a `shell` command and read that."
        )
    return Image(base64.b64encode(data).decode("ascii"), kind, uri=path.as_uri())
