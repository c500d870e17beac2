"""The `recall` tool, on a real store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    Event,
    LoggedEvent,
    NoteAdded,
    TextPinned,
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    JsonValue,
    Resource,
    ResourceLink,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from acp_agent.errors import ToolError
from acp_agent.storage.sqlite import SqliteStore
from acp_agent.storage.store import Found
from acp_agent.storage.words import RECALL_TOOL
from acp_agent.tools.recall import MAX_CHARACTERS, MAX_HITS, MAX_LINE, MAX_LINES, RecallTool
from support.logs import LogBuilder
from support.workspace import Workspace


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session's log as an archive."""

    store: SqliteStore
    session_id: str

    async def search(self, query: str, limit: int) -> tuple[Found, ...]:
        return await self.store.search(self.session_id, query, limit=limit)

    async def read(self, seqs: Sequence[int]) -> tuple[LoggedEvent, ...]:
        return await self.store.read(self.session_id, seqs)

    async def neighbours(self, seq: int) -> tuple[int | None, int | None]:
        return await self.store.neighbours(self.session_id, seq)


@pytest.fixture
async def archived(workspace: Workspace, tmp_path: Path):
    """Gives the workspace an archive of these events, each time another."""
    store = await SqliteStore.open(tmp_path / "sessions.db")
    made = 0

    async def archive(*events: Event) -> tuple[LoggedEvent, ...]:
        nonlocal made
        made += 1
        logged = await store.create(f"s{made}", "/shop", [], events)
        workspace.environment = replace(workspace.environment, archive=StoredSession(store, f"s{made}"))
        return logged

    yield archive
    await store.aclose()


def said(text: str) -> Event:
    return UserPrompted("msg", (Text(text),))


async def refusal(workspace: Workspace, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call("recall", **arguments)
    return str(caught.value)


def body(page: str) -> str:
    return page.partition("\n\n")[2]


def day(logged: LoggedEvent) -> str:
    return datetime.fromtimestamp(logged.at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


async def test_a_search_answers_with_numbers_dates_and_the_words_in_their_place(workspace: Workspace, archived) -> None:
    logged = await archived(
        said("Where does the total come from?"),
        AssistantAnswered(
            AssistantMessage("msg", (Text("I look."), ToolCall("call_1", "read", {"path": "src/cart.py"})))
        ),
        ToolReturned(ToolResult("call_1", (Text("def total():"),)), CallView("Read src/cart.py", "read")),
        AssistantAnswered(AssistantMessage("msg", (Text("From the cart's total."),))),
    )
    lines = (await workspace.text("recall", query="total")).split("\n")
    assert lines[0] == "3 entries, best first; read one with `entry`:"
    assert sorted(lines[1:]) == [
        f"#1 {day(logged[0])} user: Where does the total come from?",
        f"#3 {day(logged[2])} result of Read src/cart.py: Read src/cart.py def total():",
        f"#4 {day(logged[3])} you: From the cart's total.",
    ]
    lines = (await workspace.text("recall", query="src/cart.py")).split("\n")
    assert sorted(line.split()[0] for line in lines[1:]) == ["#2", "#3"]


async def test_a_summary_is_found_and_read(workspace: Workspace, archived) -> None:
    log = LogBuilder()
    log.prompt("first")
    log.step("done")
    swap = log.swap(summary="The total is fixed [#3].")
    logged = await archived(*log.events)
    assert f"#{swap} {day(logged[-1])} summary: The total is fixed [#3]." in await workspace.text(
        "recall", query="fixed"
    )
    page = await workspace.text("recall", entry=swap)
    assert page == (
        f"Entry {swap}, {day(logged[-1])}, summary of what was before it. Messages before it #4.\n\n"
        "The total is fixed [#3]."
    )


async def test_no_more_than_ten_hits_come(workspace: Workspace, archived) -> None:
    await archived(*(said(f"the total {number}") for number in range(30)))
    lines = (await workspace.text("recall", query="total")).split("\n")
    assert lines[0].startswith(f"{MAX_HITS} entries or more; other words narrow it down")
    assert len(lines) == 1 + MAX_HITS


async def test_a_search_without_a_hit_says_how_to_search_better(workspace: Workspace, archived) -> None:
    await archived(said("total"))
    answer = await workspace.text("recall", query="never said")
    assert answer.startswith("No earlier message that left your context holds never said. Try fewer or other words")


async def test_what_the_user_said_is_read_word_for_word_with_its_neighbours(workspace: Workspace, archived) -> None:
    text = "Fix it:\n\n\tx = 1\n  ü 🌱 [#12]"
    logged = await archived(
        said("first"),
        NoteAdded("msg", "a note"),
        UserPrompted(
            "msg",
            (
                Text(text),
                Resource("file:///a.txt", "whole\ntext"),
                ResourceLink("file:///b.txt", "b.txt"),
                Image("aGk=", "image/png", "file:///c.png"),
            ),
            (Text("Sent instead."),),
        ),
        NoteAdded("msg", "a note"),
        said("third"),
    )
    assert await workspace.text("recall", entry=3) == (
        f"Entry 3, {day(logged[2])}, message of the user. Messages before it #1 and after it #5.\n\n"
        f"{text}\n[file:///a.txt]\nwhole\ntext\n[link to b.txt: file:///b.txt]\n[image file:///c.png]\n"
        "[sent to you as:]\nSent instead."
    )


async def test_an_answer_is_read_with_its_calls(workspace: Workspace, archived) -> None:
    arguments: dict[str, JsonValue] = {"path": "a.py", "text": "one\n\ttwo", "all": True, "edits": [{"old": "ü"}]}
    logged = await archived(
        AssistantAnswered(
            AssistantMessage(
                "msg",
                (
                    Thinking("hm"),
                    Text("I write.\nNow."),
                    ToolCall("call_1", "write", arguments),
                    ToolCall("call_2", "read", {}, "{broken"),
                ),
            )
        )
    )
    assert await workspace.text("recall", entry=1) == (
        f"Entry 1, {day(logged[0])}, your answer. There are no other messages.\n\n"
        "I write.\nNow.\n[call of write]\npath: a.py\ntext: \none\n\ttwo\nall: true\n"
        'edits: [{"old": "ü"}]\n[call of read]\n{broken'
    )


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (ToolReturned(ToolResult("c", (Text("x"),), True), CallView("Run make")), "result of Run make, which failed."),
        (ToolReturned(ToolResult("c", (Text("x"),)), CallView("Read a.py")), "result of Read a.py."),
        (UserPrompted("msg", (Text("x"),), ()), "a command of the user, which you were not shown."),
        (TextPinned("msg", 1, "x", "framed"), "text that the user pinned."),
        (NoteAdded("msg", "x"), "note to the user, which you were not shown."),
    ],
)
async def test_an_entry_says_what_it_was(workspace: Workspace, archived, event: Event, what: str) -> None:
    await archived(event)
    page = await workspace.text("recall", entry=1)
    assert what in page.split("\n")[0]
    assert body(page) == "x"


async def test_a_large_entry_is_read_in_pages_without_losing_a_character(workspace: Workspace, archived) -> None:
    lines = [f"line {number} {'ü' * (number % 90)}" for number in range(1, 3 * MAX_LINES)]
    lines[1500] = "".join(chr(97 + number % 26) for number in range(9 * MAX_LINE + 1))
    await archived(ToolReturned(ToolResult("c", (Text("\n".join(lines)),)), CallView("Run make")))
    offset, pages = 1, list[str]()
    while True:
        page = await workspace.text("recall", entry=1, offset=offset)
        assert len(page) <= MAX_CHARACTERS + 300
        pages.append(body(page))
        heading = page.split("\n")[0]
        if "read on with offset" not in heading:
            break
        offset = int(heading.rpartition("(read on with offset ")[2].partition(")")[0])
    assert "".join(pages).replace("\n", "") == "".join(lines)
    assert len(pages) > 3


async def test_a_page_is_as_long_as_was_asked_for(workspace: Workspace, archived) -> None:
    await archived(said("\n".join(f"l{number}" for number in range(1, 11))))
    page = await workspace.text("recall", entry=1, offset=4, limit=2)
    assert page.startswith("Entry 1, ")
    assert ", lines 4 to 5 of 10 (read on with offset 6)." in page
    assert body(page) == "l4\nl5"
    assert await refusal(workspace, entry=1, offset=11) == "recall: entry 1 has only 10 lines; there is no line 11."


async def test_words_and_an_entry_together_begin_the_page_at_the_words(workspace: Workspace, archived) -> None:
    await archived(said("\n".join([*("hay" for _ in range(500)), "the Needle", "total", "a needle's total", "hay"])))
    page = await workspace.text("recall", entry=1, query="needle total")
    assert "lines 503 to 504 of 504" in page
    assert body(page) == "a needle's total\nhay"
    assert body(await workspace.text("recall", entry=1, query="needle", limit=1)) == "the Needle"
    assert body(await workspace.text("recall", entry=1, query="needle", offset=502, limit=1)) == "a needle's total"
    page = await workspace.text("recall", entry=1, query="absent", limit=1)
    assert (page.split("\n")[0].endswith("None of its lines holds the words."), body(page)) == (True, "hay")


async def test_an_entry_that_is_no_message_or_not_there_is_refused_with_the_nearest(
    workspace: Workspace, archived
) -> None:
    log = LogBuilder()
    log.prompt("first")
    end = log.end()
    log.prompt("second")
    await archived(*log.events)
    assert (
        await refusal(workspace, entry=end) == "recall: entry 4 is no message. Messages before it #3 and after it #5."
    )
    assert await refusal(workspace, entry=10**30) == f"recall: there is no entry {10**30}. Messages before it #5."


async def test_an_empty_entry_says_so(workspace: Workspace, archived) -> None:
    await archived(said(""))
    assert (await workspace.text("recall", entry=1)).endswith("it is empty. There are no other messages.")


async def test_a_call_that_asks_for_nothing_is_refused(workspace: Workspace, archived) -> None:
    await archived()
    assert await refusal(workspace) == "recall: give `query` to search, or `entry` to read one."
    assert await refusal(workspace, query="") == "recall: `query` is empty."
    assert "`entry`" in await refusal(workspace, entry=0)


async def test_without_a_log_there_is_nothing_to_recall(workspace: Workspace) -> None:
    assert "nothing to recall" in await refusal(workspace, query="x")


async def test_it_asks_for_no_permission_and_says_what_it_looks_for(workspace: Workspace, archived) -> None:
    await archived()
    searching = await workspace.prepare("recall", query="the\ntotal")
    assert (searching.access.effect, searching.access.outside) == ("none", ())
    assert searching.view == CallView("Recall the\\ntotal", "search")
    assert (await workspace.prepare("recall", entry=12, query="x")).view == CallView("Recall entry 12", "search")
    tool = RecallTool()
    assert tool.preview({"query": "x"}) == CallView("Recall x", "search")
    assert tool.preview({"entry": "12", "query": 7}) == tool.preview({}) == CallView("Recall", "search")


async def test_it_is_the_last_of_the_tools_and_the_one_whose_results_are_not_searched(workspace: Workspace) -> None:
    assert workspace.tools.names[-1] == RecallTool.name == RECALL_TOOL


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.just("\n"), max_size=60))
async def test_any_message_is_read_back_as_it_was(workspace: Workspace, archived, text: str) -> None:
    await archived(said(text))
    page = await workspace.text("recall", entry=1)
    assert body(page) == text.removesuffix("\n")
