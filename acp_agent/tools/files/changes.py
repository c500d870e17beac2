"""A change to one file: checks that the model has seen the current text, and makes the
diff.

Shared by `write` and `edit`. A change is checked when it is prepared and again after
the user has allowed it.
"""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from acp_agent.conversation.events import CallView, FileVersion
from acp_agent.conversation.messages import Text
from acp_agent.conversation.views import Diff, Location
from acp_agent.errors import ToolError
from acp_agent.nofollow import status_of
from acp_agent.tools.matching.hunks import hunks
from acp_agent.tools.matching.line_ends import shown_lines
from acp_agent.tools.path_errors import refuse_special
from acp_agent.tools.paths import Target, refuse_keys
from acp_agent.tools.text import common_length, counted, digest, title_line, whole_lines
from acp_agent.tools.tool import CallResult, PreparedCall

FROM_DISK = "(The editor did not provide the text in its buffer, so this is the file on disk, without unsaved changes.)"
FROM_EDITOR = (
    "(This is the unsaved text in the editor. The file on disk has changed to a different text since, which a `shell` "
    "command can show.)"
)
DIFF_LIMIT = 64 * 1024
"""Maximum number of characters on each side of a diff. A longer diff contains only the
changed part, cut to this length.
"""
_DIFF_CONTEXT = 20


class DiskText(str):
    """A file's text on disk, used because the editor did not provide the text in its
    buffer.

    :ivar reason: why the editor did not provide it, as the end of a sentence.
    """

    __slots__ = ("reason",)

    reason: str


class DivergedText(str):
    """A file's unsaved text in the editor, if the file on disk has been changed to a
    different text.
    """

    __slots__ = ()


async def permitted_change(
    target: Target, verb: str, prepare: Callable[[], Awaitable[PreparedCall]]
) -> PreparedCall:
    """Return the call that `prepare` makes.

    If `prepare` fails for a file outside the session's directories, return a call that
    fails with the same error. The error may say whether the file exists, so the model
    gets it only after the user has allowed the call.

    :param verb: the first word of the call's title.
    :raises ToolError: if the call is invalid.
    """
    refuse_keys(target.real, target.environment.private, target.label)
    try:
        return await prepare()
    except ToolError as error:
        if not target.outside:
            raise
        failure = error
    view = CallView(
        title_line(f"{verb} {target.label}") + target.links,
        "edit",
        (Location(str(target.path)),),
    )

    async def fail() -> CallResult:
        raise failure

    return target.call("edit", view, fail, target.asked(verb))


def prepared_change(
    target: Target, before: str | None, after: str, verb: str, done: str
) -> PreparedCall:
    """Return the call that writes a file's new text, unless the file changes before the
    call runs.

    :param before: None if the file does not exist yet.
    :param verb: the first word of the call's title.
    :param done: the result for the model after the file is written.
    """
    path = target.path
    name = str(target.path)
    diff = _diff_of(name, None if before is None else str(before), after)
    location = Location(name, first_changed_line(before or "", after))
    view = CallView(
        title_line(f"{verb} {target.label}") + target.links,
        "edit",
        locations=(location,),
        diffs=(diff,),
    )
    changed = hunks(before or "", after) if diff.cut else ""

    async def run() -> CallResult:
        if await text_to_change(target) != before:
            raise ToolError(
                f"{target.label} was changed by someone else while this call waited for permission. Nothing was "
                "written. Read the file again, then repeat the change."
            )
        if after != before:
            target.check()  # again, since reading the file may have taken a while
            environment = target.environment
            away = not environment.is_inside(target.real)
            await environment.files.write_text(
                path, after, outside=away, real=target.real
            )
        version = FileVersion(name, digest(after))
        former = FileVersion(name, None if before is None else digest(before))
        return CallResult((Text(done),), view, files=(version,), before=(former,))

    return replace(target.call("edit", view, run, target.asked(verb)), hunks=changed)


async def current_text(target: Target) -> str | None:
    """Return the file's text from the editor or the disk, or None if the file does not
    exist.

    :raises ToolError: if it is a directory, a device or not text, or if it is the file
        with the user's keys.
    """
    refuse_keys(target.real, target.environment.private, target.label)
    refuse_special(target.real, target.label)
    try:
        text = await target.environment.files.read_text(target.path, target.real)
    except FileNotFoundError:
        return None
    # Some editors return an empty text for a file that does not exist.
    return (
        None
        if not text and not await anyio.to_thread.run_sync(_is_there, target.real)
        else text
    )


def _is_there(real: Path) -> bool:
    try:
        status_of(real)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True


async def text_to_change(target: Target) -> str | None:
    """Return the text of a file that is about to be changed, including unsaved changes
    in the editor.

    :raises ToolError: see `current_text`; also if the editor did not provide the text
        of a project file, or if the file has changed both in the editor and on disk.
    """
    text = await current_text(target)
    if isinstance(text, DiskText) and target.environment.is_inside(target.real):
        raise ToolError(
            f"{target.label} was not changed: the editor could not provide the text in its buffer ({text.reason}), so "
            "unsaved changes might be lost. Try again; if that fails too, ask the user to save and close the file."
        )
    if isinstance(text, DivergedText):
        raise ToolError(
            f"{target.label} was not changed: it has unsaved changes in the editor, and a command or another program "
            "has changed it on disk as well. Writing it would lose one of the two changes. Ask the user to save the "
            "file or to reload it."
        )
    return text


async def seen_text(target: Target) -> str | None:
    """Return the text of a file that is about to be changed, or None if the file does
    not exist.

    :raises ToolError: see `text_to_change`; also if the model has not read the file in
        this context, or if the file has changed since then.
    """
    text = await text_to_change(target)
    label = target.label
    seen = target.environment.seen.get(str(target.path))
    if text is not None and seen is None:
        raise ToolError(
            f"{label} was not changed: it was not read in this context. Read it first, then change it."
        )
    if text is not None and seen != digest(text):
        raise ToolError(
            f"{label} was not changed: it has changed since it was read (by the user, a command or a formatter). "
            "Read the file again, then change it."
        )
    return text


def first_changed_line(before: str, after: str) -> int:
    """Return the line, from 1, at which two texts begin to differ."""
    old = shown_lines(before)
    new = shown_lines(after)
    return min(common_length(old, new) + 1, len(old), len(new))


def _diff_of(path: str, before: str | None, after: str) -> Diff:
    """Return the change as an editor shows it.

    A large file is reduced to the lines from the first change to the last, with a few
    lines of context. If that is still too large, only its beginning is kept: an update
    must stay far below the longest line that an editor accepts.

    :param path: absolute.
    """
    if before is None:
        return Diff(path, None, _bounded(after), _is_long(after))
    if max(len(before), len(after)) <= DIFF_LIMIT:
        return Diff(path, before, after)
    old = whole_lines(before)
    new = whole_lines(after)
    start = max(0, common_length(old, new) - _DIFF_CONTEXT)
    old = old[start:]
    new = new[start:]
    end = max(0, common_length(old[::-1], new[::-1]) - _DIFF_CONTEXT)
    old_part = "".join(old[: len(old) - end])
    new_part = "".join(new[: len(new) - end])
    return Diff(
        path,
        _bounded(old_part),
        _bounded(new_part),
        _is_long(old_part) or _is_long(new_part),
    )


def _is_long(text: str) -> bool:
    return len(text) > DIFF_LIMIT


def _bounded(text: str) -> str:
    if not _is_long(text):
        return text
    kept = text[: text.rfind("\n", 0, DIFF_LIMIT) + 1] or text[:DIFF_LIMIT]
    return f"{kept}… ({counted(len(text) - len(kept), 'more character')})\n"
