"""Searching a session's messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    Event,
    NoteAdded,
    TextPinned,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from acp_agent.errors import SessionNotFoundError
from acp_agent.storage.search import SNIPPET, _query_words, searchable_text
from acp_agent.storage.store import FoundMessage
from support.logs import LogBuilder
from support.stores import START, Open, opened, said, seqs

ANY = st.text(st.characters(codec="utf-8"), max_size=30)


def answered(text: str, *calls: ToolCall) -> Event:
    return AssistantAnswered(AssistantMessage("msg", (Text(text), *calls)))


def returned(call_id: str, text: str, title: str = "Read a.py") -> Event:
    return ToolReturned(ToolResult(call_id, (Text(text),)), CallView(title, "read"))


async def test_only_messages_are_found_and_every_kind_by_its_words(
    open_store: Open,
) -> None:
    arguments: dict[str, JsonValue] = {
        "path": "alpha/beta.py",
        "lines": [{"first": "gamma"}, 4711],
    }
    log = LogBuilder()
    log.swap(summary="Of the summary iota.")
    events: list[Event] = [
        *log.events,
        UserPrompted(
            "msg",
            (
                Text("shown kappa"),
                Resource("file:///lambda.txt", "attached mu"),
                ResourceLink("file:///nu.txt", "link", description="about xi"),
            ),
            (Text("sent omicron"),),
        ),
        answered(
            "I look at it pi.",
            ToolCall("call_1", "grep", arguments),
            ToolCall("call_2", "edit", {}, "{rho"),
        ),
        returned("call_1", "two\nlines sigma", "Search for tau"),
        TextPinned("msg", 1, "pinned upsilon", "framed phi"),
        NoteAdded("msg", "a note chi"),
        AssistantAnswered(AssistantMessage("msg", (Thinking("thought zeta"),))),
    ]
    base = len(log.events)
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], events)
        where = {
            base: "summary iota",
            base + 1: "shown kappa attached lambda mu nu xi sent omicron",
            base + 2: "look pi grep alpha beta py gamma 4711 edit rho",
            base + 3: "two lines sigma tau",
            base + 4: "upsilon",
        }
        for seq, words in where.items():
            for word in words.split():
                assert seq in await seqs(store, word), word
        for word in (
            "framed",
            "chi",
            "zeta",
            "call_1",
            "careful",
            "History",
            "path",
            "user_prompted",
        ):
            assert await seqs(store, f'"{word}"') == []


async def test_a_result_has_role_time_title_and_snippet(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        logged = await store.create(
            "s1",
            "/shop",
            [],
            [
                START,
                said("Where is the needle?"),
                answered(
                    "I look for the NEEDLE.",
                    ToolCall("call_1", "read", {"path": "hay.py"}),
                ),
                returned(
                    "call_1",
                    "x\n" * 3000 + "here is\n\ta needle\n" + "y\n" * 3000,
                    "Read hay.py",
                ),
            ],
        )
        found = {hit.seq: hit for hit in await store.search("s1", "needle", limit=9)}
    assert sorted(found) == [2, 3, 4]
    assert found[2] == FoundMessage(2, logged[1].at, "user", "", "Where is the needle?")
    assert (found[3].role, found[3].snippet) == (
        "assistant",
        "I look for the NEEDLE. read hay.py",
    )
    assert (found[4].role, found[4].title) == ("tool", "Read hay.py")
    assert re.fullmatch(r"….*x here is a needle y.*…", found[4].snippet)
    assert all(len(hit.snippet) <= SNIPPET for hit in found.values())


async def test_the_snippet_shows_the_part_with_the_most_words(
    open_store: Open,
) -> None:
    text = f"the cart {'is a cart ' * 100} and the total of the cart is wrong {'so ' * 200}"
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [START, said(text)])
        (hit,) = await store.search("s1", "total wrong the", limit=1)
        assert "total of the cart is wrong" in hit.snippet


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        (
            "changed src/app/user.py today",
            ["src/app/user.py", "user.py", "app", "app/user", "USER", "src\\app"],
        ),
        (
            "def foo_bar_baz(x):",
            ["foo_bar_baz", "foo_bar", "bar_baz", "bar", "foo", "baz", "fo"],
        ),
        (
            "a.py:1: E1101 no-member",
            ["E1101", "e1101", "no-member", "E11", '"no member"'],
        ),
        (
            "class UserService(Base):",
            ["UserService", "userservice", "User", "Service", "erServ"],
        ),
        ("Die Größe von Café München", ["größe", "GRÖẞE Größe", "CAFÉ", "MÜNCH"]),
        (
            "数据库连接失败，请重试",
            ["数据库", "连接", "失败", "请", "数据库连接失败", '"连接失败"'],
        ),
        (
            "データベースの接続に失敗しました",
            ["データベース", "接続", "失敗", "ベース"],
        ),
        ("데이터베이스를 연결합니다", ["데이터베이스", "연결", "베이스"]),
        ("ฐานข้อมูลล้มเหลว", ["ฐานข้อมูล", "ล้มเหลว"]),
        ("x -> y != z 🌱", ["->", "!=", "🌱", "x -> y"]),
        ('he said "no", 100% {a: [1]}', ['"no"', "100%", "[1]", "{a:", '"100% {a"']),
        ("C:\\Temp\\new", ["C:\\Temp\\new", "temp new", "\\"]),
    ],
)
async def test_identifiers_paths_and_scripts_without_spaces_are_found(
    open_store: Open, text: str, queries: list[str]
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1", "/shop", [], [START, said("something else 別の"), said(text)]
        )
        for query in queries:
            assert await seqs(store, query) == [3], query


async def test_all_words_rank_before_some_and_quotes_enclose_a_phrase(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [
                START,
                said("total of the cart"),
                said("the cart of all"),
                said("cart total"),
                said("z"),
            ],
        )
        assert sorted(await seqs(store, "cart total")) == [2, 4]
        assert await seqs(store, '"cart total"') == [4]
        assert await seqs(store, '"cart of" all') == [3]
        assert sorted(await seqs(store, "total nowhere")) == [2, 4]
        assert await seqs(store, "nowhere neither") == []
        assert await seqs(store, "") == await seqs(store, ' " ') == []


async def test_newer_results_come_first_among_equals_up_to_the_limit(
    open_store: Open,
) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1", "/shop", [], [START, *(said("the same words") for _ in range(30))]
        )
        assert await seqs(store, "same", limit=3) == [31, 30, 29]
        assert await seqs(store, "same", limit=0) == []


async def test_results_of_earlier_searches_are_not_found(open_store: Open) -> None:
    recall = ToolCall("call_1", "recall", {"query": "needle"})
    other = ToolCall("call_2", "read", {"path": "a.py"})
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [START, said("the needle"), answered("Hm.", recall, other)],
        )
        await store.append("s1", 3, [returned("call_1", "#2: the needle")])
        assert await seqs(store, "needle") == [2]
        await store.append(
            "s1", 4, [returned("call_2", "a needle in a.py"), answered("A needle.")]
        )
        assert sorted(await seqs(store, "needle")) == [2, 5, 6]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=ANY | st.text('"* ^():-+{}NEARANDORNOT\\0\n' + "\0 ab", max_size=30), text=ANY
)
async def test_any_text_is_a_valid_query_without_special_syntax(
    open_store: Open, query: str, text: str
) -> None:
    async with opened(open_store) as store:
        session_id = f"s{len((await store.list(limit=1000)).sessions)}"
        await store.create(
            session_id, "/shop", [], [said(text), said("AND OR NOT NEAR text")]
        )
        for hit in await store.search(session_id, query, limit=5):
            assert hit.seq in (1, 2)
            assert len(hit.snippet) <= SNIPPET


async def test_long_queries_and_odd_characters_are_accepted(open_store: Open) -> None:
    async with opened(open_store) as store:
        await store.create("s1", "/shop", [], [said("a b c"), said("\udc80x")])
        for query in (
            "a " * 5000,
            '"' * 999,
            "\udc80",
            "a" * 100_000,
            " ".join(map(str, range(3000))),
            "a\0b",
            "\0",
        ):
            await store.search("s1", query, limit=5)
        assert await seqs(
            store, " ".join(f"w{number}" for number in range(20)) + " b"
        ) == [1]


_TEXTS = st.text('abcDEF_é \n"\\界', max_size=20) | ANY
_MESSAGES = st.one_of(
    st.builds(said, _TEXTS),
    st.builds(
        lambda text, value: answered(text, ToolCall("call_1", "read", {"path": value})),
        _TEXTS,
        _TEXTS,
    ),
    st.builds(returned, st.just("call_1"), _TEXTS, _TEXTS),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(events=st.lists(_MESSAGES, max_size=8))
async def test_every_word_of_a_message_finds_the_message(
    open_store: Open, events: list[Event]
) -> None:
    async with opened(open_store) as store:
        session_id = f"s{len((await store.list(limit=1000)).sessions)}"
        logged = await store.create(session_id, "/shop", [], events)
        words = {
            (entry.seq, word)
            for entry in logged
            for word in re.findall(
                r"(?<![^\W_])[a-zA-Z]{3,}(?![^\W_])", searchable_text(entry.event)
            )
        }
        for seq, word in sorted(words)[:10]:
            assert seq in await seqs(store, word, session_id), word


def test_a_query_is_split_into_words_and_phrases() -> None:
    assert _query_words('Fix  "the total" src/a.py fix "" " " x"y z"') == (
        "fix",
        "the total",
        "src/a.py",
        "x",
        "y z",
    )


async def test_accents_are_ignored(open_store: Open) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1", "/shop", [], [START, said("Café München"), said("Cafe\u0301 Munchen")]
        )
        for query in ("cafe", "munchen", "Munche", "CAFÉ MÜNCHEN"):
            assert sorted(await seqs(store, query)) == [2, 3], query


async def test_whole_words_rank_before_parts_of_words(open_store: Open) -> None:
    async with opened(open_store) as store:
        await store.create(
            "s1",
            "/shop",
            [],
            [START, said("a config with a name"), said("configuration")],
        )
        assert await seqs(store, "config") == [2, 3]


async def test_a_search_is_limited_to_one_session_and_deletion_removes_its_words(
    open_store: Open, tmp_path: Path
) -> None:
    async with opened(open_store) as store:
        for name in ("s1", "s2", "s3"):
            await store.create(
                name, "/shop", [], [START, said(f"the needle of {name}"), said("hay")]
            )
            assert await seqs(store, "needle", name) == [2]
        words = [f"{number:03}secretword{number:03}" for number in range(500)]
        await store.append("s2", 3, [said(f"{word} {'x' * 20_000}") for word in words])
        assert await seqs(store, words[7], "s2") == [11]
        assert any(b"secretword" in file.read_bytes() for file in tmp_path.iterdir())
        await store.delete("s2")
        assert not any(
            b"secretword" in file.read_bytes() for file in tmp_path.iterdir()
        )
        with pytest.raises(SessionNotFoundError):
            await store.search("s2", "needle", limit=5)
        for name in ("s1", "s3"):
            (hit,) = await store.search(name, "needle", limit=5)
            assert hit.snippet == f"the needle of {name}"
