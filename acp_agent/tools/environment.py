"""The environment of a tool call: the session's directories, and interfaces to files,
commands and the session's log.

`server` implements files and commands over ACP; `files/local.py` and `shell/run.py`
implement them on this machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from acp_agent.conversation.events import LoggedEvent
from acp_agent.frozen import frozen
from acp_agent.nofollow import resolved
from acp_agent.sandbox.reading import ReadLimits

if TYPE_CHECKING:
    from acp_agent.sandbox.sandbox import Sandbox
    from acp_agent.storage.store import FoundMessage
    from acp_agent.tools.forms import Questions


class FileAccess(Protocol):
    """Reads and writes text files, in the editor or on disk. Paths are absolute."""

    async def read_text(self, path: Path, real: Path | None = None) -> str:
        """Return the whole text of a file.

        :param real: the resolved path for which permission was given. On disk, exactly
            this file is read, and a symbolic link that has appeared in the path since
            is refused. None resolves the path now.
        :raises FileNotFoundError: if the file does not exist.
        :raises ToolError: if it cannot be read as text (a directory, a binary file, no
            permission), with the reason.
        """
        ...

    async def write_text(
        self, path: Path, text: str, *, outside: bool = False, real: Path | None = None
    ) -> None:
        """Replace or create the file and its directories. On the local disk, the write
        is atomic.

        :param real: see `read_text`.
        :param outside: whether the file is outside the session's directories, where an
            editor may be unable to write.
        :raises ToolError: if the file cannot be written, with the reason.
        """
        ...


@frozen
class CommandResult:
    """The result of a shell command.

    :ivar stdout: its output, cut in the middle if it is too long.
    :ivar exit_code: None if a signal or the timeout ended the command.
    :ivar signal: name of the signal that ended the command. Both this and `exit_code`
        are None if an editor reported neither.
    :ivar ended_by_user: whether the user ended only this command, and not the turn.
    :ivar merged: whether `stdout` contains both streams in the order of printing, as in
        an editor's terminal. If so, `stderr` is empty.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    signal: str | None = None
    timed_out: bool = False
    merged: bool = False
    ended_by_user: bool = False


@frozen
class TerminalStarted:
    """The editor shows this terminal while the call runs."""

    terminal_id: str


@frozen
class OutputArrived:
    """New output of a command that runs without a terminal, as it was printed."""

    text: str


Progress: TypeAlias = TerminalStarted | OutputArrived
Report: TypeAlias = Callable[[Progress], Awaitable[None]]


class CommandRunner(Protocol):
    """Runs shell commands, in the editor's terminal or as a local process group."""

    async def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float,
        report: Report,
        *,
        shown: str,
        exclude: Collection[str] = (),
        try_out: Sequence[str] = (),
    ) -> CommandResult:
        """Run one command until it exits. Cancellation kills its whole process group.

        :param argv: the program and its arguments.
        :param timeout: seconds after which the command is killed.
        :param shown: the command line to show to people.
        :param exclude: names of environment variables that the command does not
            inherit.
        :param try_out: a program and its arguments to run first, which exits with 0 if
            the command's sandbox works; empty without a sandbox. A sandboxed command
            must run on the agent's own machine.
        :param report: called with the terminal if the editor shows one, otherwise with
            new output as it arrives.
        :raises ToolError: if the command could not be started.
        """
        ...


class Archive(Protocol):
    """The session's log, which keeps everything that compactions removed from the
    context.
    """

    async def search(self, query: str, limit: int) -> Sequence[FoundMessage]:
        """Return messages outside the current context that contain the words of the
        query, best match first.
        """
        ...

    async def read(self, seqs: Sequence[int]) -> Sequence[LoggedEvent]:
        """Return the entries with these numbers, skipping numbers that do not exist."""
        ...


@frozen
class Environment:
    """What a tool call may use.

    :ivar cwd: the session's working directory; relative paths start here.
    :ivar roots: `cwd` and the additional directories. Access outside them needs
        permission.
    :ivar real_roots: `roots`, resolved when the session was opened; empty if they were
        not recorded. If a root has been replaced by a symbolic link since, the link's
        target counts as outside.
    :ivar limits: files that tools do not read, or read only with permission.
    :ivar seen: digest of each file version that the model has seen, by absolute path
        (see `digest`).
    :ivar shell_timeout: default timeout of shell commands, in seconds.
    :ivar archive: None if no log is kept.
    :ivar questions: asks the user; None if there is no way to ask.
    :ivar call_id: ID of the tool call that uses this environment; empty if there is
        none.
    :ivar private: the agent's own home directory. It is treated as outside even if a
        root contains it, and no tool reads the keys in it.
    :ivar key_variables: names of the environment variables with provider keys, which no
        command inherits.
    :ivar sandbox: the sandbox for commands; None if the user has turned it off.
    :ivar trace: the prompt's W3C trace context, passed on to servers that a tool calls.
    """

    cwd: Path
    roots: tuple[Path, ...]
    files: FileAccess
    commands: CommandRunner
    seen: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    shell_timeout: float = 120.0
    archive: Archive | None = None
    questions: Questions | None = None
    call_id: str = ""
    private: Path | None = None
    key_variables: frozenset[str] = frozenset()
    sandbox: Sandbox | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    real_roots: tuple[Path, ...] = ()
    limits: ReadLimits = ReadLimits()

    def is_inside(self, real: Path) -> bool:
        """Return whether a path is in one of the session's directories.

        :param real: absolute and resolved.
        """
        roots = self.real_roots or tuple(resolved(root) for root in self.roots)
        return any(real.is_relative_to(root) for root in roots)
