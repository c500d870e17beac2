"""What is typed: `PromptCompleter` for slash commands, mentions and paths, and mentions that are sent.

`@path` is sent as an editor sends it: an image as itself, anything else as a link for the model to read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from acp_agent.conversation.messages import Image, ResourceLink, Text, UserPart
from acp_agent.conversation.updates import Command
from acp_agent.errors import ToolError
from acp_agent.tools.files.read import image_of

_SENT = re.compile(r"""(?:(?<=\s)|^)@(?:"([^"\n]+)"|([^\s"]*[^\s".,;:!?)\]}']))""")
"""A mention; punctuation behind it is not part of a name without quotes."""

_MENTION = re.compile(r'(?:(?<=\s)|^)@(?P<quote>")?(?P<path>(?(quote)[^"\n]*|[^\s"]*))\Z')
_WORD = re.compile(r"(?<![^\s\"'`(])(?P<path>[^\s\"'`(]++)\Z")


class PromptCompleter(Completer):
    """Completes slash commands and mentioned paths, and other paths where the person asks for it; in a thread.

    :ivar cwd: absolute path that others are relative to.
    :ivar commands: the slash commands on offer.
    """

    def __init__(self) -> None:
        self.cwd = Path.cwd()
        self.commands: Sequence[Command] = ()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what may be meant by the text before the cursor: of commands, those that begin so come first."""
        before = document.text_before_cursor
        if before.startswith("/") and not any(map(str.isspace, before)):
            fitting = [command for command in self.commands if before[1:] in command.name]
            for command in sorted(fitting, key=lambda command: not command.name.startswith(before[1:])):
                name = f"/{command.name}"
                hint = f" [{command.hint}]" if command.hint else ""
                yield Completion(name, -len(before), display=name + hint, display_meta=command.description)
        elif begun := _MENTION.search(before) or (
            _WORD.search(before) if complete_event.completion_requested else None
        ):
            quoted = begun[0].startswith('@"')
            paths = PathCompleter(get_paths=lambda: [str(self.cwd)], file_filter=str.isprintable, expanduser=True)
            for found in paths.get_completions(Document(begun["path"]), complete_event):
                # A folder goes on; a name with a space has to be quoted.
                if quoted or " " not in found.text:
                    end = "/" if found.display_text.endswith("/") else '"' if quoted else ""
                    yield Completion(found.text + end, display=found.display)


def prompt_parts(text: str, cwd: Path) -> tuple[UserPart, ...]:
    """Return a prompt with its mentions as parts of their own. Reads files; call it in a worker thread.

    What names no file stays as it was typed: an MCP server's resource may be meant.

    :param cwd: absolute path that others are relative to.
    """
    parts: list[UserPart] = []
    done = 0
    for found in _SENT.finditer(text):
        path = _existing(found[1] or found[2], cwd)
        if path is None:
            continue
        image = _image(path)
        before = found.end() if image else found.start()  # an image stands behind its name, a link in its place
        if before > done:
            parts.append(Text(text[done:before]))
        parts.append(image or ResourceLink(path.as_uri(), path.name or str(path)))
        done = found.end()
    if done < len(text) or not parts:
        parts.append(Text(text[done:]))
    return tuple(parts)


def _image(path: Path) -> Image | None:
    """Return the image in a file; None where there is none that a model can be sent."""
    with suppress(ToolError):
        return image_of(path, path.name)
    return None


def _existing(name: str, cwd: Path) -> Path | None:
    """Return the absolute path that is named, if there is something."""
    try:
        path = Path(os.path.normpath(cwd / Path(name).expanduser()))
        path.as_uri().encode()
        return path if name and os.path.lexists(path) else None
    except (OSError, RuntimeError, ValueError):  # no home, a name that is too long, or one that is no text
        return None
