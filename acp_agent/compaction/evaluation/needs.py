"""What the rest of a recording needs of what stood before a cut; the definitions are in `docs/compact-eval.md`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from acp_agent.compaction.evaluation import facts
from acp_agent.compaction.evaluation.commands import commands
from acp_agent.compaction.evaluation.facts import FactClass, Found
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.compaction.evaluation.texts import (
    Gram,
    Remains,
    grams_around,
    occurrences,
    passages,
    plain,
    text_of,
)
from acp_agent.compaction.excerpts.rules import stated_rules
from acp_agent.conversation.context import Entry
from acp_agent.frozen import frozen

RARE = 3  # messages before the cut, at most, that hold a rare word
MOST_PLACES = 8  # newest places of a fact, of which the words around one have to be kept
RECALLED = 0.4  # share of a decision's rare words, two at least, that one later message has to hold
SAME_PLACE = 0.6  # share of a decision's words that have to stand close together in what is left


@frozen
class Need:
    """A fact that is needed behind a cut.

    :ivar seq: the message before the cut where it stood last.
    :ivar asked: the message behind the cut that refers to it first; None for a rule.
    :ivar around: for each place, what has to be found for the words around it to be kept.
    """

    kind: FactClass
    key: str
    seq: int
    asked: int | None
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


class Script:
    """A recording that was read for facts, to be cut anywhere."""

    def __init__(self, recording: Recording) -> None:
        self._messages = [_read(entry, recording.cwd) for entry in recording.entries]

    def needs(self, cut: int) -> tuple[Need, ...]:
        """Return what is needed behind so many messages, in the order in which it stood there."""
        before, behind = self._messages[:cut], self._messages[cut:]
        rules = {fact.key: message.seq for message in before for fact in message.mentioned if fact.kind == "rules"}
        needed = [Need("rules", key, seq, None) for key, seq in rules.items()]
        for needs in (_facts, _commands, _decisions):
            needed += needs(before, behind)
        return tuple(sorted(needed, key=lambda need: (need.seq, need.kind, need.key)))


def _read(entry: Entry, cwd: str) -> _Message:
    silent = entry.note or entry.summary  # neither the user nor the model says those
    said, at = list(passages(entry.message)), 0
    found: list[Found] = []
    mentioned: list[Found] = []
    for speaker, text in said:
        here = [*facts.files(text, cwd), *facts.numbers(text)]
        if speaker not in ("call", "command"):
            here += facts.plain_words(text)
        if speaker in ("result", "user"):
            here += facts.errors(text)
        if speaker in ("user", "assistant"):
            here += facts.decisions(text)
        if speaker == "user":
            here += [Found("rules", plain(rule), 0, 0) for rule in stated_rules(text)]
        moved = [Found(fact.kind, fact.key, fact.start + at, fact.end + at) for fact in here]
        found += moved
        mentioned += [] if silent or speaker == "result" else moved
        at += len(text) + 1
    run = [command for speaker, text in said if speaker == "command" for command in commands(text)]
    spoken = [] if silent else [plain(text) for speaker, text in said if speaker in ("user", "assistant")]
    shown = facts.content_words("\n".join(text for speaker, text in said if speaker == "result"))
    text = text_of(entry.message)
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
                yield Need(kind, key, where[-1][0].seq, message.seq, _around(where))
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
                yield Need("commands", key, last[key].seq, message.seq, _around(where))
            settled |= {whole, brief}


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
        if (asked := next((number for number, spoken in later if len(rare & spoken) >= wanted), None)) is not None:
            yield Need("decisions", key, seq, asked)


def _around(places: Sequence[tuple[_Message, Found]]) -> tuple[tuple[Gram, ...], ...]:
    """Return what stands around the newest places; nothing where no place has words on a side of it."""
    found = (grams_around(message.text, fact.start, fact.end) for message, fact in places[-MOST_PLACES:])
    return tuple(grams for grams in found if grams)
