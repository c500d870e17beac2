"""`@path` in a prompt, as an editor sends it: an image as itself, anything else as a link for the model to read."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

from acp_agent.conversation.messages import Image, ResourceLink, Text, UserPart
from acp_agent.llm.image_files import is_whole, type_of
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.regular import read_regular

MAX_IMAGE_BYTES = 20_000_000

_MENTION = re.compile(r'(?:(?<=\s)|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_PUNCTUATION = ".,;:!?)]}'"


def prompt_parts(text: str, cwd: Path) -> tuple[UserPart, ...]:
    """Return a prompt with its mentions as parts of their own. Reads files; call it in a worker thread.

    What names no file stays as it was typed: an MCP server's resource may be meant.

    :param cwd: absolute path that others are relative to.
    """
    parts: list[UserPart] = []
    done = 0
    for found in _MENTION.finditer(text):
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
    if kind not in IMAGE_TYPES or not is_whole(content, kind):
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
