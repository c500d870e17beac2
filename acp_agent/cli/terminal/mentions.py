"""Mentions in a prompt that is typed at a terminal.

`@path` is sent as an editor sends it: an image as itself, anything else as a link for
the model to read.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from acp_agent.conversation.messages import Image, ResourceLink, Text, UserPart
from acp_agent.errors import ToolError
from acp_agent.tools.files.read import image_of

_SENT = re.compile(r"""(?:(?<=\s)|^)@(?:"([^"\n]+)"|([^\s"]*[^\s".,;:!?)\]}']))""")
"""A mention; punctuation behind it is not part of a name without quotes."""


def prompt_parts(text: str, cwd: Path) -> tuple[UserPart, ...]:
    """Return a prompt with its mentions as parts of their own. Reads files; call it in
    a worker thread.

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
        # An image stands behind its name, a link in its place.
        before = found.end() if image else found.start()
        if before > done:
            parts.append(Text(text[done:before]))
        parts.append(image or ResourceLink(path.as_uri(), path.name or str(path)))
        done = found.end()
    if done < len(text) or not parts:
        parts.append(Text(text[done:]))
    return tuple(parts)


def missing_files(text: str, cwd: Path) -> list[str]:
    """Return the mentions in a prompt that look like paths and name nothing.

    :param cwd: absolute path that others are relative to.
    """
    names = [found[1] or found[2] for found in _SENT.finditer(text)]
    return [
        name
        for name in dict.fromkeys(names)
        if ("/" in name or "." in name)
        and "://" not in name
        and _existing(name, cwd) is None
    ]


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
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # no home, a name that is too long, or one that is no text
        return None
