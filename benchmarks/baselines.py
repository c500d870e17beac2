"""Other ways to choose lines of a conversation, as yardsticks for excerpts: a sketch,
TextRank, KL-sum, and the newest.

Each orders the lines of a conversation by how much it wants them. The first lines that
fit are taken.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.facts import passages
from acp_agent.conversation.messages import Entry
from acp_agent.frozen import frozen

LONGEST = 320
_PIECE = re.compile(rf"[^\n]{{1,{LONGEST}}}(?:(?<=[.!?])\s|\n|$)|[^\n]{{1,{LONGEST}}}")
_FACT = re.compile(
    r"https?://[^\s<>\"'`)]+"
    r"|[\w.~-]*/[\w./@~+-]*\w"
    r"|\b\w+_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z]+[A-Z]\w*\b|\b[A-Z]\w*(?:Error|Exception|Warning)\b"
    r"|\b[\w-]+\.(?:py|js|ts|md|json|toml|yaml|yml|c|h|go|rs|txt|sh|cfg)\b"
    r"|\bv?\d+\.\d+(?:\.\d+)*\b|\b[0-9a-f]{7,40}\b|\b\d{3,}\b"
)
_WORD = re.compile(r"[^\W\d_]{5,}")
_ANY_WORD = re.compile(r"[^\W_]{2,}")
_MENTION = {"user": 3.0, "you": 3.0, "call": 2.0}
_SPEAKER = {"user": 1.5, "you": 1.15, "call": 1.0}
_REPEATED = (1.0, 0.3, 0.3)
_COMMON_WORDS = """
the and that you for this with have are was but not they she from what your can will would there their about
been has had were which when who how all just like get got its our out then them some because know think
"""
_COMMON = frozenset(_COMMON_WORDS.split())


@frozen
class Line:
    """A line of a conversation, or a piece of a long one."""

    seq: int
    speaker: str
    text: str


Order = Callable[[Sequence[Line]], Iterable[int]]
Chooser = Callable[[Sequence[Entry], int], str]


def lines_of(entries: Iterable[Entry]) -> list[Line]:
    """Return the lines of a conversation."""
    found: list[Line] = []
    for entry in entries:
        for speaker, text in passages(entry):
            pieces = (piece.strip() for piece in _PIECE.findall(text))
            found += [
                Line(entry.seq, speaker.label, piece) for piece in pieces if piece
            ]
    return found


def rendered(lines: Iterable[Line]) -> str:
    """Return lines below the number of their entry."""
    return "\n".join(
        f"[#{seq}] " + "\n".join(line.text for line in group)
        for seq, group in groupby(lines, lambda line: line.seq)
    )


def within(lines: Sequence[Line], order: Iterable[int], max_tokens: int) -> str:
    """Return the first lines of an order that fit, in the order of the conversation."""
    room = max_tokens * CHARACTERS_PER_TOKEN
    chosen: set[int] = set()
    numbered: set[int] = set()
    for at in order:
        cost = len(lines[at].text) + 1 + (0 if lines[at].seq in numbered else 6)
        if cost <= room and at not in chosen:
            room -= cost
            chosen.add(at)
            numbered.add(lines[at].seq)
    return rendered(lines[at] for at in sorted(chosen))


def newest(lines: Sequence[Line]) -> Iterable[int]:
    """Order lines from the newest on."""
    return range(len(lines) - 1, -1, -1)


def sketch(lines: Sequence[Line]) -> Iterable[int]:
    """Order lines by the facts and rare words that no chosen line has, per character
    (budgeted maximum coverage).
    """
    terms = [_terms(line.text) for line in lines]
    spread = Counter(term for found in terms for term in found)
    mentions: dict[str, float] = defaultdict(float)
    last: dict[str, int] = {}
    shown_only: dict[str, bool] = defaultdict(lambda: True)
    for at, (line, found) in enumerate(zip(lines, terms, strict=True)):
        kind = line.speaker.split(" ")[0]
        for term in found:
            mentions[term] += _MENTION.get(kind, 0.4)
            last[term] = at
            shown_only[term] &= kind not in _MENTION
    weights: dict[str, float] = {}
    for term, count in spread.items():
        if term.startswith(" "):
            weights[term] = 0.3 if count <= 3 else 0.0
        else:
            recent = 0.35 + 0.65 * last[term] / max(1, len(lines))
            weights[term] = (
                math.log(1 + mentions[term])
                * recent
                * (0.35 if shown_only[term] else 1)
            )
    return _by_coverage(lines, terms, weights)


def _by_coverage(
    lines: Sequence[Line], terms: Sequence[set[str]], weights: Mapping[str, float]
) -> Iterable[int]:
    covered = Counter[str]()

    def gain(at: int) -> float:
        value = sum(
            weights[term] * _REPEATED[covered[term]]
            for term in terms[at]
            if covered[term] < len(_REPEATED)
        )
        return (
            value
            * _SPEAKER.get(lines[at].speaker.split(" ")[0], 0.8)
            / (len(lines[at].text) + 8)
        )

    heap = [(-gain(at), at) for at in range(len(lines))]
    heapq.heapify(heap)
    while heap:
        stale, at = heapq.heappop(heap)
        now = -gain(at)
        if heap and now > heap[0][0] and now > stale + 1e-12:
            heapq.heappush(heap, (now, at))
            continue
        covered.update(terms[at])
        yield at


def _terms(text: str) -> set[str]:
    found = {match[0].strip("./-") for match in _FACT.finditer(text)}
    return found | {f" {word.lower()}" for word in _WORD.findall(text)}


def _content(text: str) -> list[str]:
    return [
        word for word in map(str.lower, _ANY_WORD.findall(text)) if word not in _COMMON
    ]


def textrank(lines: Sequence[Line]) -> Iterable[int]:
    """Order lines by how much other lines resemble them (Mihalcea and Tarau 2004)."""
    words = [set(_content(line.text)) for line in lines]
    holders: dict[str, list[int]] = defaultdict(list)
    for at, found in enumerate(words):
        for word in found:
            holders[word].append(at)
    common = [Counter[int]() for _ in lines]
    for places in holders.values():
        if len(places) <= 300:  # a word in more lines tells nothing about them
            for at in places:
                common[at].update(places)
    similar = [
        {
            other: shared
            / (math.log(len(words[at]) + 1) + math.log(len(words[other]) + 1))
            for other, shared in found.items()
            if other != at
        }
        for at, found in enumerate(common)
    ]
    total = [sum(found.values()) for found in similar]
    ranks = [1.0] * len(lines)
    for _ in range(20):
        ranks = [
            0.15
            + 0.85
            * sum(
                weight / total[other] * ranks[other] for other, weight in found.items()
            )
            for found in similar
        ]
    return sorted(range(len(lines)), key=lambda at: -ranks[at])


def klsum(lines: Sequence[Line]) -> Iterable[int]:
    """Order lines so that their words are distributed as all words are (Haghighi and
    Vanderwende 2009).
    """
    words = [Counter(_content(line.text)) for line in lines]
    whole = sum(words, Counter[str]())
    total = whole.total() or 1
    chosen = Counter[str]()
    heap = [
        (-_kl_gain(found, chosen, 0, whole, total), at)
        for at, found in enumerate(words)
        if found
    ]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        _, at = heapq.heappop(heap)
        now = -_kl_gain(words[at], chosen, chosen.total(), whole, total)
        if heap and now > heap[0][0] + 1e-12:
            heapq.heappush(heap, (now, at))
            continue
        chosen += words[at]
        order.append(at)
    return order


def _kl_gain(
    found: Counter[str],
    chosen: Counter[str],
    size: int,
    whole: Counter[str],
    total: int,
) -> float:
    """Return by how much a line brings the chosen words nearer to all words, per word:
    the derivative of the sum.
    """
    gain = 0.0
    for word, count in found.items():
        share = whole[word] / total
        gain += share * math.log((chosen[word] + count + 0.1) / (chosen[word] + 0.1))
    return gain / found.total()


ORDERS: Mapping[str, Order] = {
    "newest": newest,
    "sketch": sketch,
    "textrank": textrank,
    "klsum": klsum,
}


def _chosen_by(order: Order) -> Chooser:
    def choose(entries: Sequence[Entry], max_tokens: int) -> str:
        lines = lines_of(entries)
        return within(lines, order(lines), max_tokens)

    return choose


CHOOSERS: Mapping[str, Chooser] = {
    name: _chosen_by(order) for name, order in ORDERS.items()
}
"""Each method as a function of the entries and the tokens of the text that it returns."""
