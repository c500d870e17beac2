"""Files on this machine's disk, for clients without file access of their own.

A file is read whole and replaced atomically. Text is UTF-8; line ends and a byte order mark are kept as they are, since
the text is all that an edit has to put back.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import anyio.to_thread

from acp_agent.config.state_file import atomic_write
from acp_agent.errors import ToolError
from acp_agent.tools.paths import because, printable, refuse_special

MAX_BYTES = 10 * 1024 * 1024
"""The largest file that is read or written whole."""


class LocalFiles:
    """The disk as a `FileAccess`."""

    async def read_text(self, path: Path) -> str:
        """Return the whole text of a file; see `FileAccess.read_text`."""
        return await anyio.to_thread.run_sync(_read, path)

    async def write_text(self, path: Path, text: str, *, outside: bool = False) -> None:
        """Replace or create the file at once; see `FileAccess.write_text`.

        A symbolic link stays and its target is replaced. An existing file keeps its permissions. A cancel waits for
        the write to end, so that it is known whether it happened.
        """
        del outside
        await anyio.to_thread.run_sync(_write, path, text)


def _read(path: Path) -> str:
    label = printable(str(path))
    refuse_special(path, label)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolError(f"{label} cannot be read: {because(error)}.") from error
    if len(data) > MAX_BYTES:
        raise ToolError(
            f"{label} is larger than {MAX_BYTES >> 20} MiB. Search it with `grep`, with the file as `path`, or see "
            "parts of it with `shell` and sed."
        )
    if b"\0" in data:
        raise ToolError(f"{label} is a binary file, so it cannot be read as text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{label} is not UTF-8 text (byte {error.start}), so it cannot be read or edited as text. "
            "Use `shell` to convert it (iconv) or to look at it."
        ) from error


def _write(path: Path, text: str) -> None:
    label = printable(str(path))
    refuse_special(path, label)
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(f"The text for {label} holds a lone surrogate at character {error.start}.") from error
    if len(data) > MAX_BYTES:
        raise ToolError(f"The text for {label} is larger than {MAX_BYTES >> 20} MiB. Write it with a `shell` command.")
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except OSError as error:
        raise ToolError(f"{label} cannot be written: {because(error)}. It is unchanged.") from error


def _replace(target: Path, data: bytes) -> None:
    mode: int | None = None
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
    if mode is not None and not os.access(target, os.W_OK):
        # Replacing it would only need the directory's permission: what its owner made read-only stays so.
        raise PermissionError(13, "the file is read-only")
    with atomic_write(target, 0o666) as file:  # as any new file, so that the umask counts
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
