"""The persisted form of events."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.codec import decode, encode
from acp_agent.conversation.events import (
    AssistantAnswered,
    CallView,
    ContextRestored,
    ContextSwapped,
    Event,
    InstructionsLoaded,
    ModeChanged,
    PermissionGranted,
    SessionStarted,
    TitleChanged,
    ToolReturned,
    TurnEnded,
    TurnRefused,
    UserPrompted,
)
from acp_agent.conversation.messages import AssistantMessage, Text, ToolCall, ToolResult
from acp_agent.conversation.swaps import Memory, Pin, Pinned, Quote, Receipt
from acp_agent.errors import StorageError
from support.events import EXAMPLES, GOLDEN, KINDS, any_event

Forms = dict[str, dict[str, Any]]


def golden(name: str) -> Forms:
    return json.loads(Path(__file__).with_name(name).read_text("utf-8"))


FIRST_GOLDEN = golden("golden_events_1.json")
"""Every form of the first logs, before a compaction could rewrite messages and be
undone.
"""
LEDGER_GOLDEN = golden("golden_events_2.json")
"""Compactions of the logs that carried a ledger of facts, the user's requests and a
language.
"""
WILD_TEXT = st.text(
    st.characters(codec=None, categories=("L", "Cs", "Cc", "So")), max_size=6
)


def test_every_kind_of_event_has_an_example_and_a_golden_form() -> None:
    kinds = {kind.__dataclass_fields__["kind"].default for kind in KINDS}
    assert set(GOLDEN) == kinds


@pytest.mark.parametrize("kind", EXAMPLES)
def test_events_are_persisted_in_the_form_of_older_logs(kind: str) -> None:
    assert json.loads(encode(EXAMPLES[kind])) == GOLDEN[kind]


def test_no_example_has_a_field_with_its_default_value() -> None:
    for event in EXAMPLES.values():
        plain = [
            each.name
            for each in fields(event)
            if each.default == getattr(event, each.name)
        ]
        assert plain == ["kind"]


@pytest.mark.parametrize("kind", FIRST_GOLDEN)
def test_fields_missing_from_the_first_logs_get_their_defaults(
    kind: str,
) -> None:
    meant = EXAMPLES[kind]
    if isinstance(meant, SessionStarted):
        meant = replace(meant, root="")
    if isinstance(meant, UserPrompted):
        meant = replace(meant, recipe="", digest="", steers=False)
    if isinstance(meant, ToolReturned):
        meant = replace(meant, before=(), view=replace(meant.view, changes=()))
    if isinstance(meant, PermissionGranted | ModeChanged):
        meant = replace(meant, scope="session")
    if isinstance(meant, TitleChanged):
        meant = TitleChanged(meant.title)
    if isinstance(meant, ContextSwapped):
        meant = replace(
            meant,
            sent=(Text("What happened so far: the total is fixed."),),
            carried=replace(
                meant.carried, memory=Memory(), auto_compaction=None, title_by="words"
            ),
            pinned=tuple(Pinned(pin.seq, pin.message) for pin in meant.pinned),
            strategy="summary",
            rewritten=(),
            files=(),
            fold_from=0,
            earlier=(),
            receipt=Receipt(),
            behind=None,
        )
    if isinstance(meant, InstructionsLoaded):
        meant = replace(meant, sections=())
    if isinstance(meant, TurnEnded):
        meant = replace(meant, refused=False)
    if isinstance(meant, TurnRefused):
        meant = replace(meant, before_seq=0)
    assert decode(kind, json.dumps(FIRST_GOLDEN[kind])) == meant


@pytest.mark.parametrize("kind", LEDGER_GOLDEN)
def test_only_pins_and_rules_are_read_from_the_memory_of_older_compactions(
    kind: str,
) -> None:
    old = LEDGER_GOLDEN[kind]
    assert {"ledger", "rules_elsewhere", "requests", "language"} <= set(
        old["carried"]["memory"]
    )
    read = decode(kind, json.dumps(old))
    meant = EXAMPLES[kind]
    if isinstance(meant, ContextSwapped):
        meant = replace(meant, behind=None)
    assert read == meant
    assert isinstance(read, ContextSwapped | ContextRestored)
    assert read.carried.memory == Memory(
        (Pin(2, "prices are cents"),), 4, (Quote(3, "Never edit main."),)
    )
    assert json.loads(encode(read)) == json.loads(encode(meant))


@given(any_event())
def test_decoding_an_encoded_event_returns_the_same_event(event: Event) -> None:
    assert decode(event.kind, encode(event)) == event


@given(any_event(WILD_TEXT))
def test_any_text_in_an_event_is_encoded_as_stable_valid_utf_8(
    event: Event,
) -> None:
    text = encode(event)
    text.encode("utf-8")
    assert "\0" not in text
    read = decode(event.kind, text)
    assert decode(event.kind, encode(read)) == read


def test_a_lone_surrogate_becomes_the_replacement_character_in_values_and_keys() -> (
    None
):
    call = ToolCall("call_1", "read\udc80", {"pa\ud800th": ["a\udfffb", {"n": 2**80}]})
    event = AssistantAnswered(AssistantMessage("msg_1", (Text("ok"), call)))
    stored = ToolCall(
        "call_1", "read\ufffd", {"pa\ufffdth": ["a\ufffdb", {"n": 2**80}]}
    )
    assert decode(event.kind, encode(event)) == AssistantAnswered(
        AssistantMessage("msg_1", (Text("ok"), stored))
    )


@pytest.mark.parametrize("name", ["read", "read\udc80"])
def test_numbers_that_json_cannot_represent_become_null(
    name: str,
) -> None:
    call = ToolCall("call_1", name, {"a": [float("nan"), {"b": float("-inf")}, 1.5]})
    event = AssistantAnswered(AssistantMessage("msg_1", (call,)))

    def refuse(word: str) -> object:
        raise AssertionError(word)

    [part] = json.loads(encode(event), parse_constant=refuse)["message"]["parts"]
    assert part["arguments"] == {"a": [None, {"b": None}, 1.5]}


@pytest.mark.parametrize(
    "depth", [90, 120, 180, 190, 195, 200, 210, 250, 260, 400, 900]
)
def test_arguments_of_any_depth_can_be_read_back(depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = {"a": [nested]}
    call = ToolCall("call_1", "read", {"path": "/shop", "nested": nested})
    for event in (
        AssistantAnswered(AssistantMessage("msg_1", (call,))),
        ToolReturned(
            ToolResult("call_1", (Text("t"),)), CallView("Read", raw_output=nested)
        ),
    ):
        read = decode(event.kind, encode(event))
        assert decode(read.kind, encode(read)) == read
        if isinstance(read, AssistantAnswered):
            assert read.message.tool_calls[0].arguments["path"] == "/shop"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("time_travelled", "{}"),
        ("title_changed", "{}"),
        ("title_changed", '{"title": 5}'),
        ("title_changed", '{"title": "a"'),
        ("title_changed", ""),
        ("title_changed", "[]"),
        ("title_changed", '{"title": "a", "kind": "mode_changed"}'),
        ("turn_refused", '{"from_seq": "first"}'),
        ("context_swapped", '{"compaction_id": "c"}'),
    ],
)
def test_an_unreadable_entry_raises_a_storage_error_that_names_its_kind(
    kind: str, data: str
) -> None:
    with pytest.raises(StorageError, match=rf"'{kind}'.*update acp-agent"):
        decode(kind, data)
    with pytest.raises(StorageError, match=rf"number 7, '{kind}'"):
        decode(kind, data, 7)


def test_fields_of_newer_versions_are_ignored() -> None:
    assert decode("title_changed", '{"title": "a", "colour": "red"}') == TitleChanged(
        "a"
    )
