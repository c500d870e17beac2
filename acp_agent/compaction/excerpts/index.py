"""An index of a conversation: its lines, the facts and plain words in them, and the
weight of each fact or word. Facts and plain words are called terms here.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from acp_agent.compaction.facts import (
    RUNS,
    USER,
    Kind,
    Speaker,
    facts_of_run,
    key_of,
    passages,
    units,
)
from acp_agent.conversation.messages import Entry

MODEL_MENTION = 3.0
USER_MENTION = 0.5
SHOWN_MENTION = 0.4
"""Weights of a mention by the model, by the user, and in a result or a file. The model
reuses a third of the names that it has written once, but only one in twenty of the
names that occur only in results or in text that the user pasted.
"""
UNSPOKEN_SHARE = 0.35
"""Factor on the weight of a term that neither the user nor the model mentioned."""
NAME_WEIGHT = 1.6
PATH_WEIGHT = 1.3
WORD_WEIGHT = 1.1
"""Weights of an identifier or the name of an error, of a path, and of a plain word,
relative to other kinds of facts with the same mentions. The model reuses identifiers
almost twice as often as numbers.
"""
MOST_ENTRIES = 3
"""Maximum number of entries that contain a plain word. A more frequent word has no
weight, so that common words do not outweigh facts.
"""
HALVED_AFTER = 30
"""Number of entries after which the weight of a term that is not mentioned again is
halved.
"""
BESIDE = 3
"""Number of words before and after a term that show its context."""

_WORD = re.compile(r"[^\W\d_]{5,30}")
_ANY_WORD = re.compile(r"\w+")
_NOTHING: tuple[tuple[int, ...], int] = ((), 0)
_EMPTY: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((), (), ())


@dataclass(slots=True)
class Unit:
    """A line, or a piece of a long line."""

    seq: int
    passage: int  # its number in the conversation
    speaker: Speaker
    text: str
    terms: tuple[int, ...]  # ids, each once
    opening: tuple[int, ...]  # those that begin with fewer than `BESIDE` words before
    closing: tuple[int, ...]  # those that end with fewer than `BESIDE` words after


@dataclass(slots=True)
class Term:
    """A fact or a plain word.

    :ivar kind: None for a plain word.
    """

    name: str
    kind: Kind | None
    last_entry: int = 0  # number of the last entry that contains it, from 1
    last_seq: int = 0
    count: int = 0
    by_user: int = 0  # lines of the user that contain it
    mentions: float = 0.0  # weight of all other lines that contain it
    spoken: bool = False  # whether the user or the model wrote it

    @property
    def is_fact(self) -> bool:
        """Return whether the term is a fact and not a plain word."""
        return self.kind is not None

    def weight(self, entries: int, prose: bool) -> float:
        """Return the weight of the term in a conversation.

        :param entries: number of entries in the conversation.
        :param prose: whether few lines contain facts, as in a conversation that is not
            about code. The user's mentions then weigh as much as the model's, and old
            terms as much as new ones.
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
        return weight * _weight_of(self.kind)


class ExcerptIndex:
    """The lines of a conversation and the terms in them. Added entries are indexed when
    the index is first used.

    :ivar lock: held while entries are indexed and while lines are selected, since two
        threads may use the index.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.units: list[Unit] = []
        self.terms: list[Term] = []
        self.entries = 0
        self._added: deque[Entry] = deque()
        self._terms_of_runs: dict[str, tuple[tuple[int, ...], int]] = {}
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
        """Add an entry. Summaries are ignored, since they are not original messages."""
        if not entry.summary:
            self._added.append(entry)

    def complete(self) -> None:
        """Index the entries that were added. This takes half a second for ten thousand
        entries.
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
                terms, opening, closing = self._terms_in(line)
                self.units.append(
                    Unit(
                        entry.seq,
                        self._passages,
                        speaker,
                        line,
                        terms,
                        opening,
                        closing,
                    )
                )
                for number in terms:
                    term = self.terms[number]
                    if by_user:
                        term.by_user += 1
                    else:
                        term.mentions += mention
                    if spoken:
                        term.spoken = True
                    if term.last_entry != self.entries:
                        term.last_entry = self.entries
                        term.last_seq = entry.seq
                        term.count += 1

    def known_terms(self, texts: Iterable[str]) -> set[int]:
        """Return the indexed terms that occur in these texts."""
        return {
            term
            for text in texts
            for run in RUNS.findall(text)
            for term in self._terms_of_runs.get(run, _NOTHING)[0]
        }

    def _terms_in(
        self, text: str
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the terms of a line, those with fewer than `BESIDE` words before them,
        and those with fewer after them.
        """
        known = self._terms_of_runs
        runs: list[tuple[tuple[int, ...], int]] = []
        terms: list[int] = []
        for run in RUNS.findall(text):
            read = known.get(run)
            if read is None:
                read = known[run] = self._read(run)
            runs.append(read)
            terms += read[0]
        if not terms:
            return _EMPTY
        each_once = tuple(dict.fromkeys(terms))
        if len(runs) == 1:
            return each_once, each_once, each_once
        return each_once, _at_edge(runs), _at_edge(reversed(runs))

    def _read(self, run: str) -> tuple[tuple[int, ...], int]:
        """Return the terms of a run and the number of words in it."""
        facts = facts_of_run(run)
        if len(facts) > 1 and facts[0][0] == key_of(run):
            facts = facts[:1]  # not the names inside the path
        # A word inside a name is reused only as part of the name, so it is not indexed.
        # The leading space distinguishes words from facts.
        words = [] if facts else [f" {word.lower()}" for word in _WORD.findall(run)]
        terms = (
            *(self._id(name, kind) for name, _, _, kind in facts),
            *(self._id(word, None) for word in words),
        )
        return terms, 1 if run.isalnum() else len(_ANY_WORD.findall(run))

    def _id(self, name: str, kind: Kind | None) -> int:
        number = self._ids.get(name)
        if number is None:
            number = self._ids[name] = len(self.terms)
            self.terms.append(Term(name, kind))
        return number


def _weight_of(kind: Kind | None) -> float:
    """Return the weight of facts of this kind, or of plain words if `kind` is None."""
    if kind is None:
        return WORD_WEIGHT
    if kind in ("name", "error"):
        return NAME_WEIGHT
    return PATH_WEIGHT if kind == "path" else 1.0


def _at_edge(runs: Iterable[tuple[tuple[int, ...], int]]) -> tuple[int, ...]:
    """Return the terms before which these runs have fewer than `BESIDE` words."""
    found: list[int] = []
    words = 0
    for terms, length in runs:
        if words >= BESIDE:
            break
        found += terms
        words += length
    return tuple(found)
