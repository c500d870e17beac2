"""The table of built-in slash commands, and functions that find the slash command at
the beginning of a prompt and the parts around it.

A built-in command that changes nothing is also listed in `slash.context.only_reads`, so
that it is not logged.
"""

from __future__ import annotations

import re

from acp_agent.conversation.messages import Text, UserPart, words_in
from acp_agent.conversation.updates import Command

COMPACT = "compact"
"""The recipe for `/compact`, which automatic compaction also runs."""
SWAP_CONTEXT = "swap_context"
COMPACTING = (COMPACT,)
"""Recipes that always compact. Without this, an override of the recipe could leave a
full context unchanged.
"""

BUILT_IN = (
    Command("context", "Show what fills the context window, in tokens"),
    Command(
        "export",
        "Write the whole conversation to a Markdown file in the project",
        "[path]",
    ),
    Command("help", "List the commands and recipes with their arguments"),
    Command("model", "Show which model is used, or change it", "[provider/model]"),
    Command(
        "pin",
        "Keep a text word for word through every compaction; without a text, list the pinned ones",
        "[text]",
    ),
    Command("undo", "Undo the file edits of the last turn that made any"),
    Command("unpin", "Remove a pinned text", "<number>"),
)
"""The commands that are not recipes."""
PREVIEW = "preview"
STATUS = "status"
UNDO = "undo"
"""Words after `/compact` that do not compact. The first two change nothing, not even
the log.
"""
REPORTS = (PREVIEW, STATUS, UNDO)

COMMAND_SECONDS = 10.0
"""Time limit for all commands of a recipe's text together."""

_OPENING = "=([{<\"'`"
_CLOSING = ".,;:!?)]}>\"'`"
_COMMAND = re.compile(
    r"/(?P<name>[a-z0-9][a-z0-9_-]*(?:[:/][a-z0-9_][a-z0-9_-]*)*)(?:\s+(?P<rest>.*))?\s*\Z",
    re.DOTALL,
)


def command_words(parts: tuple[UserPart, ...]) -> tuple[str, str] | None:
    """Return the name of the slash command at the beginning of a prompt, and the text
    after it; None for ordinary text.
    """
    match = _COMMAND.match(_first_text(parts))
    return (match["name"], match["rest"] or "") if match else None


def _first_text(parts: tuple[UserPart, ...]) -> str:
    """Return the text that may be a command: the first text that is not blank, without
    leading white space.
    """
    return next(
        (
            part.text.lstrip()
            for part in parts
            if isinstance(part, Text) and part.text.strip()
        ),
        "",
    )


def around_command(
    parts: tuple[UserPart, ...],
) -> tuple[tuple[UserPart, ...], tuple[UserPart, ...]]:
    """Return the parts before the command's text, without blank texts, and the parts
    after it.
    """
    at = next(
        at
        for at, part in enumerate(parts)
        if isinstance(part, Text) and part.text.strip()
    )
    return tuple(part for part in parts[:at] if not isinstance(part, Text)), parts[
        at + 1 :
    ]


def mentioned(parts: tuple[UserPart, ...], before: str = "") -> str:
    """Return a prompt's further parts as text. Editors send each mention of a file as a
    separate part.

    Words of adjacent parts are kept apart.

    :param before: the text before these parts.
    """
    text = before
    for more in filter(None, map(words_in, parts)):
        apart = (
            text
            and not text[-1].isspace()
            and text[-1] not in _OPENING
            and not more[0].isspace()
        )
        text += f" {more}" if apart and more[0] not in _CLOSING else more
    return text[len(before) :]


def builtin_command(parts: tuple[UserPart, ...]) -> tuple[str, str] | None:
    """Return the name and the arguments if a prompt is one of the `BUILT_IN` commands."""
    words = command_words(parts)
    if words is None or words[0] not in {command.name for command in BUILT_IN}:
        return None
    return words[0], words[1] + mentioned(around_command(parts)[1], words[1])


def is_blank(parts: tuple[UserPart, ...]) -> bool:
    """Return whether a prompt is only white space."""
    return all(isinstance(part, Text) and not part.text.strip() for part in parts)


def text_of(parts: tuple[UserPart, ...]) -> str:
    """Return the text of a prompt, without its attachments."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
