"""Answers of executables, in our format and Claude Code's. Invalid answers are failures
of the hook.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import (
    AssistantMessage,
    Image,
    JsonObject,
    JsonValue,
    Message,
    Stored,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.errors import HookError
from acp_agent.hooks.answers import read_outcome, with_our_keys
from acp_agent.hooks.events import (
    AfterToolCall,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionStart,
    UserMessageSend,
)
from acp_agent.hooks.outcomes import (
    NOTHING,
    Compact,
    Continue,
    Decision,
    Outcome,
    Replace,
    Summarize,
)
from acp_agent.hooks.payload import as_json, conversation, with_claude_keys
from support.hook_answers import AT, JSON, OBJECTS, STOP, read, read_text, specific

CALL = BeforeToolCall(AT, "call_1", "shell", {"command": "ls", "timeout": 3})
PROMPT = UserMessageSend(AT, "Hello")
COMPACTION = BeforeCompaction(AT, "threshold", 1, 1, 1)


BLOCKED = Outcome(Decision("block", "No."))


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({}, NOTHING),
        (
            {
                "decision": None,
                "hookSpecificOutput": None,
                "action": None,
                "continue": None,
            },
            NOTHING,
        ),
        ({"suppressOutput": True, "continue": True, "reason": "Why not."}, NOTHING),
        ({"decision": "block", "reason": "No."}, BLOCKED),
        (
            {"decision": "block", "reason": "No."}
            | specific(decision={"behavior": "allow"}),
            BLOCKED,
        ),
        ({"blocked": True, "reason": "No."}, BLOCKED),
        ({"blocked": True, "reason": "No.", "decision": "allow"}, BLOCKED),
        ({"blocked": False, "reason": "Why not."}, NOTHING),
        ({"blokced": True, "reason": "No."}, Outcome(unknown=("blokced",))),
        (specific(permissionDecision="deny", permissionDecisionReason="No."), BLOCKED),
        ({"reason": "No."} | specific(permissionDecision="deny"), BLOCKED),
        ({"decision": "approve"}, Outcome(Decision("allow"))),
        ({"decision": "allow"}, Outcome(Decision("allow"))),
        (
            {"decision": "approve"} | specific(permissionDecision="ask"),
            Outcome(Decision("ask")),
        ),
        (
            specific(permissionDecision="defer", permissionDecisionReason="Later."),
            NOTHING,
        ),
        ({"continue": False, "stopReason": "Enough."}, Outcome(stop="Enough.")),
        ({"continue": False}, Outcome(stop="")),
        ({"systemMessage": "Mind the gap."}, Outcome(notices=("Mind the gap.",))),
        (
            specific(additionalContext="It is Monday."),
            Outcome(context=("It is Monday.",)),
        ),
        (
            {"context": ["a", "b"]} | specific(additionalContext="c"),
            Outcome(context=("a", "b", "c")),
        ),
        ({"tool_input": {"command": "ls"}}, Outcome(tool_input={"command": "ls"})),
        (
            specific(updatedInput={"command": "ls"}),
            Outcome(tool_input={"command": "ls"}),
        ),
        ({"tool_output": "three"}, Outcome(tool_output="three")),
        ({"tool_output": ""}, Outcome(tool_output="")),
        (
            specific(updatedToolOutput={"stdout": "three", "stderr": ""}),
            Outcome(tool_output="three"),
        ),
        (
            specific(updatedMCPToolOutput=[{"type": "text", "text": "three"}]),
            Outcome(tool_output="three"),
        ),
        ({"message": "Say it better."}, Outcome(message="Say it better.")),
        ({"summary": "All."}, Outcome(summary="All.")),
        (specific(summary="All."), Outcome(summary="All.")),
        ({"action": "compact"}, Outcome(action=Compact())),
        (
            {"action": "compact", "instructions": "Keep the API."},
            Outcome(action=Compact("Keep the API.")),
        ),
        ({"action": "summary"}, Outcome(action=Summarize())),
        (
            {"action": "continue", "messages": ["Lint."]},
            Outcome(action=Continue(("Lint.",))),
        ),
        (
            {"action": "continue", "messages": ["a"], "follow_up_messages": ["b"]},
            Outcome(
                action=Continue(("a",)),
                unknown=("follow_up_messages with action: continue",),
            ),
        ),
        (
            {"action": "continue", "messages": [], "follow_up_messages": ["b"]},
            Outcome(action=Continue(("b",))),
        ),
        (
            {"action": "continue", "messages": [" "], "follow_up_messages": ["b"]},
            Outcome(action=Continue(("b",))),
        ),
        ({"follow_up_messages": ["b"]}, Outcome(action=Continue(("b",)))),
        ({"action": "continue"}, NOTHING),
        ({"action": "continue", "messages": [" "]}, NOTHING),
        ({"messages": ["a"]}, Outcome(action=Continue(("a",)))),
        ({"messages": []}, NOTHING),
        ({"messages": [" "]}, NOTHING),
        (
            {"messages": [{"role": "user", "content": "Go"}]},
            Outcome(unknown=("messages without action",)),
        ),
        (
            {"instructions": "Keep it."},
            Outcome(unknown=("instructions without action",)),
        ),
        (
            {"action": "compact", "follow_up_messages": ["b"]},
            Outcome(
                action=Compact(), unknown=("follow_up_messages with action: compact",)
            ),
        ),
        (
            {"action": "compact", "messages": ["a"]},
            Outcome(action=Compact(), unknown=("messages with action: compact",)),
        ),
        (
            {"action": "continue", "messages": ["a"], "replace_messages": [1]},
            Outcome(
                action=Continue(("a",)),
                unknown=("replace_messages with action: continue",),
            ),
        ),
        (
            {"action": "summary", "replace_messages": [1]},
            Outcome(
                action=Summarize(), unknown=("replace_messages with action: summary",)
            ),
        ),
        ({"action": ""}, NOTHING),
        ({"action": "", "decision": "", "reason": "", "messages": None}, NOTHING),
        (
            {"action": "", "context": "It is Monday."},
            Outcome(context=("It is Monday.",)),
        ),
        ({"action": "", "follow_up_messages": ["b"]}, Outcome(action=Continue(("b",)))),
        ({"decision": "", "action": "compact"}, Outcome(action=Compact())),
        (
            specific(permissionDecision="", additionalContext="It is Monday."),
            Outcome(context=("It is Monday.",)),
        ),
    ],
)
def test_every_key_of_both_formats_has_its_effect(
    answer: object, outcome: Outcome
) -> None:
    assert read(answer) == outcome


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ({"hookSpecificOutput": 3}, "hookSpecificOutput: should be an object"),
        (
            {"decision": "perhaps"},
            "decision: should be 'block', 'approve', 'allow' or 'ask'",
        ),
        ({"continue": "no"}, "continue: should be a valid boolean"),
        (specific(permissionDecision="maybe"), "permissionDecision: should be 'allow'"),
        (specific(updatedInput="ls"), "updatedInput: should be a valid dictionary"),
        ({"context": 3}, "context: should be a valid list"),
        (
            {"action": "restart"},
            "action: should be 'compact', 'summary', 'continue' or 'replace'",
        ),
        ({"action": "continue", "messages": [1]}, "messages: should be strings"),
        ({"action": "replace"}, "there should be at least one message"),
    ],
)
def test_an_invalid_answer_is_reported_with_its_key(
    answer: object, complaint: str
) -> None:
    with pytest.raises(HookError) as error:
        read(answer)
    assert complaint in str(error.value)


# --- exit status ---


def test_exit_status_2_refuses_with_stderr_as_the_reason() -> None:
    assert read_outcome(CALL, 2, b'{"decision": "allow"}', b"Not today.\n") == Outcome(
        Decision("block", "Not today.")
    )


@pytest.mark.parametrize(
    ("code", "said", "message"),
    [
        (
            1,
            b"Traceback\n" + b"x\n" * 9 + b"KeyError: 'a'\n",
            "ended with status 1. It said: x\nx\nx\nx\nKeyError: 'a'",
        ),
        (1, b"", "It ended with status 1. It said nothing on stderr."),
        (-9, b"", "It was ended by SIGKILL."),
        (127, b"sh: nope: not found", "status 127. It said: sh: nope: not found"),
    ],
)
def test_any_other_exit_status_is_a_failure_with_the_last_lines_of_stderr(
    code: int, said: bytes, message: str
) -> None:
    with pytest.raises(HookError) as error:
        read_outcome(CALL, code, b'{"decision": "allow"}', said)
    assert message in str(error.value)


def test_plain_text_is_context_at_the_start_and_an_error_at_a_tool_call() -> None:
    for event in (SessionStart(AT, "new"), PROMPT):
        assert read_text(event, "It is Monday.\n") == Outcome(
            context=("It is Monday.",)
        )
        assert read_text(event, "") == NOTHING
    assert read_text(STOP, "It is Monday.\n") == NOTHING
    with pytest.raises(HookError, match="no JSON object"):
        read_text(CALL, 'Checking.\n{"decision": "block"}')
    assert read_text(CALL, "\n") == NOTHING


# --- conversations ---


def replaced(*messages: object) -> tuple[Message, ...]:
    action = read({"action": "replace", "replace_messages": messages}).action
    assert isinstance(action, Replace)
    return action.messages


@pytest.mark.parametrize(
    "action", [{}, {"action": ""}, {"action": "compact"}, {"action": "replace"}]
)
def test_replace_messages_replace_the_conversation_with_every_compacting_action(
    action: dict[str, str],
) -> None:
    outcome = read(
        {**action, "replace_messages": [{"role": "user", "content": "Go on."}]}
    )
    assert isinstance(outcome.action, Replace)
    assert [message.parts for message in outcome.action.messages] == [(Text("Go on."),)]
    assert outcome.unknown == ()


USE: JsonObject = {
    "type": "tool_use",
    "id": "call_1",
    "name": "read",
    "input": {"path": "a"},
}
RESULT: JsonObject = {"type": "tool_result", "tool_use_id": "call_1", "content": "one"}


@pytest.mark.parametrize(
    "text",
    [
        'Checked.\n{"decision": "block"}',
        '[{"decision": "block"}]',
        '[1]\n {\n"a": 1}',
        "{",
    ],
)
def test_output_that_begins_like_json_is_a_failure_where_plain_text_is_ignored(
    text: str,
) -> None:
    for event in (CALL, STOP, COMPACTION):
        with pytest.raises(HookError, match="no JSON"):
            read_text(event, text)
    assert read_text(STOP, "[INFO] 3 files checked. {a: b}") == NOTHING


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([], "replace_messages: there should be at least one message"),
        (
            [{"role": "assistant", "content": "Hi"}],
            "replace_messages.0: the first message should be a user message",
        ),
        (
            [{"role": "system", "content": "Hi"}],
            "replace_messages.0: should have a `role`, user or assistant",
        ),
        (
            [{"role": "user"}],
            "replace_messages.0: should have a `role`, user or assistant, and a `content`",
        ),
        ([{"role": "user", "content": ""}], "replace_messages.0: the message is empty"),
        ([{"role": "user", "content": []}], "replace_messages.0: the message is empty"),
        (
            [{"role": "user", "content": [{"type": "video"}]}],
            "replace_messages.0.content.0: is not a valid block of type text",
        ),
        (
            [{"role": "user", "content": [RESULT]}],
            "replace_messages.0: no earlier call without a result has the id 'call_1'",
        ),
        (
            [{"role": "user", "content": [USE]}],
            "replace_messages.0: a message with the role user cannot contain a tool_use block",
        ),
        (
            [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": [USE]},
            ],
            "replace_messages: the call 'call_1' has no result",
        ),
        (
            [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": [USE]},
                {"role": "user", "content": "?"},
            ],
            "replace_messages.2: the earlier call 'call_1' has no result",
        ),
        (
            [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": [USE, USE]},
            ],
            "replace_messages.1: an earlier call has the same id",
        ),
        (
            [
                {"role": "user", "content": "Go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]},
            ],
            "replace_messages.1.content.0: is not a valid block",
        ),
    ],
)
def test_a_conversation_that_models_would_reject_is_refused_with_the_reason(
    messages: list[Any], complaint: str
) -> None:
    with pytest.raises(HookError) as error:
        replaced(*messages)
    assert complaint in str(error.value)


def bare(messages: tuple[Message, ...]) -> list[object]:
    """Return the messages without their IDs, which are new each time."""
    return [
        (message.call_id, message.parts, message.is_error)
        if isinstance(message, ToolResult)
        else (message.role, message.parts)
        for message in messages
    ]


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
TEXTS = WORDS.map(Text)
IMAGES = st.just(Image("aGk=", "image/png"))


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    messages: list[Message] = [
        UserMessage("m", tuple(draw(st.lists(TEXTS | IMAGES, min_size=1, max_size=2))))
    ]
    for turn in range(draw(st.integers(0, 3))):
        calls = [
            ToolCall(f"call_{turn}_{n}", draw(WORDS), draw(OBJECTS))
            for n in range(draw(st.integers(0, 2)))
        ]
        said = draw(st.lists(TEXTS, min_size=0 if calls else 1, max_size=2))
        messages.append(AssistantMessage("m", (*said, *calls)))
        messages += [
            ToolResult(
                call.id,
                tuple(draw(st.lists(TEXTS | IMAGES, min_size=1, max_size=2))),
                draw(st.booleans()),
            )
            for call in calls
        ]
        if draw(st.booleans()):
            messages.append(UserMessage("m", (draw(TEXTS),)))
    return tuple(messages)


@given(conversations())
def test_a_conversation_that_a_hook_returns_unchanged_stays_the_same(
    messages: tuple[Message, ...],
) -> None:
    told = json.loads(json.dumps([as_json(message) for message in messages]))
    assert bare(replaced(*told)) == bare(messages)


KEYS = st.sampled_from([
    "decision", "reason", "continue", "stopReason", "hookSpecificOutput", "action", "messages", "replace_messages",
    "follow_up_messages", "tool_input", "tool_output", "message", "context", "summary", "permissionDecision",
    "updatedInput", "edits", "old_string", "role", "content", "type", "tokens", "tool_use", "id",
])  # fmt: skip
VALUES = (
    st.sampled_from(
        ["block", "replace", "continue", "user", "text", "tool_use", "turn_end"]
    )
    | JSON
)
NONSENSE = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
EVENTS: st.SearchStrategy[HookEvent] = st.sampled_from(
    [
        STOP,
        CALL,
        PROMPT,
        BeforeToolCall(
            AT, "c", "edit", {"path": "a", "edits": [{"old_text": "a"}, {}]}
        ),
    ]
)


@given(EVENTS, NONSENSE.map(json.dumps) | st.text() | st.text().map("{{{}".format))
def test_arbitrary_output_raises_only_hook_errors(event: HookEvent, text: str) -> None:
    with suppress(HookError):
        assert isinstance(read_text(event, text), Outcome)


def test_a_deeply_nested_answer_is_a_failure_of_the_hook() -> None:
    for text in (
        '{"a":' + "[" * 100_000,
        '{"tool_output":' + "[" * 900 + "]" * 900 + "}",
    ):
        with suppress(HookError):
            assert isinstance(read_text(STOP, text), Outcome)


# --- messages and arguments that a hook gets and returns ---

KEPT = Stored("0f" * 32, 5000)
PICTURES: list[Message] = [
    UserMessage(
        "msg_1", (Text("Look"), Image("AAAA", "image/png"), Image(KEPT, "image/jpeg"))
    ),
    AssistantMessage("msg_2", (ToolCall("call_1", "read", {"path": "a.png"}),)),
    ToolResult("call_1", (Text("a.png:"), Image(KEPT, "image/png"))),
]


def test_a_stored_image_is_passed_by_name_and_accepted_back() -> None:
    forms: list[JsonValue] = [as_json(message) for message in PICTURES]
    assert "sha256:0f0f" in str(forms)
    assert [message.parts for message in conversation(forms, "messages")] == [
        message.parts for message in PICTURES
    ]
    for name in ("0f" * 32, "sha256:../../x", f"sha256:{'0F' * 32}"):
        source: JsonObject = {
            "type": "file",
            "file_id": name,
            "media_type": "image/png",
            "size": 3,
        }
        with pytest.raises(
            HookError, match=r"messages\.0\.content\.0: is not a valid block"
        ):
            conversation(
                [{"role": "user", "content": [{"type": "image", "source": source}]}],
                "messages",
            )


def edit(*pairs: tuple[str, str]) -> JsonObject:
    return {
        "path": "src/a.py",
        "edits": [{"old_text": old, "new_text": new} for old, new in pairs],
    }


def answered(event: BeforeToolCall, **changes: object) -> JsonObject | None:
    sent = with_claude_keys(event.tool, event.input, event.at.cwd)
    return read(specific(updatedInput={**sent, **changes}), event).tool_input


def test_of_two_keys_for_one_argument_the_changed_one_is_used() -> None:
    event = BeforeToolCall(AT, "c", "write", {"path": "a", "content": "x"})
    assert answered(event) is None
    assert answered(event, file_path="/tmp/b") == {"path": "/tmp/b", "content": "x"}
    assert answered(event, path="b") == {"path": "b", "content": "x"}
    assert read(
        {"tool_input": {"file_path": "/b", "content": "y"}}, event
    ).tool_input == {"path": "/b", "content": "y"}


def test_a_single_edit_can_be_changed_with_either_keys_but_several_only_with_ours() -> (
    None
):
    one = BeforeToolCall(AT, "c", "edit", edit(("a", "b")))
    assert answered(one) is None
    assert answered(one, new_string="B") == edit(("a", "B"))
    theirs: JsonObject = {"file_path": "/x", "old_string": "o", "new_string": "n"}
    assert read(specific(updatedInput=theirs), one).tool_input == {
        **edit(("o", "n")),
        "path": "/x",
    }
    two = BeforeToolCall(AT, "c", "edit", edit(("a", "b"), ("c", "d")))
    assert answered(two) is None
    with pytest.raises(HookError, match="the call has 2 edits; return `edits`"):
        answered(two, new_string="B")


@given(
    st.sampled_from(["read", "write", "edit", "shell", "grep", "plan", "recall"]),
    OBJECTS,
)
def test_arguments_that_a_hook_returns_unchanged_stay_the_same(
    tool: str, arguments: JsonObject
) -> None:
    arguments = {key: value for key, value in arguments.items() if key != "file_path"}
    if tool == "edit":
        arguments["edits"] = [{"old_text": "a", "new_text": "b"}]
    assert (
        with_our_keys(
            tool, with_claude_keys(tool, arguments, "/shop"), arguments, "/shop"
        )
        == arguments
    )


def test_a_result_can_be_replaced_with_output_in_the_form_of_the_tools() -> None:
    after = AfterToolCall(AT, "c", "shell", {"command": "ls"}, (Text("a"),))
    assert (
        read(
            specific(updatedToolOutput={"stdout": "b", "stderr": "c"}), after
        ).tool_output
        == "b\nc"
    )
    assert (
        read(specific(updatedToolOutput={"count": 3}), after).tool_output
        == '{"count": 3}'
    )
