"""Paths from a model: makes them absolute, checks them against the session's
directories, and formats them.

A path keeps its symbolic links, since the editor knows its files by the names that the
user opened. Links are resolved once, to decide whether a path leads outside. The
resolved path is then read or written, and a link that has appeared in it since is
refused (see `acp_agent.nofollow`).
"""

from __future__ import annotations

import os
import re
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
from acp_agent.nofollow import resolved
from acp_agent.sandbox.guarded_paths import is_guarded
from acp_agent.sandbox.installation import is_installed
from acp_agent.sandbox.run_by_git import is_run_by_git
from acp_agent.tools.asked import in_title
from acp_agent.tools.environment import Environment, Report
from acp_agent.tools.matching.names import name_difference, names_alike, nearest
from acp_agent.tools.path_errors import LONGEST_PATH, moved, printable
from acp_agent.tools.text import one_line, title_line
from acp_agent.tools.tool import Access, CallResult, PreparedCall

_DEEPEST = 500
"""Maximum number of parts of a path. Many programs fail on more deeply nested folders."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]++):(?=\S)")
_MOST_LISTED = 3


@frozen
class Target:
    """The path of a call, as it was checked when the call was prepared.

    :ivar real: the path with all links resolved at that time. Permission is given for
        this path, and only this path is used.
    :ivar label: the path to show to people and models.
    :ivar outside: the resolved path if it needs permission in every mode, otherwise
        empty. Such paths are outside the session's directories, contain keys of other
        programs or, for an edit, are guarded, since other programs run or read them.
    :ivar edited: whether the call edits the file.
    :ivar note: text for the model if the file has a different name than the one that
        the model wrote; otherwise empty.
    """

    path: Path
    real: Path
    label: str
    outside: tuple[Path, ...]
    environment: Environment
    edited: bool = False
    note: str = ""

    @classmethod
    def of(
        cls,
        written: str,
        environment: Environment,
        *,
        edited: bool = False,
        exactly: bool = False,
    ) -> Target:
        """Check a path that a model wrote. If it does not exist, use the only path that
        looks like it.

        :param exactly: whether to use the last name exactly as it was written.
        :raises ToolError: if it is not a valid path, or the settings forbid tools to
            access it.
        """
        path = absolute(written, environment.cwd)
        if edited:
            _refuse_in_missing(path, environment)
        found = nearest(path.parent) / path.name if exactly else nearest(path)
        real = resolved(found)
        label = shown(found, environment.cwd)
        note = ""
        if found != path:
            asked = shown(path, environment.cwd)
            has = name_difference(str(found), str(path))
            note = f"({asked} does not exist. This is {label}, whose name has {has}.)"
        if environment.limits.refuse(real):
            raise ToolError(
                f"{label} is closed to all tools by `sandbox.read_deny` in the settings. Continue without it, or ask "
                "the user for the part that you need."
            )
        return cls(
            found,
            real,
            label,
            _beyond(real, environment, edited),
            environment,
            edited,
            note,
        )

    @property
    def links(self) -> str:
        """Return the targets of symbolic links that lead outside, as text for a title;
        empty if there are none.
        """
        return "".join(
            f" (leads to {printable(str(place))})"
            for place in self.outside
            if place != self.path
        )

    @property
    def leads_to(self) -> tuple[Path, ...]:
        """Return where symbolic links in the path lead: outside the session's
        directories, or to another path within them. Links in the path of a session
        directory itself do not count.
        """
        if self.outside:
            return tuple(place for place in self.outside if place != self.path)
        for root in self.environment.roots:
            if self.path.is_relative_to(root) and self.real == resolved(
                root
            ) / self.path.relative_to(root):
                return ()
        return (self.real,) if self.real != self.path else ()

    @property
    def closed(self) -> frozenset[Path]:
        """Return the resolved paths that a search of this folder skips: the agent's
        home and forbidden paths.
        """
        closed = {*self.environment.limits.below(self.real)}
        private = self.environment.private
        if private is not None and self.real in (home := resolved(private)).parents:
            closed.add(home)
        return frozenset(closed)

    def real_of(self, path: Path) -> Path:
        """Return the resolved path of a file in this folder that is not below a
        symbolic link.

        :param path: a path that begins with this target's `path`.
        """
        return self.real / path.relative_to(self.path)

    @property
    def where(self) -> str:
        """Return the folder as the end of a title; empty for the working directory."""
        return "" if self.path == self.environment.cwd else f" in {self.label}"

    def missing(self, advice: str) -> ToolError:
        """Return the error for a file that does not exist.

        :param advice: what to do, as a sentence.
        """
        alike = names_alike(self.real.parent, self.path.name)
        names = " and ".join(
            f"{name!r}, whose name has {name_difference(name, self.path.name)}"
            for name in alike[:_MOST_LISTED]
        )
        return ToolError(
            f"{self.label} does not exist. {f'Did you mean {names}? ' if names else ''}{advice}"
        )

    def check(self) -> None:
        """Check that the path still leads to the place that was permitted.

        :raises ToolError: if it leads somewhere else.
        """
        if resolved(self.path) != self.real:
            raise moved(self.label)

    def call(
        self,
        subject: str,
        view: CallView,
        run: Callable[[], Awaitable[CallResult]],
        asked_title: str = "",
    ) -> PreparedCall:
        """Return a call that runs only if the path still leads to the same place.

        :param asked_title: see `PreparedCall`.
        """

        async def checked(report: Report) -> CallResult:
            self.check()
            result = await run()
            return (
                replace(result, parts=(*result.parts, Text(self.note)))
                if self.note
                else result
            )

        access = Access("edit" if self.edited else "read", self.outside, subject)
        return PreparedCall(
            view, access, checked, asked_title=asked_title, leads_to=self.leads_to
        )

    def asked(self, verb: str, sought: str = "") -> str:
        """Return the title of a permission request for the path: a verb, the path, and
        the targets of its links.

        :param verb: the first word of the title.
        :param sought: the pattern to search for, if any.
        """
        # If the path has links, their target is more important than the path, so the
        # path gets less space.
        place = in_title(
            raw_name(self.path, self.environment.cwd), 60 if self.leads_to else 120
        )
        leads = "".join(
            f" (leads to {in_title(str(real), 300)})" for real in self.leads_to
        )
        return (
            f"{verb} {place}{leads}{f' for {in_title(sought, 60)}' if sought else ''}"
        )

    def search(
        self,
        subject: str,
        words: str,
        kind: ToolKind,
        find: Callable[[], str],
        sought: str = "",
    ) -> PreparedCall:
        """Return a call that searches this path in a worker thread.

        :param sought: the pattern to search for, if any.
        """
        view = CallView(
            title_line(words) + self.links, kind, (Location(str(self.path)),)
        )
        asked = self.asked("Search" if sought else "List", sought)

        async def run() -> CallResult:
            return CallResult(
                (Text(await to_thread.run_sync(find, abandon_on_cancel=True)),), view
            )

        return self.call(subject, view, run, asked)


def _refuse_in_missing(path: Path, environment: Environment) -> None:
    """Refuse a path in a session directory that no longer exists: writing there would
    create the directory again.

    :raises ToolError: if the path is in such a directory.
    """
    root = next((root for root in environment.roots if path.is_relative_to(root)), None)
    if root is not None and not root.is_dir():
        raise ToolError(missing_directory(root))


def missing_directory(root: Path) -> str:
    """Return the message to the model about a session directory that no longer exists."""
    return (
        f"The session's directory {printable(str(root))} does not exist: it was moved or deleted. Nothing was done. "
        "Do not create it again; tell the user."
    )


def absolute(path: str, cwd: Path) -> Path:
    """Return the absolute path for a text from a model: a path relative to `cwd`,
    absolute or with `~`, or a `file://` URI.

    :raises ToolError: if it is not a valid path.
    """
    scheme = scheme_of(path)
    is_address = path[len(scheme) :].startswith(":/")
    if scheme == "file" and is_address:
        path = _from_uri(path)
    elif scheme and is_address:
        raise ToolError(
            f"{one_line(path, 200)} is an address ({scheme}:) and not a file, so the file tools cannot open it. "
            "Give the path of a file, or ask the user for the contents."
        )
    if not path.strip():
        raise ToolError(
            "The path is empty. Give the path of a file or directory, or `.` for the working directory."
        )
    if "\0" in path:
        raise ToolError(
            "The path contains a NUL character, which no file name can contain. Give a path without it."
        )
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - pathlib's fails without a home directory
    whole = os.path.normpath(cwd / path)
    if (size := len(whole.encode(errors="replace"))) > LONGEST_PATH:
        raise ToolError(
            f"The path is too long: with the working directory it has {size:,} bytes, and the maximum is "
            f"{LONGEST_PATH:,}. Use a shorter path."
        )
    if (parts := whole.count("/")) > _DEEPEST:
        raise ToolError(
            f"The path is too long: with the working directory it has {parts:,} parts, and the maximum is "
            f"{_DEEPEST}. Use a shorter path."
        )
    return Path(whole)


def outside(
    path: Path, roots: Sequence[Path], private: Path | None = None
) -> tuple[Path, ...]:
    """Return the resolved path if it is outside all roots, otherwise nothing.

    If the path does not exist, its nearest existing parent decides. If its links cannot
    be resolved because of a loop, the path is used as it is.

    :param private: the agent's own home, which counts as outside even if a root
        contains it.
    """
    real = resolved(path)
    inside = any(real.is_relative_to(resolved(root)) for root in roots)
    return (
        ()
        if inside and (private is None or not real.is_relative_to(resolved(private)))
        else (real,)
    )


def refuse_keys(path: Path, private: Path | None, label: str) -> None:
    """Refuse the file with the providers' keys, in every mode, because a model sees
    everything that a tool reads.

    :param private: the agent's own home.
    :param label: the path as shown.
    :raises ToolError: if the path is that file.
    """
    if private is None:
        return
    keys = private / KEYS_FILE
    try:
        same = path.samefile(keys)
    except (OSError, ValueError):
        same = os.path.realpath(path) == os.path.realpath(keys)
    if same:
        raise ToolError(
            f"{label} contains the keys of the user's model providers, so no tool may read or change it."
        )


def shown(path: Path, cwd: Path) -> str:
    """Return the path to show to people and models: on one line, and relative to `cwd`
    if it is below it.
    """
    return printable(raw_name(path, cwd))


def raw_name(path: Path, cwd: Path) -> str:
    """Return the path, relative to `cwd` if it is below it, without escaping."""
    if path == cwd:
        return "."
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def _beyond(real: Path, environment: Environment, edited: bool) -> tuple[Path, ...]:
    """Return the resolved path if it needs permission in every mode, otherwise nothing;
    see `Target.outside`.
    """
    private = environment.private
    is_inside = environment.is_inside(real)
    is_private = private is not None and real.is_relative_to(resolved(private))
    needs_asking = edited and _steers_something(real, environment)
    return (
        (real,)
        if not is_inside or is_private or needs_asking or environment.limits.ask(real)
        else ()
    )


def _steers_something(real: Path, environment: Environment) -> bool:
    """Return whether other programs run the file, or read it as configuration, without
    asking the user.
    """
    roots = environment.real_roots or tuple(
        resolved(root) for root in environment.roots
    )
    return is_guarded(real) or is_installed(real) or is_run_by_git(real, roots)


def scheme_of(address: str) -> str:
    """Return the scheme of an address in lower case, or an empty string for a path,
    including a Windows drive path.

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
        raise ToolError(
            f"{one_line(uri)} is not the URI of a file on this machine. Give the file's path."
        )
    return unquote(parts.path)
