"""Excerpts of a conversation: the lines that are most worth keeping, word for word, for a given room.

Budgeted maximum coverage (Lin and Bilmes 2010, 2011): a line is worth the facts and words in it that no chosen line
holds yet, divided by its length. The best line is taken, the values are updated, and so on until the room is used
up; values are recomputed lazily (Minoux 1978).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from itertools import groupby
from threading import Lock

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN
from acp_agent.compaction.facts import RUNS, Voice, facts_of_run, passages, units
from acp_agent.conversation.messages import Entry

UNIT_OVERHEAD = 30
"""Characters that a line counts as longer than it is: many short ones say less than a few long ones."""
WORD = 0.32
"""Weight of a plain word that the user or the model said, where a fact weighs 1."""
SHOWN_FACT, SHOWN_WORD = 0.25, 0.1
"""Weights of what occurs only in results and files. The model repeats one in fifty such facts, and one in five of those
that the user or the model wrote once."""
HALVED_AFTER = 60
"""Messages after which a fact that is not mentioned again weighs half."""
REPEATED = (1.0, 0.25, 0.25)
"""Share of its weight that the first, second and third line with a fact is worth: each has other words around it."""
NEIGHBOUR_BONUS = 1.3
"""Factor on the value of a line whose neighbour is already chosen."""

_WORD = re.compile(r"[^\W\d_]{5,30}")


@dataclass(slots=True)
class _Unit:
    """A line, or a piece of a long one."""

    seq: int
    passage: int  # what one speaker says in one entry
    voice: Voice
    text: str
    keys: tuple[int, ...]


@dataclass(slots=True)
class _Mentions:
    """What is known of a fact or word."""

    is_fact: bool
    last: int = 0  # number of the last entry that holds it, from 1
    spoken: bool = False  # whether the user or the model said it

    def weight(self, entries: int) -> float:
        """Return what a line is worth for it among so many entries."""
        if not self.is_fact:
            return WORD if self.spoken else SHOWN_WORD
        return (1.0 if self.spoken else SHOWN_FACT) / (1 + (entries - self.last) / HALVED_AFTER)


class ExcerptIndex:
    """The lines of a conversation and what is said in them, built up entry by entry.

    :ivar lock: held while it grows and while lines are chosen, which may be in two threads.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.units: list[_Unit] = []
        self.mentions: list[_Mentions] = []
        self.entries = 0
        self._runs: dict[str, tuple[int, ...]] = {}
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
        """Index one more entry; summaries are left out, since they are no original."""
        if not entry.summary:
            with self.lock:
                self._add(entry)

    def _add(self, entry: Entry) -> None:
        self.entries += 1
        for voice, text in passages(entry):
            self._passages += 1
            said: set[int] = set()
            for piece in units(text):
                keys = self._keys(piece)
                said.update(keys)
                self.units.append(_Unit(entry.seq, self._passages, voice, piece, keys))
            for key in said:
                mentions = self.mentions[key]
                mentions.spoken |= voice.speaks
                mentions.last = self.entries

    def keys_of(self, texts: Iterable[str]) -> set[int]:
        """Return the known facts and words in these texts."""
        found: set[int] = set()
        for text in texts:
            for run in RUNS.findall(text):
                found.update(self._runs.get(run, ()))
        return found

    def _keys(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        for run in RUNS.findall(text):
            ids = self._runs.get(run)
            if ids is None:
                ids = self._runs[run] = self._read(run)
            found += ids
        return tuple(dict.fromkeys(found))

    def _read(self, run: str) -> tuple[int, ...]:
        keys = [key for key, *_ in facts_of_run(run)]
        names = keys or [f" {word.lower()}" for word in _WORD.findall(run)]  # the space tells words from facts
        return tuple(self._id(name, bool(keys)) for name in names)

    def _id(self, name: str, is_fact: bool) -> int:
        if name not in self._ids:
            self._ids[name] = len(self.mentions)
            self.mentions.append(_Mentions(is_fact))
        return self._ids[name]


def excerpts_of(
    index: ExcerptIndex,
    room: int,
    *,
    seqs: Container[int] | None = None,
    covered: Collection[str] = (),
    named: Iterable[str] = (),
    listed: Iterable[str] = (),
) -> str:
    """Return the lines that are most worth keeping, as the model reads them, in the order of the conversation.

    :param room: tokens, estimated, of all that is returned.
    :param seqs: entries to choose from; all where not given.
    :param covered: texts that stay in the new context anyway; their contents earn nothing.
    :param named: other texts of the new context; a fact named there still lacks its surrounding words.
    :param listed: lines that stand in the new context already.
    """
    with index.lock:
        choice = _Choice(index, room * CHARACTERS_PER_TOKEN)
        for key in index.keys_of(named):
            choice.seen[key] = 1
        for key in index.keys_of(covered):
            choice.seen[key] = len(REPEATED)
        choice.fill(seqs, {*listed, *(line.strip() for text in covered for line in text.splitlines())})
        return choice.render()


class _Choice:
    """Lines chosen so far, and what is left of the room in characters."""

    def __init__(self, index: ExcerptIndex, room: int) -> None:
        self.index, self.room = index, room
        self.seen = [0] * len(index.mentions)
        self.taken = bytearray(len(index.units) + 2)  # 0 behind the last: no neighbour is taken there
        self.weights = [each.weight(index.entries) for each in index.mentions]
        self.entries: set[int] = set()
        self.passages: set[int] = set()

    def fill(self, seqs: Container[int] | None, there: Container[str]) -> None:
        """Take the line with the best value for its length, until none that fits adds anything; then the newest
        others.

        :param seqs: see `excerpts_of`.
        :param there: lines that stand in the new context already.
        """
        units = self.index.units
        candidates = [
            number
            for number, unit in enumerate(units)
            if (seqs is None or unit.seq in seqs) and unit.text.strip() not in there
        ]
        left = set(candidates)
        heap = [(-self._value(number), number) for number in candidates]
        heapq.heapify(heap)
        while heap:
            before, number = heapq.heappop(heap)
            if number not in left:
                continue
            value = -self._value(number)
            if value > before + 1e-12 and heap and value > heap[0][0]:
                heapq.heappush(heap, (value, number))
                continue
            left.remove(number)
            if not value or self._cost(number) > self.room:
                continue
            self._take(number)
            for other in (number - 1, number + 1):
                if other in left:
                    heapq.heappush(heap, (-self._value(other), other))
        said = {unit.text for unit, taken in zip(units, self.taken, strict=False) if taken}
        for number in reversed(candidates):
            if (text := units[number].text) not in said and self._cost(number) <= self.room:
                self._take(number)
                said.add(text)

    def render(self) -> str:
        """Return the chosen lines below the number of their entry and its speaker.

        A line begins with a space, so that nothing in it can be taken for the number and speaker of an entry.
        """
        lines: list[str] = []
        seq = None
        chosen = (unit for unit, taken in zip(self.index.units, self.taken, strict=False) if taken)
        for _, group in groupby(chosen, key=lambda unit: unit.passage):
            first, *others = group
            lines.append(f"{f'[#{first.seq}] ' if first.seq != seq else ''}{first.voice.label}:")
            lines += [f" {unit.text}" for unit in (first, *others)]
            seq = first.seq
        return "\n".join(lines)

    def _value(self, number: int) -> float:
        unit = self.index.units[number]
        seen, weights = self.seen, self.weights
        worth = 0.0
        for key in unit.keys:
            if (times := seen[key]) < len(REPEATED):
                worth += weights[key] * REPEATED[times]
        if self.taken[number - 1] or self.taken[number + 1]:
            worth *= NEIGHBOUR_BONUS
        return worth / (self._cost(number) + UNIT_OVERHEAD)

    def _cost(self, number: int) -> int:
        """Return the characters that the line adds to what is rendered."""
        unit = self.index.units[number]
        cost = len(unit.text) + 2
        if unit.passage not in self.passages:
            cost += len(unit.voice.label) + 2
            if unit.seq not in self.entries:
                cost += len(f"[#{unit.seq}] ")
        return cost

    def _take(self, number: int) -> None:
        unit = self.index.units[number]
        self.room -= self._cost(number)
        self.taken[number] = 1
        for key in unit.keys:
            self.seen[key] += 1
        self.entries.add(unit.seq)
        self.passages.add(unit.passage)
