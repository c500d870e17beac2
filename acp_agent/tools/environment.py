"""The environment of a tool call: the session's directories, and interfaces to files, commands and the session's log.

`server` implements files and commands over ACP; `files/local.py` and `shell/run.py` use this machine's.
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
    from acp_agent.storage.store import Found
    from acp_agent.tools.forms import Questions


class FileAccess(Protocol):
    """Text files, as the editor or the disk has them. Paths are absolute."""

    async def read_text(self, path: Path, real: Path | None = None) -> str:
        """Return the whole text of a file.

        :param real: where the path leads, as it was decided on; on the disk this very place is read, and a link that
            has appeared on the way is refused. None resolves the path.
        :raises FileNotFoundError: there is none.
        :raises ToolError: it cannot be read as text (a directory, a binary file, no permission); says so.
        """
        ...

    async def write_text(self, path: Path, text: str, *, outside: bool = False, real: Path | None = None) -> None:
        """Replace or create the file, making its directories; atomic where the disk is ours.

        :param real: see `read_text`.
        :param outside: whether it lies outside the session's directories, where an editor may be unable to write.
        :raises ToolError: it cannot be written; says why.
        """
        ...


@frozen
class CommandResult:
    """How a shell command ended.

    :ivar stdout: what it printed, cut in the middle where too long.
    :ivar exit_code: None where a signal or a time-out ended it.
    :ivar signal: name of that signal; None as well as the exit code where an editor said neither.
    :ivar ended_by_user: the user ended it, and nothing but it.
    :ivar merged: `stdout` holds both streams in the order of printing, as an editor's terminal does; `stderr` is empty.
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
    """More output of a command that runs without a terminal, as it was printed."""

    text: str


Progress: TypeAlias = TerminalStarted | OutputArrived
Report: TypeAlias = Callable[[Progress], Awaitable[None]]


class CommandRunner(Protocol):
    """Shell commands, in the editor's terminal or as a local process group."""

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
        """Run one command to its end. A cancel kills its whole process group.

        :param argv: the program and its arguments.
        :param timeout: seconds after which it is killed.
        :param shown: the command line for people.
        :param exclude: names of environment variables that it does not inherit.
        :param try_out: a program and its arguments that succeeds where the command's sandbox works; empty where it has
            none. The command has to run on the agent's own machine.
        :param report: called with the terminal if the editor shows one, else with new output as it comes.
        :raises ToolError: it could not be started.
        """
        ...


class Archive(Protocol):
    """The session's log, which keeps what compactions took out of the context."""

    async def search(self, query: str, limit: int) -> Sequence[Found]:
        """Return the messages that hold the words of the query and that the model does not see now, best first."""
        ...

    async def read(self, seqs: Sequence[int]) -> Sequence[LoggedEvent]:
        """Return the entries with these numbers, without those that do not exist."""
        ...


@frozen
class Environment:
    """What a call may use.

    :ivar cwd: the session's working directory; relative paths start here.
    :ivar roots: `cwd` and the additional directories; work outside of them asks for permission.
    :ivar real_roots: where they led when the session was opened; empty where that was not noted. A link in their place
        since then leads outside.
    :ivar limits: what tools do not read, or only after asking.
    :ivar seen: digest of each file version that the model has seen, by absolute path (see `digest`).
    :ivar shell_timeout: seconds, where the call names none.
    :ivar archive: None where no log is kept.
    :ivar questions: how the user can be asked; None where there is no way to.
    :ivar call_id: of the call that this is for; empty where it is for none.
    :ivar private: the agent's own home, which is outside whatever root it lies in, and whose keys no tool reads.
    :ivar key_variables: names of the environment variables with keys of providers, which no command inherits.
    :ivar sandbox: of commands; None where they run without one because the user says so.
    :ivar trace: W3C trace context that the prompt came with, for servers that a tool calls.
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
