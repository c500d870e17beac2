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
    ToolReturned,
    UserPrompted,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Resource,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from acp_agent.errors import ToolError
from acp_agent.storage.store import FoundMessage, SessionStore
from acp_agent.tools.text import MAX_CHARACTERS, MAX_LINE, MAX_LINES
from support.workspace import Workspace


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session's log as an archive."""

    store: SessionStore
    session_id: str

    async def search(self, query: str, limit: int) -> tuple[FoundMessage, ...]:
        return await self.store.search(self.session_id, query, limit=limit)

    async def read(self, seqs: Sequence[int]) -> tuple[LoggedEvent, ...]:
        return await self.store.read(self.session_id, seqs)


@pytest.fixture
async def archived(workspace: Workspace, tmp_path: Path):
    """Give the workspace a new archive of these events."""
    store = await SessionStore.open(tmp_path / "sessions.db")
    made = 0

    async def archive(*events: Event) -> tuple[LoggedEvent, ...]:
        nonlocal made
        made += 1
        logged = await store.create(f"s{made}", "/shop", [], events)
        workspace.environment = replace(
            workspace.environment, archive=StoredSession(store, f"s{made}")
        )
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


async def test_search_results_have_numbers_dates_and_snippets(
    workspace: Workspace, archived
) -> None:
    logged = await archived(
        said("Where does the total come from?"),
        AssistantAnswered(
            AssistantMessage(
                "msg",
                (Text("I look."), ToolCall("call_1", "read", {"path": "src/cart.py"})),
            )
        ),
        ToolReturned(
            ToolResult("call_1", (Text("def total():"),)),
            CallView("Read src/cart.py", "read"),
        ),
        AssistantAnswered(AssistantMessage("msg", (Text("From the cart's total."),))),
    )
    assert (await workspace.text("recall", query="total")).split("\n") == [
        "3 entries, best first; read one with `entry`:",
        f"#4 {day(logged[3])} you: From the cart's total.",
        f"#3 {day(logged[2])} result of Read src/cart.py: Read src/cart.py def total():",
        "  before it #2 you: I look.",
        f"#1 {day(logged[0])} user: Where does the total come from?",
        "  after it #2 you: I look.",
    ]
    lines = (await workspace.text("recall", query="src/cart.py")).split("\n")
    assert sorted(line.split()[0] for line in lines[1:] if line.startswith("#")) == [
        "#2",
        "#3",
    ]


async def test_an_entry_is_read_with_the_same_text_that_is_searched(
    workspace: Workspace, archived
) -> None:
    text = "Fix it:\n\n\tx = 1\n  ü 🌱 [#12]"
    call = ToolCall("call_1", "write", {"path": "a.py", "text": "one\n\ttwo"})
    logged = await archived(
        UserPrompted(
            "msg",
            (Text(text), Resource("file:///a.txt", "whole\ntext")),
            (Text("Sent instead."),),
        ),
        AssistantAnswered(
            AssistantMessage("msg", (Thinking("hm"), Text("I write.\nNow."), call))
        ),
        ToolReturned(
            ToolResult("call_1", (Text("Made a.py."),)), CallView("Write a.py", "edit")
        ),
    )
    heading = f"Entry 1, {day(logged[0])}, user."
    body = f"{text}\nfile:///a.txt\nwhole\ntext\nSent instead."
    assert await workspace.text("recall", entry=1) == f"{heading}\n\n{body}"
    heading = f"Entry 2, {day(logged[1])}, you."
    body = "I write.\nNow.\nwrite\na.py\none\n\ttwo"
    assert await workspace.text("recall", entry=2) == f"{heading}\n\n{body}"
    heading = f"Entry 3, {day(logged[2])}, result of Write a.py."
    body = "Write a.py\nMade a.py."
    assert await workspace.text("recall", entry=3) == f"{heading}\n\n{body}"


async def test_a_large_entry_is_read_in_pages_without_losing_a_character(
    workspace: Workspace, archived
) -> None:
    lines = [
        f"line {number} {'ü' * (number % 90)}" for number in range(1, 3 * MAX_LINES)
    ]
    lines[1500] = "".join(chr(97 + number % 26) for number in range(9 * MAX_LINE + 1))
    await archived(
        ToolReturned(ToolResult("c", (Text("\n".join(lines)),)), CallView("Run make"))
    )
    offset = 1
    pages = list[str]()
    while True:
        page = await workspace.text("recall", entry=1, offset=offset)
        assert len(page) <= MAX_CHARACTERS + 300
        pages.append(body(page))
        heading = page.split("\n")[0]
        if "read on with offset" not in heading:
            break
        offset = int(heading.rpartition("(read on with offset ")[2].partition(")")[0])
    assert "".join(pages).replace("\n", "") == "".join(("Run make", *lines))
    assert len(pages) > 3


async def test_reading_a_missing_entry_or_one_without_text_is_refused(
    workspace: Workspace, archived
) -> None:
    await archived(said("first"), NoteAdded("msg", "a note"))
    assert await refusal(workspace, entry=2) == "recall: entry 2 has no text."
    assert (
        await refusal(workspace, entry=10**30) == f"recall: there is no entry {10**30}."
    )


async def test_a_call_without_query_and_entry_is_refused(
    workspace: Workspace, archived
) -> None:
    await archived()
    assert (
        await refusal(workspace)
        == "recall: give `query` to search, or `entry` to read one."
    )
    assert await refusal(workspace, query="") == "recall: `query` is empty."
    assert "`entry`" in await refusal(workspace, entry=0)


async def test_without_a_log_there_is_nothing_to_recall(workspace: Workspace) -> None:
    assert "nothing to recall" in await refusal(workspace, query="x")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.just("\n"),
        max_size=60,
    )
)
async def test_any_message_is_read_back_as_it_was(
    workspace: Workspace, archived, text: str
) -> None:
    await archived(said(f"> {text}"))
    page = await workspace.text("recall", entry=1)
    assert body(page) == f"> {text}".removesuffix("\n")
