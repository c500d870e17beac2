"""What a summary says that the user said: where it stands, and whether a message of the user is behind it.

The measure: the content words of the sentence (no stop words, no case, at most five letters of each, no plural `s`)
that also stand in one message of the user, as a share of all of them; at least `SUPPORTED` of them must. Words that
only a tool or the assistant wrote do not count, except that a "yes" of the user takes in what the assistant had said
before it, and so does a "no" where the user is said to have refused. A refusal needs a message that denies something
besides. What stands in quotation marks must be found in the user's words as it is.

What it says that the user did *not* ask for is a claim as well, which `provenance_denials` judges.

A claim in another language than the user's messages cannot be measured so: then only its quotes, identifiers and
numbers are looked up in the user's messages, and a claim that has none is let pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import combining, normalize

from acp_agent.compaction.provenance_denials import contradicts, denied
from acp_agent.compaction.provenance_flags import Closed
from acp_agent.compaction.provenance_source import Said, Source
from acp_agent.compaction.provenance_words import (
    AGREED,
    ALL_STOP_WORDS,
    ALSO,
    DECLINES,
    NEGATED,
    NO,
    NOT_SO,
    PATTERNS,
    REJECTED,
    STOP_WORDS,
    SUPPOSED,
    YES,
)
from acp_agent.frozen import frozen

SUPPORTED = 0.6

_BEFORE = 40
"""Characters before a claim that may turn it into none."""
_SENTENCE_END = re.compile(r"[.!?][\"”»)*_]{0,4}(?=\s)")
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»")
_NAMED = re.compile(r"`([^`\n]+)`|\b(\w*[a-z\d]_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|\d[\d.,]*\d)\b")


@frozen
class Claim:
    """A sentence at `[start, end)` that says what the user said, and in which language it says so.

    :ivar text: the sentence, or what is left of it behind a part that says what the user did not say; empty where that
        is all of it.
    :ivar denied: what it says that the user did not ask for (`denies_asking`) or mention.
    """

    start: int
    end: int
    text: str
    language: str
    denied: str = ""
    denies_asking: bool = False


def claims(text: str, start: int, end: int, closed: Closed) -> Iterator[Claim]:
    """The sentences in a block of a summary that say what the user asked for, said, preferred or decided.

    "If the user asks" and "the user has not answered" claim nothing; what the rest of such a sentence says is one.

    :param text: the summary, its code marks left in.
    :param start: where the block begins; `end` likewise.
    :param closed: of the same text: no sentence ends in its code, its links and its quotes.
    """
    for first, last in _sentences(text, start, end, closed):
        sentence = text[first:last]
        for language, pattern in PATTERNS.items():
            said = _claimed(sentence) if language == "en" else 0 if pattern.search(sentence) else None
            if said is None:
                continue
            yield Claim(first, last, sentence[said:], language, *denied(sentence))
            break
        else:
            what, asking = denied(sentence)
            if what.strip():
                yield Claim(first, last, "", "en", what, asking)


def is_supported(claim: Claim, source: Source) -> bool:
    """Whether a message of the user is behind a claim, by the measure that this module describes."""
    if claim.denied and contradicts(claim.denied, [one.text for one in source.said], _keys, asking=claim.denies_asking):
        return False
    if not claim.text:
        return True
    quotes = [next(filter(None, match.groups())) for match in _QUOTED.finditer(claim.text)]
    if not all(source.has_user_quote(quote) for quote in quotes if len(quote.split()) > 1):
        return False
    wanted = _keys(claim.text)
    if not wanted:
        return bool(source.said)
    foreign: list[Said] = []
    refused = claim.language == "en" and REJECTED.search(claim.text) is not None
    for said in source.said:
        text = said.text
        if (AGREED.search(claim.text) and YES.match(text)) or (refused and NO.match(text)):
            text = f"{said.before}\n{text}"
        if len(wanted & _keys(text)) >= SUPPORTED * len(wanted) and (not refused or DECLINES.search(said.text)):
            return True
        if _language(text) not in ("", claim.language):
            foreign.append(said)
    return bool(foreign) and _names_stand(claim.text, foreign)


def _claimed(sentence: str) -> int | None:
    """Where an English sentence begins to claim something of the user: at its beginning, or behind what it denies."""
    denials = [match.span() for match in NEGATED.finditer(sentence)]
    passed, also = 0, True
    for found in PATTERNS["en"].finditer(sentence):
        start, end = found.span()
        while passed < len(denials) and denials[passed][1] <= start:
            passed += 1
        if passed < len(denials) and denials[passed][0] < end:
            more = ALSO.search(sentence, denials[passed][1]) if also else None
            if more is not None:
                return more.start()
            also = False
        elif not any(other.search(sentence, max(0, start - _BEFORE), start) for other in (SUPPOSED, NOT_SO)):
            return denials[passed - 1][1] if passed else 0
    return None


def _sentences(text: str, start: int, end: int, closed: Closed) -> Iterator[tuple[int, int]]:
    first = start
    for match in _SENTENCE_END.finditer(text, start, end):
        if closed.has(match.end()):
            continue
        if text[first : match.end()].strip():
            yield _stripped(text, first, match.end())
        first = match.end()
    if text[first:end].strip():
        yield _stripped(text, first, end)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    said = text[start:end]
    return end - len(said.lstrip()), start + len(said.rstrip())


def _keys(text: str) -> frozenset[str]:
    """The content words of a text, cut so that most forms of a word are the same."""
    return frozenset(_stem(word) for word in _WORD.findall(text.casefold()) if word not in ALL_STOP_WORDS)


def _stem(word: str) -> str:
    if not word.isascii():
        word = "".join(letter for letter in normalize("NFKD", word) if not combining(letter))
    if word.endswith("s") and len(word) > 3:
        word = word[:-1]
    elif word.endswith("ing") and len(word) > 5:
        word = word[:-3]
    return word[:5]


def _language(text: str) -> str:
    """By its stop words; empty where it is too short to tell, `other` where it is written in other letters."""
    letters = [character for character in text[:4_000] if character.isalpha()]
    if sum(character > "\u024f" for character in letters) > 0.3 * len(letters):
        return "other"
    words = _WORD.findall(text[:4_000].casefold())
    count, language = max((sum(word in stop for word in words), name) for name, stop in STOP_WORDS.items())
    return language if count >= 2 else ""


def _names_stand(claim: str, messages: list[Said]) -> bool:
    names = [next(filter(None, match.groups())) for match in _NAMED.finditer(claim)]
    said = "\n".join(message.text for message in messages)
    return sum(name in said for name in names) * 2 >= len(names)
