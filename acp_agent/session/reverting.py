"""`/undo`: what `edit` and `write` changed in a turn is taken back, in all of its files or in none.

The log says which versions a file had; each text is put back only where the file still is as that turn left it, and
only if it is, by its digest, the one from before. What commands changed is in no record, and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from acp_agent.conversation.events import EditsUndone, LoggedEvent, ToolReturned, UserPrompted
from acp_agent.conversation.messages import Text, new_id
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.tools.changes import text_to_change
from acp_agent.tools.environment import Environment
from acp_agent.tools.paths import because, outside, shown
from acp_agent.tools.text import counted, digest, one_line

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost
    from acp_agent.session.originals import SessionOriginals

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
    :ivar edits: seqs of the calls that changed files.
    :ivar commands: how many commands ran.
    """

    seq: int
    prompt: str
    edits: list[int] = field(default_factory=list[int])
    commands: int = 0


@dataclass(slots=True)
class _File:
    """What a turn made of a file.

    :ivar before: digest of the text that it began with; None where there was no file.
    :ivar text: that text, where the log holds it.
    :ivar after: digest of what the turn left.
    :ivar interrupted: between two changes of the turn, something else changed the file.
    """

    path: Path
    before: str | None
    text: str | None
    after: str | None
    interrupted: bool = False


@frozen
class _Step:
    """A file that is to be put back: from `now` to `then`, of which None means that there is no file.

    :ivar target: the file itself, where `path` is a link to it.
    """

    path: Path
    target: Path
    now: str | None
    then: str | None


async def undo_edits(host: SessionHost) -> str:
    """Take back the file edits of the newest turn that has any and was not taken back yet.

    :returns: what was done, or why nothing was.
    :raises ToolError: a file could not be written; everything is as it was.
    """
    turn = await _newest_turn(host)
    if turn is None:
        return "There is nothing to undo: no turn of this session has changed a file that is not undone already."
    environment = host.environment()
    archive = environment.archive
    files = _files(await archive.read(turn.edits) if archive is not None else ())
    named = f"the turn “{turn.prompt}”"
    steps: list[_Step] = []
    refused: list[str] = []
    for file in files:
        try:
            steps.append(await _step(environment, host.originals, file))
        except ToolError as error:
            refused.append(f"- `{shown(file.path, environment.cwd)}`: {error}")
    if refused:
        return _refusal(named, refused, len(steps))
    lines = [_line(environment, step) for step in steps]
    await host.log.confirm()
    # From here on it is all or nothing, and a cancel is too late. Each write has a time limit of its own.
    with anyio.CancelScope(shield=True):
        await _put_back(environment, steps)
        sent = _for_the_model(turn, lines)
        await host.append(EditsUndone(new_id("msg"), turn.seq, tuple(str(file.path) for file in files), sent))
    commands = (
        f"\n\nIt also ran {counted(turn.commands, 'command')}; what those changed is as it was."
        if turn.commands
        else ""
    )
    return "\n".join((f"Undone what {named} changed in {counted(len(files), 'file')}:", "", *lines)) + commands


async def _newest_turn(host: SessionHost) -> _Turn | None:
    turns: list[_Turn] = []
    undone: set[int] = set()
    async for logged in host.events():
        match logged.event:
            case UserPrompted(steers=False) as prompt:
                turns = [turn for turn in turns if turn.edits]
                turns.append(_Turn(logged.seq, _named(prompt)))
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


def _named(prompt: UserPrompted) -> str:
    words = one_line(" ".join(part.text for part in prompt.shown if isinstance(part, Text))).strip()
    return words if len(words) <= _QUOTE else f"{words[: _QUOTE - 1].rstrip()}…"


def _files(events: Iterable[LoggedEvent]) -> Sequence[_File]:
    """What the calls of a turn came to for each file, in the order of the first changes."""
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
    return [*files.values()]


async def _step(environment: Environment, originals: SessionOriginals, file: _File) -> _Step:
    """How a file is put back.

    :raises ToolError: it cannot be; says why.
    """
    now = await text_to_change(environment, file.path)
    found = None if now is None else digest(now)
    target = _target(file.path)
    if found == file.before:
        return _Step(file.path, target, now, now)
    if file.interrupted:
        raise ToolError("something else changed it in the middle of that turn, which would be lost.")
    if found != file.after:
        raise ToolError("it is gone." if now is None else "it has changed since, which would be lost.")
    if file.before is None:
        return _Step(file.path, target, now, None)
    then = file.text if file.text is not None else await originals.read(file.before)
    if then is None:
        raise ToolError("what was in it before is not kept any more.")
    return _Step(file.path, target, now, then)


def _target(path: Path) -> Path:
    """What a link leads to, and any other path itself: a file in a linked folder has the name that is known."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


async def _put_back(environment: Environment, steps: Iterable[_Step]) -> None:
    """Write all, or leave all as it was.

    :raises ToolError: one could not be written.
    """
    done: list[_Step] = []
    try:
        for step in steps:
            if step.now != step.then:
                await _set(environment, step, step.then)
                done.append(step)
    except ToolError as error:
        lost: list[str] = []
        for step in reversed(done):
            try:
                await _set(environment, step, step.now)
            except ToolError as failed:
                lost.append(f"{shown(step.path, environment.cwd)} is as it was before that turn: {failed}")
        rest = " ".join(lost) or "All files are as they were before this command."
        raise ToolError(f"Nothing was undone. {error} {rest}") from error


async def _set(environment: Environment, step: _Step, text: str | None) -> None:
    if text is not None:
        away = bool(outside((step.path,), environment.roots))
        await environment.files.write_text(step.path, text, outside=away)
        return
    try:  # no editor lends a way to remove a file
        await anyio.to_thread.run_sync(os.unlink, step.target)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ToolError(f"{shown(step.target, environment.cwd)} cannot be removed: {because(error)}.") from error


def _refusal(named: str, refused: Sequence[str], others: int) -> str:
    """What to say where nothing is undone.

    :param refused: a line for each file that is in the way.
    :param others: how many are not.
    """
    lines = [f"Nothing was undone. Of what {named} changed, this cannot be taken back:", "", *refused]
    if others:
        rest = "The other file" if others == 1 else f"The other {others} files"
        lines += ["", f"{rest} could be, but it is all of them or none."]
    return "\n".join(lines)


def _line(environment: Environment, step: _Step) -> str:
    name = f"- `{shown(step.path, environment.cwd)}`: "
    if step.then is not None:
        return f"{name}as it was before"
    if step.now is None:
        return f"{name}not there any more, and not looked for: if a command moved it, it stays where it is"
    if step.target != step.path:
        made = shown(step.target, environment.cwd)
        return f"{name}the link stays; `{made}` behind it was removed, since that turn had made it"
    return f"{name}removed, since that turn had made it"


def _for_the_model(turn: _Turn, lines: Iterable[str]) -> str:
    return "\n".join(
        (
            f"The user took back what your edits changed in files in the turn “{turn.prompt}”:",
            "",
            *lines,
            "",
            _READ_AGAIN,
        )
    )
