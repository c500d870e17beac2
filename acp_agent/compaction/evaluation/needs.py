"""What the rest of a recording needs of what stood before a cut: the ground truth of a measurement.

A fact is needed if it stood before the cut and the user or the model refers to it behind the cut, before a tool has
shown it again: what the world shows anew need not be remembered. A rule that the user stated is always needed. All this
is read from what was recorded, before anything is compacted; a summary that stands in a recording says nothing of what
is needed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from acp_agent.compaction.evaluation import facts
from acp_agent.compaction.evaluation.facts import FactClass, Found
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.compaction.evaluation.texts import (
    COMMAND_ARGUMENTS,
    Gram,
    Passage,
    Remains,
    Said,
    grams_around,
    occurrences,
    plain,
    said,
)
from acp_agent.compaction.rules import stated_rules
from acp_agent.conversation.context import Entry
from acp_agent.conversation.messages import UserMessage
from acp_agent.frozen import frozen

RARE = 3
"""A word is rare if no more messages before the cut hold it."""
MOST_PLACES = 8
"""The newest places of a fact, of which the words around one have to be kept."""
RECALLED = 0.4
"""Share of a decision's rare words, two at least, that one later message has to hold to be about it; words that a tool
has shown since do not count."""
SAME_PLACE = 0.6
"""Share of a decision's words that have to stand close together in one line of what is left."""


@frozen
class Need:
    """A fact that is needed behind a cut.

    :ivar key: what is looked for.
    :ivar seq: the message before the cut where it stood last.
    :ivar asked: the message behind the cut that refers to it first; 0 for a rule.
    :ivar around: for each place, what has to be found for the words around it to be kept.
    """

    kind: FactClass
    key: str
    seq: int
    asked: int
    around: tuple[tuple[Gram, ...], ...] = ()

    def kept(self, remains: Remains) -> bool:
        """Whether it is in what is left."""
        match self.kind:
            case "words":
                return self.key in remains.vocabulary
            case "decisions":
                return remains.has(self.key) or remains.best_place(facts.content_words(self.key)) >= SAME_PLACE
            case "numbers" if " " in self.key:
                return remains.has_pair(*self.key.split(" "))
            case _:
                return remains.has(self.key)

    def kept_with_words(self, remains: Remains) -> bool:
        """Whether it is there with the words that stood around it at one of its places."""
        return self.kept(remains) and any(remains.has_grams(grams) for grams in self.around)


@frozen
class _Message:
    """A message of the recording, read once.

    :ivar found: facts that it holds, whoever says them.
    :ivar mentioned: those that the user or the model says.
    :ivar spoken: its prose, as it is compared.
    :ivar shown: words that the world says in it.
    """

    seq: int
    said: Said
    found: tuple[Found, ...]
    mentioned: tuple[Found, ...]
    commands: tuple[tuple[str, str], ...]
    spoken: str
    vocabulary: frozenset[str]
    shown: frozenset[str]


class Script:
    """A recording that was read for facts, to be cut anywhere.

    :param recording: a session.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._messages = [_read(entry, recording.cwd) for entry in recording.entries]

    def needs(self, cut: int) -> tuple[Need, ...]:
        """What is needed behind a cut, in the order in which it stood before it.

        :param cut: so many messages stand before it.
        """
        before, behind = self._messages[:cut], self._messages[cut:]
        needed = [
            *self._rules(cut),
            *_facts(before, behind),
            *_commands(before, behind),
            *_errors(before, behind),
            *_decisions(before, behind),
        ]
        return tuple(sorted(needed, key=lambda need: (need.seq, need.kind, need.key)))

    def _rules(self, cut: int) -> Iterator[Need]:
        known: dict[str, int] = {}
        for entry, message in zip(self.recording.entries[:cut], self._messages, strict=False):
            if isinstance(entry.message, UserMessage) and not _is_silent(entry):
                for passage in message.said.passages:
                    if passage.speaker == "user":
                        known |= {plain(rule): entry.seq for rule in stated_rules(passage.text)}
        for key, seq in known.items():
            yield Need("rules", key, seq, 0)


def _read(entry: Entry, cwd: str) -> _Message:
    text = said(entry.message)
    found: list[Found] = []
    mentioned: list[Found] = []
    commands: list[tuple[str, str]] = []
    spoken: list[str] = []
    for passage in text.passages:
        here = [*facts.files(passage.text, cwd), *facts.numbers(passage.text)]
        if passage.speaker != "call":
            here += facts.plain_words(passage.text)
        if passage.speaker in ("result", "user"):
            here += facts.errors(passage.text)
        if passage.speaker in ("user", "assistant"):
            here += facts.decisions(passage.text)
            if not _is_silent(entry):
                spoken.append(plain(passage.text))
        if passage.speaker == "call" and passage.argument in COMMAND_ARGUMENTS:
            commands += facts.commands(passage.text)
        moved = [_moved(fact, passage) for fact in here]
        found += moved
        if passage.speaker != "result" and not _is_silent(entry):
            mentioned += moved
    shown = frozenset(
        word for passage in text.passages if passage.speaker == "result" for word in facts.content_words(passage.text)
    )
    vocabulary = frozenset(word for passage in text.passages for word in facts.content_words(passage.text))
    return _Message(
        entry.seq, text, tuple(found), tuple(mentioned), tuple(commands), "\n".join(spoken), vocabulary, shown
    )


def _is_silent(entry: Entry) -> bool:
    """Whether neither the user nor the model says this: a note of the program, or what a compaction left."""
    return entry.note or entry.summary


def _moved(fact: Found, passage: Passage) -> Found:
    return Found(fact.kind, fact.key, fact.start + passage.start, fact.end + passage.start)


def _facts(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    """Files, numbers and the words of the control class."""
    places: dict[tuple[FactClass, str], list[tuple[_Message, Found]]] = defaultdict(list)
    for message in before:
        for fact in message.found:
            if fact.kind in ("files", "numbers", "words"):
                places[fact.kind, fact.key].append((message, fact))
    settled: set[tuple[FactClass, str]] = set()
    for message in behind:
        for fact in message.mentioned:
            name = (fact.kind, fact.key)
            if name in places and name not in settled:
                settled.add(name)
                where = places[name]
                if fact.kind != "words" or len({place.seq for place, _ in where}) <= RARE:
                    yield Need(*name, where[-1][0].seq, message.seq, _around(where))
        settled.update((fact.kind, fact.key) for fact in message.found)


def _commands(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    """Commands that are run again: the same, or else the same program with the same first argument."""
    last: dict[str, _Message] = {}
    for message in before:
        for whole, brief in message.commands:
            last[brief] = message
            last[whole] = message
    settled: set[str] = set()
    for message in behind:
        for whole, brief in message.commands:
            key = whole if whole in last else brief
            if key in last and key not in settled:
                settled.add(key)
                where = [
                    (last[key], Found("commands", key, at, at + len(key)))
                    for at in occurrences(last[key].said.text, key)
                ]
                yield Need("commands", key, last[key].seq, message.seq, _around(where))
            settled |= {whole, brief}


def _errors(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    places: dict[str, list[tuple[_Message, Found]]] = defaultdict(list)
    for message in before:
        for fact in message.found:
            if fact.kind == "errors":
                places[fact.key].append((message, fact))
    for message in behind:
        for key in [key for key in places if key in message.spoken]:
            if next(occurrences(message.spoken, key), None) is not None:
                where = places.pop(key)
                yield Need("errors", key, where[-1][0].seq, message.seq, _around(where))
        for fact in message.found:
            if fact.kind == "errors":
                places.pop(fact.key, None)


def _decisions(before: Sequence[_Message], behind: Sequence[_Message]) -> Iterator[Need]:
    held = Counter(word for message in before for word in message.vocabulary)
    made = {fact.key: message.seq for message in before for fact in message.mentioned if fact.kind == "decisions"}
    later: list[tuple[int, frozenset[str]]] = []
    shown: set[str] = set()
    for message in behind:
        later.append((message.seq, facts.content_words(message.spoken) - shown))
        shown |= message.shown
    for key, seq in made.items():
        rare = {word for word in facts.content_words(key) if held[word] <= RARE}
        wanted = max(2.0, RECALLED * len(rare))
        asked = next((number for number, spoken in later if len(rare & spoken) >= wanted), None)
        if asked is not None:
            yield Need("decisions", key, seq, asked)


def _around(places: Sequence[tuple[_Message, Found]]) -> tuple[tuple[Gram, ...], ...]:
    """What stands around the newest places; nothing where no place has words on a side of it."""
    found = (grams_around(message.said.text, fact.start, fact.end) for message, fact in places[-MOST_PLACES:])
    return tuple(grams for grams in found if grams)
