"""`PromptCompleter`: slash commands, mentions and paths for prompt_toolkit. `PromptHistory`: what was typed before."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import islice
from pathlib import Path

import anyio.to_thread
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from acp_agent.errors import ToolError
from acp_agent.regular import read_regular
from acp_agent.tools.walk import Found, Walk
from acp_agent.turn.updates import Command

MAX_PATHS = 200
MAX_HISTORY = 1_000

_COMMAND = re.compile(r"/\S*\Z")
_MENTION = re.compile(r'(?:(?<=\s)|^)@(?P<quote>")?(?P<path>(?(quote)[^"\n]*|[^\s"]*))\Z')
_WORD = re.compile(r"(?P<path>[^\s\"'`(]+)\Z")


class PromptCompleter(Completer):
    """Completes slash commands and mentioned paths, and other paths where the person asks for it.

    Paths that git ignores are left out, and hidden ones that nobody has begun to name.

    :param cwd: absolute path that others are relative to.
    :ivar commands: the slash commands on offer.
    """

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self.commands: Sequence[Command] = ()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: directories are read in a worker thread."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what may be meant by the text before the cursor."""
        before = document.text_before_cursor
        if _COMMAND.match(before):
            for completion in _command_completions(before, self.commands):
                yield completion
        elif begun := _MENTION.search(before) or (
            _WORD.search(before) if complete_event.completion_requested else None
        ):
            for completion in await anyio.to_thread.run_sync(
                _path_completions, begun, self._cwd, abandon_on_cancel=True
            ):
                yield completion


def _command_completions(before: str, commands: Sequence[Command]) -> list[Completion]:
    """Return the slash commands whose names begin as typed, then those that contain it."""
    typed = before[1:]
    fitting = [command for command in commands if typed in command.name]
    fitting.sort(key=lambda command: not command.name.startswith(typed))
    return [
        Completion(
            f"/{command.name}",
            -len(before),
            display=f"/{command.name}{f' [{command.hint}]' if command.hint else ''}",
            display_meta=command.description,
        )
        for command in fitting
    ]


def _path_completions(begun: re.Match[str], cwd: Path) -> list[Completion]:
    """Return the paths that may be meant, folders first. Reads a directory; call it in a worker thread of anyio.

    :param begun: the beginning of a mention, or of a path.
    """
    folder, slash, name = begun["path"].rpartition("/")
    try:
        found = [
            *islice(
                (each for each in Walk(cwd / Path(folder + slash).expanduser(), depth=1) if _fits(each, name)),
                MAX_PATHS,
            )
        ]
        # A link to a folder counts as one.
        names = [f"{each.path.name}/" if each.path.is_dir() else each.path.name for each in found]
    except (ToolError, OSError, RuntimeError, ValueError):
        return []
    return [
        Completion(_written(begun[0], folder + slash + each), -len(begun[0]), display=each)
        for each in sorted(names, key=lambda each: (not each.endswith("/"), each))
    ]


def _fits(found: Found, begun: str) -> bool:
    name = found.path.name
    if not name.isprintable() or (name.startswith(".") and not begun.startswith(".")):
        return False
    return (name.lower() if begun == begun.lower() else name).startswith(begun)


def _written(begun: str, path: str) -> str:
    """Return a path as it is typed: a mention of one with a space is quoted, which stays open behind a folder."""
    if not begun.startswith("@"):
        return path
    if " " not in path and not begun.startswith('@"'):
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'


class PromptHistory(History):
    """Keeps what was typed in all conversations, in a private file with a JSON string a line, the newest last."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the newest texts, the newest first; none where the file cannot be read."""
        try:
            lines = read_regular(self._path).split(b"\n")
        except OSError:
            return []
        return [*islice(filter(None, map(_text, reversed(lines))), MAX_HISTORY)]

    def store_string(self, string: str) -> None:
        """Append a text.

        :raises OSError: the file cannot be written.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, 0o600), "wb", 0) as file:
            file.write(json.dumps(string).encode() + b"\n")


def _text(line: bytes) -> str:
    """Return the text of a line; "" for one that is damaged."""
    try:
        text: object = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""
