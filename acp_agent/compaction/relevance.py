"""Check that an answer without sections is about the conversation.

A refusal, or a text about something else, must not replace a conversation. Only answers
that have none of a recipe's sections are checked, and only by signs that an honest
summary in any language does not have: it names nothing that the conversation names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from acp_agent.compaction.facts import RUNS, facts_of_run, passages
from acp_agent.conversation.messages import Entry
from acp_agent.errors import CompactionError

FEWEST_NAMES = 40
"""Names in a conversation above which a summary repeats at least a part of one."""
_REFUSAL_NAMES = 3
"""A text with this many names of the conversation is not taken for a refusal."""
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
_PARTS = re.compile(r"[A-Z]?[^\W\d_A-Z]{3,}|[A-Z]{4,}|[^\W\d_]{4,}|\d{3,}")


def check_relevance(summary: str, entries: Sequence[Entry]) -> None:
    """Check that a summary without sections is about these entries.

    Call this in a worker thread: it may read the whole conversation.

    :raises CompactionError: if the summary is a refusal, or if the conversation has
        many names and the summary repeats no part of any.
    """
    advice = "The history is unchanged; try /compact again, or with another model."
    if _REFUSAL.match(summary.lstrip(_MARKS)) and _is_refusal(summary, entries):
        raise CompactionError("The model refused to write a summary.", advice)
    if _is_latin(summary) and not _shares_a_word(summary, entries):
        raise CompactionError(
            "The model's answer is no summary: it names nothing from the conversation.",
            advice,
        )


def _is_refusal(summary: str, entries: Sequence[Entry]) -> bool:
    said = set(_names_in(summary))
    if len(said) < _REFUSAL_NAMES:
        return True
    return len(said.intersection(_names(entries))) < _REFUSAL_NAMES


def _is_latin(text: str) -> bool:
    """Return whether most letters of a text are ASCII. Texts in other scripts may
    translate every name.
    """
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(map(str.isascii, letters)) > len(letters)


def _shares_a_word(summary: str, entries: Sequence[Entry]) -> bool:
    """Return whether a summary repeats part of a name; True if there are few names.

    The part `cart` of `src/cart.py` is enough: prose rarely repeats names as they are.
    """
    text = summary.casefold()
    names: set[str] = set()
    for name in _names(entries):
        if name in names:
            continue
        names.add(name)
        parts = {part.casefold() for part in _PARTS.findall(name)}
        # In languages that inflect or join words, a part is inside of a longer word.
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
