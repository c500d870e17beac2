"""What was in large files before the agent changed them: one private file each, in a folder of the session's own.

The log holds what a change shows, which is the whole text of a file up to `changes.DIFF_LIMIT`, and of a larger one the
part around the change. What is beyond that stands here, named by its digest, up to a bound: the oldest gives way.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

from anyio import to_thread

from acp_agent.conversation.messages import new_id
from acp_agent.tools.text import digest

FOLDER = "undo"
"""In the agent's home."""
MOST_BYTES = 64 << 20
"""Of one session."""

_log = logging.getLogger(__name__)


class SessionOriginals:
    """One session's.

    :param home: the agent's.
    :param most: bytes that are kept.
    """

    def __init__(self, home: Path, session_id: str, most: int = MOST_BYTES) -> None:
        self._folder = home / FOLDER / session_id
        self._most = most

    async def keep(self, text: str) -> None:
        """Keep a text. Where that fails, it is only logged: an undo says then that it is not there."""
        try:
            await to_thread.run_sync(self._write, text)
        except (OSError, ValueError) as error:
            _log.warning("what was in a file cannot be kept for an undo: %s", error)

    async def read(self, name: str) -> str | None:
        """The text with this digest; None where it is not kept any more, or not as it was.

        :param name: see `tools.text.digest`.
        """
        try:
            data = await to_thread.run_sync((self._folder / name).read_bytes)
            text = data.decode()
        except (OSError, ValueError):
            return None
        return text if digest(text) == name else None

    def _write(self, text: str) -> None:
        data, path = text.encode(), self._folder / digest(text)
        for folder in (self._folder.parent, self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        if path.exists():
            os.utime(path)  # the newest again
            return
        self._make_room(len(data))
        part = path.with_name(f"{new_id('part')}.part")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def _make_room(self, size: int) -> None:
        with os.scandir(self._folder) as found:
            kept = sorted(((entry.stat(), entry.path) for entry in found), key=lambda each: each[0].st_mtime_ns)
        used = sum(status.st_size for status, _ in kept)
        for status, path in kept:
            if used + size <= self._most:
                return
            Path(path).unlink(missing_ok=True)
            used -= status.st_size


def copy_originals(home: Path, session_id: str, new_id: str) -> None:
    """Give another session the same ones, to keep when this one is removed; run this in a thread. What cannot be given
    is only logged: an undo says then that it is not there."""
    import shutil

    source, target = _folder_of(home, session_id), _folder_of(home, new_id)
    if source is None or target is None or not source.is_dir():
        return
    try:
        target.mkdir(mode=0o700)
        for file in source.iterdir():
            if file.suffix == ".part":
                continue
            try:
                os.link(file, target / file.name)  # never written to again, so both may have the same one
            except FileNotFoundError:  # it has just given way to a newer one
                continue
            except OSError:
                shutil.copy2(file, target / file.name)
    except OSError as error:
        _log.warning("what was in files of %s cannot be kept for %s: %s", session_id, new_id, error)


def remove_originals(home: Path, session_id: str) -> None:
    """Remove them, with their session. An id that is no folder's name has none."""
    import shutil  # a new session does not wait for it

    folder = _folder_of(home, session_id)
    if folder is not None:
        with suppress(OSError, ValueError):
            shutil.rmtree(folder)


def _folder_of(home: Path, session_id: str) -> Path | None:
    """A session's folder; None for an id that is no folder's name."""
    named = session_id not in ("", ".", "..") and Path(session_id).name == session_id
    return home / FOLDER / session_id if named else None
