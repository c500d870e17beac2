"""Hooks that are programs: files of a hooks folder, and commands of the configuration.

A program gets the event as JSON on stdin and answers on stdout. Owns how one is run: where, with which environment,
and within which bounds. What it is sent and what its answer means is known to `payload` and `answers`.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

import anyio

from acp_agent.config import HookCommand
from acp_agent.config.document import did_you_mean
from acp_agent.errors import HookError
from acp_agent.frozen import frozen
from acp_agent.hooks.answers import read_outcome
from acp_agent.hooks.claude import matches
from acp_agent.hooks.contract import TIME_LIMIT, Hook, OnError, Origin, Services
from acp_agent.hooks.events import ALIASES, EVENT_NAMES, EventName, HookEvent, event_name
from acp_agent.hooks.outcomes import Outcome
from acp_agent.hooks.payload import payload
from acp_agent.hooks.unusable import unusable
from acp_agent.processes import Stream, run_group

OUTPUT_LIMIT = 1024 * 1024
"""Bytes that a program may print, on stdout and on stderr each."""

OTHER_SUFFIXES = (".py", ".yaml", ".yml", ".md", ".disable")
"""Of files in a hooks folder that are no executables of this kind, whatever their mode says."""


_ON_ERROR = re.compile(rf"\bon_error\s*[:=]\s*({'|'.join(get_args(OnError))})\b")
SHELL_SUFFIXES = (".sh", ".bash", ".zsh")


@frozen
class ExecutableHook:
    """A program, bound to events.

    :ivar command: a command line for the shell, or a program with its arguments.
    :ivar project: the project's folder; empty where there is none, and the session's directory counts as one.
    :ivar matcher: see `claude.matches`.
    """

    name: str
    origin: Origin
    source: str
    events: frozenset[EventName]
    command: str | tuple[str, ...]
    project: str = ""
    matcher: str = ""
    time_limit: float = TIME_LIMIT
    on_error: OnError = "ask"
    file: Path | None = None

    @classmethod
    def of_command(cls, command: HookCommand, project: str) -> ExecutableHook:
        """The hook that the configuration names."""
        return cls(
            name=command.name,
            origin=command.origin,
            source=command.source,
            events=frozenset({command.event}),
            command=command.command,
            project=project,
            matcher=command.matcher,
            time_limit=TIME_LIMIT if command.timeout is None else command.timeout,
            on_error=command.on_error,
        )

    def wants(self, event: HookEvent) -> bool:
        """Whether its matcher means this one."""
        return matches(self.matcher, event)

    async def run(self, event: HookEvent, services: Services) -> Outcome:
        """Run it, and read its answer.

        :raises HookError: it could not be started, failed, printed too much, or answered what makes no sense.
        """
        told = json.dumps(await payload(event), ensure_ascii=False).encode("utf-8", "replace")
        ended = await _run(self.command, Path(event.at.cwd), self.project or event.at.cwd, self.origin, stdin=told)
        assert ended.code is not None  # there is no time limit here: the dispatcher has one
        return read_outcome(event, ended.code, ended.stdout, ended.stderr)


def is_executable(path: Path) -> bool:
    """Whether a file of a hooks folder is a program."""
    return path.suffix not in OTHER_SUFFIXES and path.is_file() and os.access(path, os.X_OK)


def lacks_permission(path: Path) -> bool:
    """Whether a file of a hooks folder is a script that nobody may execute: a copy or a download has lost the bit."""
    if path.suffix in OTHER_SUFFIXES or not path.is_file() or os.access(path, os.X_OK):
        return False
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!" or path.suffix in SHELL_SUFFIXES
    except OSError:
        return False


async def ask_for_events(path: Path, origin: Origin, project: str) -> tuple[tuple[Hook, ...], tuple[HookError, ...]]:
    """Run `FILE hook`, which prints the names of the events that the program wants, by lines or commas, and may print
    its `on_error`.

    :returns: the hook, unless it wants none; and what is wrong with it.
    """
    try:
        ended = await _run((str(path), "hook"), path.parent, project or str(path.parent), origin, timeout=TIME_LIMIT)
    except HookError as error:
        return unusable(HookError(f"{path}: {error}"), origin, path)
    if ended.code is None:
        late = f"{path}: `{path.name} hook` did not answer within {TIME_LIMIT:g} seconds."
        return unusable(HookError(late), origin, path)
    if ended.code != 0:
        last = ended.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        said = f": {last[0][:500]}" if last else ", and said nothing on stderr"
        return unusable(HookError(f"{path}: `{path.name} hook` ended with status {ended.code}{said}."), origin, path)
    printed = ended.stdout.decode("utf-8", "replace")
    on_error = _ON_ERROR.search(printed)
    words = [word for word in re.split(r"[\s,]+", _ON_ERROR.sub(" ", printed)) if word]
    named: dict[str, EventName | None] = {word: event_name(word) for word in words}
    events: frozenset[EventName] = frozenset(event for event in named.values() if event is not None)
    errors = [
        HookError(f"{path}: there is no event {word[:50]!r}; {did_you_mean(word, (*EVENT_NAMES, *ALIASES))}")
        for word, event in named.items()
        if event is None
    ]
    if not events:
        errors = errors[:1] or [HookError(f"{path}: `{path.name} hook` names no event; print one on each line.")]
        return (), tuple(errors)
    hook = ExecutableHook(
        path.name,
        origin,
        str(path),
        events,
        (str(path), "run"),
        project,
        on_error=cast("OnError", on_error[1]) if on_error else "ask",
        file=path,
    )
    return (hook,), tuple(errors)


@frozen
class _Ended:
    """How a program ended; `code` is None where its time was up."""

    code: int | None
    stdout: bytes
    stderr: bytes


async def _run(
    command: str | Sequence[str],
    cwd: Path,
    project: str,
    origin: Origin,
    *,
    stdin: bytes = b"",
    timeout: float = math.inf,
) -> _Ended:
    """Run a program until it ends; nothing of it is left when this returns or raises.

    :raises HookError: it could not be started, or printed too much.
    """
    output: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def keep(stream: Stream, data: bytes) -> None:
        output[stream].extend(data)
        if len(output[stream]) > OUTPUT_LIMIT:
            too_much.cancel()

    env = {**os.environ, "CLAUDE_PROJECT_DIR": project, "ACP_AGENT_PROJECT_DIR": project}
    if origin == "project":
        # Compiled files beside a project's hooks would be a change of them, about which the user is asked.
        env.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    code: int | None = None
    try:
        # A file, and not a pipe: a program that does not read its stdin breaks nothing and waits for nothing.
        with tempfile.TemporaryFile() as told, anyio.CancelScope() as too_much:
            told.write(stdin)
            told.seek(0)
            code = await run_group(_words(command), cwd, timeout=timeout, on_data=keep, stdin=told, env=env)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HookError(f"It could not be started in {cwd}: {reason}.") from error
    for stream, data in output.items():
        if len(data) > OUTPUT_LIMIT:
            raise HookError(f"It printed more than {OUTPUT_LIMIT // 1024} KiB on {stream}, and was ended.")
    return _Ended(code, bytes(output["stdout"]), bytes(output["stderr"]))


def _words(command: str | Sequence[str]) -> Sequence[str]:
    """A command line is bash's where there is one, as in the shell tool, else sh's."""
    if not isinstance(command, str):
        return command
    import shutil

    return (shutil.which("bash") or "/bin/sh", "-c", command)
