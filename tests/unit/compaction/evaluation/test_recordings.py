"""Recorded sessions of every agent become valid messages, and a bad file is reported
with its line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.compaction.evaluation.recordings import (
    NO_RESULT,
    Recording,
    from_log,
    read_recording,
)
from acp_agent.conversation.events import LoggedEvent
from acp_agent.conversation.messages import AssistantMessage, Message, Text, ToolResult
from acp_agent.errors import AgentError
from support.logs import is_legal, legal_logs
from support.recordings import (
    Step,
    as_chat,
    as_claude_code,
    as_codex,
    as_transcript,
    cart_session,
    write,
)

FORMS: dict[str, Callable[[list[Step]], Any]] = {
    "transcript": as_transcript,
    "mini-swe-agent": as_chat,
    "Claude Code": as_claude_code,
    "Codex": as_codex,
}
IDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(
    [
        "",
        " ",
        "Hello",
        "Grüße 🌱",
        "half a pair \ud83c",
        "```bash\nls\n```",
        "<returncode>1</returncode>",
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), TEXTS),
        st.tuples(st.just("assistant"), TEXTS),
        st.tuples(
            st.just("call"), st.tuples(IDS, st.just("bash"), st.just({"command": "ls"}))
        ),
        st.tuples(st.just("result"), st.tuples(IDS, TEXTS)),
    ),
    max_size=12,
)
KEYS = [
    "messages",
    "history",
    "trajectory",
    "role",
    "content",
    "type",
    "payload",
    "message",
    "tool_calls",
    "function",
]
KEYS += [
    "text",
    "id",
    "call_id",
    "arguments",
    "output",
    "info",
    "exit_status",
    "action",
    "query",
]
KINDS = [
    "user",
    "assistant",
    "message",
    "response_item",
    "function_call",
    "text",
    "tool_use",
    "tool_result",
    "tool",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


def check(messages: tuple[Message, ...]) -> None:
    assert is_legal(messages)
    ids = [
        message.call_id if isinstance(message, ToolResult) else message.id
        for message in messages
    ]
    calls = [
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
    assert len({*ids}) == len(ids)
    assert len({*calls}) == len(calls)
    for message in messages:
        for part in message.parts:
            if isinstance(part, Text):
                part.text.encode()


def read(path: Path) -> tuple[tuple[Message, ...], str]:
    """Return the messages of a file, or the error that it was refused with."""
    try:
        return read_recording(path).messages, ""
    except AgentError as error:
        return (), str(error)


def outline(recording: Recording) -> list[tuple[str, str]]:
    """Return the texts and calls with their speakers."""
    return [
        (
            message.role,
            part.text
            if isinstance(part, Text)
            else str(getattr(part, "arguments", "")),
        )
        for message in recording.messages
        for part in message.parts
    ]


@pytest.mark.parametrize("form", FORMS)
def test_all_recording_formats_give_the_same_messages(
    form: str, tmp_path: Path
) -> None:
    recording = read_recording(
        write(tmp_path / "any.name", FORMS[form](cart_session()))
    )
    assert recording.form == form
    assert recording.cwd == ("/shop" if form in ("Claude Code", "Codex") else "")
    assert recording.system == (
        "" if form in ("Claude Code", "Codex") else "You are careful."
    )
    check(recording.messages)
    roles = {
        "user": "user",
        "assistant": "assistant",
        "call": "assistant",
        "result": "tool",
    }
    expected = [
        (
            roles[kind],
            value
            if kind in ("user", "assistant")
            else str(value[2])
            if kind == "call"
            else value[1],
        )
        for kind, value in cart_session()
    ]
    assert outline(recording) == expected


@pytest.mark.parametrize("form", FORMS)
@given(steps=STEPS)
def test_every_recording_becomes_valid_messages(
    form: str, steps: list[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("form") / "session"
    value = FORMS[form]([("user", "Begin."), *steps])
    text = (
        json.dumps(value)
        if isinstance(value, dict)
        else "\n".join(json.dumps(line) for line in value)
    )
    path.write_text(text)
    recording = read_recording(path)
    assert recording.form == form
    check(recording.messages)
    said = "".join(text for _, text in outline(recording))
    assert all(
        "Hello" in said for kind, text in steps if kind == "user" and text == "Hello"
    )


@given(
    st.lists(
        JSON
        | st.dictionaries(
            st.sampled_from(KEYS), JSON | st.sampled_from(KINDS), max_size=6
        ),
        max_size=4,
    )
)
def test_any_json_file_is_imported_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "session.json"
    for text in (
        "\n".join(json.dumps(value) for value in values),
        json.dumps({"messages": values, "history": values}),
    ):
        path.write_text(text)
        messages, refusal = read(path)
        check(messages)
        assert messages or str(path) in refusal


def test_unmatched_calls_and_results_are_repaired(
    tmp_path: Path,
) -> None:
    steps: list[Step] = [
        ("user", "Begin."),
        ("result", ("nobody", "an answer to nothing")),
        ("call", ("a", "bash", {"command": "one"})),
        ("call", ("b", "bash", {"command": "two"})),
        ("result", ("b", "of two")),
        ("result", ("b", "once more")),
        ("user", "Stop."),
        ("call", ("b", "bash", {"command": "three"})),
        ("result", ("b", "of three")),
    ]
    recording = read_recording(write(tmp_path / "rollout", as_codex(steps)))
    assert [text for role, text in outline(recording) if role == "tool"] == [
        NO_RESULT,
        "of two",
        "of three",
    ]


def test_shell_calls_and_custom_calls_of_codex_are_read(tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Repair it."}],
        },
        {
            "type": "local_shell_call",
            "call_id": "a",
            "action": {"command": ["bash", "-lc", "ls"]},
        },
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": '{"output":"a.py","metadata":{"exit_code":2}}',
        },
        {
            "type": "custom_tool_call",
            "call_id": "b",
            "name": "apply_patch",
            "input": "*** Begin Patch",
        },
        {"type": "custom_tool_call_output", "call_id": "b", "output": "Done"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "x",
        },
    ]
    lines = [{"type": "response_item", "payload": item} for item in items]
    messages = read_recording(write(tmp_path / "rollout", lines)).messages
    check(messages)
    results = [message for message in messages if isinstance(message, ToolResult)]
    assert [(result.text, result.is_error) for result in results] == [
        ("a.py", False),
        ("Done", False),
    ]
    calls = [
        call
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
    assert [call.arguments for call in calls] == [
        {"command": ["bash", "-lc", "ls"]},
        {"input": "*** Begin Patch"},
    ]


@given(legal_logs())
def test_an_own_session_is_imported_without_its_compactions(
    log: tuple[LoggedEvent, ...],
) -> None:
    recording = from_log(log, "sess_1")
    check(recording.messages)
    assert not any("History:" in text for _, text in outline(recording))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: is empty; expected"),
        ("Hello there", ":1: is not a JSON object"),
        ('{"type": "user"', ":1: is not a JSON object"),
        ('{\n  "messages": [\n    oops\n', ":1: is not a JSON object"),
        (
            '{"type": "user", "message": {"content": "a"}}\nnonsense\n{"type": "user"}\n',
            ":2: is not a JSON object",
        ),
        (
            '{"type": "user", "message": {"content": "a"}}\n{"type": "us\n\n{}\n',
            ":2: is not a JSON object",
        ),
        (
            '{"type": "user", "message": {"content": "a"}}\n[1]\n{}\n',
            ":2: is not a JSON object",
        ),
        (
            '{"history": [{"role": "user", "content": "a"}]}',
            ":1: is JSON in an unknown format; expected",
        ),
        (
            '{"messages": [{"role": "system", "content": "a"}]}',
            "but has no messages",
        ),
        ('{"name": "acp-agent"}', ":1: is JSON in an unknown format; expected"),
        (
            '{"name": "acp-agent"}\n{"name": "acp',
            ":1: is JSON in an unknown format; expected",
        ),
        ("[1, 2]", ":1: is not a JSON object"),
        ("[" * 100_000, ":1: is not a JSON object"),
        ("1" * 5_000, ":1: is not a JSON object"),
    ],
)
def test_a_bad_file_is_reported_with_its_line_and_the_known_formats(
    text: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(text)
    with pytest.raises(AgentError) as error:
        read_recording(path)
    assert str(error.value).startswith(str(path))
    assert expected in str(error.value)


@pytest.mark.parametrize(
    "rest", [b'{"type": "user", "mess', b'{"type": "user", "text": "Gr\xc3', b"{"]
)
@pytest.mark.parametrize("form", ["Claude Code", "Codex"])
def test_an_incomplete_last_line_is_ignored(
    form: str, rest: bytes, tmp_path: Path
) -> None:
    path = write(tmp_path / "session", FORMS[form](cart_session()))
    whole = read_recording(path)
    with path.open("ab") as file:
        file.write(rest)
    assert read_recording(path) == whole
