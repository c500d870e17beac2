"""Parsing of prompts: the slash command that one begins with, and the parts around it.
Pure.
"""

from __future__ import annotations

import re

from acp_agent.conversation.messages import Text, UserPart, words_in
from acp_agent.conversation.updates import Command

COMPACT = "compact"
"""The recipe that automatic compaction runs, too."""
SWAP_CONTEXT = "swap_context"
COMPACTING = (COMPACT,)
"""Without it, an override of that recipe would leave a full context as it is."""

BUILT_IN = (
    Command("context", "Show what fills the context window, in tokens"),
    Command(
        "export",
        "Write the whole conversation into a Markdown file of the project",
        "[path]",
    ),
    Command("help", "List the commands and the recipes with what may follow them"),
    Command("model", "Show which model is used, or change it", "[provider/model]"),
    Command(
        "pin",
        "Keep a text word for word through every compaction; alone, list what is pinned",
        "[text]",
    ),
    Command(
        "undo", "Take back what the last turn that changed files has changed in them"
    ),
    Command("unpin", "Take a pinned text back", "<number>"),
)
"""Commands that are no recipes."""
PREVIEW = "preview"
STATUS = "status"
UNDO = "undo"
"""Words after `/compact`; the first two change nothing, not even the log."""
REPORTS = (PREVIEW, STATUS, UNDO)

COMMAND_SECONDS = 10.0
"""For all commands that a recipe's text runs."""

_OPENING = "=([{<\"'`"
_CLOSING = ".,;:!?)]}>\"'`"
_COMMAND = re.compile(
    r"/(?P<name>[a-z0-9][a-z0-9_-]*(?:[:/][a-z0-9_][a-z0-9_-]*)*)(?:\s+(?P<rest>.*))?\s*\Z",
    re.DOTALL,
)


def command_words(parts: tuple[UserPart, ...]) -> tuple[str, str] | None:
    """Return the name behind the slash that a prompt's text begins with, and what
    follows it; None for ordinary text.
    """
    match = _COMMAND.match(_first_text(parts))
    return (match["name"], match["rest"] or "") if match else None


def _first_text(parts: tuple[UserPart, ...]) -> str:
    """Return the text that may be a command: the first that is not blank, without the
    blanks in front of it.
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
    """Return what stands in front of the text that is a command, without blanks, and
    what stands behind it.
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
    """Return a prompt's further parts as text: editors send each mention of a file as a
    part of its own.

    Words of two parts do not become one.

    :param before: the text that they stand behind.
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
    """Return the name and the rest of a prompt that names one of `BUILT_IN`."""
    words = command_words(parts)
    if words is None or words[0] not in {command.name for command in BUILT_IN}:
        return None
    return words[0], words[1] + mentioned(around_command(parts)[1], words[1])


def is_blank(parts: tuple[UserPart, ...]) -> bool:
    """Return whether a prompt is only white space."""
    return all(isinstance(part, Text) and not part.text.strip() for part in parts)


def text_of(parts: tuple[UserPart, ...]) -> str:
    """Return the text of a prompt, without what is attached to it."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))
