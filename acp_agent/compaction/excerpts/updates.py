"""Which later message of the user may change what an earlier one says.

"The cap is $500" and, an hour later, "make the cap $700" are about one thing. Nobody
can tell from the words alone that the second replaces the first, so both may stay; but
the first must not stay without the second. Two messages count as related if they share
a word that few messages contain.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

MOST_HOLDERS = 6
"""Messages above which a word says nothing about what a message is about."""

_WORD = re.compile(r"[^\W\d_]{4,}|[\u3040-\u9fff\uac00-\ud7af]{2}")
_STEM = 6
"""Letters by which words are compared, so that "owner" and "owns" differ but "report"
and "reports" do not.
"""
_COMMON_WORDS = """
about after again also always another before being call could does done dont each either ever every from
have here into just keep like make more most much must need never next only other over please quick really
same should some still such than that their them then there these they thing this those time under until
update user users very want wants well were what when where which while will with without would your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def later_related(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return for each text, in the order of time, the numbers of the later ones that
    may change what it says.
    """
    words = [_subjects(text) for text in texts]
    holders: dict[str, list[int]] = defaultdict(list)
    for number, found in enumerate(words):
        for word in found:
            holders[word].append(number)
    related: list[tuple[int, ...]] = []
    for number, found in enumerate(words):
        later: set[int] = set()
        for word in found:
            if len(holders[word]) <= MOST_HOLDERS:
                later.update(holder for holder in holders[word] if holder > number)
        related.append(tuple(sorted(later)))
    return related


def _subjects(text: str) -> set[str]:
    """Return the words that say what a text is about, in the form in which they are
    compared.
    """
    words = (word.lower() for word in _WORD.findall(text))
    return {word[:_STEM] for word in words if word not in _COMMON}
