"""Paths as a model writes them: made absolute, judged against the session's directories, and shown.

A path keeps its symbolic links, since the editor knows its files by the names that the user opened; links are followed
only to judge whether a path leads outside.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from anyio import to_thread

from acp_agent.config.home import KEYS_FILE
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import Text
from acp_agent.conversation.views import Location, ToolKind
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.sandbox.guarded_paths import is_guarded
from acp_agent.sandbox.installation import is_installed
from acp_agent.tools.environment import Environment, Report
from acp_agent.tools.matching.names import names_alike, nearest, told
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Access, CallResult, PreparedCall

_LONGEST = 4096
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]++):(?=\S)")
_MOST_TOLD = 3


@frozen
class Target:
    """A path that a call is about, as it was judged when the call was prepared.

    :ivar label: the path for people and models.
    :ivar outside: whether it needs permission in every mode: it leads outside of the session's directories or, for an
        edit, into a guarded folder, whose files run or configure something.
    :ivar edited: whether the call edits.
    :ivar note: a note for the model if a different name was used than the one it wrote; otherwise empty.
    """

    path: Path
    label: str
    outside: tuple[Path, ...]
    environment: Environment
    edited: bool = False
    note: str = ""

    @classmethod
    def of(cls, written: str, environment: Environment, *, edited: bool = False, exactly: bool = False) -> Target:
        """Judge a path as a model wrote it. If it does not exist, use the only path that looks like it.

        :param exactly: whether to use the last name exactly as it was written.
        :raises ToolError: it cannot be a path.
        """
        path = absolute(written, environment.cwd)
        if edited:
            _refuse_in_missing(path, environment)
        found = nearest(path.parent) / path.name if exactly else nearest(path)
        label, note = shown(found, environment.cwd), ""
        if found != path:
            asked, has = shown(path, environment.cwd), told(str(found), str(path))
            note = f"({asked} does not exist. This is {label}, whose name has {has}.)"
        return cls(found, label, _beyond(found, environment, edited), environment, edited, note)

    @property
    def links(self) -> str:
        """Return the targets of symbolic links to the outside, for the permission question; empty without any."""
        return "".join(f" (leads to {printable(str(place))})" for place in self.outside if place != self.path)

    @property
    def where(self) -> str:
        """Return the place for the end of a title; empty for the working directory."""
        return "" if self.path == self.environment.cwd else f" in {self.label}"

    def missing(self, advice: str) -> ToolError:
        """Return the error for a file that does not exist.

        :param advice: what to do, as a sentence.
        """
        alike = names_alike(self.path.parent, self.path.name)
        names = " and ".join(f"{name!r}, whose name has {told(name, self.path.name)}" for name in alike[:_MOST_TOLD])
        return ToolError(f"{self.label} does not exist. {f'There is {names}. ' if names else ''}{advice}")

    def check(self) -> None:
        """Refuse to go on where the path leads elsewhere than when it was decided on.

        :raises ToolError: it does.
        """
        if _beyond(self.path, self.environment, self.edited) != self.outside:
            raise ToolError(
                f"{self.label} leads somewhere else than when it was decided whether this may be done: a symbolic "
                "link on the way was made or changed. Nothing was done. Repeat the call."
            )

    @property
    def closed(self) -> Path | None:
        """Return the path at which a walk from here meets the agent's home; None if it does not, or starts in it."""
        if self.environment.private is None:
            return None
        real, start = _real(self.environment.private), _real(self.path)
        return self.path / real.relative_to(start) if real != start and real.is_relative_to(start) else None

    def call(self, subject: str, view: CallView, run: Callable[[], Awaitable[CallResult]]) -> PreparedCall:
        """Return a call that runs where the path still leads to the same place."""

        async def checked(report: Report) -> CallResult:
            self.check()
            result = await run()
            return replace(result, parts=(*result.parts, Text(self.note))) if self.note else result

        return PreparedCall(view, Access("edit" if self.edited else "read", self.outside, subject), checked)

    def search(self, subject: str, words: str, kind: ToolKind, find: Callable[[], str]) -> PreparedCall:
        """Return a call that looks for something there, in a worker thread."""
        view = CallView(one_line(words) + self.links, kind, (Location(str(self.path)),))

        async def run() -> CallResult:
            return CallResult((Text(await to_thread.run_sync(find, abandon_on_cancel=True)),), view)

        return self.call(subject, view, run)


def _refuse_in_missing(path: Path, environment: Environment) -> None:
    """Refuse a path in a session directory that no longer exists: writing there would create the directory again.

    :raises ToolError: if the path is in such a directory.
    """
    root = next((root for root in environment.roots if path.is_relative_to(root)), None)
    if root is not None and not root.is_dir():
        raise ToolError(missing_directory(root))


def missing_directory(root: Path) -> str:
    """Return the message to the model about a session directory that no longer exists."""
    return (
        f"The session's directory {printable(str(root))} does not exist: it was moved or deleted. Nothing was done, so "
        "that it is not made anew. Do not make it; tell the user."
    )


def absolute(path: str, cwd: Path) -> Path:
    """Return the absolute path of what a model wrote: relative to `cwd`, absolute, `~`, or a `file://` URI.

    :raises ToolError: it cannot be a path.
    """
    scheme = scheme_of(path)
    is_address = path[len(scheme) :].startswith(":/")
    if scheme == "file" and is_address:
        path = _from_uri(path)
    elif scheme and is_address:
        raise ToolError(
            f"{one_line(path, 200)} is an address of {scheme}: and no file, so the tools for files cannot open it. "
            "Give the path of a file, or ask the user for what is there."
        )
    if not path.strip():
        raise ToolError("The path is empty. Name a file or directory, `.` for the working directory.")
    if "\0" in path:
        raise ToolError("The path holds a NUL character, which no file name can.")
    if len(path) > _LONGEST:
        raise ToolError(f"The path has {len(path)} characters; the longest that can exist has {_LONGEST}.")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - pathlib's fails where there is no home
    return Path(os.path.normpath(cwd / path))


def outside(path: Path, roots: Sequence[Path], private: Path | None = None) -> tuple[Path, ...]:
    """Return where a path leads with all symbolic links followed, where that lies in none of the roots; else nothing.

    A path need not exist: then its nearest existing parent decides. A path whose links cannot be followed (a loop) is
    taken at its word.

    :param private: a folder that is outside, whatever root it lies in: the agent's own home.
    """
    real = _real(path)
    inside = any(real.is_relative_to(_real(root)) for root in roots)
    return () if inside and (private is None or not real.is_relative_to(_real(private))) else (real,)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def refuse_keys(path: Path, private: Path | None, label: str) -> None:
    """Refuse the file that holds the providers' keys, in every mode: what a tool reads goes to a model.

    :param private: the agent's own home.
    :param label: the path as shown.
    :raises ToolError: it is that file.
    """
    if private is None:
        return
    keys = private / KEYS_FILE
    try:
        same = path.samefile(keys)
    except (OSError, ValueError):
        same = os.path.realpath(path) == os.path.realpath(keys)
    if same:
        raise ToolError(f"{label} holds the keys of the user's model providers, so no tool may read or change it.")


def shown(path: Path, cwd: Path) -> str:
    """Return the path for people and models: relative to `cwd` where it lies within, on one line."""
    if path == cwd:
        return "."
    return printable(str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path))


def printable(name: str) -> str:
    """Return a file name on one line, with U+FFFD in place of what no text can hold."""
    return one_line(name, _LONGEST)


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


def because(error: OSError) -> str:
    """Return the operating system's reason, as the end of a sentence."""
    return (error.strerror or type(error).__name__).lower()


def _beyond(path: Path, environment: Environment, edited: bool) -> tuple[Path, ...]:
    found = outside(path, environment.roots, environment.private)
    if found or not edited:
        return found
    real = _real(path)
    return (real,) if is_guarded(real) or is_installed(real) else ()


def scheme_of(address: str) -> str:
    """Return the scheme of an address in lower case, or an empty string for a path, including a Windows drive path.

    RFC 3986, section 3.1.
    """
    found = _SCHEME.match(address)
    return found[1].lower() if found else ""


def _from_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise ToolError(f"{one_line(uri)} is no URI of a file on this machine. Give the path itself.")
    return unquote(parts.path)
