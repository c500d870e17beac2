"""The run of a recipe: the arguments typed after its name, and the values that its
template may use: session id, folder, git repository, and the output of commands.

This module is imported together with the modules that run turns.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from datetime import date
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import anyio
import anyio.to_thread

from acp_agent.config.trust import project_of
from acp_agent.conversation.messages import UserPart
from acp_agent.errors import RecipeError, SandboxError
from acp_agent.frozen import frozen
from acp_agent.hooks.handlers import SwapContextHandler
from acp_agent.hooks.outcomes import SwapContext
from acp_agent.processes import environment_without
from acp_agent.programs import LOADER_VARIABLES
from acp_agent.recipes.arguments import split_arguments
from acp_agent.recipes.claude_commands import LOOKING
from acp_agent.recipes.discovery import RecipeLibrary
from acp_agent.recipes.model import (
    CommandError,
    Recipe,
    RecipeSurroundings,
    RefusedCommandError,
)
from acp_agent.recipes.template import render
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.session.commands import (
    COMMAND_SECONDS,
    COMPACT,
    REPORTS,
    SWAP_CONTEXT,
    around_command,
    command_words,
    mentioned,
)
from acp_agent.session.workspace import git_place
from acp_agent.tools.shell.allow import refusal_of_words
from acp_agent.tools.shell.guarded import renamed_files
from acp_agent.tools.shell.screen import as_shown

MAX_COMMAND_OUTPUT = 64 * 1024
"""How many bytes of a command's output are kept."""

_MAX_COMPLAINT = 300
_STATUS = ("git", "--no-optional-locks", "status", "--porcelain")


RENDER_SECONDS = 5.0

_ALIKE = 0.75
"""The `difflib` ratio above which a word counts as a typo: `prevew` is close to
`preview`, but `tests` is not close to `status`.
"""
_SHORTEST_BEGINNING = 3
"""Minimum length of a prefix that stands for a word, such as `stat` for `status`."""


@frozen
class RecipeRun:
    """A prompt that names a recipe.

    :ivar instructions: the text after the name and the arguments, including mentions.
    :ivar attachments: the prompt's other parts, including the parts before the name.
    :ivar arguments: the given values by name.
    """

    recipe: Recipe
    instructions: str
    attachments: tuple[UserPart, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def compacts(self) -> bool:
        """Return whether the recipe's answer replaces the conversation."""
        return self.recipe.handler(SWAP_CONTEXT) is not None

    @property
    def swap(self) -> SwapContext:
        """Return how the recipe's answer replaces the conversation. The answer itself
        is not filled in yet.
        """
        handler = self.recipe.handler(SWAP_CONTEXT)
        return SwapContextHandler.model_validate(
            {} if handler is None else handler.params
        ).swap()

    @property
    def report(self) -> tuple[str, str]:
        """Return the word after `/compact` that does not compact, and the text after
        it. The word is empty if there is none.

        After another recipe that compacts, such a word is an instruction.
        """
        word, *rest = self.instructions.split(maxsplit=1) or [""]
        known = word in REPORTS and self.recipe.name == COMPACT
        return (word, "".join(rest).strip()) if known else ("", self.instructions)

    @property
    def mistyped_report(self) -> str:
        """Return the word that the user probably meant, if the only word after
        `/compact` resembles one of `REPORTS`; "" otherwise.
        """
        word = self.instructions.strip().casefold()
        if self.recipe.name != COMPACT or self.report[0]:
            return ""
        from difflib import get_close_matches

        near = get_close_matches(word, REPORTS, n=1, cutoff=_ALIKE)
        is_beginning = len(word) >= _SHORTEST_BEGINNING
        completions = [
            each for each in REPORTS if is_beginning and each.startswith(word)
        ]
        return next(iter([*near, *completions]), "")

    async def rendered(
        self, around: RecipeSurroundings | None = None, seconds: float = RENDER_SECONDS
    ) -> str:
        """Return the recipe's text for the model.

        A template may be untrusted and run for minutes without any output, so it is
        rendered in a thread with a time limit.

        :param around: the values that the template may use in addition to its
            arguments. Its commands end with this call.
        :param seconds: the time limit for the template. Its commands have a separate
            limit on top.
        :raises RecipeError: if an argument is missing, if the template cannot be
            rendered, or if it takes too long.
        """
        try:
            with anyio.move_on_after(seconds + (COMMAND_SECONDS if around else 0)):
                return await anyio.to_thread.run_sync(
                    self.render, around, abandon_on_cancel=True
                )
        finally:
            if around is not None:
                around.close()
        message = f"was not rendered within {seconds:g} seconds; simplify its template"
        raise RecipeError(message, source=str(self.recipe.source))

    def render(self, around: RecipeSurroundings | None = None) -> str:
        """Return the recipe's text for the model. Call this in a thread.

        :raises RecipeError: if an argument is missing, or if the template cannot be
            rendered.
        """
        return render(self.recipe, self.arguments, self.instructions, around)


def recipe_run(library: RecipeLibrary, parts: tuple[UserPart, ...]) -> RecipeRun | None:
    """Return the run of the recipe that a prompt names; None for ordinary text,
    including unknown names.

    :raises RecipeError: if the recipe belongs to a project and the user has not trusted
        it.
    """
    words = command_words(parts)
    if words is None:
        return None
    recipe = library.get(words[0])
    if recipe is None:
        if (untrusted := library.known.get(words[0].replace(":", "/"))) is not None:
            raise _untrusted(untrusted)
        return None
    before, behind = around_command(parts)
    declared = {argument.name for argument in recipe.arguments}
    arguments, instructions = split_arguments(
        f"the recipe `{recipe.name}`", declared, words[1] + mentioned(behind, words[1])
    )
    return RecipeRun(recipe, instructions, (*before, *behind), arguments)


def command_lines(recipe: Recipe) -> tuple[str, ...]:
    """Return the lines of a recipe's text that run commands."""
    marks = ("shell(", "git.dirty") if recipe.is_template else ("!`",)
    return tuple(
        line.strip()
        for line in recipe.body.splitlines()
        if any(mark in line for mark in marks)
    )


def surroundings(
    session_id: str,
    cwd: str,
    recipe: Recipe,
    env: Mapping[str, str] | None = None,
    sandbox: Sandbox | None = None,
    *,
    unsandboxed: bool = True,
) -> RecipeSurroundings:
    """Return the values that the template may use in one rendering.

    :param cwd: absolute path of the session's folder.
    :param env: all environment variables of the commands; if None, the result of
        `environment_without`.
    :param sandbox: the sandbox that the commands run in; None for no sandbox.
    :param unsandboxed: whether the commands may run without a sandbox if that sandbox
        cannot be used.
    """
    runner = _CommandRunner(cwd, env=env, sandbox=sandbox, unsandboxed=unsandboxed)

    def shell(*words: object) -> str:
        argv = [word for word in words if isinstance(word, str)]
        if len(argv) != len(words) or not argv:
            raise CommandError(
                'shell() takes strings: the command and each of its arguments, as in shell("git", "log")'
            )
        reason = refusal_of_words(argv, recipe.allowed_commands or ())
        if reason and (recipe.is_template or refusal_of_words(argv, LOOKING)):
            raise RefusedCommandError(
                f"`{shlex.join(argv)}` may not run here: {reason}"
            )
        code, output, complaint = runner.run(argv)
        if code != 0:
            ending = f"exit status {code}" if code > 0 else f"signal {-code}"
            said = f": {_readable(complaint)[-_MAX_COMPLAINT:]}" if complaint else ""
            raise CommandError(f"`{shlex.join(argv)}` ended with {ending}{said}")
        return "\n".join(
            filter(None, (_readable(output), renamed_files(runner.take_blocked())))
        )

    today = date.today().isoformat()  # noqa: DTZ011 - the user's own day is meant
    return RecipeSurroundings(
        session_id, cwd, today, _GitFacts(cwd, runner), shell, runner.close
    )


class _GitFacts:
    """Facts about a folder's git repository. Each is empty if there is no repository.

    :ivar root: the work tree's folder.
    :ivar branch: the branch; empty if none is checked out.
    :ivar head: the commit.
    """

    def __init__(self, cwd: str, runner: _CommandRunner) -> None:
        self._cwd = cwd
        self._runner = runner

    def __getattr__(self, name: str) -> str:
        # Running git takes milliseconds, and few recipes use these facts.
        if name not in ("root", "head", "branch"):
            raise AttributeError(name)
        self.root, self.head, self.branch = git_place(self._cwd)
        return getattr(self, name)

    @cached_property
    def dirty(self) -> bool | str:
        """Return whether anything differs from the commit, including untracked files."""
        try:
            code, output, _ = self._runner.run(_STATUS) if self.root else (1, "", "")
        except CommandError:
            return ""
        return bool(output) if code == 0 else ""


class _CommandRunner:
    """Runs the commands of one text, one after the other, from one thread. Another
    thread may call `close`.

    :param cwd: absolute path of the folder to run in.
    :param seconds: the time limit for all commands together.
    :param env: all environment variables of the commands; the result of
        `environment_without` if None.
    :param sandbox: the sandbox that the commands run in; None for no sandbox.
    :param unsandboxed: whether the commands may run without a sandbox if that sandbox
        cannot be used.
    """

    def __init__(
        self,
        cwd: str,
        seconds: float = COMMAND_SECONDS,
        env: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        *,
        unsandboxed: bool = True,
    ) -> None:
        self._cwd = cwd
        self._unsandboxed = unsandboxed
        self._sandbox = sandbox
        self._env = environment_without(()) if env is None else env
        self._seconds = self._left = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._blocked: list[str] = []

    def take_blocked(self) -> list[str]:
        """Return the files that commands planted and that were renamed since the last
        call; see `Sandbox.wrap`.
        """
        blocked = self._blocked
        self._blocked = []
        return blocked

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """Run a program until it exits, then kill its whole process group.

        :returns: the exit code, negative for a signal, and the beginnings of stdout and
            stderr.
        :raises CommandError: if the program could not be started, or if the time is up.
        """
        started_at = time.monotonic()
        try:
            usable, _ = self._sandbox.usable() if self._sandbox else (None, "")
        except SandboxError as error:
            raise CommandError(f"`{shlex.join(argv)}` was not run. {error}") from error
        if self._sandbox and not usable and not self._unsandboxed:
            raise CommandError(
                f"`{shlex.join(argv)}` was not run: there is no sandbox for it, and you did not allow it"
            )
        wrapped = nullcontext((tuple[str, ...](), argv))
        if usable:
            wrapped = usable.wrap(
                argv, Path(self._cwd), network=False, blocked=self._blocked
            )
        # Use files rather than pipes, since a process that the program leaves in the
        # background could keep a pipe open forever.
        with (
            wrapped as (_, words),
            TemporaryFile() as output,
            TemporaryFile() as complaint,
        ):
            with self._lock:
                if self._closed:
                    raise CommandError("the text was cancelled")
                env = {
                    name: self._env[name]
                    for name in self._env
                    if not usable or name not in LOADER_VARIABLES
                }
                process = self._process = self._start(words, env, output, complaint)
            try:
                code = process.wait(max(0.0, self._left))
            except subprocess.TimeoutExpired as error:
                message = f"was stopped: the commands of a recipe have {self._seconds:g} seconds in total"
                raise CommandError(f"`{shlex.join(argv)}` {message}") from error
            finally:
                with self._lock:
                    _kill_group(process)
                    process.wait()
                    self._process = None
                self._left -= time.monotonic() - started_at
            return code, _beginning(output), _beginning(complaint)

    def close(self) -> None:
        """Kill the running program, and refuse to run others."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                _kill_group(self._process)

    def _start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        output: IO[bytes],
        complaint: IO[bytes],
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                argv,
                cwd=self._cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaint,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandError(
                f"`{shlex.join(argv)}` cannot be started: {reason}"
            ) from error


def _beginning(file: IO[bytes]) -> str:
    file.seek(0)
    data = file.read(MAX_COMMAND_OUTPUT + 1)
    text = data[:MAX_COMMAND_OUTPUT].decode("utf-8", "replace").rstrip("\n")
    return (
        f"{text}\n[cut at {MAX_COMMAND_OUTPUT // 1024} KiB]"
        if len(data) > MAX_COMMAND_OUTPUT
        else text
    )


def _readable(printed: str) -> str:
    return as_shown(printed, 2 * MAX_COMMAND_OUTPUT)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # macOS raises PermissionError if only zombies are left in the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _untrusted(recipe: Recipe) -> RecipeError:
    project = shlex.quote(str(project_of(recipe.source) or recipe.source.parent))
    return RecipeError(
        "this recipe came with a project whose hooks and recipes you have not allowed to run. "
        f"To allow them, run `acp-agent trust {project}` in a terminal, then send this again.",
        source=str(recipe.source),
    )
