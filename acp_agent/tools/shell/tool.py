"""The `shell` tool: runs one command line, in the editor's terminal or on this machine."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from anyio import to_thread
from pydantic import Field

from acp_agent.conversation.closing import ENDED_BY_USER
from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.conversation.strict_json import get_text
from acp_agent.errors import ToolError
from acp_agent.frozen import frozen
from acp_agent.programs import LOADER_VARIABLES, shell
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.tools.arguments import Arguments, BuiltIn
from acp_agent.tools.environment import CommandResult, Environment, Report
from acp_agent.tools.paths import Target, missing_directory, raw_name
from acp_agent.tools.shell.guarded import (
    renamed_files,
    split_placeholders,
    unchanged_files,
)
from acp_agent.tools.shell.named_files import named_files
from acp_agent.tools.shell.outside import outside_in_command, outside_in_output
from acp_agent.tools.shell.run import LocalCommands
from acp_agent.tools.shell.screen import as_shown
from acp_agent.tools.shell.syntax import parse
from acp_agent.tools.text import one_line, title_line
from acp_agent.tools.tool import Access, CallResult, Fact, PreparedCall

OUTPUT_LIMIT = 32_000
"""Maximum number of characters of stdout and of stderr in a result. Local commands keep
half of that.
"""
_MAX_TIMEOUT = 3600.0
_LONGEST_COMMAND = 100_000


_NETWORK = re.compile(
    r"network is unreachable|name resolution|could not resolve|couldn't connect|name or service not known|ENOTFOUND"
    r"|EAI_AGAIN|ENETUNREACH|no address associated|nodename nor servname|failed to lookup address|dial tcp",
    re.IGNORECASE,
)
_OUTSIDE = re.compile(
    r"read-only file system|EROFS|device or resource busy|operation not permitted|^ssh: |host key verification failed"
    r"|permission denied \(publickey|could not read (?:username|password)|gpg failed to sign|gh auth login"
    r"|docker daemon",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches what programs print if they fail because the sandbox denies files, keys or
sockets.
"""


class _Shell(Arguments):
    command: str = Field(min_length=1, max_length=_LONGEST_COMMAND)
    timeout: float = Field(0, gt=0, le=_MAX_TIMEOUT, description="Seconds.")
    cwd: str = Field(
        ".", description="Asks the user if outside the session's directories."
    )
    network: bool = Field(False, description="Needs the network. May ask the user.")
    outside: bool = Field(
        False,
        description="Run outside of the sandbox, such as to use keys. Asks the user.",
    )


@frozen
class _Command:
    """A prepared command.

    :ivar sandbox: None to run without a sandbox.
    :ivar demand: why the user must be asked; see `Access`.
    :ivar fault: why there is no sandbox although the user wants one; otherwise empty.
    :ivar failed: the error messages of the command when it failed in the sandbox; empty
        if it has not run yet.
    """

    line: str
    target: Target
    timeout: float
    sandbox: Sandbox | None
    network: bool = False
    demand: str = ""
    fault: str = ""
    failed: str = ""

    @property
    def title(self) -> str:
        # The permission request shows the resolved directory.
        places = "".join(
            f" (in {one_line(str(folder))})" for folder in self.target.outside
        )
        what = (
            "with the network" if self.sandbox is not None else "outside of the sandbox"
        )
        return _title(self.line) + places + (f" ({what})" if self.demand else "")

    @property
    def asked_title(self) -> str:
        """Return the title of the permission request: the directory, then both ends of
        the command.
        """
        target = self.target
        place = ", ".join(map(str, target.outside or target.leads_to))
        place = place or raw_name(target.path, target.environment.cwd)
        is_here = target.path == target.environment.cwd and not target.outside
        what = (
            "with the network" if self.sandbox is not None else "outside of the sandbox"
        )
        first, *more = self.line.strip("\n").split("\n")
        command = title_line(first, 90)
        if more:
            command = f"{title_line(first, 60)} … {title_line(more[-1], 40)}"
        return (
            ("" if is_here else f"(in {title_line(place, 80)}) ")
            + command
            + (f" ({what})" if self.demand else "")
        )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return the facts of the permission request: the directory, how the command
        runs, and the whole command.
        """
        target = self.target
        leads = tuple(Fact("Leads to", str(place)) for place in target.leads_to)
        if self.sandbox is None:
            runs = "outside of the sandbox" if self.demand else "without a sandbox"
        else:
            runs = (
                "in the sandbox, with the network" if self.network else "in the sandbox"
            )
        return (
            Fact("Directory", str(target.path)),
            *leads,
            Fact("Runs", runs),
            Fact("Command", self.line),
        )

    def call(self) -> PreparedCall:
        """Return the call that runs the command."""
        # "Always allow" covers exactly this line. If the directory is outside the
        # session's, it is appended to the subject, where it could look like another
        # word of the command. A different prefix rules that out.
        outside = self.target.outside
        is_confined = self.sandbox is not None
        # Allowing a command in the sandbox does not allow it without one.
        place = "sandboxed shell" if is_confined else "shell"
        subject = f"{f'{place} outside' if outside else place}: {self.line.strip()}"
        parsed = parse(self.line) if is_confined else None
        is_plain = (
            parsed is not None and len(parsed.commands) == 1 and not parsed.has_wildcard
        )
        words = parsed.commands[0] if parsed and is_plain else ()
        access = Access(
            "execute",
            outside,
            subject,
            is_confined,
            words=words,
            demand=self.demand,
            fault=self.fault,
            named=self._named(),
        )
        view = CallView(self.title, "execute")
        return PreparedCall(
            view, access, self._run, asked_title=self.asked_title, facts=self.facts
        )

    def _named(self) -> tuple[Path, ...]:
        """Return the paths outside the session's directories that the sandbox denied to
        the command, or that it may deny.
        """
        roots = self.target.environment.roots
        cwd = self.target.path
        if self.failed:
            denied = outside_in_output(self.failed, cwd, roots)
            return denied or outside_in_command(self.line, cwd, roots)
        return outside_in_command(self.line, cwd, roots) if self.sandbox else ()

    async def _run(self, report: Report) -> CallResult:
        target = self.target
        environment = self.target.environment
        target.check()
        changes = await to_thread.run_sync(
            named_files, self.line, target.path, abandon_on_cancel=True
        )
        argv = (shell(), "-c", self.line)
        exclude = set(environment.key_variables)
        blocked: list[str] = []
        wrapped = nullcontext((tuple[str, ...](), argv))
        if self.sandbox is not None:
            exclude |= {*self.sandbox.hidden(), *LOADER_VARIABLES}
            wrapped = self.sandbox.confine(
                argv,
                target.path,
                network=self.network,
                blocked=blocked,
                ends_with_agent=isinstance(environment.commands, LocalCommands),
            )
        async with wrapped as (try_out, argv):
            result = await environment.commands.run(
                argv,
                target.path,
                self.timeout,
                report,
                shown=self.line,
                exclude=exclude,
                try_out=try_out,
            )
        text, raw = reported(result, self.timeout)
        output = f"{result.stdout}\n{result.stderr}"
        notes = ""
        if self.sandbox is not None:
            output, about_placeholders = split_placeholders(output, self.sandbox.roots)
            notes = "\n".join(
                note
                for note in (
                    about_placeholders,
                    unchanged_files(output),
                    renamed_files(blocked),
                )
                if note
            )
        changed = (
            await to_thread.run_sync(changes, abandon_on_cancel=True) if changes else ()
        )
        view = CallView(
            self.title,
            "execute",
            raw_output={**raw, "sandboxed": self.sandbox is not None},
            changes=changed,
        )
        is_error = result.exit_code != 0
        again = self._again(output) if is_error else None
        if notes and again is None:
            text = f"{text}\n{notes}"
        return CallResult((Text(text),), view, is_error=is_error, again=again)

    def _again(self, output: str) -> PreparedCall | None:
        """Return the same command with more access if it seems to have failed because
        of the sandbox, otherwise None.
        """
        if self.sandbox is None:
            return None
        if not self.sandbox.required and (found := _OUTSIDE.search(output)):
            demand = f"It failed in the sandbox ({found[0].strip()}), and would run again from the beginning."
            lines = [line for line in output.split("\n") if _OUTSIDE.search(line)]
            failed = "\n".join(lines)
            return replace(self, sandbox=None, demand=demand, failed=failed).call()
        if not (self.network or self.sandbox.network) and (
            found := _NETWORK.search(output)
        ):
            demand = f"It failed in the sandbox, which has no network ({found[0]}), and would run again from the "
            demand += "beginning."
            return replace(self, network=True, demand=demand).call()
        return None


async def _prepare(asked: _Shell, environment: Environment) -> PreparedCall:
    command = asked.command
    if not command.strip():
        raise ToolError("shell: `command` is empty.")
    if "\0" in command:
        raise ToolError(
            "shell: `command` contains a NUL character, which no command line can contain. Remove it."
        )
    target = Target.of(asked.cwd, environment)
    if target.path in environment.roots and not target.path.is_dir():
        raise ToolError(missing_directory(target.path))
    timeout = asked.timeout or environment.shell_timeout
    sandbox = None
    fault = ""
    demand = ""
    if environment.sandbox is not None:
        sandbox, fault = await to_thread.run_sync(
            environment.sandbox.usable, abandon_on_cancel=True
        )
    if sandbox is not None and asked.outside:
        if sandbox.required:
            raise ToolError(
                "The user's settings do not allow commands outside of the sandbox (`sandbox.commands: required`). Run "
                "the command without `outside`."
            )
        sandbox = None
        demand = "It asks to run outside of the sandbox."
    elif sandbox is not None and asked.network and not sandbox.network:
        demand = "It asks for the network."
    return _Command(
        command, target, timeout, sandbox, asked.network, demand, fault
    ).call()


def _title(command: str) -> str:
    lines = command.strip().splitlines() or ["Run a command"]
    return title_line(lines[0]) + " …" * (len(lines) > 1)


def _readable(output: str) -> str:
    return as_shown(output, OUTPUT_LIMIT)


def reported(result: CommandResult, timeout: float) -> tuple[str, JsonObject]:
    """Return the text for the model and the raw output, with separate streams if the
    command had them.
    """
    stdout = _readable(result.stdout)
    stderr = _readable(result.stderr)
    raw: JsonObject
    if result.merged:
        sections = [_section("output (stdout and stderr together)", stdout)]
        raw = {"output": stdout}
    else:
        sections = [_section("stdout", stdout), _section("stderr", stderr)]
        raw = {"stdout": stdout, "stderr": stderr}
    said = (ENDED_BY_USER,) if result.ended_by_user else ()
    return "\n".join((*said, _ending(result, timeout), *sections)), {
        **raw,
        "exitCode": result.exit_code,
    }


def _section(name: str, text: str) -> str:
    return f"{name}:\n{text.rstrip()}" if text.strip() else f"{name}: (empty)"


def _ending(result: CommandResult, timeout: float) -> str:
    if result.timed_out:
        return f"exit status: none, stopped after the time limit of {timeout:g} seconds"
    if result.exit_code is None and result.signal is None:
        return "exit status: not reported by the editor"
    return "exit status: " + (
        f"none, ended by {result.signal}"
        if result.exit_code is None
        else f"{result.exit_code}"
    )


SHELL = BuiltIn(
    "shell",
    "Run a shell command, in bash if there is one. Each call is a fresh shell: directories and variables do not carry "
    "over. There is no terminal and no input. Processes left in the background are stopped when the command ends. A "
    "sandbox may limit writing to the session's directories, caches and a /tmp that is empty for each command, and "
    "deny the network. For files, prefer read, list, glob, grep, edit and write.",
    _Shell,
    _prepare,
    title=lambda arguments: _title(get_text(arguments, "command")),
    kind="execute",
)
