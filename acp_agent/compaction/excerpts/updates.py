"""Finds later messages of the user that may change what an earlier message says.

"The cap is $500" and, an hour later, "make the cap $700" are about the same thing. The
words alone do not show that the second message replaces the first. So both may be kept,
but the first must not be kept without the second. Two messages are related if they have
a word in common that few messages contain.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

MAX_MESSAGES = 6
"""Maximum number of messages that contain a word. A more frequent word is too common to
relate messages.
"""

_WORD = re.compile(r"[^\W\d_]{4,}|[\u3040-\u9fff\uac00-\ud7af]{2}")
_STEM = 6
"""Number of letters at the start of words to compare, so that "report" and "reports"
are equal but "owner" and "owns" are not.
"""
_COMMON_WORDS = """
about after again also always another before being call could does done dont each either ever every from
have here into just keep like make more most much must need never next only other over please quick really
same should some still such than that their them then there these they thing this those time under until
update user users very want wants well were what when where which while will with without would your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def later_related(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return, for each text, the indices of the later texts that may change what it
    says.

    :param texts: the texts of messages, oldest first.
    """
    words = [_subjects(text) for text in texts]
    texts_with: dict[str, list[int]] = defaultdict(list)
    for index, found in enumerate(words):
        for word in found:
            texts_with[word].append(index)
    related: list[tuple[int, ...]] = []
    for index, found in enumerate(words):
        later: set[int] = set()
        for word in found:
            if len(texts_with[word]) <= MAX_MESSAGES:
                later.update(other for other in texts_with[word] if other > index)
        related.append(tuple(sorted(later)))
    return related


def _subjects(text: str) -> set[str]:
    """Return the beginnings of the words in a text that are not too common to say what
    the text is about.
    """
    words = (word.lower() for word in _WORD.findall(text))
    return {word[:_STEM] for word in words if word not in _COMMON}
