"""Checks that an answer is a summary of the conversation.

A refusal, a copy of the instructions, or a text about something else must not replace a
conversation. The checks look only for signs that no genuine summary has, in any
language. Headings do not exempt the text below them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from acp_agent.compaction.facts import RUNS, facts_of_run, passages
from acp_agent.compaction.frame import has_section, texts_below_headings
from acp_agent.conversation.messages import Entry
from acp_agent.errors import CompactionError

FEWEST_NAMES = 40
"""Minimum number of names in a conversation at which every genuine summary is expected
to repeat part of at least one name.
"""
_REFUSAL_NAMES = 3
"""A text with this many names from the conversation is not a refusal, even if it begins
like one.
"""
_REFUSAL = re.compile(
    r"(?:(?:i['’]m|i am)?(?:\s+(?:very|really|so))?\s*sorry|i apologi[sz]e|unfortunately"
    r"|as an ai\b[^.,]{0,60})?[\s,.;:—–-]*(?:but\s+)?"
    r"i(?:['’]m| am)?\s*(?:can['’]?t|cannot|can not|won['’]?t|will not"
    r"|(?:not able|unable) to|must decline to)\s+(?:\w+\s+){0,3}?"
    r"(?:help|assist|comply|fulfil+|summari[sz]e|do (?:that|this)"
    r"|(?:provide|write|create|continue)\s+(?:\w+\s+){0,2}?"
    r"(?:summary|summaries|request|conversation|content|information|with (?:this|that)))\b"
    r"|(?:es )?tut mir leid|(?:je suis )?désolée?\b|lo siento\b|(?:me )?desculpe\b"
    r"|mi dispiace\b|申し訳|(?:很|非常)?抱歉|对不起|죄송|извините",
    re.IGNORECASE,
)
_MARKS = " \t\n*_>\"'“„«"
_BULLET = re.compile(r"\A[\s>]*+(?:[-*+•–—]|\d{1,3}[.)])\s++")
_NOTHING = re.compile(
    r"\W*(?:none|n/?a|nil|nothing|nothing to (?:say|report|add)|not applicable|empty"
    r"|keine?s?|entfällt|aucune?|néant|ningun[oa]|ninguna?|ningún|nada|nessun[oa]?|нет"
    r"|无|無|没有|沒有|なし|없음)?\W*",
    re.IGNORECASE,
)
"""Matches the text of a section that says nothing, such as "None." or "n/a"."""
_PIECE_END = re.compile(r"\n|(?<=[.!?])\s|(?<=[。！？])")
_WORDS = re.compile(r"[^\W_]+")
_SHORTEST_COPY = 12
"""Minimum length, in characters, of a sentence that counts as copied from the
instructions. A shorter one may be the same by chance.
"""
_ADVICE = "The history is unchanged; try /compact again, or with another model."
_PARTS = re.compile(r"[A-Z]?[^\W\d_A-Z]{3,}|[A-Z]{4,}|[^\W\d_]{4,}|\d{3,}")


def check_relevance(
    summary: str,
    entries: Sequence[Entry],
    *,
    instructions: str,
    least: int,
    sections: Sequence[str],
) -> None:
    """Check that a summary is about these entries.

    Call this in a worker thread: it may read the whole conversation.

    :param instructions: the prompt that asked for the summary.
    :param least: minimum length, in characters, at which the text above the headings
        counts as a summary by itself. A shorter one is only an introduction, such as
        "Sure!".
    :param sections: headings that the summary should have.
    :raises CompactionError: if the summary is a refusal; if it says nothing or only
        repeats the instructions; or if it has no sections and mentions none of the
        names in the conversation although there are many.
    """
    texts = texts_below_headings(summary)
    own = [_without_copies(text, instructions) for _, text in texts]
    said = [text for text in own if not _says_nothing(text)]
    first = [title for title, _ in texts[1:2]] + said[:1]
    if any(map(_is_refusal, first)) and _names_few("\n".join(said), entries):
        raise CompactionError("The model refused to write a summary.", _ADVICE)
    introduction, *below = own
    is_copy = own != [text for _, text in texts]
    if is_copy and below and len(introduction) < least:
        said = [text for text in below if not _says_nothing(text)]
    if not said:
        reason = (
            "it repeats the instructions"
            if is_copy
            else "all of its sections are empty"
        )
        raise CompactionError(
            f"The model's answer is not a summary: {reason}.", _ADVICE
        )
    is_free = bool(sections) and not has_section(summary)
    if is_free and _is_latin(summary) and not _shares_a_word(summary, entries):
        raise CompactionError(
            "The model's answer is not a summary: it mentions nothing from the conversation.",
            _ADVICE,
        )


def _without_copies(text: str, instructions: str) -> str:
    """Return a text without the sentences that it copies from the instructions."""
    asked = _words_of(instructions)
    pieces = _PIECE_END.split(text)
    kept: list[str] = []
    for piece in pieces:
        words = _words_of(piece)
        if len(words) < _SHORTEST_COPY or words not in asked:
            kept.append(piece)
    return text if len(kept) == len(pieces) else "\n".join(kept)


def _words_of(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))


def _says_nothing(text: str) -> bool:
    """Return whether each line of a text is blank or a word such as "None"."""
    return all(
        _NOTHING.fullmatch(_BULLET.sub("", line, count=1)) for line in text.split("\n")
    )


def _is_refusal(text: str) -> bool:
    """Return whether a text begins like a refusal."""
    bullet = _BULLET.match(text)
    start = text[bullet.end() :] if bullet else text
    return _REFUSAL.match(start.lstrip(_MARKS)) is not None


def _names_few(text: str, entries: Sequence[Entry]) -> bool:
    """Return whether a text mentions fewer than `_REFUSAL_NAMES` names from the
    conversation.
    """
    said = set(_names_in(text))
    if len(said) < _REFUSAL_NAMES:
        return True
    return len(said.intersection(_names(entries))) < _REFUSAL_NAMES


def _is_latin(text: str) -> bool:
    """Return whether most letters of a text are ASCII. A text in another script may
    transliterate every name.
    """
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(map(str.isascii, letters)) > len(letters)


def _shares_a_word(summary: str, entries: Sequence[Entry]) -> bool:
    """Return whether a summary repeats part of a name from the conversation, or True if
    the conversation has few names.

    The part `cart` of `src/cart.py` is enough, since prose rarely repeats whole names.
    """
    text = summary.casefold()
    names: set[str] = set()
    for name in _names(entries):
        if name in names:
            continue
        names.add(name)
        parts = {part.casefold() for part in _PARTS.findall(name)}
        # In languages that inflect or join words, the part is inside a longer word.
        if any(part in text for part in parts):
            return True
    return len(names) < FEWEST_NAMES


def _names(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        for _, text in passages(entry):
            yield from _names_in(text)


def _names_in(text: str) -> Iterator[str]:
    """Yield the names, paths and long numbers of a text."""
    for run in RUNS.findall(text):
        for key, _, _, _ in facts_of_run(run):
            yield key
