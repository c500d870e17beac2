"""What a session asks of its user by a form: a command's missing arguments, and whether a project is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError
from support.editors import ACPX
from support.mcp import mcp_program, ready
from support.questions import accepted, answers, question
from support.replies import Reply
from support.serving import never_answer
from support.stage import Stage, conversation, stage

EXPLAIN = """\
---
arguments:
  branch: {description: "the branch to look at \\e[31m", required: true}
  depth: {required: true}
  style: {default: short}
---
Explain {{ branch }}, {{ depth }}, {{ style }}.
"""
FILES = {".acp-agent/recipes/explain.md": EXPLAIN}
HOOK = {".acp-agent/hooks/rule.yaml": "on: user_message_send\nthen: {context: The rule holds.}\n"}


def asked_of_model(it: Stage) -> list[str]:
    return [conversation(call.body)[-1][1] for call in it.server.calls]


async def test_arguments_that_are_missing_are_asked_for_and_the_recipe_runs_with_them(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("It is."), files=FILES, trusted=True) as it:
        asked = answers(it, accepted(branch="main", depth=""), {"action": "decline"}, {"action": "cancel"})
        with pytest.raises(AgentError, match=r"/explain was not run.* `depth` is missing") as refused:
            await it.prompt("/explain")
        assert refused.value.code == -32602
        [form] = asked
        assert form["message"] == "/explain needs `branch`, `depth`."
        schema = form["requestedSchema"]
        assert schema["required"] == ["branch", "depth"]
        assert schema["properties"]["branch"] == {
            "type": "string",
            "title": "branch",
            "description": "the branch to look at \ufffd[31m",
            "minLength": 1,
        }
        # Who does not answer has ended the turn, and is told why; nobody was asked for anything else.
        for _ in range(2):
            assert await it.prompt("/explain depth=deep") == {"stopReason": "end_turn"}
        assert it.agent.text().count("`/explain` was not run: it needs `branch`, which you have not given.") == 2
        assert not it.server.calls
        more = answers(it, accepted(branch="topic"))
        assert await it.prompt("/explain depth=deep style=long") == {"stopReason": "end_turn"}
        assert [*more[0]["requestedSchema"]["properties"]] == ["branch"]
        assert asked_of_model(it) == ["Explain topic, deep, long."]


async def test_a_form_for_arguments_ends_with_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, files=FILES, trusted=True) as it:
        it.agent.handlers["elicitation/create"] = never_answer
        turn = await it.agent.start_prompt(it.session, "/explain")
        await question(it)
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        await it.line("$/cancel_request")


async def test_an_editor_without_forms_is_told_what_is_missing(tmp_path: Path) -> None:
    async with stage(tmp_path, files=FILES, trusted=True, editor=ACPX) as it:
        assert await it.prompt("/explain") == {"stopReason": "end_turn"}
        # What a recipe says of itself is shown without what a terminal would obey.
        assert it.agent.text() == (
            "`/explain` was not run: it needs `branch` (the branch to look at \ufffd[31m), `depth`. "
            "Give what is missing in front: `/explain branch=… depth=…`."
        )
        assert not it.server.calls


async def test_arguments_of_a_server_s_prompt_are_asked_for(tmp_path: Path) -> None:
    prompt = {"name": "look", "arguments": [{"name": "file", "description": "which", "required": True}]}
    server = mcp_program(tmp_path, "review", prompts=[prompt], made={"look": "Look at {file}."})
    async with stage(tmp_path, Reply("I have."), mcp=[server.entry]) as it:
        await ready(it, "review")
        asked = answers(it, accepted(file="a.txt"), {"action": "decline"})
        await it.prompt("/mcp:review:look")
        assert asked[0]["requestedSchema"]["properties"]["file"]["description"] == "which"
        assert asked_of_model(it) == ["Look at a.txt."]
        with pytest.raises(AgentError, match="needs file: write /mcp:review:look file=…"):
            await it.prompt("/mcp:review:look")


async def test_whether_a_project_is_trusted_is_a_form_and_holds_as_it_was_answered(tmp_path: Path) -> None:
    async with stage(tmp_path, *[Reply("Yes.")] * 3, files=HOOK) as it:
        asked = answers(it, accepted(trust="allow_once"))
        await it.prompt("Go")
        [form] = asked
        assert "hooks/rule.yaml" in form["message"]
        assert str(it.folder) in form["message"]
        [call] = it.calls()
        assert (form["toolCallId"], call["status"]) == (call["toolCallId"], "completed")
        choices = form["requestedSchema"]["properties"]["trust"]["oneOf"]
        assert [choice["const"] for choice in choices] == ["allow_always", "allow_once", "reject_once"]
        assert "The rule holds." in str(it.server.calls[0].body)
        for answer in ({"action": "decline"}, {"action": "cancel"}):
            session = await it.agent.new_session(it.folder)
            answers(it, answer)
            assert await it.agent.prompt(session, "Go") == {"stopReason": "end_turn"}
        assert ["The rule holds." in str(call.body) for call in it.server.calls] == [True, False, False]
        assert not it.agent.desk.permissions
