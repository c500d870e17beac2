"""The JSON of an event for a program, with our keys and Claude Code's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
    changed,
)
from acp_agent.hooks.outcomes import Outcome
from acp_agent.hooks.payload import payload, with_claude_keys
from support.hook_answers import AT, moment

MESSAGES: tuple[Message, ...] = (
    UserMessage("m1", (Text("Fix it"),)),
    AssistantMessage("m2", (Text("I look."), ToolCall("c1", "read", {"path": "a"}))),
    ToolResult("c1", (Text("one"),)),
)


async def test_an_event_has_our_keys_and_claude_code_s(
    tmp_path: Path,
) -> None:
    told = await payload(
        BeforeToolCall(
            moment(Path("/shop"), MESSAGES),
            "call_1",
            "edit",
            {"path": "a.py", "edits": []},
        )
    )
    assert told == {
        "event": "before_tool_call",
        "hook_event_name": "PreToolUse",
        "conv_id": "s",
        "session_id": "s",
        "transcript_path": "/transcripts/s.jsonl",
        "cwd": "/shop",
        "permission_mode": "default",
        "invoked_by": "main",
        "turn_number": 1,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 2,
            "current_context_window": 700,
            "max_context_window": 1000,
        },
        "tool": "edit",
        "tool_name": "Edit",
        "tool_use_id": "call_1",
        "tool_input": {"path": "a.py", "file_path": "/shop/a.py", "edits": []},
        "messages": [
            {"role": "user", "content": "Fix it"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {
                        "type": "tool_use",
                        "id": "c1",
                        "name": "read",
                        "input": {"path": "a"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": "one",
                        "is_error": False,
                    }
                ],
            },
        ],
    }


@pytest.mark.parametrize(
    ("event", "name", "keys"),
    [
        (SessionStart(AT, "new"), "SessionStart", {"source": "new"}),
        (UserMessageSend(AT, "Hi"), "UserPromptSubmit", {"prompt": "Hi"}),
        (
            AfterToolCall(AT, "c", "shell", {"command": "ls"}, (Text("a"),)),
            "PostToolUse",
            {
                "tool_name": "Bash",
                "tool_output": "a",
                "is_error": False,
                "tool_response": {
                    "success": True,
                    "content": "a",
                    "stdout": "a",
                    "stderr": "",
                    "interrupted": False,
                },
            },
        ),
        (
            AfterToolCall(
                AT,
                "c",
                "shell",
                {"command": "ls"},
                (Text("exit status: 1\nstdout:\na"),),
                is_error=True,
                raw_output={"stdout": "a\n", "stderr": "b\n", "exitCode": 1},
            ),
            "PostToolUse",
            {
                "tool_output": "exit status: 1\nstdout:\na",
                "tool_response": {
                    "success": False,
                    "content": "exit status: 1\nstdout:\na",
                    "stdout": "a\n",
                    "stderr": "b\n",
                    "interrupted": False,
                    "exit_code": 1,
                },
            },
        ),
        (TurnEnd(AT, "Done."), "turn_end", {"response": "Done.", "turn_number": 1}),
        (
            AgentStop(AT, "Done.", stop_hook_active=True),
            "Stop",
            {"response": "Done.", "stop_hook_active": True},
        ),
        (
            BeforeCompaction(AT, "threshold", 900, 20, 1000, "Keep the API."),
            "PreCompact",
            {
                "compaction_reason": "threshold",
                "trigger": "auto",
                "input_tokens": 900,
                "output_tokens": 20,
                "context_limit": 1000,
                "custom_instructions": "Keep the API.",
            },
        ),
        (
            AfterCompaction(AT, "manual", 900, 20, 1000, "All."),
            "after_compaction",
            {
                "trigger": "manual",
                "summary": "All.",
                "input_tokens": 900,
                "output_tokens": 20,
            },
        ),
        (SessionEnd(AT, "exit"), "SessionEnd", {"reason": "exit"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_every_event_has_its_own_keys(
    event: HookEvent, name: str, keys: Mapping[str, Any]
) -> None:
    told = await payload(event)
    assert (told["event"], told["hook_event_name"]) == (event.name, name)
    assert {key: told[key] for key in keys} == keys


async def test_the_streams_of_a_command_are_included_if_they_are_known() -> None:
    ran = AfterToolCall(
        AT,
        "c",
        "shell",
        {},
        (Text("Header\na"),),
        raw_output={"output": "a", "exitCode": None},
    )
    told = cast("dict[str, Any]", (await payload(ran))["tool_response"])
    assert (told["stdout"], told["stderr"], told["exit_code"], told["interrupted"]) == (
        "a",
        "",
        None,
        True,
    )
    told = cast(
        "dict[str, Any]",
        (await payload(changed(ran, Outcome(tool_output="A"))))["tool_response"],
    )
    assert (told["stdout"], "exit_code" in told) == ("A", False)


def test_paths_and_edits_also_have_claude_code_s_keys() -> None:
    read = with_claude_keys("read", {"path": "a.py", "limit": 3}, "/shop")
    assert read == {"path": "a.py", "file_path": "/shop/a.py", "limit": 3}
    edits: list[JsonValue] = [
        {"old_text": "a", "new_text": "b"},
        {"old_text": "c", "new_text": "d"},
    ]
    both = with_claude_keys("edit", {"path": "src/a.py", "edits": edits}, "/shop")
    assert (both["file_path"], both["old_string"], both["new_string"]) == (
        "/shop/src/a.py",
        "a\nc",
        "b\nd",
    )
    assert with_claude_keys("shell", {"command": "ls"}, "/shop") == {"command": "ls"}
    assert (
        with_claude_keys("read", {"path": "~/x"}, "/shop")["file_path"] != "/shop/~/x"
    )
    assert (
        with_claude_keys("read", {"path": "file:///etc/a%20b"}, "/shop")["file_path"]
        == "/etc/a b"
    )
