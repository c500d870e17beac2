"""What a template may ask of the place that it is rendered in: the session, its folder, git, and commands.

Owns running commands for a text: without a shell, within one time limit for all, and never longer than somebody waits
for the text. Knows neither templates nor sessions; which command lines may run is told to it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import IO, Protocol

from acp_agent.frozen import frozen

COMMAND_SECONDS = 10.0
"""For all commands of one text."""
MAX_COMMAND_OUTPUT = 64 * 1024
"""Bytes kept of what one command prints."""
_MAX_COMPLAINT = 300
_CHUNK = 65536
_TICK = 0.05
"""Seconds until it is seen that a command has ended whose pipes others hold."""

FACTS = ("branch", "head", "root", "dirty")
"""What `git` has."""


class CommandError(Exception):
    """A command of a template could not be run, or failed. Whoever renders adds file and line.

    :ivar suspects: which of its words may be what is wrong, by their places.
    :ivar is_typed: whether somebody typed one of these.
    """

    def __init__(self, message: str, suspects: Iterable[int] = ()) -> None:
        self.suspects = frozenset(suspects)
        self.is_typed = False
        super().__init__(message)


class GitFacts(Protocol):
    """A repository as it is now. Each is read when it is asked for, and empty where there is no repository."""

    @property
    def branch(self) -> str:
        """The branch; empty where none is checked out."""
        ...

    @property
    def head(self) -> str:
        """The commit."""
        ...

    @property
    def root(self) -> str:
        """The work tree's folder."""
        ...

    @property
    def dirty(self) -> bool | str:
        """Whether anything differs from the commit, files that git does not know included."""
        ...


@frozen
class Surroundings:
    """Where a recipe is rendered.

    :ivar cwd: absolute path of the session's folder.
    :ivar runner: runs commands there.
    :ivar readable: makes of what a command printed what a model may read.
    :ivar refuses: why the recipe may not run a command and its arguments; empty where it may.
    """

    conversation_id: str
    cwd: str
    git: GitFacts
    runner: CommandRunner
    refuses: Callable[[Sequence[str]], str]
    readable: Callable[[str], str]

    @property
    def date(self) -> str:
        """Today, as in 2026-03-31."""
        return date.today().isoformat()  # noqa: DTZ011 - the user's own day is meant

    def shell(self, *argv: object, typed: Sequence[int] = ()) -> str:
        """Run a command, and give what it printed to stdout, readable and without line feeds at its end.

        :param typed: which of the words hold something that somebody typed, by their places.
        :raises CommandError: it may not run, or did not succeed.
        """
        words = [word for word in argv if isinstance(word, str)]
        if len(words) != len(argv) or not words:
            raise CommandError('shell() takes texts: the command and each of its arguments, as in shell("git", "log")')
        try:
            return self._printed(words)
        except CommandError as error:
            error.is_typed = not error.suspects.isdisjoint(typed)
            raise

    def _printed(self, words: Sequence[str]) -> str:
        line, all_words = shlex.join(words), range(len(words))
        if reason := self.refuses(words):
            raise CommandError(f"`{line}` may not run here: {reason}", all_words)
        code, output, complaint = self.runner.run(words)
        if code != 0:
            ending = f"exit status {code}" if code > 0 else f"signal {-code}"
            said = f": {self.readable(complaint)[-_MAX_COMPLAINT:]}" if complaint else ""
            raise CommandError(f"`{line}` ended with {ending}{said}", all_words)
        return self.readable(output)


class CommandRunner:
    """Runs the commands of one text, one after the other, from one thread; another may end it with `close`.

    :param cwd: absolute path of the folder to run in.
    :param env: all of their environment variables; the agent's own where it is None.
    :ivar seconds: for all of them.
    """

    def __init__(self, cwd: str, seconds: float = COMMAND_SECONDS, env: Mapping[str, str] | None = None) -> None:
        self._cwd = cwd
        self._env = env
        self.seconds = seconds
        self._left = seconds
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """Run a program to its end; its whole process group is killed afterwards.

        :returns: the exit code, negative for a signal; what it printed to stdout, cut to `MAX_COMMAND_OUTPUT`; and the
            same of stderr.
        :raises CommandError: it could not be started, or the time is up.
        """
        begun = time.monotonic()
        process = self._start(argv)
        try:
            output = _read(process, begun + self._left)
        finally:
            self._end(process)
            self._left -= time.monotonic() - begun
        if output is None:
            raise CommandError(
                f"`{shlex.join(argv)}` was stopped: the commands of a recipe have {self.seconds:g} seconds in all"
            )
        return process.returncode, output[0], output[1]

    def close(self) -> None:
        """Run nothing any more, and kill what runs."""
        with self._lock:
            self._closed = True
            if self._running is not None:
                _kill_group(self._running)

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise CommandError("nobody waits for this text any more")
            try:
                self._running = process = subprocess.Popen(
                    argv,
                    cwd=self._cwd,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                # There is no such program, or a word that no program can be given.
                nameless = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError)
                suspects = range(1 if nameless else len(argv))
                raise CommandError(f"`{shlex.join(argv)}` cannot be started: {reason}", suspects) from error
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            _kill_group(process)
            self._running = None
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, str] | None:
    """What a process prints until it ends; None where the time is up before."""
    kept: dict[IO[bytes], bytearray] = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe}
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(_TICK)
            if not ready and process.poll() is not None:
                break  # who it left in the background may hold its pipes for ever
            for key, _ in ready:
                pipe = next(pipe for pipe in kept if pipe is key.fileobj)
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(pipe)
                kept[pipe] += data[: MAX_COMMAND_OUTPUT + 1 - len(kept[pipe])]
            if time.monotonic() > deadline:
                return None
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    output, complaint = (_text(data) for data in kept.values())
    return output, complaint


def _text(data: bytearray) -> str:
    text = data[:MAX_COMMAND_OUTPUT].decode("utf-8", "replace").rstrip("\n")
    return f"{text}\n[cut at {MAX_COMMAND_OUTPUT // 1024} KiB]" if len(data) > MAX_COMMAND_OUTPUT else text


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # PermissionError is macOS's answer where only zombies are left in the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
