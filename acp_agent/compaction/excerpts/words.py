"""Quotes the user's messages within a number of tokens, oldest first. Short messages
are quoted in full, and long ones are shortened in the middle.

A shortened message keeps its beginning, its end, and the sentences that state a rule,
with the sentences before and after each. Pasted text is shortened first. If not all
messages fit, the first request, the newest messages and messages with rules are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN, estimate_text
from acp_agent.compaction.excerpts.rules import segments
from acp_agent.compaction.excerpts.updates import later_related
from acp_agent.conversation.swaps import Quote
from acp_agent.frozen import frozen

SHORT = 300
"""Maximum length, in characters, of a message that is quoted in full if there is room
for all messages.
"""
TERSE = 160
"""Maximum length, in characters, of a message that has priority over longer ones if
there is not enough room.
"""
LIMITS = (SHORT, 220, TERSE, 120)
"""Lengths, in characters, to which long messages are shortened: the first with which
all messages fit.
"""
LEAST = 80
"""Minimum length, in characters, of a shortened message."""
PASTED = 120
"""Number of characters to keep of a pasted block."""
NEWEST = 2
"""Number of newest messages that have priority over messages with rules."""
GAP = " […] "
"""Replaces omitted text."""


@frozen
class TypedMessage:
    """A message as the user typed it.

    :ivar text: the typed text.
    :ivar rules: start and end of each rule in the text; see `rule_spans`.
    """

    seq: int
    text: str
    rules: tuple[tuple[int, int], ...] = ()


def without_duplicates(messages: Iterable[TypedMessage]) -> list[TypedMessage]:
    """Return the messages in order, without empty ones. Of messages with the same text,
    only the newest is returned.
    """
    found: dict[str, TypedMessage] = {}
    for message in sorted(messages, key=lambda message: message.seq):
        if key := " ".join(message.text.split()):
            found.pop(key, None)
            found[key] = message
    return [*found.values()]


def quotes_within(
    messages: Sequence[TypedMessage], max_tokens: int
) -> tuple[tuple[Quote, ...], frozenset[int]]:
    """Quote the user's messages, oldest first, within a number of tokens.

    A short message is quoted only together with the later messages that may change what
    it says; see `later_related`. A message is outdated if neither it nor one of those
    later messages is quoted.

    :returns: the quotes, and the sequence numbers of outdated messages, which should
        not be quoted elsewhere.
    """
    related = later_related(
        [each.text if len(each.text) <= SHORT else "" for each in messages]
    )
    kept: dict[int, Quote] = {}
    room = max_tokens
    limit = _limit_for(messages, max_tokens)

    def add(number: int, limit: int) -> None:
        nonlocal room
        quotes: dict[int, Quote] = {}
        for each in (*related[number], number):
            if each not in kept:
                message = messages[each]
                quotes[each] = Quote(message.seq, shorten(message, limit))
        cost = sum(map(quote_tokens, quotes.values()))
        if cost <= room:
            kept.update(quotes)
            room -= cost

    for number in _by_importance(messages):
        if number not in kept:
            add(number, limit)
        half = room * CHARACTERS_PER_TOKEN // 2
        if number not in kept and number in (0, len(messages) - 1) and half >= LEAST:
            add(number, min(half, limit))
    outdated = {
        messages[number].seq
        for number, later in enumerate(related)
        if number not in kept and not all(each in kept for each in later)
    }
    return tuple(kept[number] for number in sorted(kept)), frozenset(outdated)


def _limit_for(messages: Sequence[TypedMessage], max_tokens: int) -> int:
    """Return the length to which long messages are shortened: the largest of `LIMITS`
    with which all messages fit, or the smallest if none does.
    """
    for limit in LIMITS:
        lengths = (min(len(each.text), limit) for each in messages)
        tokens = sum(length // CHARACTERS_PER_TOKEN + 4 for length in lengths)
        if tokens <= max_tokens:
            return limit
    return LIMITS[-1]


def quote_tokens(quote: Quote) -> int:
    """Return the estimated tokens of a quotation with its entry number."""
    return estimate_text(f"[#{quote.seq}] {quote.text}\n")


def _by_importance(messages: Sequence[TypedMessage]) -> list[int]:
    """Return the indices of the messages, the most important first.

    The order is: the newest message, the first one, the next newest, messages with
    rules, all others. Among the last two kinds, short messages of at least two words
    come before long ones, and newer ones before older ones.
    """
    newest = [*reversed(range(len(messages)))]
    terse = [
        number
        for number in newest
        if len(messages[number].text) <= TERSE and " " in messages[number].text
    ]
    rules = [number for number in (*terse, *newest) if messages[number].rules]
    return [
        *dict.fromkeys(
            (*newest[:1], *newest[-1:], *newest[:NEWEST], *rules, *terse, *newest)
        )
    ]


def shorten(message: TypedMessage, limit: int) -> str:
    """Return about `limit` characters of a message: its beginning, its rules with the
    sentences around them, and its end, joined by `GAP`.

    A message that is not longer than `limit` is returned unchanged.
    """
    if len(message.text) <= limit:
        return message.text
    spans = _kept_spans(message.text)
    if sum(end - start for start, end in spans) > limit:
        spans = _within(message, spans, limit)
    return _joined(message.text, spans)


def _kept_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text to keep: everything that was typed, and the beginning
    of each pasted block.
    """
    spans: list[tuple[int, int]] = []
    at = 0
    for typed, piece in segments(text):
        end = at + len(piece)
        spans.append(
            (
                at,
                end
                if typed or len(piece) <= PASTED
                else at + _end_of_word(piece, PASTED),
            )
        )
        at = end
    return spans


def _within(
    message: TypedMessage, spans: Sequence[tuple[int, int]], limit: int
) -> list[tuple[int, int]]:
    """Reduce the spans of a message to a total of about `limit` characters."""
    wanted: list[tuple[int, int]] = []
    room = limit * 2 // 3
    for start, end in message.rules:
        if end - start <= room:
            room -= end - start
            wanted.append((start, end))
    left = limit - sum(end - start for start, end in wanted)
    begins, ends = _ends_of(message.text, spans, left)
    return _merged([*begins, *wanted, *ends])


def _ends_of(
    text: str, spans: Sequence[tuple[int, int]], limit: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return spans for the beginning and the end of these spans. The beginning gets two
    thirds of `limit` characters and the end gets one third.
    """
    head = limit * 2 // 3
    tail = limit // 3
    begins: list[tuple[int, int]] = []
    for start, end in spans:
        if head <= 0:
            break
        cut = (
            end if end - start <= head else start + _end_of_word(text[start:end], head)
        )
        begins.append((start, cut))
        head -= end - start
    ends: list[tuple[int, int]] = []
    for start, end in reversed(spans):
        if tail <= 0:
            break
        cut = (
            start
            if end - start <= tail
            else end - _end_of_word(text[start:end][::-1], tail)
        )
        ends.append((cut, end))
        tail -= end - start
    return begins, ends


def _end_of_word(text: str, limit: int) -> int:
    """Return the end of the last whole word within a limit, or the limit itself if
    there is no white space near it.
    """
    at = max(text.rfind(" ", limit // 2, limit), text.rfind("\n", limit // 2, limit))
    return at if at > 0 else min(limit, len(text))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _joined(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        piece = text[start:end]
        if text[at:start].strip():
            if pieces:
                pieces[-1] = pieces[-1].rstrip()
            pieces.append(GAP)
            piece = piece.lstrip()
        elif pieces:
            pieces.append(text[at:start])
        pieces.append(piece)
        at = end
    if text[at:].strip():
        if pieces:
            pieces[-1] = pieces[-1].rstrip()
        pieces.append(GAP)
    return "".join(pieces).strip()
