"""Files on this machine's disk, for clients that do not offer file access.

A file is read whole and replaced atomically. Text is UTF-8. Line ends and a byte order
mark are part of the text, so that an edit writes them back unchanged.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import anyio.to_thread

from acp_agent.config.state_file import atomic_write
from acp_agent.errors import ToolError
from acp_agent.nofollow import folder_at, resolved
from acp_agent.regular import open_resolved
from acp_agent.sandbox.written import writing
from acp_agent.tools.path_errors import because, moved, printable, refuse_special

MAX_BYTES = 10 * 1024 * 1024
"""Maximum size of a file to read or write, in bytes."""


class LocalFiles:
    """The disk as a `FileAccess`."""

    async def read_text(self, path: Path, real: Path | None = None) -> str:
        """Return the whole text of a file; see `FileAccess.read_text`."""
        return await anyio.to_thread.run_sync(_read, path, real)

    async def write_text(
        self, path: Path, text: str, *, outside: bool = False, real: Path | None = None
    ) -> None:
        """Replace or create the file atomically; see `FileAccess.write_text`.

        A symbolic link is kept and its target is replaced. An existing file keeps its
        permissions. Cancellation waits for the write to end, so that the caller knows
        whether the file was written.
        """
        del outside
        await anyio.to_thread.run_sync(_write, path, text, real)


def _read(path: Path, real: Path | None) -> str:
    label = printable(str(path))
    place = real or resolved(path)
    refuse_special(place, label)
    try:
        with open_resolved(place) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP and real is not None:
            raise moved(label) from error
        raise ToolError(f"{label} cannot be read: {because(error)}.") from error
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"{label} is larger than {MAX_BYTES >> 20} MiB, so it cannot be read as a whole. Search it with `grep` and "
            "the file as `path`, or print parts of it with `shell` and sed."
        )
    if b"\0" in data:
        raise ToolError(f"{label} is a binary file, so it cannot be read as text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{label} is not UTF-8 text (byte {error.start} is invalid), so it cannot be read or edited as text. "
            "Use `shell` to convert it (iconv) or to inspect it."
        ) from error


def _write(path: Path, text: str, real: Path | None) -> None:
    label = printable(str(path))
    place = real or resolved(path)
    refuse_special(place, label)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text for {label} contains an unpaired surrogate at character {error.start}, which cannot be encoded "
            "as UTF-8. Nothing was written. Send the whole character."
        ) from error
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"The text for {label} is larger than {MAX_BYTES >> 20} MiB, so it was not written. Write it with a "
            "`shell` command."
        )
    try:
        with writing(place, data), folder_at(place.parent, make=True) as folder:
            _replace(folder, place.name, data)
    except OSError as error:
        if error.errno == errno.ELOOP and real is not None:
            raise moved(label) from error
        raise ToolError(
            f"{label} cannot be written: {because(error)}. The file is unchanged."
        ) from error


def _replace(folder: int, name: str, data: bytes) -> None:
    """Replace a file in an open folder."""
    mode: int | None = None
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISLNK(found):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        mode = stat.S_IMODE(found)
        if not os.access(name, os.W_OK, dir_fd=folder):
            # Replacing it would only need write permission on the directory, so refuse
            # a read-only file here.
            raise PermissionError(errno.EACCES, "the file is read-only")
    with atomic_write(
        Path(name), 0o666, folder
    ) as file:  # the usual mode, so that the umask applies
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
