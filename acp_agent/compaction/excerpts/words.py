"""What the user typed, in the order of time: short messages whole, long ones shortened
in the middle.

A message keeps its beginning and its end, and the sentences that state a rule with the
sentences beside them; what it pasted is shortened first. If not all messages fit, the
first request, the newest messages and those with rules stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN, estimate_text
from acp_agent.compaction.excerpts.rules import segments
from acp_agent.compaction.excerpts.updates import later_related
from acp_agent.conversation.swaps import Quote
from acp_agent.frozen import frozen

SHORT = 300
"""Characters of a message that stays whole if there is room for all."""
TERSE = 160
"""Characters of a message that comes before longer ones if there is not."""
LIMITS = (SHORT, 220, TERSE, 120)
"""Characters to which long messages are shortened, the first with which all fit."""
LEAST = 80
"""Characters of the shortest beginning of a message that is worth its place."""
PASTED = 120
"""Characters that stay of a pasted block."""
NEWEST = 2
"""Newest messages that stay before any with rules."""
GAP = " […] "
"""What stands for text that was left out."""


@frozen
class Said:
    """A message of the user.

    :ivar text: what was typed.
    :ivar rules: where rules stand in it; see `rule_spans`.
    """

    seq: int
    text: str
    rules: tuple[tuple[int, int], ...] = ()


def each_once(messages: Iterable[Said]) -> list[Said]:
    """Return the messages that say something, in order, each text once at its newest
    place.
    """
    found: dict[str, Said] = {}
    for said in sorted(messages, key=lambda said: said.seq):
        if key := " ".join(said.text.split()):
            found.pop(key, None)
            found[key] = said
    return [*found.values()]


def words_of(
    said: Sequence[Said], max_tokens: int
) -> tuple[tuple[Quote, ...], frozenset[int]]:
    """Return what the user said, in order, shortened to at most so many tokens, and the
    seqs of outdated messages.

    No short message stays without the later ones that may change what it says; see
    `later_related`. A message is outdated if it is left out and one of those is left
    out too, so that nothing else should quote it either.
    """
    related = later_related(
        [each.text if len(each.text) <= SHORT else "" for each in said]
    )
    kept: dict[int, Quote] = {}
    room = max_tokens
    limit = _limit_for(said, max_tokens)

    def add(number: int, limit: int) -> None:
        nonlocal room
        quotes: dict[int, Quote] = {}
        for each in (*related[number], number):
            if each not in kept:
                quotes[each] = Quote(said[each].seq, shorten(said[each], limit))
        cost = sum(map(cost_of, quotes.values()))
        if cost <= room:
            kept.update(quotes)
            room -= cost

    for number in _by_importance(said):
        if number not in kept:
            add(number, limit)
        half = room * CHARACTERS_PER_TOKEN // 2
        if number not in kept and number in (0, len(said) - 1) and half >= LEAST:
            add(number, min(half, limit))
    outdated = {
        said[number].seq
        for number, later in enumerate(related)
        if number not in kept and not all(each in kept for each in later)
    }
    return tuple(kept[number] for number in sorted(kept)), frozenset(outdated)


def _limit_for(said: Sequence[Said], max_tokens: int) -> int:
    """Return the characters to which long messages are shortened: the most with which
    all fit, of some.
    """
    for limit in LIMITS:
        if (
            sum(min(len(each.text), limit) // CHARACTERS_PER_TOKEN + 4 for each in said)
            <= max_tokens
        ):
            return limit
    return LIMITS[-1]


def cost_of(quote: Quote) -> int:
    """Return the tokens of a quotation with its number."""
    return estimate_text(f"[#{quote.seq}] {quote.text}\n")


def _by_importance(said: Sequence[Said]) -> list[int]:
    """Return the numbers of the messages in the order in which they get room.

    The newest, the first and the next newest; then those with rules; then the others.
    Of each, short ones that say something come before long ones, and then newer before
    older ones.
    """
    newest = [*reversed(range(len(said)))]
    terse = [
        number
        for number in newest
        if len(said[number].text) <= TERSE and " " in said[number].text
    ]
    rules = [number for number in (*terse, *newest) if said[number].rules]
    return [
        *dict.fromkeys(
            (*newest[:1], *newest[-1:], *newest[:NEWEST], *rules, *terse, *newest)
        )
    ]


def shorten(said: Said, limit: int) -> str:
    """Return about `limit` characters of a message: beginning, rules with the sentences
    beside them, and end.

    The text stays as it is if it is no longer. Everything that stays is a slice of the
    text.
    """
    if len(said.text) <= limit:
        return said.text
    spans = _kept_spans(said.text)
    if sum(end - start for start, end in spans) > limit:
        spans = _within(said, spans, limit)
    return _joined(said.text, spans)


def _kept_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a text that stay: all that was typed, and the beginning of
    each pasted block.
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
    said: Said, spans: Sequence[tuple[int, int]], limit: int
) -> list[tuple[int, int]]:
    """Return parts of these parts that together have about `limit` characters."""
    wanted: list[tuple[int, int]] = []
    room = limit * 2 // 3
    for start, end in said.rules:
        if end - start <= room:
            room -= end - start
            wanted.append((start, end))
    left = limit - sum(end - start for start, end in wanted)
    begins, ends = _ends_of(said.text, spans, left)
    return _merged([*begins, *wanted, *ends])


def _ends_of(
    text: str, spans: Sequence[tuple[int, int]], limit: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the first two thirds of `limit` characters of these parts, and the last
    third.
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
    """Return where the last whole word ends within a limit; the limit if there is no
    white space near it.
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
