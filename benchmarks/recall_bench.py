"""`python -m benchmarks.recall_bench [--locomo FILE] [--qmsum FILE] [--sessions
FOLDER]`: what the search behind `recall` finds, how long it takes, and how large its
index is.

LoCoMo (`locomo10.json`, github.com/snap-research/locomo): the questions of the
categories 1 to 4, each conversation a session. QMSum (a `.jsonl` file,
github.com/Yale-LILY/QMSum): the specific questions about meetings. Recorded sessions,
as `acp-agent compact-eval` reads them: identifiers, paths, error messages and phrases
that one message alone holds.

`recall@10` is the mean share of the evidence among the first ten hits, `@1` of the
first hit. None of the data is part of this repository.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from acp_agent.compaction.evaluation.facts import text_of
from acp_agent.compaction.evaluation.recordings import read_recording
from acp_agent.conversation.events import UserPrompted
from acp_agent.conversation.messages import Text
from acp_agent.storage.store import SessionStore

MESSAGES = 10_000
CHARACTERS = 1_700
SAMPLE = 60
_FUNCTION_WORDS = """
    a about after all am an and any are as at be been before being between both but by can could did do does doing
    during each for from had has have having he her his how i if in into is it its just me more most my no not now of on
    once only or other our out over own she should so some such than that the their them then there these they this
    those through to too under until up very was we were what when where which while who whose why will with would you
    your
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
_NAMES = {
    "identifier": re.compile(r"\b[A-Za-z]+_\w+\b|\b[a-z]+[A-Z]\w+\b"),
    "path": re.compile(r"(?:[\w.-]+/)+[\w-]+\.\w+"),
    "error": re.compile(r"\w*(?:Error|Exception|Warning): [^\n]{10,120}"),
    "phrase": re.compile(r"[A-Za-z]{3,} [A-Za-z]{3,} [A-Za-z]{3,} [A-Za-z]{3,}"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the messages that answer it, counted from 0."""

    query: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Talk:
    """A session's messages, and what is asked about them."""

    messages: tuple[str, ...]
    questions: tuple[Question, ...]


def content_words(question: str) -> str:
    """Return a question without its function words."""
    words = re.findall(r"[\w']+", question)
    return " ".join(
        word for word in words if word.lower().removesuffix("'s") not in STOP_WORDS
    )


def locomo(path: Path) -> Iterator[Talk]:
    """Yield the conversations of LoCoMo."""
    for sample in json.loads(path.read_text("utf-8")):
        talk = sample["conversation"]
        turns: list[dict[str, Any]] = []
        number = 1
        while f"session_{number}" in talk:
            turns += talk[f"session_{number}"]
            number += 1
        places = {turn["dia_id"]: place for place, turn in enumerate(turns)}
        questions: list[Question] = []
        for asked in sample["qa"]:
            named = re.findall(r"D\d+:\d+", " ".join(asked.get("evidence", [])))
            evidence = frozenset(places[name] for name in named if name in places)
            if evidence and asked["category"] != 5:
                questions.append(Question(asked["question"], evidence))
        yield Talk(
            tuple(f"{turn['speaker']}: {turn['text']}" for turn in turns),
            tuple(questions),
        )


def qmsum(path: Path) -> Iterator[Talk]:
    """Yield the meetings of a file of QMSum."""
    for line in path.read_text("utf-8").splitlines():
        meeting = json.loads(line)
        turns = meeting["meeting_transcripts"]
        questions: list[Question] = []
        for asked in meeting["specific_query_list"]:
            spans = [
                range(int(first), min(int(last) + 1, len(turns)))
                for first, last in asked["relevant_text_span"]
            ]
            questions.append(
                Question(
                    asked["query"], frozenset(place for span in spans for place in span)
                )
            )
        messages = tuple(f"{turn['speaker']}: {turn['content']}" for turn in turns)
        yield Talk(
            messages, tuple(question for question in questions if question.evidence)
        )


def names(messages: Sequence[str], kind: str) -> tuple[Question, ...]:
    """Return names of one kind that only one message holds."""
    holders: dict[str, set[int]] = {}
    for message in messages:
        for name in _NAMES[kind].findall(message):
            holders.setdefault(name.strip(), set())
    for name, places in holders.items():
        places.update(
            place for place, message in enumerate(messages) if name in message
        )
    single = [
        Question(name, frozenset(places))
        for name, places in sorted(holders.items())
        if len(places) == 1
    ]
    if kind == "phrase":
        single = [
            Question(f'"{question.query}"', question.evidence) for question in single
        ]
    return tuple(random.Random(0).sample(single, min(SAMPLE, len(single))))


def sessions(folder: Path, kind: str) -> Iterator[Talk]:
    """Yield the recorded sessions of a folder, with names of one kind as questions."""
    for path in sorted(folder.glob("*.json")):
        if "messages" in json.loads(path.read_text("utf-8")):
            messages = tuple(
                text_of(entry.message) for entry in read_recording(path).entries
            )
            yield Talk(messages, names(messages, kind))


async def _stored(store: SessionStore, name: str, messages: Iterable[str]) -> None:
    await store.create(
        name, "/", [], [UserPrompted("msg", (Text(message),)) for message in messages]
    )


async def recall(name: str, talks: Iterable[Talk], *, words_only: bool = False) -> None:
    """Print what is found of the evidence."""
    at_ten: list[float] = []
    at_one: list[float] = []
    with TemporaryDirectory() as folder:
        store = await SessionStore.open(Path(folder) / "sessions.db")
        for number, talk in enumerate(talks):
            await _stored(store, f"s{number}", talk.messages)
            for question in talk.questions:
                query = content_words(question.query) if words_only else question.query
                hits = [
                    hit.seq - 1
                    for hit in await store.search(f"s{number}", query, limit=10)
                ]
                at_ten.append(
                    len(question.evidence.intersection(hits)) / len(question.evidence)
                )
                at_one.append(
                    len(question.evidence.intersection(hits[:1]))
                    / len(question.evidence)
                )
        await store.aclose()
    if at_ten:
        ten = statistics.mean(at_ten)
        one = statistics.mean(at_one)
        print(f"| {name} | {len(at_ten)} | {ten:.3f} | {one:.3f} |")


def _large(source: Path) -> list[str]:
    """Return many messages of Python source, all different."""
    random_numbers = random.Random(0)
    pieces: list[str] = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8", "replace")
        pieces += [
            text[start : start + CHARACTERS]
            for start in range(0, len(text), CHARACTERS)
        ]
    random_numbers.shuffle(pieces)
    while len(pieces) < MESSAGES:
        pieces += [
            f"{piece}\n# again, {random_numbers.random()}"
            for piece in pieces[: MESSAGES - len(pieces)]
        ]
    return pieces[:MESSAGES]


QUERIES = (
    "config",
    "parse_known_args",
    "erialize",
    "nowhere_to_be.found",
    "email header encoding",
    "where is the connection of the parser closed",
    "ValueError: invalid literal for int() with base 10",
    '"of the" message',
)


async def speed() -> None:
    """Print how long a search takes in a large session, and how large the index is."""
    messages = _large(Path(json.__file__).parents[1])
    size = sum(len(message.encode()) for message in messages)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sessions.db"
        store = await SessionStore.open(file)
        await _stored(store, "s1", messages)
        began = perf_counter()
        await store.search("s1", "anything", limit=10)
        first = perf_counter() - began
        index = sum(
            entry.stat().st_size
            for entry in os.scandir(folder)
            if entry.name.startswith(f"{file.name}.search")
        )
        print(
            f"\n{MESSAGES} messages, {size / 1e6:.1f} MB; the first search, which makes the index: {first:.2f} s"
        )
        print(f"The index takes {index / size:.3f} of the texts.")
        print("\n| query | ms, median of 9 | least |\n| --- | --- | --- |")
        for query in QUERIES:
            times: list[float] = []
            for _ in range(9):
                began = perf_counter()
                await store.search("s1", query, limit=10)
                times.append((perf_counter() - began) * 1000)
            print(f"| {query} | {statistics.median(times):.1f} | {min(times):.1f} |")
        await store.aclose()


async def _main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--qmsum", type=Path)
    parser.add_argument("--sessions", type=Path)
    asked = parser.parse_args()
    print("| questions | number | recall@10 | @1 |\n| --- | --- | --- | --- |")
    for name, path, read in (
        ("LoCoMo", asked.locomo, locomo),
        ("QMSum", asked.qmsum, qmsum),
    ):
        if path is not None:
            await recall(name, read(path))
            await recall(f"{name}, content words", read(path), words_only=True)
    if asked.sessions is not None:
        for kind in _NAMES:
            await recall(f"{kind} in one message", sessions(asked.sessions, kind))
    await speed()


if __name__ == "__main__":
    asyncio.run(_main())
