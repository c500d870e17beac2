"""The commands that write files: `/export` and `/undo`.

`/export` writes the whole conversation as Markdown in the same way as the `write` tool,
after the same permission question. `/undo` reverts the changes that `edit` and `write`
made in a turn. The log records the versions of each file. A file is restored only if it
is unchanged since that turn, and only if the digest of the stored text matches the
earlier version. Changes by commands are not recorded, so they are not reverted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread

from acp_agent.conversation.events import (
    EditsUndone,
    LoggedEvent,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.markdown import log_markdown
from acp_agent.conversation.messages import ResultPart, Text, ToolCall, new_id
from acp_agent.conversation.updates import (
    CallAnnounced,
    CallFinished,
    CallStarted,
    CallStatus,
    Show,
)
from acp_agent.errors import ToolError
from acp_agent.hooks.handlers import EXPORTS, MARK
from acp_agent.hooks.outcomes import NOTHING
from acp_agent.nofollow import remove
from acp_agent.session.log import SessionLog
from acp_agent.session.permissions import Permissions
from acp_agent.session.toolbox import Toolbox
from acp_agent.tools.environment import Environment, Progress
from acp_agent.tools.files.changes import prepared_change, text_to_change
from acp_agent.tools.path_errors import because, printable
from acp_agent.tools.paths import Target, shown
from acp_agent.tools.text import counted, digest, one_line
from acp_agent.tools.tool import PreparedCall

_WRITE = "write"
"""The tool that the editor shows. The user is asked in the same cases as for this tool.
"""
_READ_AGAIN = (
    "What commands changed was not taken back. Read a file again before you work on it, and do not make these changes "
    "again unless the user asks for that."
)
_QUOTE = 100
"""Maximum characters of the prompt in a turn's name."""


_Edit: TypeAlias = tuple[str | None, str | None, str | None]
"""One change of a file: the digest of its text before, that text, and the digest of its
text afterwards. Each is None if there was no file.
"""


@dataclass(eq=False, slots=True)
class FileCommands:
    """Runs both commands in one session. Each returns its answer.

    Each method raises `ToolError` if it did nothing or only part of the work. The
    message says why.
    """

    _log: SessionLog
    _toolbox: Toolbox
    _permissions: Permissions
    _show: Show

    async def export(self, rest: str) -> str:
        """Write the conversation to a file.

        :param rest: a path, absolute or relative to the session's directory, or a
            `file://` URI; empty for the default path.
        """
        environment = self._toolbox.environment()
        session_id = self._log.session_id
        context = self._log.context
        usual = f"{EXPORTS}/{session_id}-{datetime.now(UTC).astimezone().date().isoformat()}.md"
        target = Target.of(
            rest.strip().strip("\"'") or usual, environment, edited=True, exactly=True
        )
        label = target.label
        mark = MARK.format(session_id)
        before = await text_to_change(target)
        if before is not None and not before.startswith(mark):
            raise ToolError(
                f"{label} already exists and is not an export of this session. It was not changed. Name another file."
            )
        # Leave out the prompt that asks for the export.
        asked = context.turn_from or context.head
        events = [logged async for logged in self._log.events() if logged.seq < asked]
        title = context.title or "Conversation"
        text = mark + await anyio.to_thread.run_sync(
            lambda: log_markdown(events, title=title)
        )
        done = f"The conversation was written to `{label}` ({len(text):,} characters)."
        await self._write(
            prepared_change(target, before, text, "Write", done), target.path
        )
        return done

    async def _write(self, prepared: PreparedCall, path: Path) -> None:
        """Show the change as a tool call, ask for permission if necessary, and write
        the file.
        """
        call = ToolCall(new_id("call"), _WRITE, {"path": str(path)})
        parts = tuple[ResultPart, ...]()
        await self._show(
            CallAnnounced(call.id, call.name, prepared.view, call.arguments)
        )
        status: CallStatus = "failed"
        try:
            try:
                allowed = await self._permissions.check(call, prepared, NOTHING)
            except ToolError as error:
                raise ToolError(
                    f"Nothing was written, since you did not allow it. {error}"
                ) from error
            if not allowed:
                raise ToolError("Nothing was written, since you did not allow it.")
            await self._show(CallStarted(call.id, prepared.view))
            parts = (await prepared.run(_ignore)).parts
            status = "completed"
        finally:
            # Show the end even if the editor does not read for a while.
            with anyio.CancelScope(shield=True):
                await self._show(
                    CallFinished(
                        call.id, call.name, prepared.view, call.arguments, status, parts
                    )
                )

    async def undo(self, rest: str) -> str:
        """Undo the edits of the newest turn that has any."""
        if rest.strip():
            raise ToolError("`/undo` takes no arguments. Nothing was undone.")
        environment = self._toolbox.environment()
        found = await self._newest_turn()
        if found is None:
            raise ToolError(
                "There is nothing to undo: no turn of this session has file changes that are not undone already."
            )
        turn, name, calls = found
        # The current and the earlier text of each file.
        texts: dict[Path, tuple[str | None, str | None]] = {}
        targets: dict[Path, Target] = {}
        refused: list[str] = []
        for path, edits in _edits(await self._log.read(calls)).items():
            try:
                targets[path] = _target(environment, path)
                texts[path] = await _texts(targets[path], edits)
            except ToolError as error:
                refused.append(f"- `{shown(path, environment.cwd)}`: {error}")
        if refused:
            head = f"Nothing was undone. These changes of {name} cannot be undone:"
            raise ToolError("\n".join((head, "", *refused)))
        lines = "\n".join(
            f"- `{shown(path, environment.cwd)}`: {_done(now, then)}"
            for path, (now, then) in texts.items()
        )
        await self._log.confirm()
        # From here on the command cannot be cancelled. Each write has its own time
        # limit.
        with anyio.CancelScope(shield=True):
            for path, (now, then) in texts.items():
                if now != then:
                    await _put_back(targets[path], then)
            sent = f"The user took back what your edits changed in files in {name}:\n\n{lines}\n\n{_READ_AGAIN}"
            await self._log.append(
                EditsUndone(new_id("msg"), turn, tuple(map(str, texts)), sent)
            )
        return (
            f"Undone what {name} changed in {counted(len(texts), 'file')}:\n\n{lines}"
        )

    async def _newest_turn(self) -> tuple[int, str, list[int]] | None:
        """Return the newest turn with edits that are not undone: its sequence number,
        its name and the sequence numbers of those calls.
        """
        turns: dict[int, tuple[int, str, list[int]]] = {}
        async for logged in self._log.events():
            match logged.event:
                case UserPrompted(steers=False, shown=parts):
                    words = one_line(
                        " ".join(part.text for part in parts if isinstance(part, Text)),
                        _QUOTE,
                    ).strip()
                    turns[logged.seq] = logged.seq, f"the turn “{words}”", []
                case ToolReturned(before=before, files=files) if turns:
                    if any(
                        former.digest != version.digest
                        for former, version in zip(before, files, strict=False)
                    ):
                        turns[max(turns)][2].append(logged.seq)
                case EditsUndone(turn=seq):
                    turns.pop(seq, None)
                case _:
                    pass
        return next((turn for turn in reversed(turns.values()) if turn[2]), None)


async def _ignore(progress: Progress) -> None:
    del progress


def _edits(events: Iterable[LoggedEvent]) -> dict[Path, list[_Edit]]:
    """Return the changes that the calls of a turn made to each file, in order."""
    files: dict[Path, list[_Edit]] = {}
    for event in (logged.event for logged in events):
        if isinstance(event, ToolReturned):
            for former, version, diff in zip(
                event.before, event.files, event.view.diffs, strict=False
            ):
                files.setdefault(Path(former.path), []).append(
                    (former.digest, diff.old_text, version.digest)
                )
    return files


def _target(environment: Environment, path: Path) -> Target:
    """Return the target for a file that a turn changed.

    :raises ToolError: if a link leads out of the session's directories, since this
        command does not ask for permission.
    """
    target = Target.of(str(path), environment, exactly=True)
    is_named_inside = any(path.is_relative_to(root) for root in environment.roots)
    if is_named_inside and not environment.is_inside(target.real):
        raise ToolError(
            f"a symbolic link now leads to {printable(str(target.real))}, outside the session's directories. A command "
            "may have created the link since, so you have to change the file by hand."
        )
    return target


async def _texts(
    target: Target, edits: Sequence[_Edit]
) -> tuple[str | None, str | None]:
    """Return a file's current and earlier text; None means that there is no file.

    :raises ToolError: if the file cannot be restored. The message says why.
    """
    now = await text_to_change(target)
    before, text, _ = edits[0]
    found = None if now is None else digest(now)
    if found == before:
        return now, now
    if any(edit[2] != following[0] for edit, following in pairwise(edits)):
        raise ToolError(
            "something else changed it in the middle of that turn, and that change would be lost."
        )
    if before is not None and (text is None or digest(text) != before):
        raise ToolError("it was too large to keep its earlier text.")
    if found != edits[-1][2]:
        raise ToolError(
            "it is gone."
            if now is None
            else "it has changed since, and that change would be lost."
        )
    return now, None if before is None else text


async def _put_back(target: Target, text: str | None) -> None:
    """Write a file, or remove it.

    :raises ToolError: if this failed. Files that were restored before stay restored,
        and the same command continues from there.
    """
    environment = target.environment
    real = target.real
    try:
        target.check()
        if text is not None:
            away = not environment.is_inside(real)
            await environment.files.write_text(
                target.path, text, outside=away, real=real
            )
        else:  # editors have no request to remove a file; if the path is a link, the turn created the link's target
            with suppress(FileNotFoundError):
                await anyio.to_thread.run_sync(remove, real)
    except (OSError, ToolError) as error:
        why = f"{because(error)}." if isinstance(error, OSError) else str(error)
        name = shown(target.path, environment.cwd)
        raise ToolError(
            f"`{name}` was not undone: {why} Send `/undo` again to undo the rest."
        ) from error


def _done(now: str | None, then: str | None) -> str:
    if then is not None:
        return "as it was before"
    if now is None:
        return "already gone; if a command moved it, the moved file was not changed"
    return "removed, since that turn had made it"
