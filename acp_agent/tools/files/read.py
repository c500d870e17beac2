"""The `read` tool: a text file with line numbers, or an image."""

from __future__ import annotations

import base64
import errno
from pathlib import Path

import anyio.to_thread
from pydantic import Field

from acp_agent.conversation.events import CallView, FileVersion
from acp_agent.conversation.messages import Image, Text
from acp_agent.conversation.views import Location
from acp_agent.errors import ToolError
from acp_agent.llm.pictures import type_of
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.nofollow import resolved
from acp_agent.regular import NotRegularError, open_resolved
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import (
    FROM_DISK,
    FROM_EDITOR,
    DiskText,
    DivergedText,
    current_text,
)
from acp_agent.tools.matching.line_ends import shown_lines
from acp_agent.tools.matching.replace import notation_of
from acp_agent.tools.path_errors import because, moved
from acp_agent.tools.paths import Target, refuse_keys
from acp_agent.tools.text import (
    MAX_CHARACTERS,
    MAX_LINE,
    MAX_LINES,
    counted,
    cut_line,
    digest,
    fitting,
    page_of,
    title_line,
)
from acp_agent.tools.tool import CallResult, PreparedCall

MAX_IMAGE_BYTES = 20_000_000
"""Maximum size of an image file, in bytes. Images are later scaled down to what the
provider accepts.
"""
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


class _Read(Arguments):
    path: str
    offset: int = Field(1, ge=1, description="First line, from 1.")
    limit: int = Field(MAX_LINES, ge=1)


async def _prepare(asked: _Read, environment: Environment) -> PreparedCall:
    target = Target.of(asked.path, environment)
    path = target.path
    label = target.label
    whole = asked.offset == 1 and asked.limit >= MAX_LINES
    lines = "" if whole else f" (lines {asked.offset}-{asked.offset + asked.limit - 1})"
    refuse_keys(target.real, environment.private, label)
    title = title_line(f"Read {label}") + lines + target.links
    view = CallView(title, "read", (Location(str(path), asked.offset),))

    async def run() -> CallResult:
        image = await anyio.to_thread.run_sync(image_of, path, label, target.real)
        if image:
            return CallResult((Text(f"{label} ({image.mime_type}):"), image), view)
        text = await current_text(target)
        if text is None:
            raise target.missing("Use `glob` or `list` to find it.")
        content = numbered(text, asked.offset, asked.limit, label)
        if isinstance(text, DiskText):
            content = f"{content}\n{FROM_DISK}"
        if isinstance(text, DivergedText):
            content = f"{content}\n{FROM_EDITOR}"
        return CallResult(
            (Text(content),), view, files=(FileVersion(str(path), digest(text)),)
        )

    return target.call("read", view, run, target.asked("Read") + lines)


def numbered(text: str, offset: int, limit: int, label: str) -> str:
    """Return lines of a text with their numbers, followed by a line about what was left
    out, if anything.

    :param offset: first line, from 1.
    :param limit: maximum number of lines; `MAX_LINES` also applies.
    :raises ToolError: if the text has no line `offset`.
    """
    text = text.removeprefix("\ufeff")
    if not text:
        return f"({label} is empty.)"
    lines = shown_lines(text)
    notation = notation_of(text)
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    page = [notation.show(line) for line in page_of(lines, offset, limit, label)]
    shown = fitting(
        (f"{at}\t{cut_line(line, MAX_LINE)}" for at, line in enumerate(page, offset)),
        MAX_CHARACTERS,
    )
    last = offset + len(shown) - 1
    cut = sum(len(line) > MAX_LINE for line in page[: len(shown)])
    notes = [f"{counted(cut, 'line')} cut at {MAX_LINE} characters"] if cut else []
    if legend := notation.legend("".join(shown)):
        notes.append(legend)
    if last < len(lines):
        notes.append(
            f"lines {offset} to {last} of {len(lines)}; read on with offset {last + 1}"
        )
    if notes:
        shown.append(f"({'; '.join(notes)})")
    return "\n".join(shown)


def image_of(path: Path, label: str, real: Path | None = None) -> Image | None:
    """Return the file on disk as an image, or None if its name or its first bytes are
    not those of an image.

    :param real: see `FileAccess.read_text`.
    :raises ToolError: if the file cannot be read or is too large.
    """
    if path.suffix.lower() not in _IMAGE_SUFFIXES:
        return None
    try:
        with open_resolved(real or resolved(path)) as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegularError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP and real is not None:
            raise moved(label) from error
        raise ToolError(f"{label} cannot be read: {because(error)}.") from error
    kind = type_of(data)
    if kind not in IMAGE_TYPES:
        return None
    if len(data) > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{label} is an image of more than {MAX_IMAGE_BYTES / 1e6:g} MB, which is too large to send to you. Make a "
            "smaller copy with a `shell` command and read the copy."
        )
    return Image(base64.b64encode(data).decode("ascii"), kind, uri=path.as_uri())


# With line numbers, models refer to lines correctly and continue reading at the right
# line. A tab follows the number, so that `edit` can recognise a copied number.
READ = BuiltIn(
    "read",
    f"Read a text file with line numbers, or an image (png, jpg, gif, webp). At most {MAX_LINES} lines or "
    f"{MAX_CHARACTERS // 1000} KB per call; read on with `offset`.",
    _Read,
    _prepare,
    title=titled("Read"),
    kind="read",
)
