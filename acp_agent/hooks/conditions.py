"""When a rule fires: conditions on an event and on what has happened since the rule fired last. All of them must hold.

Pure, but for the links that are followed below a path. Knows nothing of files, nor of what a rule does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from acp_agent.frozen import frozen
from acp_agent.hooks.events import (
    AfterToolCall,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionStart,
    UserMessageSend,
)

Call: TypeAlias = BeforeToolCall | AfterToolCall
Globs: TypeAlias = tuple[str, ...]
"""Of which one has to fit; none at all says nothing."""

SHELL = "shell"
"""The tool with commands, in its argument `command`."""


@frozen
class Memory:
    """What a rule knows of its session.

    :ivar fired_at: seconds of a monotonic clock; None where it has not fired yet.
    :ivar called: whether a call that it is about has succeeded since.
    """

    fired_at: float | None = None
    called: bool = False


@frozen
class Conditions:
    """What has to hold; one that is absent always does.

    :ivar usage: how full the window is at least, from 0 to 1.
    :ivar tool: names of tools.
    :ivar path: files and folders that a call is about, relative to the session's directory; see `path_fits`.
    :ivar command: what the shell is to run; see `command_fits`.
    :ivar source: of a session's start.
    :ivar reason: of a compaction.
    :ivar mode: permission modes.
    :ivar since: seconds that must have passed since the rule fired last.
    :ivar prompt: the user's message, capitals or not.
    """

    usage: float | None = None
    tool: Globs = ()
    path: Globs = ()
    command: Globs = ()
    source: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()
    since: float | None = None
    prompt: Globs = ()

    @property
    def about_calls(self) -> bool:
        """Whether any of them is one on a call."""
        return bool(self.tool or self.path or self.command)

    def hold(self, event: HookEvent, memory: Memory, now: float) -> bool:
        """Whether all of them do.

        :param now: seconds of the clock by which the memory was written.
        """
        return (
            (self.usage is None or event.at.usage.share >= self.usage)
            and (not self.mode or event.at.mode in self.mode)
            and (self.since is None or memory.fired_at is None or now - memory.fired_at >= self.since)
            and (not self.source or (isinstance(event, SessionStart) and event.source in self.source))
            and (not self.reason or (isinstance(event, BeforeCompaction) and event.reason in self.reason))
            and (not self.prompt or (isinstance(event, UserMessageSend) and _any_fits(self.prompt, event.prompt)))
            and (not self.about_calls or (self.fit(event) if isinstance(event, Call) else memory.called))
        )

    def fit(self, call: Call) -> bool:
        """Whether those on calls hold for this one."""
        if self.tool and not any(fnmatchcase(call.tool, glob) for glob in self.tool):
            return False
        if self.command:
            command = call.input.get("command") if call.tool == SHELL else None
            if not isinstance(command, str) or not any(command_fits(glob, command) for glob in self.command):
                return False
        return not self.path or any(
            path_fits(glob, path) for path in _relative(call.paths, call.at.cwd) for glob in self.path
        )


def command_fits(glob: str, command: str) -> bool:
    """Whether a pattern fits a command line, or one of the commands in it: `git commit*` fits `cd x && git commit`."""
    return any(fnmatchcase(part, glob.strip()) for part in (command.strip(), *_commands(command)))


def path_fits(glob: str, path: str) -> bool:
    """Whether a pattern fits a path, in the manner of `.gitignore`: `*` stays within a name, `**` does not, a pattern
    without a slash before its end is looked for at any depth, and what fits a folder fits all that is in it.

    :param path: relative, with slashes.
    """
    names = [name for name in path.split("/") if name not in ("", ".")]
    pattern = [name for name in glob.removeprefix("./").split("/") if name]
    if "/" not in glob.removeprefix("./").rstrip("/"):
        pattern = ["**", *pattern]
    below_alone = glob.endswith("/")
    return any(_names_fit(pattern, names[:end]) for end in range(1, len(names) + (not below_alone)))


def _names_fit(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Name by name, with one place to come back to: the last `**`, which takes one more name each time."""
    at = place = taken = 0
    after_any: int | None = None
    while place < len(names):
        if at < len(pattern) and pattern[at] == "**":
            at += 1
            after_any, taken = at, place
        elif at < len(pattern) and fnmatchcase(names[place], pattern[at]):
            at, place = at + 1, place + 1
        elif after_any is not None:
            taken += 1
            at, place = after_any, taken
        else:
            return False
    return all(name == "**" for name in pattern[at:])


def _relative(paths: Sequence[str], cwd: str) -> Iterator[str]:
    """Paths relative to a folder, as they are written and with links followed; absolute where they lie outside."""
    for path in paths:
        for whole, folder in ((path, cwd), (os.path.realpath(path), os.path.realpath(cwd))):
            inside = whole == folder or whole.startswith(folder.rstrip("/") + "/")
            yield whole[len(folder.rstrip("/")) + 1 :] if inside else whole


def _any_fits(globs: Globs, text: str) -> bool:
    return any(fnmatchcase(text.strip().lower(), glob.lower()) for glob in globs)


def _commands(line: str) -> Iterator[str]:
    """The commands of a line, cut where the shell would, outside of quotes."""
    start = place = 0
    quote = ""
    while place < len(line):
        character = line[place]
        if character == "\\" and quote != "'":
            place += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in ";&|\n()":
            yield line[start:place].strip()
            start = place + 1
        place += 1
    yield line[start:].strip()
