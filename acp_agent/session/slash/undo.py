"""`/undo`: revert what `edit` and `write` changed in a turn, unless one of its files has changed since.

The log says which versions a file had. A text is put back only if the file still is as that turn left it, and only if
the text is, by its digest, the one from before. What commands changed is in no record, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from acp_agent.conversation.events import EditsUndone, LoggedEvent, ToolReturned, UserPrompted
from acp_agent.conversation.messages import Text, new_id
from acp_agent.errors import ToolError
from acp_agent.session.log import SessionLog
from acp_agent.session.project.workspace import ToolEnvironment
from acp_agent.tools.environment import Environment
from acp_agent.tools.files.changes import text_to_change
from acp_agent.tools.paths import because, outside, shown
from acp_agent.tools.text import counted, digest, one_line

_READ_AGAIN = (
    "What commands changed was not taken back. Read a file again before you work on it, and do not make these changes "
    "again unless the user asks for that."
)
_QUOTE = 100
"""Characters of a prompt by which its turn is named."""


@dataclass(slots=True)
class _Turn:
    """A turn as the log has it.

    :ivar seq: of its prompt.
    :ivar edits: sequence numbers of the calls that changed files.
    :ivar commands: how many commands ran.
    """

    seq: int
    name: str
    edits: list[int] = field(default_factory=list[int])
    commands: int = 0


@dataclass(slots=True)
class _File:
    """What a turn made of a file.

    :ivar before: digest of the text that it began with; None if there was no file.
    :ivar text: that text, if the log has all of it.
    :ivar after: digest of what the turn left.
    :ivar interrupted: whether something else changed the file between two changes of the turn.
    """

    path: Path
    before: str | None
    text: str | None
    after: str | None
    interrupted: bool = False


@dataclass(eq=False, slots=True)
class Undo:
    """Takes back file edits of one session."""

    _log: SessionLog
    _environment: ToolEnvironment

    async def run(self, rest: str) -> str:
        """Take back the edits of the newest turn that has any, and return what was done.

        :raises ToolError: nothing was, or not all; says why.
        """
        if rest.strip():
            raise ToolError("Nothing may follow `/undo`, and nothing was undone.")
        environment, turn = self._environment.make(), await self._newest_turn()
        if turn is None:
            raise ToolError(
                "There is nothing to undo: no turn of this session has changed a file that is not undone already."
            )
        # The text of each file as it is, and as it was.
        texts: dict[Path, tuple[str | None, str | None]] = {}
        refused: list[str] = []
        for file in _files(await self._log.read(turn.edits)):
            try:
                texts[file.path] = await _texts(environment, file)
            except ToolError as error:
                refused.append(f"- `{shown(file.path, environment.cwd)}`: {error}")
        if refused:
            head = f"Nothing was undone. Of what {turn.name} changed, this cannot be taken back:"
            raise ToolError("\n".join((head, "", *refused)))
        lines = "\n".join(
            f"- `{shown(path, environment.cwd)}`: {_done(now, then)}" for path, (now, then) in texts.items()
        )
        await self._log.confirm()
        # From here on a cancel is too late. Each write has a time limit of its own.
        with anyio.CancelScope(shield=True):
            for path, (now, then) in texts.items():
                if now != then:
                    await _write(environment, path, then)
            sent = f"The user took back what your edits changed in files in {turn.name}:\n\n{lines}\n\n{_READ_AGAIN}"
            await self._log.append(EditsUndone(new_id("msg"), turn.seq, tuple(map(str, texts)), sent))
        done = f"Undone what {turn.name} changed in {counted(len(texts), 'file')}:\n\n{lines}"
        ran = f"\n\nIt also ran {counted(turn.commands, 'command')}; what those changed is as it was."
        return done + (ran if turn.commands else "")

    async def _newest_turn(self) -> _Turn | None:
        turns: list[_Turn] = []
        undone: set[int] = set()
        async for logged in self._log.events():
            match logged.event:
                case UserPrompted(steers=False, shown=parts):
                    turns = [turn for turn in turns if turn.edits]
                    words = one_line(" ".join(part.text for part in parts if isinstance(part, Text)), _QUOTE).strip()
                    turns.append(_Turn(logged.seq, f"the turn “{words}”"))
                case ToolReturned(before=before, files=files, view=view) if turns:
                    if any(former.digest != version.digest for former, version in zip(before, files, strict=False)):
                        turns[-1].edits.append(logged.seq)
                    elif view.kind == "execute" and view.raw_output is not None:
                        turns[-1].commands += 1
                case EditsUndone(turn=seq):
                    undone.add(seq)
                case _:
                    pass
        return next((turn for turn in reversed(turns) if turn.edits and turn.seq not in undone), None)


def _files(events: Iterable[LoggedEvent]) -> Iterable[_File]:
    """Return what the calls of a turn made of each file, in the order of the first changes."""
    files: dict[str, _File] = {}
    for logged in events:
        event = logged.event
        if not isinstance(event, ToolReturned):
            continue
        for former, version, diff in zip(event.before, event.files, event.view.diffs, strict=False):
            known = files.get(former.path)
            if known is None:
                whole = diff.old_text is not None and digest(diff.old_text) == former.digest
                text = diff.old_text if whole else None
                files[former.path] = _File(Path(former.path), former.digest, text, version.digest)
            else:
                known.interrupted |= known.after != former.digest
                known.after = version.digest
    return files.values()


async def _texts(environment: Environment, file: _File) -> tuple[str | None, str | None]:
    """Return the text of a file as it is and as it was; None means that there is no file.

    :raises ToolError: it cannot be put back; says why.
    """
    now = await text_to_change(environment, file.path)
    found = None if now is None else digest(now)
    if found == file.before:
        return now, now
    if file.interrupted:
        raise ToolError("something else changed it in the middle of that turn, which would be lost.")
    if found != file.after:
        raise ToolError("it is gone." if now is None else "it has changed since, which would be lost.")
    if file.before is not None and file.text is None:
        raise ToolError("it was too large for its text from before to be kept.")
    return now, file.text


async def _write(environment: Environment, path: Path, text: str | None) -> None:
    """Write a file, or remove it.

    :raises ToolError: that failed. What was put back before is so; the same command goes on from there.
    """
    try:
        if text is not None:
            await environment.files.write_text(path, text, outside=bool(outside(path, environment.roots)))
        else:  # no editor offers a way to remove a file; of a link, the file behind it was made
            await anyio.to_thread.run_sync(lambda: path.resolve().unlink(missing_ok=True))
    except (OSError, ToolError) as error:
        why = f"{because(error)}." if isinstance(error, OSError) else str(error)
        name = shown(path, environment.cwd)
        raise ToolError(f"`{name}` was not undone: {why} Send `/undo` again for the rest.") from error


def _done(now: str | None, then: str | None) -> str:
    if then is not None:
        return "as it was before"
    if now is None:
        return "not there any more, and not looked for: if a command moved it, it stays where it is"
    return "removed, since that turn had made it"
