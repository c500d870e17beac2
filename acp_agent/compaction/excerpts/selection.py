"""Selection of excerpts: the most valuable lines of a conversation, word for word,
within a number of tokens.

Budgeted maximum coverage (Lin and Bilmes 2010, 2011): the value of a line is the weight
of its terms that no chosen line contains yet, and of the words around those that so far
stand without any. The line with the greatest value for its length is chosen, the values
are updated, and so on until the tokens are used up; values are recomputed lazily
(Minoux 1978).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Iterable, Sequence
from itertools import compress, groupby

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.excerpts.index import ExcerptIndex

UNIT_OVERHEAD = 15
"""Characters added to the length of a line, since many short lines convey less than a
few long ones.
"""
SURROUNDED = 0.6
"""Share of a fact's weight that the words around it are worth. They are there if it
stands inside a line, or at the edge of a line whose neighbour is chosen too.
"""
PROSE_NEIGHBOUR_BONUS = 1.8
"""Factor on the value of a line next to a chosen one in the same passage, where few
lines name anything. A single sentence of prose says little.
"""
NAMES_SHARE = 0.25
"""Share of the tokens for an index of names that no chosen line contains."""

NAMES = "Also named there, by entry:"
"""Heading of the index of names."""


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
            selection.covered[term] = 1
        for term in index.known_terms(verbatim):
            selection.covered[term] = 1
            selection.surrounded[term] = 1
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
    :ivar covered: which terms occur in the new context.
    :ivar surrounded: which of them need no more words around them. Of plain words, only
        those of prose do.
    """

    def __init__(self, index: ExcerptIndex, characters: int, prose: bool) -> None:
        self.index = index
        self.limit = self.characters = characters
        self.prose = prose
        self.covered = bytearray(len(index.terms))
        self.surrounded = bytearray(
            not prose and not term.is_fact for term in index.terms
        )
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
                and not self.covered[number]
                and (seqs is None or term.last_seq in seqs)
            ):
                heap.append((-self._worth_of_name(term.name), number))
        heapq.heapify(heap)
        while heap:
            stale, number = heapq.heappop(heap)
            term = index.terms[number]
            if self.covered[number]:
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
                self.covered[inside] = 1
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
        return sum(self.weights[term] for term in terms if not self.covered[term]) / (
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
        covered = self.covered
        surrounded = self.surrounded
        weights = self.weights
        before = self._is_chosen_beside(number - 1, number)
        after = self._is_chosen_beside(number + 1, number)
        value = 0.0
        around = 0.0
        for term in unit.terms:
            if not covered[term]:
                value += weights[term]
            if not surrounded[term] and not (
                (not before and term in unit.opening)
                or (not after and term in unit.closing)
            ):
                around += weights[term]
        if before:
            around += self._missing(self.index.units[number - 1].closing)
        if after:
            around += self._missing(self.index.units[number + 1].opening)
        value += SURROUNDED * around
        if self.prose and (before or after):
            value *= PROSE_NEIGHBOUR_BONUS
        return value / (cost + UNIT_OVERHEAD)

    def _missing(self, terms: Iterable[int]) -> float:
        """Return the weight of those of these terms that lack the words around them."""
        return sum(self.weights[term] for term in terms if not self.surrounded[term])

    def _is_chosen_beside(self, number: int, other: int) -> bool:
        """Return whether the line next to another one is chosen, and in the same
        passage.
        """
        units = self.index.units
        return bool(self.chosen[number]) and (
            units[number].passage == units[other].passage
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
            self.covered[term] = 1
        self._surround(number)
        for neighbour in (number - 1, number + 1):
            if self._is_chosen_beside(neighbour, number):
                self._surround(neighbour)
        self.entries.add(unit.seq)
        self.passages.add(unit.passage)

    def _surround(self, number: int) -> None:
        """Mark the terms of a chosen line that have the words around them."""
        unit = self.index.units[number]
        before = self._is_chosen_beside(number - 1, number)
        after = self._is_chosen_beside(number + 1, number)
        for term in unit.terms:
            if not (
                (not before and term in unit.opening)
                or (not after and term in unit.closing)
            ):
                self.surrounded[term] = 1
