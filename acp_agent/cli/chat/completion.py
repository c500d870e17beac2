"""What is typed: `PromptCompleter` for slash commands, mentions and paths, `PromptHistory`, and mentions that are sent.

`@path` is sent as an editor sends it: an image as itself, anything else as a link for the model to read.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import islice
from pathlib import Path

import anyio.to_thread
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from acp_agent.conversation.messages import Image, ResourceLink, Text, UserPart
from acp_agent.conversation.updates import Command
from acp_agent.errors import ToolError
from acp_agent.llm.pictures import type_of
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.regular import read_regular
from acp_agent.tools.search.walk import Walk

_MAX_PATHS = 200
_MAX_HISTORY = 1_000

MAX_IMAGE_BYTES = 20_000_000
_SENT = re.compile(r'(?:(?<=\s)|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_PUNCTUATION = ".,;:!?)]}'"

_MENTION = re.compile(r'(?:(?<=\s)|^)@(?P<quote>")?(?P<path>(?(quote)[^"\n]*|[^\s"]*))\Z')
_WORD = re.compile(r"(?P<path>[^\s\"'`(]+)\Z")


class PromptCompleter(Completer):
    """Completes slash commands and mentioned paths, and other paths where the person asks for it.

    Paths that git ignores are left out, and hidden ones whose dot was not typed.

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
        if before.startswith("/") and not any(map(str.isspace, before)):
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
    """Return the paths that may be meant, folders first; those that git ignores and hidden ones are left out.

    :param begun: the beginning of a mention, or of a path.
    """
    folder, slash, name = begun["path"].rpartition("/")
    try:
        found = Walk(cwd / Path(folder + slash).expanduser(), depth=1)
        paths = [each.path for each in found if _fits(each.path.name, name)]
        # A link to a folder counts as one.
        names = [f"{path.name}/" if path.is_dir() else path.name for path in paths[:_MAX_PATHS]]
    except (ToolError, OSError, RuntimeError, ValueError):
        return []
    return [
        Completion(_written(begun[0], folder + slash + each), -len(begun[0]), display=each)
        for each in sorted(names, key=lambda each: (not each.endswith("/"), each))
    ]


def _fits(name: str, begun: str) -> bool:
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


class PromptHistory(FileHistory):
    """Keeps what was typed in all conversations, in a private file, and offers the newest of it again."""

    def load_history_strings(self) -> Iterable[str]:
        """Return the newest texts, the newest first; none where the file cannot be read."""
        try:
            return [*islice(super().load_history_strings(), _MAX_HISTORY)]
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Append a text.

        :raises OSError: the file cannot be written.
        """
        os.close(os.open(self.filename, os.O_WRONLY | os.O_CREAT, 0o600))
        super().store_string(string)


def prompt_parts(text: str, cwd: Path) -> tuple[UserPart, ...]:
    """Return a prompt with its mentions as parts of their own. Reads files; call it in a worker thread.

    What names no file stays as it was typed: an MCP server's resource may be meant.

    :param cwd: absolute path that others are relative to.
    """
    parts: list[UserPart] = []
    done = 0
    for found in _SENT.finditer(text):
        name = found["quoted"] or found["plain"]
        path = _existing(name, cwd)
        if path is None and found["plain"]:
            name = name.rstrip(_PUNCTUATION)
            path = _existing(name, cwd)
        if path is None:
            continue
        end = found.end() if found["quoted"] else found.start() + 1 + len(name)
        image = _image(path)
        before = end if image else found.start()  # an image stands behind its name, a link in its place
        if before > done:
            parts.append(Text(text[done:before]))
        parts.append(image or ResourceLink(path.as_uri(), path.name or str(path)))
        done = end
    if done < len(text) or not parts:
        parts.append(Text(text[done:]))
    return tuple(parts)


def _image(path: Path) -> Image | None:
    """Return the image in a file; None where there is none that a model can be sent."""
    try:
        if path.suffix.lower() not in _IMAGE_SUFFIXES or path.stat().st_size > MAX_IMAGE_BYTES:
            return None
        content = read_regular(path)
    except OSError:
        return None
    kind = type_of(content)
    if kind not in IMAGE_TYPES:
        return None
    return Image(base64.b64encode(content).decode("ascii"), kind, path.as_uri())


def _existing(name: str, cwd: Path) -> Path | None:
    """Return the absolute path that is named, if there is something."""
    try:
        path = Path(os.path.normpath(cwd / Path(name).expanduser()))
        path.as_uri().encode()
        return path if name and os.path.lexists(path) else None
    except (OSError, RuntimeError, ValueError):  # no home, a name that is too long, or one that is no text
        return None
