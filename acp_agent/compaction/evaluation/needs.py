"""What the rest of a recording needs of what stood before a cut, and whether it is in what a compaction left.

The definitions are in `docs/compact-eval.md`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from acp_agent.compaction.evaluation import facts
from acp_agent.compaction.evaluation.facts import FactClass, Found, plain, words
from acp_agent.compaction.evaluation.recordings import Recording
from acp_agent.compaction.excerpts.rules import stated_rules
from acp_agent.compaction.facts import passages
from acp_agent.conversation.messages import Entry, Message
from acp_agent.frozen import frozen

Gram: TypeAlias = tuple[str, ...]

AROUND = 3  # words on each side of a fact that have to be there with it
PLACE = 80  # words of a stretch that may say one thing; a decision has at most about as many
RARE = 3  # messages before the cut, at most, that hold a rare word
MOST_PLACES = 8  # newest places of a fact; the words around at least one of them have to be kept
RECALLED = 0.4  # share of a decision's rare words, two at least, that one later message has to hold
SAME_PLACE = 0.6  # share of a decision's words that have to stand close together in what is left
_JOINED_LEFT, _JOINED_RIGHT = re.compile(r"[\w.]\w"), re.compile(r"\w\.?\w")
_NEAR = 200  # characters on each side of a fact in which those words stand


class Remains:
    """What a compaction left of a conversation, to be searched."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._texts = [facts.text_of(message) for message in messages]
        self._plain = "\n".join(map(plain, self._texts))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All words in it, in lower case."""
        return frozenset(word.lower() for text in self._texts for word in words(text))

    @cached_property
    def _grams(self) -> frozenset[Gram]:
        found: set[Gram] = set()
        for each in map(words, self._texts):
            for size in (2, AROUND + 1):
                found.update(zip(*(each[offset:] for offset in range(size)), strict=False))
        return frozenset(found)

    @cached_property
    def _places(self) -> list[frozenset[str]]:
        """The words of each line, and of a long line those of stretches that overlap by half."""
        half, lines = PLACE // 2, [words(line) for text in self._texts for line in text.split("\n")]
        starts = ((line, at) for line in lines for at in range(0, max(1, len(line) - half), half))
        return [frozenset(line[at : at + PLACE]) for line, at in starts]

    def has(self, key: str) -> bool:
        """Return whether a text, as `plain` gives it, stands in it and is no part of a longer word, name or number."""
        return any(occurrences(self._plain, key))

    def has_grams(self, grams: Iterable[Gram]) -> bool:
        """Return whether the words of each gram, two or `AROUND` and one, stand side by side somewhere."""
        return self._grams.issuperset(grams)

    def best_place(self, sought: frozenset[str]) -> float:
        """Return the largest share of these words that stand in one line, `PLACE` words apart at most."""
        return max((len(sought & place) for place in self._places), default=0) / max(1, len(sought))


def occurrences(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of a key that stands in a text by itself. A path may have more directories before it."""
    at = text.find(key)
    while at >= 0 and key:
        end = at + len(key)
        if not _JOINED_LEFT.match(text[max(0, at - 1) : at + 1]) and not _JOINED_RIGHT.match(text[end - 1 : end + 2]):
            yield at, end
        at = text.find(key, at + 1)


@frozen
class Need:
    """A fact that is needed behind a cut.

    :ivar seq: the message before the cut where it stood last.
    :ivar around: for each place, what has to be found for the words around it to be kept.
    """

    kind: FactClass
    key: str
    seq: int
    around: tuple[tuple[Gram, ...], ...] = ()

    def kept(self, remains: Remains) -> bool:
        """Return whether it is in what is left."""
        if self.kind == "words":
            return self.key in remains.vocabulary
        if self.kind == "numbers" and " " in self.key:
            return remains.has_grams([tuple(self.key.split(" "))])
        in_other_words = self.kind == "decisions" and remains.best_place(facts.content_words(self.key)) >= SAME_PLACE
        return in_other_words or remains.has(self.key)

    def kept_with_words(self, remains: Remains) -> bool:
        """Return whether it is there with the words that stood around it at one of its places."""
        return self.kept(remains) and any(map(remains.has_grams, self.around))


@frozen
class _Message:
    """A message of the recording, read for facts.

    :ivar mentioned: facts of `found` that the user or the model says.
    :ivar spoken: what the user or the model says in prose, as it is compared.
    :ivar shown: the words of `vocabulary` that a tool's result holds.
    """

    seq: int
    text: str
    found: list[Found]
    mentioned: list[Found]
    commands: list[tuple[str, str]]
    spoken: str
    vocabulary: frozenset[str]
    shown: frozenset[str]


def read_messages(recording: Recording) -> list[_Message]:
    """Read the messages of a recording for facts."""
    return [_read(entry, recording.cwd) for entry in recording.entries]


def needs_at(messages: Sequence[_Message], cut: int) -> tuple[Need, ...]:
    """Return what is needed behind so many messages, in the order in which it stood there."""
    before, behind = messages[:cut], messages[cut:]
    rules = {fact.key: message.seq for message in before for fact in message.mentioned if fact.kind == "rules"}
    needed = [Need("rules", key, seq) for key, seq in rules.items()]
    for needs in (_facts, _commands, _decisions):
        needed += needs(before, behind)
    return tuple(sorted(needed, key=lambda need: (need.seq, need.kind, need.key)))


def _read(entry: Entry, cwd: str) -> _Message:
    said = list(passages(entry))
    found: list[Found] = []
    mentioned: list[Found] = []
    spoken: list[str] = []
    at = 0
    for voice, text in said:
        speaks = voice.speaks and not entry.summary  # a summary is neither the user's nor the model's word
        prose = not voice.label.startswith("call of ")
        here = [*facts.files(text, cwd), *facts.numbers(text)]
        if prose:
            here += facts.plain_words(text)
            here += facts.decisions(text) if voice.speaks else ()
            here += facts.errors(text) if voice.label != "you" else ()
            spoken += [plain(text)] if speaks else []
        if voice.label == "user":
            here += [Found("rules", plain(rule), 0, 0) for rule in stated_rules(text)]
        moved = [Found(fact.kind, fact.key, fact.start + at, fact.end + at) for fact in here]
        found += moved
        mentioned += moved if speaks else []
        at += len(text) + 1
    run = [command for line in facts.command_lines(entry.message) for command in facts.commands(line)]
    shown = facts.content_words("\n".join(text for voice, text in said if not voice.speaks))
    text = "\n".join(text for _, text in said)
    return _Message(entry.seq, text, found, mentioned, run, "\n".join(spoken), facts.content_words(text), shown)


def _facts(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    """Yield files, numbers, errors and the words of the control class."""
    places: dict[tuple[FactClass, str], list[tuple[_Message, Found]]] = defaultdict(list)
    for message in before:
        for fact in message.found:
            if fact.kind not in ("rules", "decisions"):
                places[fact.kind, fact.key].append((message, fact))
    for message in behind:
        named: list[tuple[FactClass, str]] = [(fact.kind, fact.key) for fact in message.mentioned]
        named += [name for name in places if name[0] == "errors" and any(occurrences(message.spoken, name[1]))]
        for kind, key in named:
            where = places.pop((kind, key), [])
            if where and (kind != "words" or len({place.seq for place, _ in where}) <= RARE):
                yield Need(kind, key, where[-1][0].seq, _around(where))
        for fact in message.found:
            places.pop((fact.kind, fact.key), None)


def _commands(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    """Yield commands that are run again: the same, or else the same program with the same first argument."""
    last = {key: message for message in before for pair in message.commands for key in reversed(pair)}
    settled: set[str] = set()
    for message in behind:
        for whole, brief in message.commands:
            key = whole if whole in last else brief
            if key in last and key not in settled:
                settled.add(key)
                where = [(last[key], Found("commands", key, *ends)) for ends in occurrences(last[key].text, key)]
                yield Need("commands", key, last[key].seq, _around(where))
            settled |= {whole, brief}


def _decisions(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    held = Counter(word for message in before for word in message.vocabulary)
    made = {fact.key: message.seq for message in before for fact in message.mentioned if fact.kind == "decisions"}
    later: list[frozenset[str]] = []
    shown: set[str] = set()
    for message in behind:
        later.append(facts.content_words(message.spoken) - shown)
        shown |= message.shown
    for key, seq in made.items():
        rare = {word for word in facts.content_words(key) if held[word] <= RARE}
        wanted = max(2.0, RECALLED * len(rare))
        if any(len(rare & spoken) >= wanted for spoken in later):
            yield Need("decisions", key, seq)


def _around(places: Sequence[tuple[_Message, Found]]) -> tuple[tuple[Gram, ...], ...]:
    """Return for each of the newest places the words before the fact with its first, and its last with those behind.

    A place without enough words on both sides counts by one of them, or not at all.
    """
    found: list[tuple[Gram, ...]] = []
    for message, fact in places[-MOST_PLACES:]:
        inside = words(message.text[fact.start : fact.end])
        left = (*words(message.text[max(0, fact.start - _NEAR) : fact.start])[-AROUND:], *inside[:1])
        right = (*inside[-1:], *words(message.text[fact.end : fact.end + _NEAR])[:AROUND])
        found.append(tuple(gram for gram in (left, right) if inside and len(gram) == AROUND + 1))
    return tuple(filter(None, found))
