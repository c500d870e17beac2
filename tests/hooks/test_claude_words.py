"""A tool's arguments and its result in Claude Code's words, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.conversation.messages import JsonObject, Text
from acp_agent.errors import HookError
from acp_agent.hooks.claude import with_its_keys, with_our_keys
from acp_agent.hooks.events import AfterToolCall, BeforeToolCall
from support.hook_answers import AT, OBJECTS, read, specific


def edit(*pairs: tuple[str, str]) -> JsonObject:
    return {"path": "src/a.py", "edits": [{"old_text": old, "new_text": new} for old, new in pairs]}


def answered(event: BeforeToolCall, **changes: object) -> JsonObject | None:
    sent = with_its_keys(event.tool, event.input, event.at.cwd)
    return read(specific(updatedInput={**sent, **changes}), event).tool_input


def test_paths_and_edits_are_told_in_claude_codes_words_as_well() -> None:
    assert with_its_keys("read", {"path": "a.py", "limit": 3}, "/shop") == {
        "path": "a.py",
        "file_path": "/shop/a.py",
        "limit": 3,
    }
    both = with_its_keys("edit", edit(("a", "b"), ("c", "d")), "/shop")
    assert (both["file_path"], both["old_string"], both["new_string"]) == ("/shop/src/a.py", "a\nc", "b\nd")
    assert with_its_keys("shell", {"command": "ls"}, "/shop") == {"command": "ls"}
    assert with_its_keys("read", {"path": "~/x"}, "/shop")["file_path"] != "/shop/~/x"
    assert with_its_keys("read", {"path": "file:///etc/a%20b"}, "/shop")["file_path"] == "/etc/a b"


def test_of_two_keys_for_one_thing_the_one_that_the_hook_changed_holds() -> None:
    event = BeforeToolCall(AT, "c", "write", {"path": "a", "content": "x"})
    assert answered(event) is None
    assert answered(event, file_path="/tmp/b") == {"path": "/tmp/b", "content": "x"}
    assert answered(event, path="b") == {"path": "b", "content": "x"}
    assert read({"tool_input": {"file_path": "/b", "content": "y"}}, event).tool_input == {"path": "/b", "content": "y"}


def test_one_edit_may_be_changed_by_either_keys_and_several_only_by_ours() -> None:
    one = BeforeToolCall(AT, "c", "edit", edit(("a", "b")))
    assert answered(one) is None
    changed = answered(one, new_string="B")
    assert changed == {"path": "src/a.py", "edits": [{"old_text": "a", "new_text": "B", "replace_all": False}]}
    theirs: JsonObject = {"file_path": "/x", "old_string": "o", "new_string": "n"}
    assert read(specific(updatedInput=theirs), one).tool_input == {
        "path": "/x",
        "edits": [{"old_text": "o", "new_text": "n"}],
    }
    two = BeforeToolCall(AT, "c", "edit", edit(("a", "b"), ("c", "d")))
    assert answered(two) is None
    assert answered(two, edits=[{"old_string": "a", "new_string": "B"}]) == edit(("a", "B"))
    with pytest.raises(HookError, match="a call with 2 edits; answer with `edits`"):
        answered(two, new_string="B")


@given(st.sampled_from(["read", "write", "edit", "shell", "grep", "plan", "recall"]), OBJECTS)
def test_arguments_that_a_hook_gives_back_unchanged_are_unchanged(tool: str, arguments: JsonObject) -> None:
    arguments = {key: value for key, value in arguments.items() if key != "file_path"}
    if tool == "edit":
        arguments["edits"] = [{"old_text": "a", "new_text": "b"}]
    assert with_our_keys(tool, with_its_keys(tool, arguments, "/shop"), arguments, "/shop") == arguments


def test_a_result_may_be_replaced_by_an_answer_in_the_form_of_the_tools() -> None:
    after = AfterToolCall(AT, "c", "shell", {"command": "ls"}, (Text("a"),))
    assert read(specific(updatedToolOutput={"stdout": "b", "stderr": "c"}), after).tool_output == "b\nc"
    assert read(specific(updatedToolOutput={"count": 3}), after).tool_output == '{"count": 3}'
