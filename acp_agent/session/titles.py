"""The title of a session, from the first words of its first prompt."""

from __future__ import annotations

from collections.abc import Sequence

from acp_agent.conversation.messages import ResourceLink, Text, UserPart

MAX_LENGTH = 60


def title_of(parts: Sequence[UserPart]) -> str | None:
    """A line for the list of sessions; None where the prompt has no words."""
    words = " ".join(_words(part) for part in parts)
    line = " ".join(words.split())
    if len(line) <= MAX_LENGTH:
        return line or None
    cut = line[: MAX_LENGTH - 1]
    at_word = cut.rpartition(" ")[0]
    return f"{at_word if len(at_word) > MAX_LENGTH // 2 else cut}…"


def _words(part: UserPart) -> str:
    match part:
        case Text():
            return part.text
        case ResourceLink():
            return part.title or part.name
        case _:
            return ""
