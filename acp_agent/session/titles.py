"""The title of a session: from the first words of its first prompt, or as a person gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from acp_agent.conversation.messages import Resource, ResourceLink, Text, UserPart
from acp_agent.errors import InvalidParamsError

_NOBODY_TYPED = re.compile(r"\s*(?:<([A-Za-z_-]+)>.*</\1>|Sharing the following file as context: [^\n]*)\s*", re.DOTALL)
"""A tag around all of a text, and the line that CodeCompanion sends for a buffer or file that was named."""
MAX_LENGTH = 60
MAX_GIVEN = 200
"""Of a title that a person gives: they know what fits their list."""


def title_of(parts: Sequence[UserPart]) -> str | None:
    """A line for the list of sessions; None where the prompt has no words."""
    return shortened(words_of(parts), MAX_LENGTH) or None


def words_of(parts: Sequence[UserPart]) -> str:
    """The words of a prompt, with the names of the files that it links or brings.

    Editors send what nobody typed in a text of its own: the system, the selection, a file's path. It counts where there
    is nothing else.
    """
    typed = [part for part in parts if not (isinstance(part, Text) and _NOBODY_TYPED.fullmatch(part.text))]
    return " ".join(_words(part) for part in typed or parts)


def given_title(title: str) -> str:
    """A title that a person gave, as it is kept: one line, without what no list can show.

    :raises InvalidParamsError: nothing is left of it.
    """
    line = shortened(title, MAX_GIVEN)
    if not line:
        raise InvalidParamsError("The title is empty. Send one that can be read.")
    return line


def shortened(text: str, most: int) -> str:
    """A text as one line of at most `most` characters, cut between words where that costs little."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    if len(line) <= most:
        return line
    cut = line[: most - 1]
    at_word = cut.rpartition(" ")[0]
    return f"{at_word if len(at_word) > most // 2 else cut}…"


def _words(part: UserPart) -> str:
    match part:
        case Text():
            return part.text
        case ResourceLink():
            return part.title or part.name
        case Resource():
            return name_of(part.uri)
        case _:
            return ""


def name_of(uri: str) -> str:
    """What a file is called whose address this is."""
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(uri)
    except ValueError:  # it is none
        return uri
    return unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
