"""The order of search results, and the text shown around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    Event,
    NoteAdded,
    ToolReturned,
)
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, ToolResult
from acp_agent.storage.ranking import is_name
from acp_agent.storage.search import FIRST_LINE, Neighbour
from support.stores import START, Open, opened, said, seqs


def answered(text: str, *calls: ToolCall) -> Event:
    return AssistantAnswered(AssistantMessage("msg", (Text(text), *calls)))


FILLER = [
    said(f"Something else about topic {number}, and then some more of it.")
    for number in range(20)
]


async def test_a_question_finds_the_answer_by_the_stems_of_its_words(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        events = [
            START,
            *FILLER,
            said("We agreed on two agencies for adopting the painted benches."),
            *FILLER,
        ]
        await store.create("s1", "/shop", [], events)
        assert (await seqs(store, "Which agency paints the bench?"))[0] == 22


async def test_a_question_finds_the_answer_after_it_that_repeats_no_word(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        talk = [
            said("Which database should the warehouse report use?"),
            answered("Postgres, on port 6543."),
        ]
        await store.create("s1", "/shop", [], [START, *FILLER, *talk, *FILLER])
        assert (await seqs(store, "database warehouse report"))[:2] == [22, 23]


async def test_a_search_for_one_or_two_words_finds_only_messages_with_them(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [START, *FILLER, said("the warehouse"), said("a report"), *FILLER],
        )
        assert await seqs(store, "warehouse") == [22]
        assert sorted(await seqs(store, "warehouse report")) == [22, 23]


@pytest.mark.parametrize(
    "query",
    [
        "parse_header",
        "src/http/headers.py",
        "E1042",
        '"two blanks at the end"',
        "ValueError: two blanks at the end",
        "why does parse_header fail for some topic and then more of it",
        "something about src/http/headers.py and then some more",
        'something else about "two blanks at the end" of topic 3',
    ],
)
async def test_literal_matches_come_first(open_store: Open, query: str) -> None:
    long = "something about why it fails for a topic and then more of it " * 200
    target = said(
        f"{long}parse_header in src/http/headers.py: E1042 ValueError: two blanks at the end {long}"
    )
    near = said(
        "parse the header, src http, headers, E104, blanks: two at the end. A ValueError for some topic"
    )
    async with opened(open_store) as store:
        await store.create(
            "s1", "/shop", [], [START, near, target, *FILLER, near, *FILLER]
        )
        assert (await seqs(store, query))[0] == 3


async def test_messages_with_all_words_come_before_messages_with_some(
    open_store: Open,
) -> None:
    long = said(
        f"{'padding ' * 500} beacon {'padding ' * 500} lantern {'padding ' * 500} harbour"
    )
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [START, long, said("beacon lantern"), said("harbour"), *FILLER],
        )
        assert (await seqs(store, "harbour lantern beacon"))[0] == 2


async def test_a_path_that_occurs_nowhere_finds_similar_messages(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1", "/shop", [], [START, *FILLER, said("see http/headers.py"), *FILLER]
        )
        assert (await seqs(store, "lib/http/headers.py"))[0] == 22
        assert await seqs(store, '"lib/http/headers.py"') == []


async def test_excluded_messages_do_not_shorten_the_result(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [START, *(said("the same words here") for _ in range(30))],
        )
        for query in ("same", "the same words here", '"same words"'):
            found = await store.search(
                "s1", query, limit=3, without=frozenset(range(20, 40))
            )
            assert [hit.seq for hit in found] == [19, 18, 17]


async def test_a_result_shows_the_first_line_of_its_neighbours(
    open_store: Open,
) -> None:
    call = ToolCall("call_1", "read", {"path": "hay.py"})
    async with opened(open_store) as store:
        events = [
            START,
            said("\n  Look into the file.\nSecond line"),
            NoteAdded("msg", "a note"),
            answered("The needle is there.", call),
            ToolReturned(
                ToolResult("call_1", (Text("hay\n" * 9),)),
                CallView("Read hay.py", "read"),
            ),
        ]
        await store.create("s1", "/shop", [], events)
        (hit,) = await store.search("s1", "needle", limit=5)
        assert hit.before == Neighbour(2, "user", "", "Look into the file.")
        assert hit.after == Neighbour(5, "tool", "Read hay.py", "Read hay.py")
        await store.append("s1", 5, [said("x" * 500), said("another needle")])
        newest, _ = await store.search("s1", "needle", limit=5)
        assert newest.before is not None
        assert len(newest.before.line) == FIRST_LINE
        assert newest.after is None


async def test_a_neighbour_that_was_found_too_is_shown_once(open_store: Open) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [START, said("needle one"), said("needle two"), said("hay")],
        )
        second, first = await store.search("s1", "needle", limit=5)
        assert (first.seq, first.before, first.after) == (2, None, None)
        assert second.before is None
        assert second.after == Neighbour(4, "user", "", "hay")


@pytest.mark.parametrize("indexed", [True, False])
async def test_a_message_that_contains_a_word_many_times_is_one_result(
    open_store: Open, tmp_path: Path, indexed: bool
) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, said("needle " * 50)])
        if not indexed:
            (tmp_path / "sessions.db.search-1").mkdir()
        assert await seqs(store, "needle") == [2]


@pytest.mark.parametrize(
    "word",
    [
        "parse_header",
        "__init__",
        "parseHeader",
        "src/cart.py",
        "cart.py",
        "C:\\Temp",
        "E1042",
        "10.0.0.1",
        "a::bc",
    ],
)
def test_identifiers_paths_and_codes_are_names(word: str) -> None:
    assert is_name(word)
    assert is_name(f"`{word}`,")


@pytest.mark.parametrize(
    "word",
    [
        "Caroline's",
        "mother-in-law",
        "group?",
        "2023",
        "7:30",
        "LGBTQ",
        "e.g.",
        "(cart)",
    ],
)
def test_ordinary_words_are_not_names(word: str) -> None:
    assert not is_name(word)
