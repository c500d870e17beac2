"""What excerpts keep of recorded sessions, by two measures, and what each mechanism of
them is worth.

    python -m benchmarks.excerpts_measure SESSION... [--size SHARE] [--left SHARE]
    [--set layers.TAIL_SHARE=0] [--table]

Measure A: names, paths and numbers that the agent itself writes behind the cut and
could only know from before it (`need`), with three words on either side (`ctx`), and
rare plain words (`words`); the running prompt does not count. Measure B: `acp-agent
compact-eval`, at a size that leaves so much of the conversation in all.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from acp_agent.compaction.cuts import unanswered_from
from acp_agent.compaction.estimate import estimate_messages
from acp_agent.compaction.evaluation.facts import CLASSES, text_of
from acp_agent.compaction.evaluation.needs import Need, Remains, needs_at, read_messages
from acp_agent.compaction.evaluation.recordings import (
    Recording,
    points,
    read_recording,
    state_at,
)
from acp_agent.compaction.excerpts.inventory import read_inventory
from acp_agent.compaction.excerpts.selection import excerpts_of
from acp_agent.compaction.layers import fill, planned_cut, unanswered
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.messages import Message, UserMessage
from acp_agent.frozen import frozen
from benchmarks.small_windows import joined

_NAME = re.compile(
    r"[\w./-]*(?:\w/\w|_\w|[a-z][A-Z])[\w./-]*|(?<![\w.])\d{3,}(?![\w.])|\b[A-Z]\w*Error\b"
)
_PLAIN = re.compile(r"\b[a-z]{6,}\b")
_WORDS = re.compile(r"\w+")
_RARE = _BESIDE = 3
Figures = dict[str, float]


@frozen
class Case:
    """A recording at a cut.

    :ivar needs: of measure B.
    :ivar facts: of measure A, each with the sequences of words of which one has to be
        left for `ctx`.
    :ivar words: of measure A.
    """

    state: ConversationState
    needs: tuple[Need, ...]
    facts: Mapping[str, frozenset[str]]
    words: frozenset[str]

    @property
    def beside(self) -> int:
        """Tokens that stand beside the size: the system prompt, the running prompt and
        its unanswered steps.
        """
        entries = self.state.entries
        turn = self.state.turn_from
        first = unanswered_from(entries, turn)
        beside = (
            entry.message
            for at, entry in enumerate(entries)
            if at >= first or entry.seq == turn
        )
        return self.state.budget.system + estimate_messages(beside)


def cases(recording: Recording, *, idle: bool = False) -> Iterator[Case]:
    """Yield a recording at each of its points.

    :param idle: no turn is running, whatever the recording says.
    """
    messages = read_messages(recording)
    for cut in points(recording):
        state = state_at(recording, cut)
        if idle:
            state = replace(state, turn_from=None)
        yield Case(
            state, needs_at(messages, cut), *written(recording, cut, state.turn_from)
        )


def written(
    recording: Recording, cut: int, prompt: int | None
) -> tuple[dict[str, frozenset[str]], frozenset[str]]:
    """Return the facts and words that the agent writes after a cut and could only know
    from before it; see `Case`.

    :param prompt: seq of the running prompt, which does not count.
    """
    texts = {
        entry.seq: (entry.message.role, text_of(entry.message))
        for entry in recording.entries
    }
    seqs = [entry.seq for entry in recording.entries]
    known = texts[prompt][1] if prompt in texts else ""
    before = [texts[seq][1] for seq in seqs[:cut] if seq != prompt]
    shown = set(_names(known))
    shown_words = set(_PLAIN.findall(known))
    places: dict[str, set[str]] = {}
    for text in before:
        for match in _NAME.finditer(text):
            places.setdefault(match[0].strip("./-"), set()).add(
                _around(text, match.start(), match.end())
            )
    held = Counter(word for text in before for word in set(_PLAIN.findall(text)))
    facts: dict[str, frozenset[str]] = {}
    words: set[str] = set()
    for role, text in (texts[seq] for seq in seqs[cut:]):
        names = set(_names(text))
        plain = set(_PLAIN.findall(text))
        if role == "assistant":
            facts |= {
                name: frozenset(places[name])
                for name in names - shown
                if name in places
            }
            words |= {word for word in plain - shown_words if 0 < held[word] <= _RARE}
        shown |= names
        shown_words |= plain
    return facts, frozenset(words)


def _names(text: str) -> Iterator[str]:
    return (match[0].strip("./-") for match in _NAME.finditer(text))


def _around(text: str, start: int, end: int) -> str:
    left = _WORDS.findall(text[max(0, start - 200) : start])
    right = _WORDS.findall(text[end : end + 200])
    return f" {' '.join([*left[-_BESIDE:], *_WORDS.findall(text[start:end]), *right[:_BESIDE]])} "


def figures(
    found: Sequence[Case], *, size: float | None = None, left: float | None = None
) -> Figures:
    """Return the figures of both measures.

    :param size: share of the conversation's tokens.
    :param left: share of all tokens that is to be left, in place of a size.
    """
    before = sum(case.state.budget.used for case in found)
    if size is None:
        messages = sum(case.state.budget.messages for case in found)
        size = ((left or 0) * before - sum(case.beside for case in found)) / messages
    counted: dict[str, list[bool]] = {}
    after = used = room = 0

    def count(name: str, kept: bool) -> None:
        counted.setdefault(name, []).append(kept)

    for case in found:
        messages, tokens = compacted(case, int(case.state.budget.messages * size))
        room += int(case.state.budget.messages * size)
        used += tokens
        after += case.state.budget.system + estimate_messages(messages)
        remains = Remains(messages)
        for need in case.needs:
            count(need.kind, kept := need.kept(remains))
            if need.kind not in ("rules", "words"):
                count("need", kept)
            if need.around and need.kind != "words":
                count("ctx", need.kept_with_words(remains))
        for name, kept in kept_of(
            case, "\n".join(text_of(message) for message in messages)
        ):
            count(f"A {name}", kept)
    shares = {name: sum(kept) / len(kept) for name, kept in counted.items()}
    score = [shares[kind] for kind in CLASSES if kind in shares]
    rest = {
        name: shares[name]
        for name in ("need", "ctx", "words", "commands", "A need", "A ctx", "A words")
    }
    return {
        "size": size,
        "left": after / before,
        "used": used / room,
        "score": sum(score) / len(score),
        **rest,
    }


def kept_of(case: Case, text: str) -> Iterator[tuple[str, bool]]:
    """Yield `need`, `ctx` or `words` for each fact and word of measure A, and whether
    this text has it.
    """
    stream = f" {' '.join(_WORDS.findall(text))} "
    names = set(_names(text))
    plain = set(_PLAIN.findall(text))
    for name, around in case.facts.items():
        yield "need", name in names
        yield "ctx", any(words in stream for words in around)
    for word in case.words:
        yield "words", word in plain


def compacted(case: Case, size: int) -> tuple[tuple[Message, ...], int]:
    """Return the messages of the new context, and the tokens of those that are not
    exempt from the size.
    """
    state = case.state
    cut = planned_cut(state, size, leave_tail=False)
    assert cut is not None
    layers = fill(state, cut, size)
    beside = {entry.seq for entry in unanswered(state)}
    tail = estimate_messages(
        entry.message for entry in cut.kept if entry.seq not in beside
    )
    stays = (entry.message for entry in cut.retained)
    return (UserMessage("layers", layers.parts), *stays), layers.tokens + tail


def _listed_without(name: str) -> Callable[..., object]:
    """Return `read_inventory` without one of its lists."""

    def without(*arguments: Any) -> object:
        inventory = read_inventory(*arguments)
        return replace(inventory, **{name: type(getattr(inventory, name))()})

    return without


def _nothing(*_: object) -> tuple[tuple[()], frozenset[int]]:
    return (), frozenset()


def _no_text(*_: object) -> str:
    return ""


def _chosen_without(name: str) -> Callable[..., object]:
    """Return `excerpts_of` that is not told one of the things that stand in the new
    context.
    """
    return lambda *arguments, **named: excerpts_of(*arguments, **{**named, name: ()})


MECHANISMS: Mapping[str, Mapping[str, object]] = {
    "(as it is)": {},
    "words, facts alone": {"excerpts.index.WORD_WEIGHT": 0},
    "what is said before what is shown": {
        "excerpts.index.SHOWN_MENTION": 3.0,
        "excerpts.index.USER_MENTION": 3.0,
        "excerpts.index.UNSPOKEN_SHARE": 1.0,
    },
    "less for what only results have": {"excerpts.index.UNSPOKEN_SHARE": 1.0},
    "less for what the user mentioned": {"excerpts.index.USER_MENTION": 3.0},
    "recency": {"excerpts.index.HALVED_AFTER": 10**9},
    "the words around a fact": {"excerpts.selection.SURROUNDED": 0},
    "the overhead of short lines": {"excerpts.selection.UNIT_OVERHEAD": 0},
    "what stays in any case earns nothing": {
        "layers.excerpts_of": _chosen_without("verbatim")
    },
    "what the summary and the list name earns less": {
        "layers.excerpts_of": _chosen_without("condensed")
    },
    "the short list": {"layers.INVENTORY_SHARE": 0},
    "commands in the short list": {
        "layers.read_inventory": _listed_without("commands")
    },
    "results of commands in it": {"excerpts.inventory._outcome": _no_text},
    "pipes last among commands": {"excerpts.inventory._PIPES": frozenset[str]()},
    "files in the short list": {"layers.read_inventory": _listed_without("files")},
    "calls that failed in it": {"layers.read_inventory": _listed_without("failures")},
    "the newest messages": {"layers.TAIL_SHARE": 0},
    "the user's words": {"layers.quotes_within": _nothing},
    "the index of names": {"excerpts.selection.NAMES_SHARE": 0},
    "at most three quarters of what leaves": {"layers.REPLACED_SHARE": 1},
    "at least 250 tokens of the user's words": {"layers.LEAST_QUOTED": 0},
}
"""What is changed to see what a mechanism is worth."""


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sessions", nargs="+", type=Path)
    parser.add_argument(
        "--size",
        type=float,
        action="append",
        default=[],
        help="share of the conversation",
    )
    parser.add_argument(
        "--left",
        type=float,
        action="append",
        default=[],
        help="share of all tokens that is to be left",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        help="a constant, as in layers.TAIL_SHARE=0",
    )
    parser.add_argument(
        "--joined",
        action="store_true",
        help="all sessions as one, which has as many prompts",
    )
    parser.add_argument(
        "--table", action="store_true", help="what each mechanism is worth"
    )
    arguments = parser.parse_args()
    recordings = [read_recording(path) for path in arguments.sessions]
    if arguments.joined:
        recordings = [joined(arguments.sessions, 1)]
    found = [case for recording in recordings for case in cases(recording)]
    said = {
        name: ast.literal_eval(value)
        for name, value in (each.split("=", 1) for each in arguments.set)
    }
    variants: Mapping[str, Mapping[str, object]] = (
        MECHANISMS if arguments.table else {"": said}
    )
    rows: list[tuple[str, Figures]] = []
    for name, changes in variants.items():
        with ExitStack() as stack:
            for constant, value in changes.items():
                stack.enter_context(patch(f"acp_agent.compaction.{constant}", value))
            rows += [
                (f"{name} left {left:.0%}", figures(found, left=left))
                for left in arguments.left
            ]
            rows += [
                (f"{name} size {size:.0%}", figures(found, size=size))
                for size in arguments.size
            ]
    print(f"| | {' | '.join(rows[0][1])} |")
    print("| --- " * (len(rows[0][1]) + 1) + "|")
    for name, row in rows:
        print(
            f"| {name.strip()} | {' | '.join(f'{100 * value:.1f}' for value in row.values())} |"
        )


if __name__ == "__main__":
    main()
