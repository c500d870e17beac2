"""`@path` in what is typed, as the links that an editor makes of it: the model reads the file where it wants to.

What names no file stays as it was typed; an MCP server's resource may be meant by it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from acp_agent.conversation.messages import ResourceLink, Text, UserPart

MENTION = re.compile(r'(?:(?<=\s)|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
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
        if found.start() > done:
            parts.append(Text(text[done : found.start()]))
        parts.append(ResourceLink(path.as_uri(), path.name or str(path)))
        done = end
    if done < len(text) or not parts:
        parts.append(Text(text[done:]))
    return tuple(parts)


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
