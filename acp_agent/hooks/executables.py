"""Hooks that are programs: executable files in a hooks folder, and commands in the
configuration.

A program gets the event as JSON on stdin and answers on stdout. It runs with a limited
environment, and a project's program runs in the sandbox.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast, get_args

import anyio
from anyio import to_thread

from acp_agent.config import HookCommand
from acp_agent.config.hook_events import OnError, events_named
from acp_agent.errors import HookError
from acp_agent.hooks.answers import failure, read_outcome
from acp_agent.hooks.contract import (
    TIME_LIMIT,
    FoundHooks,
    Hook,
    Origin,
    Run,
    Services,
    unusable,
)
from acp_agent.hooks.events import HookEvent
from acp_agent.hooks.outcomes import Outcome
from acp_agent.hooks.payload import payload
from acp_agent.processes import Stream, environment_without, run_group
from acp_agent.programs import (
    LOADER_VARIABLES,
    find_program,
    missing_program,
    shell,
    without_others,
)
from acp_agent.sandbox.sandbox import Sandbox

OUTPUT_LIMIT = 1024 * 1024
"""Maximum number of bytes that a program may print, for stdout and stderr separately."""
_NO_FOLDER = "/dev/null"
"""A path below which nobody can create a file. It replaces a folder for bytecode that
commands can write to.
"""
_ON_ERROR = re.compile(rf"\bon_error\s*[:=]\s*({'|'.join(get_args(OnError))})\b")


def command_hook(
    command: HookCommand, project: str, sandbox: Sandbox | None = None
) -> Hook:
    """Return the hook for a command in the configuration.

    :param project: the project's folder; empty to use the session's directory.
    :param sandbox: the sandbox for a project's hook; None for no sandbox.
    """
    return Hook(
        name=command.name,
        origin=command.origin,
        source=command.source,
        events=frozenset({command.event}),
        run=_program_run(command.command, project, command.origin, sandbox),
        matcher=command.matcher,
        time_limit=TIME_LIMIT if command.timeout is None else command.timeout,
        on_error=command.on_error,
    )


def _program_run(
    command: str | Sequence[str],
    project: str,
    origin: Origin,
    sandbox: Sandbox | None = None,
) -> Run:
    """Return a function that runs a program for a hook and reads its answer.

    :param command: a command line for the shell, or a program with its arguments.
    :param project: the project's folder; empty to use the session's directory.
    """

    async def run(event: HookEvent, services: Services) -> Outcome:
        event_json = json.dumps(await payload(event), ensure_ascii=False).encode(
            "utf-8", "replace"
        )
        cwd = Path(event.at.cwd)
        code, stdout, stderr = await _run(
            command, cwd, project or event.at.cwd, origin, sandbox, stdin=event_json
        )
        return read_outcome(event, code, stdout, stderr)

    return run


async def ask_for_events(
    path: Path, origin: Origin, project: str, sandbox: Sandbox | None
) -> FoundHooks:
    """Run `FILE hook`, and return the hook that the output describes.

    The program prints the names of its events, separated by white space or commas. It
    may also print `on_error: block` or another value.
    """
    try:
        code, stdout, stderr = await _run(
            (str(path), "hook"),
            path.parent,
            project or str(path.parent),
            origin,
            sandbox,
        )
        if code != 0:
            raise failure(code, stderr)
    except HookError as error:
        return unusable(
            HookError(f"{path}: `{path.name} hook`: {error}"), origin, str(path), path
        )
    printed = stdout.decode("utf-8", "replace")
    on_error = _ON_ERROR.search(printed)
    events, unknown = events_named(re.findall(r"[^\s,]+", _ON_ERROR.sub(" ", printed)))
    errors = tuple(HookError(f"{path}: {why}") for why in unknown)
    if not events:
        return FoundHooks(
            (),
            errors[:1]
            or (
                HookError(
                    f"{path}: `{path.name} hook` printed no events; print the name of one on each line."
                ),
            ),
        )
    run = _program_run((str(path), "run"), project, origin, sandbox)
    effect = cast("OnError", on_error[1]) if on_error else "ask"
    return FoundHooks(
        (Hook(path.name, origin, str(path), events, run, on_error=effect, file=path),),
        errors,
    )


def _find(name: str, path: str) -> str:
    """Find a program on a search path. A name with a slash is already a path and is
    returned unchanged.

    :raises HookError: if the program is not found. The message names the folders that
        were not searched.
    """
    if "/" in name:
        return name
    if found := find_program(name, path, holding_home=False):
        return found
    raise HookError(f"It could not be started: {missing_program(name)}.")


async def _run(
    command: str | Sequence[str],
    cwd: Path,
    project: str,
    origin: Origin,
    sandbox: Sandbox | None,
    *,
    stdin: bytes = b"",
) -> tuple[int, bytes, bytes]:
    """Run a program until it exits. No process of the program is left when this
    function returns or raises.

    :returns: exit status, stdout and stderr.
    :raises HookError: if the program could not be started, or printed too much.
    """
    output: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def keep(stream: Stream, data: bytes) -> None:
        output[stream].extend(data)
        if len(output[stream]) > OUTPUT_LIMIT:
            too_much.cancel()

    # A command line runs in bash if it is installed, otherwise in sh, as in the shell
    # tool.
    words = (shell(), "-c", command) if isinstance(command, str) else command
    usable = None
    if origin == "project":
        env = environment_without(sandbox.hidden() if sandbox is not None else ())
        # Bytecode in a project's hooks folder would change the digest of its code, and
        # the user would be asked again.
        env.setdefault("PYTHONDONTWRITEBYTECODE", "1")
        if sandbox is not None:
            usable, _ = await to_thread.run_sync(sandbox.usable)
        if usable:
            env = {
                name: value
                for name, value in env.items()
                if name not in LOADER_VARIABLES
            }
        if "PYTHONPYCACHEPREFIX" in env:
            words = (
                find_program("env") or "/usr/bin/env",
                f"PYTHONPYCACHEPREFIX={_NO_FOLDER}",
                *words,
            )
    else:
        # The user's hooks have no sandbox, and run before the project is trusted.
        env = without_others(environment_without(()), holding_home=False)
        words = (_find(words[0], env["PATH"]), *words[1:])
    env |= {"CLAUDE_PROJECT_DIR": project, "ACP_AGENT_PROJECT_DIR": project}
    wrapped = (
        usable.confine(words, cwd, network=False)
        if usable
        else nullcontext(((), words))
    )
    code: int | None = None
    try:
        # stdin is a file instead of a pipe, so a program that does not read it causes
        # neither a broken pipe nor a deadlock.
        async with wrapped as (_, words):
            with tempfile.TemporaryFile() as file, anyio.CancelScope() as too_much:
                file.write(stdin)
                file.seek(0)
                code = await run_group(
                    words, cwd, timeout=math.inf, on_data=keep, stdin=file, env=env
                )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HookError(f"It could not be started in {cwd}: {reason}.") from error
    for stream, data in output.items():
        if len(data) > OUTPUT_LIMIT:
            raise HookError(
                f"It printed more than {OUTPUT_LIMIT // 1024} KiB on {stream} and was stopped."
            )
    assert code is not None  # only a time limit would return None
    return code, bytes(output["stdout"]), bytes(output["stderr"])
