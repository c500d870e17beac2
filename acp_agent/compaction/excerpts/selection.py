"""Selection of excerpts: the most valuable lines of a conversation, word for word,
within a number of tokens.

Budgeted maximum coverage (Lin and Bilmes 2010, 2011): the value of a line is the weight
of its facts and words that no chosen line contains yet. The line with the greatest
value for its length is chosen, the values are updated, and so on until the tokens are
used up; values are recomputed lazily (Minoux 1978). Facts and words are called terms
here.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import deque
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, groupby
from threading import Lock

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.facts import (
    RUNS,
    USER,
    Speaker,
    facts_of_run,
    key_of,
    passages,
    units,
)
from acp_agent.conversation.messages import Entry

UNIT_OVERHEAD = 15
"""Characters added to the length of a line, since many short lines convey less than a
few long ones.
"""
MODEL_MENTION = 3.0
USER_MENTION = 0.5
SHOWN_MENTION = 0.4
"""Weights of a mention by the model, by the user, and in a result or a file. The model
writes a third of the names again that it wrote once, but only one in twenty of those
that stand only in results or in what the user pasted.
"""
UNSPOKEN_SHARE = 0.35
"""Factor on the weight of a term that neither the user nor the model mentioned."""
WORD_WEIGHT = 0.6
"""Weight of a plain word, relative to a fact with the same mentions."""
MOST_ENTRIES = 3
"""Entries above which a plain word is worth nothing; facts outweigh words that stand
everywhere.
"""
HALVED_AFTER = 30
"""Entries after which a term that is not mentioned again has half of its weight."""
REPEAT_SHARES = (1.0, 0.25, 0.25)
"""Shares of a term's weight in the first, second and third line with it; each has other
words around it.
"""
NEIGHBOUR_BONUS = 1.8
"""Factor on the value of a line next to a chosen one in the same passage."""
NAMES_SHARE = 0.25
"""Share of the tokens for an index of names that no chosen line contains."""

_WORD = re.compile(r"[^\W\d_]{5,30}")
NAMES = "Also named there, by entry:"
"""Heading of the index of names."""


@dataclass(slots=True)
class _Unit:
    """A line, or a piece of a long one."""

    seq: int
    passage: int  # its number in the conversation
    speaker: Speaker
    text: str
    terms: tuple[int, ...]  # ids, each once


@dataclass(slots=True)
class _Term:
    """A fact or a plain word."""

    name: str
    is_fact: bool
    last_entry: int = 0  # number of the last entry that contains it, from 1
    last_seq: int = 0
    count: int = 0
    by_user: int = 0  # lines of the user that contain it
    mentions: float = 0.0  # weight of all other lines that contain it
    spoken: bool = False  # whether the user or the model wrote it

    def weight(self, entries: int, prose: bool) -> float:
        """Return the weight in a conversation of so many entries.

        :param prose: whether few lines name anything. User and model are two people in
            conversation then, and what is old comes up as often as what is new.
        """
        if not self.is_fact and self.count > MOST_ENTRIES:
            return 0.0
        user, halved_after = (
            (MODEL_MENTION, math.inf) if prose else (USER_MENTION, HALVED_AFTER)
        )
        mentions = self.mentions + user * self.by_user
        weight = math.log1p(mentions) / (1 + (entries - self.last_entry) / halved_after)
        if not self.spoken:
            weight *= UNSPOKEN_SHARE
        return weight if self.is_fact else weight * WORD_WEIGHT


class ExcerptIndex:
    """The lines of a conversation and the terms in them, built up entry by entry when
    they are first wanted.

    :ivar lock: held while the index grows and while lines are selected, which may
        happen in two threads.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.units: list[_Unit] = []
        self.terms: list[_Term] = []
        self.entries = 0
        self._added: deque[Entry] = deque()
        self._terms_of_runs: dict[str, tuple[int, ...]] = {}
        self._ids: dict[str, int] = {}
        self._passages = 0

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> ExcerptIndex:
        """Index a whole conversation."""
        index = cls()
        for entry in entries:
            index.add(entry)
        return index

    def add(self, entry: Entry) -> None:
        """Add one more entry; summaries are left out, since they are not original
        messages.
        """
        if not entry.summary:
            self._added.append(entry)

    def complete(self) -> None:
        """Index the entries that were added, which takes half a second for ten
        thousand.
        """
        with self.lock:
            while self._added:
                self._index(self._added.popleft())

    def _index(self, entry: Entry) -> None:
        self.entries += 1
        for speaker, text in passages(entry):
            self._passages += 1
            spoken = speaker.is_participant
            by_user = speaker is USER
            mention = MODEL_MENTION if spoken else SHOWN_MENTION
            for line in units(text):
                terms = self._terms_in(line)
                self.units.append(
                    _Unit(entry.seq, self._passages, speaker, line, terms)
                )
                for number in terms:
                    term = self.terms[number]
                    if by_user:
                        term.by_user += 1
                    else:
                        term.mentions += mention
                    term.spoken |= spoken
                    term.last_entry = self.entries
                    if term.last_seq != entry.seq:
                        term.count += 1
                    term.last_seq = entry.seq

    def known_terms(self, texts: Iterable[str]) -> set[int]:
        """Return the indexed terms that occur in these texts."""
        return {
            term
            for text in texts
            for run in RUNS.findall(text)
            for term in self._terms_of_runs.get(run, ())
        }

    def _terms_in(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        for run in RUNS.findall(text):
            terms = self._terms_of_runs.get(run)
            if terms is None:
                terms = self._terms_of_runs[run] = self._read(run)
            found += terms
        return tuple(dict.fromkeys(found))

    def _read(self, run: str) -> tuple[int, ...]:
        facts = [key for key, *_ in facts_of_run(run)]
        if facts and facts[0] == key_of(run):
            del facts[1:]  # the names inside a path go with it
        # The space tells words from facts.
        words = (f" {word.lower()}" for word in _WORD.findall(run))
        return (
            *(self._id(name, True) for name in facts),
            *(self._id(word, False) for word in words),
        )

    def _id(self, name: str, is_fact: bool) -> int:
        if name not in self._ids:
            self._ids[name] = len(self.terms)
            self.terms.append(_Term(name, is_fact))
        return self._ids[name]


def excerpts_of(
    index: ExcerptIndex,
    max_tokens: int,
    *,
    seqs: Container[int] | None = None,
    verbatim: Collection[str] = (),
    condensed: Iterable[str] = (),
    excluded: Iterable[str] = (),
    prose: bool = False,
) -> str:
    """Return the most valuable lines as the model reads them, in the order of the
    conversation.

    :param max_tokens: estimated tokens of the returned text.
    :param seqs: entries to select from; all where not given.
    :param verbatim: texts that the new context contains word for word; their terms have
        no value, and their lines are not selected.
    :param condensed: other texts of the new context, such as a summary; a term in them
        still lacks the words around it.
    :param excluded: other lines that are not selected.
    :param prose: whether the conversation names little; see `names_little`.
    """
    index.complete()
    with index.lock:
        selection = _Selection(index, max_tokens * CHARACTERS_PER_TOKEN, prose)
        for term in index.known_terms(condensed):
            selection.coverage[term] = 1
        for term in index.known_terms(verbatim):
            selection.coverage[term] = len(REPEAT_SHARES)
        lines = {
            *excluded,
            *(line.strip() for text in verbatim for line in text.splitlines()),
        }
        candidates = selection.candidates(seqs, lines)
        reserved = int(selection.characters * NAMES_SHARE)
        selection.characters -= reserved
        selection.select(candidates)
        selection.characters += reserved
        names = selection.names(seqs)
        selection.select(candidates)
        selection.fill(candidates)
        return "\n\n".join(filter(None, (selection.render(), names)))


class _Selection:
    """The lines chosen so far.

    :ivar characters: how many may still be added.
    :ivar coverage: in how many lines of the new context each term occurs.
    """

    def __init__(self, index: ExcerptIndex, characters: int, prose: bool) -> None:
        self.index = index
        self.limit = self.characters = characters
        self.coverage = [0] * len(index.terms)
        # Flags; the two behind the last unit stay 0.
        self.chosen = bytearray(len(index.units) + 2)
        self.weights = [term.weight(index.entries, prose) for term in index.terms]
        self.entries: set[int] = set()
        self.passages: set[int] = set()

    def candidates(
        self, seqs: Container[int] | None, excluded: Container[str]
    ) -> list[int]:
        """Return the numbers of the lines that may be chosen."""
        return [
            number
            for number, unit in enumerate(self.index.units)
            if (seqs is None or unit.seq in seqs) and unit.text.strip() not in excluded
        ]

    def select(self, candidates: Iterable[int]) -> None:
        """Choose the line with the greatest value for its length, until no line that
        fits has any.
        """
        costs = {
            number: self._cost(number)
            for number in candidates
            if not self.chosen[number]
        }
        undecided = {
            number for number, cost in costs.items() if cost <= self.characters
        }
        heap = [(-self._value(number, costs[number]), number) for number in undecided]
        heapq.heapify(heap)
        while heap:
            stale, number = heapq.heappop(heap)
            if number not in undecided:
                continue
            cost = self._cost(number)
            if cost > self.characters:
                undecided.remove(number)
                continue
            current = -self._value(number, cost)
            if current > stale + 1e-12 and heap and current > heap[0][0]:
                heapq.heappush(heap, (current, number))
                continue
            undecided.remove(number)
            if not current:
                break  # no other line has any value either
            self._choose(number)
            for neighbour in (number - 1, number + 1):
                if neighbour in undecided:
                    value = self._value(neighbour, self._cost(neighbour))
                    heapq.heappush(heap, (-value, neighbour))

    def fill(self, candidates: Sequence[int]) -> None:
        """Choose the newest lines that fit, each text once."""
        texts = {unit.text for unit in compress(self.index.units, self.chosen)}
        for number in reversed(candidates):
            text = self.index.units[number].text
            if (
                not self.chosen[number]
                and text not in texts
                and self._cost(number) <= self.characters
            ):
                self._choose(number)
                texts.add(text)

    def names(self, seqs: Container[int] | None) -> str:
        """Return an index of names that no chosen line contains, the most valuable for
        their length, by entry.

        A name stands at the last entry that contains it.
        """
        index = self.index
        room = min(self.characters, int(self.limit * NAMES_SHARE)) - len(NAMES) - 3
        found: dict[int, list[str]] = {}
        heap: list[tuple[float, int]] = []
        for number, term in enumerate(index.terms):
            if (
                term.is_fact
                and not self.coverage[number]
                and (seqs is None or term.last_seq in seqs)
            ):
                heap.append((-self._worth_of_name(term.name), number))
        heapq.heapify(heap)
        while heap:
            stale, number = heapq.heappop(heap)
            term = index.terms[number]
            if self.coverage[number]:
                continue
            current = -self._worth_of_name(term.name)
            if current > stale + 1e-12:
                heapq.heappush(heap, (current, number))
                continue
            cost = (
                len(term.name)
                + 2
                + (0 if term.last_seq in found else len(f"[#{term.last_seq}] "))
            )
            if cost > room:
                continue
            room -= cost
            self.characters -= cost
            found.setdefault(term.last_seq, []).append(term.name)
            for inside in index.known_terms([term.name]):
                self.coverage[inside] += 1
        if not found:
            return ""
        self.characters -= len(NAMES) + 3
        return "\n".join(
            [
                NAMES,
                *(
                    f"[#{seq}] {', '.join(names)}"
                    for seq, names in sorted(found.items())
                ),
            ]
        )

    def _worth_of_name(self, name: str) -> float:
        terms = self.index.known_terms([name])
        return sum(self.weights[term] for term in terms if not self.coverage[term]) / (
            len(name) + 2
        )

    def render(self) -> str:
        """Return the chosen lines below the number of their entry and its speaker.

        A line begins with a space, so that nothing in it can be taken for the number
        and speaker of an entry.
        """
        lines: list[str] = []
        seq = None
        for _, group in groupby(
            compress(self.index.units, self.chosen), key=lambda unit: unit.passage
        ):
            first, *others = group
            lines.append(
                f"{f'[#{first.seq}] ' if first.seq != seq else ''}{first.speaker.label}:"
            )
            lines += [f" {unit.text}" for unit in (first, *others)]
            seq = first.seq
        return "\n".join(lines)

    def _value(self, number: int, cost: int) -> float:
        """Return the value of a line for its length.

        :param cost: characters that the line adds; see `_cost`.
        """
        unit = self.index.units[number]
        coverage = self.coverage
        weights = self.weights
        value = 0.0
        for term in unit.terms:
            if (lines := coverage[term]) < len(REPEAT_SHARES):
                value += weights[term] * REPEAT_SHARES[lines]
        chosen = self.chosen
        if (chosen[number - 1] or chosen[number + 1]) and self._has_chosen_neighbour(
            number
        ):
            value *= NEIGHBOUR_BONUS
        return value / (cost + UNIT_OVERHEAD)

    def _has_chosen_neighbour(self, number: int) -> bool:
        """Return whether the line before or after it in the same passage is chosen."""
        units = self.index.units
        passage = self.index.units[number].passage
        before = self.chosen[number - 1] and units[number - 1].passage == passage
        return bool(
            before or (self.chosen[number + 1] and units[number + 1].passage == passage)
        )

    def _cost(self, number: int) -> int:
        """Return the characters that the line adds to the rendered text."""
        unit = self.index.units[number]
        cost = len(unit.text) + 2
        if unit.passage not in self.passages:
            cost += len(unit.speaker.label) + 2
            if unit.seq not in self.entries:
                cost += len(f"[#{unit.seq}] ")
        return cost

    def _choose(self, number: int) -> None:
        unit = self.index.units[number]
        self.characters -= self._cost(number)
        self.chosen[number] = 1
        for term in unit.terms:
            self.coverage[term] += 1
        self.entries.add(unit.seq)
        self.passages.add(unit.passage)
