"""Whatever the domain has to tell is an update as the schema of either version has it,
in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.events import CallView, PlanEntry
from acp_agent.conversation.messages import Image, Resource, ResourceLink, Text
from acp_agent.conversation.updates import (
    AgentSaid,
    AgentThought,
    CallAnnounced,
    CallFinished,
    CallOutput,
    CallStarted,
    CallTerminal,
    Choice,
    Command,
    CommandsUpdated,
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    ModeUpdated,
    Notice,
    Option,
    OptionsUpdated,
    PlanUpdated,
    PromptTaken,
    TitleUpdated,
    TurnBegan,
    TurnOver,
    Update,
    UsageUpdated,
    UserSaid,
)
from acp_agent.conversation.views import Diff, FileChange, Location
from acp_agent.errors import ModelAuthError, SessionNotFoundError
from acp_agent.protocol import JsonObject
from acp_agent.protocol.updates import session_update
from acp_agent.server.content import MAX_TEXT, size
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1.presenter import Presenter as FirstPresenter
from acp_agent.server.v2.presenter import V2Presenter
from support.schema import official_schema, validate_params

TEXT = st.text(max_size=6)
MAYBE = st.none() | TEXT
PICTURE = st.builds(Image, st.just("aGk="), st.just("image/png"), MAYBE)
NAME = st.text(min_size=1, max_size=4)
ID = st.sampled_from("abc")
PATH = st.sampled_from(["/a", "/b c", "/ü"])
FILE_KIND = st.sampled_from(["text", "binary", "directory", "symlink", None])
JSON: st.SearchStrategy[Any] = st.dictionaries(
    TEXT, st.none() | st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=2
)
PART = st.one_of(
    st.builds(Text, TEXT),
    PICTURE,
    st.builds(
        ResourceLink, TEXT, TEXT, MAYBE, MAYBE, st.none() | st.integers(0, 9), MAYBE
    ),
    st.builds(Resource, TEXT, text=TEXT, mime_type=MAYBE),
    st.builds(Resource, TEXT, blob=st.just("aGk="), mime_type=MAYBE),
)
RESULTS = st.lists(st.builds(Text, TEXT) | PICTURE, max_size=2).map(tuple)
VIEW = st.builds(
    CallView,
    NAME,
    st.sampled_from(["read", "edit", "execute", "search", "other"]),
    st.lists(st.builds(Location, PATH, st.none() | st.integers(1, 9)), max_size=2).map(
        tuple
    ),
    st.lists(st.builds(Diff, PATH, MAYBE, TEXT), max_size=2).map(tuple),
    st.none() | JSON,
    st.lists(
        st.builds(FileChange, st.just("delete"), PATH, kind=FILE_KIND)
        | st.builds(
            FileChange, st.sampled_from(["move", "copy"]), PATH, PATH, FILE_KIND
        ),
        max_size=2,
    ).map(tuple),
)
ENTRY = st.builds(
    PlanEntry,
    TEXT,
    st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
    st.sampled_from(["high", "medium", "low"]),
)
CHOICES = st.lists(
    st.builds(Choice, NAME, NAME, MAYBE, st.none() | ID), max_size=3
).map(tuple)
OPTION = st.builds(
    Option, NAME, NAME, st.sampled_from(["mode", "model", None]), NAME, CHOICES, MAYBE
)
SWITCH = st.builds(
    Option,
    NAME,
    NAME,
    st.none(),
    st.sampled_from(["on", "off"]),
    st.just((Choice("on", "On"), Choice("off", "Off"))),
    is_switch=st.just(True),
)
ERRORS = st.sampled_from(
    [ModelAuthError("No key."), SessionNotFoundError("s"), ValueError("inside")]
)
UPDATES: st.SearchStrategy[Update] = st.one_of(
    st.builds(TurnBegan),
    st.builds(
        TurnOver,
        st.sampled_from(
            ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
        ),
    ),
    st.builds(TurnOver, st.none(), ERRORS),
    st.builds(PromptTaken, ID, st.lists(PART, min_size=1, max_size=3).map(tuple)),
    st.builds(UserSaid, ID, PART),
    st.builds(AgentSaid, ID, TEXT),
    st.builds(AgentThought, ID, TEXT),
    st.builds(CallAnnounced, ID, NAME, VIEW, JSON),
    st.builds(CallStarted, ID, VIEW),
    st.builds(CallTerminal, ID, ID),
    st.builds(CallOutput, ID, TEXT),
    st.builds(
        CallFinished,
        ID,
        NAME,
        VIEW,
        JSON,
        st.sampled_from(["completed", "failed", "cancelled"]),
        RESULTS,
        st.booleans(),
    ),
    st.builds(PlanUpdated, st.lists(ENTRY, max_size=2).map(tuple)),
    st.builds(
        UsageUpdated, st.integers(0, 9), st.integers(0, 9), st.none() | st.floats(0, 9)
    ),
    st.builds(ModeUpdated, NAME),
    st.builds(OptionsUpdated, st.lists(OPTION | SWITCH, max_size=2).map(tuple)),
    st.builds(TitleUpdated, TEXT),
    st.builds(
        CommandsUpdated,
        st.lists(st.builds(Command, NAME, TEXT, MAYBE), max_size=2).map(tuple),
    ),
    st.builds(CompactionStarted, ID, TEXT),
    st.builds(CompactionChunk, ID, TEXT),
    st.builds(
        CompactionFinished,
        ID,
        st.sampled_from(["completed", "failed", "cancelled"]),
        MAYBE,
        MAYBE,
    ),
    st.builds(
        Notice, st.sampled_from(["info", "warning", "error"]), NAME.filter(str.strip)
    ),
)
SECOND = Capabilities.of(2, {})
FLAGS = st.sampled_from(["compaction", "notices", "plans", "booleans"])


def kinds(version: int) -> set[str]:
    """The kinds of updates that a version has; its schema lets pass what may come
    later.
    """
    union = official_schema(version)["$defs"]["SessionUpdate"]
    options = union.get("oneOf") or union["anyOf"]
    return {
        option["properties"]["sessionUpdate"]["const"]
        for option in options
        if "not" not in option
    }


def presented(
    presenter: V2Presenter, updates: list[Update], replayed: int
) -> Iterator[Any]:
    """What is sent of some updates, of which the first ones are replayed."""
    presenter.begin_replay()
    for update in updates[:replayed]:
        yield from presenter.present(update)
    yield from presenter.end_replay()
    for update in updates[replayed:]:
        yield from presenter.present(update)


@given(st.lists(UPDATES, max_size=12), st.integers(0, 12))
def test_every_update_is_one_of_the_schema_of_version_2(
    updates: list[Update], replayed: int
) -> None:
    for wire in presented(V2Presenter(SECOND), updates, replayed):
        validate_params("session/update", session_update("s", wire), version=2)
        assert wire["sessionUpdate"] in kinds(2)


@given(st.lists(UPDATES, max_size=12), st.sets(FLAGS))
def test_every_update_is_one_of_the_schema_of_version_1_whatever_the_editor_has(
    updates: list[Update], flags: set[str]
) -> None:
    supported: dict[str, Any] = dict.fromkeys(flags, True)
    presenter = FirstPresenter(Capabilities(**supported))
    for wire in (wire for update in updates for wire in presenter.present(update)):
        validate_params("session/update", session_update("s", wire))
        assert wire["sessionUpdate"] in kinds(1)


def test_a_command_in_a_terminal_keeps_it_beside_what_it_did_to_files() -> None:
    presenter = V2Presenter(SECOND)
    view = CallView(
        "mv a b", "execute", changes=(FileChange("move", "/b", "/a", "text"),)
    )
    list(presenter.present(CallTerminal("c", "t")))
    finished = CallFinished(
        "c", "shell", view, {}, "completed", (Text("exit status: 0"),)
    )
    chunk, last = [*presenter.present(finished)]
    assert ("content" in last, last["capabilities"]) == (False, None)
    assert (chunk["sessionUpdate"], cast("Any", chunk)["content"]["type"]) == (
        "tool_call_content_chunk",
        "diff",
    )
    assert last["status"] == "completed"
    assert "c" not in presenter.terminals
    # Replayed, it has no terminal; what it printed stands beside that.
    [again] = cast(
        "Any", [*V2Presenter(SECOND).present(replace(finished, replayed=True))]
    )
    assert [item["type"] for item in again["content"]] == ["content", "diff"]


def test_what_a_call_was_given_is_left_out_where_it_is_too_large_for_a_line() -> None:
    arguments: JsonObject = {"path": "a", "content": "x" * (MAX_TEXT + 1)}
    view = CallView("Write a", "edit")
    for update in (
        CallAnnounced("c", "write", view, arguments),
        CallFinished("c", "write", view, arguments, "completed", (), replayed=True),
    ):
        [wire] = cast("Any", [*V2Presenter(SECOND).present(update)])
        assert "too many to show" in wire["rawInput"]["…"]
        assert size(wire) < MAX_TEXT
