"""Finds the facts before a cut that the rest of a recording needs, and checks whether a
compacted context contains them.

The terms are defined in `docs/compact-eval.md`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from acp_agent.compaction.evaluation import facts
from acp_agent.compaction.evaluation.facts import FactClass, FoundFact, plain, words
from acp_agent.compaction.evaluation.recordings import Recording
from acp_agent.compaction.excerpts.rules import stated_rules
from acp_agent.compaction.facts import passages
from acp_agent.conversation.messages import Entry, Message
from acp_agent.frozen import frozen

Gram: TypeAlias = tuple[str, ...]

# Number of words on each side of a fact that must be kept with the fact.
AROUND = 3
# Number of words that are searched together, about the maximum length of a decision.
WINDOW = 80
# Maximum number of messages before the cut that contain a rare word.
RARE = 3
# Number of newest mentions of a fact to consider. The words around one of them must be
# kept.
MAX_PLACES = 8
# Share of a decision's rare words that one later message must contain, but at least two
# words.
RECALLED = 0.4
# Share of a decision's words that must be kept in one window.
SAME_WINDOW = 0.6
_JOINED_LEFT = re.compile(r"[\w.]\w")
_JOINED_RIGHT = re.compile(r"\w\.?\w")
# Number of characters on each side of a fact that are searched for `AROUND` words.
_NEAR = 200


class Remains:
    """A searchable index of a compacted context."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._texts = [facts.text_of(message) for message in messages]
        self._plain = "\n".join(map(plain, self._texts))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Return all words in lower case."""
        return frozenset(word.lower() for text in self._texts for word in words(text))

    @cached_property
    def _grams(self) -> frozenset[Gram]:
        found: set[Gram] = set()
        for each in map(words, self._texts):
            for size in (2, AROUND + 1):
                found.update(
                    zip(*(each[offset:] for offset in range(size)), strict=False)
                )
        return frozenset(found)

    @cached_property
    def _windows(self) -> list[frozenset[str]]:
        """Return the words of each line. A long line is split into windows that overlap
        by half.
        """
        half = WINDOW // 2
        lines = [words(line) for text in self._texts for line in text.split("\n")]
        starts = (
            (line, at)
            for line in lines
            for at in range(0, max(1, len(line) - half), half)
        )
        return [frozenset(line[at : at + WINDOW]) for line, at in starts]

    def has(self, key: str) -> bool:
        """Return whether the context contains a key on its own; see `occurrences`."""
        return any(occurrences(self._plain, key))

    def has_grams(self, grams: Iterable[Gram]) -> bool:
        """Return whether the context contains each of these sequences of two or `AROUND
        + 1` words.
        """
        return self._grams.issuperset(grams)

    def largest_share(self, sought: frozenset[str]) -> float:
        """Return the largest share of these words in one line, within `WINDOW` words."""
        return max((len(sought & window) for window in self._windows), default=0) / max(
            1, len(sought)
        )


def occurrences(text: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a key in a text.

    Occurrences inside a longer word, name or number are skipped, except at the end of a
    path.
    """
    at = text.find(key)
    while at >= 0 and key:
        end = at + len(key)
        if not _JOINED_LEFT.match(
            text[max(0, at - 1) : at + 1]
        ) and not _JOINED_RIGHT.match(text[end - 1 : end + 2]):
            yield at, end
        at = text.find(key, at + 1)


@frozen
class Need:
    """A fact that is needed after a cut.

    :ivar seq: number of the last message before the cut that contains the fact.
    :ivar around: for each mention of the fact, the sequences of words around it. A
        context that contains them has kept the fact together with its words.
    """

    kind: FactClass
    key: str
    seq: int
    around: tuple[tuple[Gram, ...], ...] = ()

    def kept(self, remains: Remains) -> bool:
        """Return whether the compacted context contains the fact."""
        if self.kind == "words":
            return self.key in remains.vocabulary
        if self.kind == "numbers" and " " in self.key:
            return remains.has_grams([tuple(self.key.split(" "))])
        reworded = (
            self.kind == "decisions"
            and remains.largest_share(facts.content_words(self.key)) >= SAME_WINDOW
        )
        return reworded or remains.has(self.key)

    def kept_with_words(self, remains: Remains) -> bool:
        """Return whether the fact is kept together with the words around one of its
        mentions.
        """
        return self.kept(remains) and any(map(remains.has_grams, self.around))


@frozen
class _Message:
    """The facts and words of a recorded message.

    :ivar found: all facts in the message.
    :ivar mentioned: the facts that the user or the model mentions.
    :ivar spoken: prose of the user or the model, normalised by `plain`.
    :ivar vocabulary: all content words of the message.
    :ivar shown: the content words in results of tools.
    """

    seq: int
    text: str
    found: list[FoundFact]
    mentioned: list[FoundFact]
    commands: list[tuple[str, str]]
    spoken: str
    vocabulary: frozenset[str]
    shown: frozenset[str]


def read_messages(recording: Recording) -> list[_Message]:
    """Find the facts and words of each message of a recording."""
    return [_read(entry, recording.cwd) for entry in recording.entries]


def needs_at(messages: Sequence[_Message], cut: int) -> tuple[Need, ...]:
    """Return the facts of the first `cut` messages that the later ones need, in the
    order of their last mentions.
    """
    before = messages[:cut]
    after = messages[cut:]
    rules = {
        fact.key: message.seq
        for message in before
        for fact in message.mentioned
        if fact.kind == "rules"
    }
    needed = [Need("rules", key, seq) for key, seq in rules.items()]
    for needs in (_facts, _commands, _decisions):
        needed += needs(before, after)
    return tuple(sorted(needed, key=lambda need: (need.seq, need.kind, need.key)))


def _read(entry: Entry, cwd: str) -> _Message:
    texts = list(passages(entry))
    found: list[FoundFact] = []
    mentioned: list[FoundFact] = []
    spoken: list[str] = []
    at = 0
    for speaker, text in texts:
        is_dialogue = speaker.is_participant and not entry.summary
        prose = not speaker.label.startswith("call of ")
        here = [*facts.files(text, cwd), *facts.numbers(text)]
        if prose:
            here += facts.plain_words(text)
            here += facts.decisions(text) if speaker.is_participant else ()
            here += facts.errors(text) if speaker.label != "you" else ()
            spoken += [plain(text)] if is_dialogue else []
        if speaker.label == "user":
            here += [
                FoundFact("rules", plain(rule), 0, 0) for rule in stated_rules(text)
            ]
        moved = [
            FoundFact(fact.kind, fact.key, fact.start + at, fact.end + at)
            for fact in here
        ]
        found += moved
        mentioned += moved if is_dialogue else []
        at += len(text) + 1
    run = [
        command
        for line in facts.command_lines(entry.message)
        for command in facts.commands(line)
    ]
    shown = facts.content_words(
        "\n".join(text for speaker, text in texts if not speaker.is_participant)
    )
    text = "\n".join(text for _, text in texts)
    return _Message(
        entry.seq,
        text,
        found,
        mentioned,
        run,
        "\n".join(spoken),
        facts.content_words(text),
        shown,
    )


def _facts(before: Sequence[_Message], after: Sequence[_Message]) -> Iterator[Need]:
    """Yield files, numbers, errors and rare plain words."""
    places: dict[tuple[FactClass, str], list[tuple[_Message, FoundFact]]] = defaultdict(
        list
    )
    for message in before:
        for fact in message.found:
            if fact.kind not in ("rules", "decisions"):
                places[fact.kind, fact.key].append((message, fact))
    for message in after:
        named: list[tuple[FactClass, str]] = [
            (fact.kind, fact.key) for fact in message.mentioned
        ]
        named += [
            name
            for name in places
            if name[0] == "errors" and any(occurrences(message.spoken, name[1]))
        ]
        for kind, key in named:
            where = places.pop((kind, key), [])
            if where and (
                kind != "words" or len({place.seq for place, _ in where}) <= RARE
            ):
                yield Need(kind, key, where[-1][0].seq, _around(where))
        for fact in message.found:
            places.pop((fact.kind, fact.key), None)


def _commands(before: Sequence[_Message], after: Sequence[_Message]) -> Iterator[Need]:
    """Yield commands that are run again: the same command, or the same program with the
    same first argument.
    """
    last = {
        key: message
        for message in before
        for pair in message.commands
        for key in reversed(pair)
    }
    settled: set[str] = set()
    for message in after:
        for whole, brief in message.commands:
            key = whole if whole in last else brief
            if key in last and key not in settled:
                settled.add(key)
                where = [
                    (last[key], FoundFact("commands", key, *ends))
                    for ends in occurrences(last[key].text, key)
                ]
                yield Need("commands", key, last[key].seq, _around(where))
            settled |= {whole, brief}


def _decisions(before: Sequence[_Message], after: Sequence[_Message]) -> Iterator[Need]:
    counts = Counter(word for message in before for word in message.vocabulary)
    made = {
        fact.key: message.seq
        for message in before
        for fact in message.mentioned
        if fact.kind == "decisions"
    }
    later: list[frozenset[str]] = []
    shown: set[str] = set()
    for message in after:
        later.append(facts.content_words(message.spoken) - shown)
        shown |= message.shown
    for key, seq in made.items():
        rare = {word for word in facts.content_words(key) if counts[word] <= RARE}
        wanted = max(2.0, RECALLED * len(rare))
        if any(len(rare & spoken) >= wanted for spoken in later):
            yield Need("decisions", key, seq)


def _around(
    places: Sequence[tuple[_Message, FoundFact]],
) -> tuple[tuple[Gram, ...], ...]:
    """Return, for each of the newest mentions of a fact, two sequences of words: the
    words before it with its first word, and its last word with the words after it.

    A sequence with too few words is omitted.
    """
    found: list[tuple[Gram, ...]] = []
    for message, fact in places[-MAX_PLACES:]:
        inside = words(message.text[fact.start : fact.end])
        left = (
            *words(message.text[max(0, fact.start - _NEAR) : fact.start])[-AROUND:],
            *inside[:1],
        )
        right = (
            *inside[-1:],
            *words(message.text[fact.end : fact.end + _NEAR])[:AROUND],
        )
        found.append(
            tuple(gram for gram in (left, right) if inside and len(gram) == AROUND + 1)
        )
    return tuple(filter(None, found))
