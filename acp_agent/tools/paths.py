"""Paths as a model writes them, made absolute, judged against the session's directories, and shown.

A path keeps its symbolic links, since the editor knows its files by the names that the user opened; links are followed
only to judge whether a path lies outside. Knows nothing of what is done with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp_agent.config.home import KEYS_FILE
from acp_agent.errors import ToolError
from acp_agent.tools.text import one_line

_GUARDED = (".git", ".acp-agent")
_LONGEST = 4096


def absolute(path: str, cwd: Path) -> Path:
    """The absolute path of what a model wrote: relative to `cwd`, absolute, `~`, or a `file://` URI.

    :raises ToolError: it cannot be a path.
    """
    if not path.strip():
        raise ToolError("The path is empty. Name a file or directory, `.` for the working directory.")
    if "\0" in path:
        raise ToolError("The path holds a NUL character, which no file name can.")
    if len(path) > _LONGEST:
        raise ToolError(f"The path has {len(path)} characters; the longest that can exist has {_LONGEST}.")
    if path.startswith("file://"):
        path = _from_uri(path)
    if path == "~" or path.startswith("~/"):
        path = str(Path(path).expanduser()) if _has_home() else path
    return Path(os.path.normpath(cwd / path))


def outside(paths: Iterable[Path], roots: Sequence[Path], private: Path | None = None) -> tuple[Path, ...]:
    """Those of the paths that lie in none of the roots, with all symbolic links followed.

    A path need not exist: then its nearest existing parent decides. A path whose links cannot be followed (a loop) is
    taken at its word.

    :param private: a folder that is outside, whatever root it lies in: the agent's own home.
    """
    closed = None if private is None else Path(os.path.realpath(private))
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    resolved = [Path(os.path.realpath(path)) for path in paths]
    return tuple(
        path
        for path in resolved
        if not any(path.is_relative_to(root) for root in real_roots)
        or (closed is not None and path.is_relative_to(closed))
    )


def within(base: Path, private: Path | None) -> Path | None:
    """The agent's own home as a walk from `base` comes to it; None where it does not come there, or begins in it."""
    if private is None:
        return None
    real, start = Path(os.path.realpath(private)), Path(os.path.realpath(base))
    return base / real.relative_to(start) if real != start and real.is_relative_to(start) else None


def is_keys(path: Path, private: Path | None) -> bool:
    """Whether a path leads to the file that holds the providers' keys."""
    if private is None:
        return False
    keys = private / KEYS_FILE
    try:
        return path.samefile(keys)
    except (OSError, ValueError):
        return os.path.realpath(path) == os.path.realpath(keys)


def keys_inode(private: Path | None) -> int | None:
    """The number of the file that holds the providers' keys on its file system, under whatever name a walk comes to it;
    a cheap look before `is_keys`. None where there is no such file."""
    try:
        return None if private is None else (private / KEYS_FILE).stat().st_ino
    except OSError:
        return None


def refuse_keys(path: Path, private: Path | None, label: str) -> None:
    """Refuse the file that holds the providers' keys, in every mode: what a tool reads goes to a model.

    :param private: the agent's own home.
    :param label: the path as shown.
    :raises ToolError: it is that file.
    """
    if is_keys(path, private):
        raise ToolError(f"{label} holds the keys of the user's model providers, so no tool may read or change it.")


def require_same_place(path: Path, asked_for: Sequence[Path], now: Sequence[Path], cwd: Path) -> None:
    """Refuse to go on where a path leads elsewhere than it did when it was decided on.

    :param asked_for: what `outside` (or `guarded`) said then.
    :param now: what it says now.
    :raises ToolError: they differ.
    """
    if tuple(asked_for) != tuple(now):
        raise ToolError(
            f"{shown(path, cwd)} leads somewhere else than when it was decided whether this may be done: a symbolic "
            "link on the way was made or changed. Nothing was done. Repeat the call."
        )


def led_to(path: Path, asked_for: Sequence[Path], cwd: Path) -> str:
    """What to say behind a path of where symbolic links lead from it, for whoever is asked; "" where none do.

    :param asked_for: what `outside` (or `guarded`) says of the path.
    """
    # A link above both is how the user names the project; one that is the working directory leads nowhere beside it.
    common = os.path.commonpath((path, cwd))
    plain = os.path.normpath(Path(os.path.realpath(common), os.path.relpath(path, common)))
    return "".join(f" (leads to {printable(str(place))})" for place in asked_for if str(place) != plain)


def shown(path: Path, cwd: Path) -> str:
    """The path for people and models: relative to `cwd` where it lies within, on one line."""
    if path == cwd:
        return "."
    return printable(str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path))


def printable(name: str) -> str:
    """A file name on one line, with U+FFFD in place of what no text can hold."""
    return one_line(name, _LONGEST)


def guarded(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those of the paths, resolved, that lie in a folder whose files run or steer something: git's hooks and settings,
    this agent's configuration and recipes. Leave to edit the project is no leave to change those."""
    resolved = [Path(os.path.realpath(path)) for path in paths]
    return tuple(path for path in resolved if any(part.lower() in _GUARDED for part in path.parts))


def refuse_special(path: Path, label: str) -> None:
    """Refuse what is neither a file nor absent: reading a pipe or a device could wait for ever.

    :param label: the path as shown.
    :raises ToolError: says what it is.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        raise ToolError(f"{label} is a directory. Use `list` to see what is in it.")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{label} is neither a file nor a directory (a device, pipe or socket), so it is left alone.")


def is_present(path: Path) -> bool:
    """Whether there is anything of this name."""
    return os.path.lexists(path)


def require_directory(path: Path, label: str) -> None:
    """Refuse what is no directory.

    :raises ToolError: says what it is.
    """
    try:
        if path.is_dir():
            return
        present = path.exists()
    except OSError as error:
        raise ToolError(f"{label} cannot be looked at: {because(error)}.") from error
    if present:
        raise ToolError(f"{label} is a file, not a directory.")
    raise ToolError(f"{label} does not exist.")


def because(error: OSError) -> str:
    """The operating system's reason, as the end of a sentence."""
    return (error.strerror or type(error).__name__).lower()


def _from_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise ToolError(f"{one_line(uri)} is no valid URI. Give the path itself.") from error
    if parts.netloc not in ("", "localhost"):
        raise ToolError(f"{one_line(uri)} names a file on another machine. Give a path on this one.")
    path = unquote(parts.path)
    if "\0" in path or not path:
        raise ToolError(f"{one_line(uri)} names no file. Give the path itself.")
    return path


def _has_home() -> bool:
    try:
        Path.home()
    except RuntimeError:
        return False
    return True
