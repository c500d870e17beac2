"""`@path` in what is typed, as an editor sends it: an image itself behind its name, anything else as a link, which the
model reads where it wants to.

What names no file stays as it was typed; an MCP server's resource may be meant by it.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

from acp_agent.conversation.messages import Image, ResourceLink, Text, UserPart
from acp_agent.llm.image_files import is_whole, type_of
from acp_agent.llm.profiles import IMAGE_TYPES
from acp_agent.regular import read_regular

MENTION = re.compile(r'(?:(?<=\s)|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
LARGEST = 20_000_000
"""Bytes of an image that is sent."""
_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_PUNCTUATION = ".,;:!?)]}'"


def parts_of(text: str, cwd: Path) -> tuple[UserPart, ...]:
    """A prompt with its mentions as parts of their own.

    :param cwd: absolute path that others are relative to.
    """
    parts: list[UserPart] = []
    done = 0
    for found in MENTION.finditer(text):
        name = found["quoted"] or found["plain"]
        end = found.end()
        path = _existing(name, cwd)
        if path is None and found["plain"]:
            shorter = name.rstrip(_PUNCTUATION)
            end -= len(name) - len(shorter)
            path = _existing(shorter, cwd)
        if path is None:
            continue
        image = _image(path)
        before = end if image else found.start()
        if before > done:
            parts.append(Text(text[done:before]))
        parts.append(image or ResourceLink(path.as_uri(), path.name or str(path)))
        done = end
    if done < len(text) or not parts:
        parts.append(Text(text[done:]))
    return tuple(parts)


def _image(path: Path) -> Image | None:
    """The image in a file; None where the model has to look for itself what it is, or why it cannot be shown."""
    if path.suffix.lower() not in _SUFFIXES:
        return None
    try:
        if path.stat().st_size > LARGEST:
            return None
        content = read_regular(path)
    except OSError:
        return None
    kind = type_of(content)
    if kind not in IMAGE_TYPES or not is_whole(content, kind):
        return None
    return Image(base64.b64encode(content).decode("ascii"), kind, path.as_uri())


def _existing(name: str, cwd: Path) -> Path | None:
    """The absolute path that is named, if there is something."""
    if not name:
        return None
    try:
        path = Path(os.path.normpath(cwd / Path(name).expanduser()))
        path.as_uri().encode()
        return path if os.path.lexists(path) else None
    except (OSError, RuntimeError, ValueError):  # no home, a name that is too long, or one that is no text
        return None
