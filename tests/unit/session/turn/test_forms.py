"""Questions that a session asks its user: a command's missing arguments, and whether a
project is trusted.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.client import AgentError
from support.editors import ACPX
from support.mcp import mcp_program, ready
from support.memory import stage
from support.questions import accepted, answers
from support.replies import Reply
from support.stage import Stage, conversation

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


def asked_of_model(it: Stage) -> list[str]:
    return [conversation(call.body)[-1][1] for call in it.server.calls]


async def test_missing_arguments_are_requested_and_the_recipe_runs_with_them(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("It is."), files=FILES, trusted=True) as it:
        asked = answers(
            it,
            accepted(branch="main", depth=""),
            {"action": "decline"},
            {"action": "cancel"},
        )
        assert await it.prompt("/explain") == {"stopReason": "end_turn"}
        assert re.search(
            r"`/explain` was not run.* `depth` is missing", it.agent.text()
        )
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
        # A user who does not answer ends the turn, and is told why. Nothing else was
        # asked.
        for _ in range(2):
            assert await it.prompt("/explain depth=deep") == {"stopReason": "end_turn"}
        assert (
            it.agent.text().count(
                "`/explain` was not run: it needs `branch`. Send it like this: "
            )
            == 2
        )
        assert not it.server.calls
        more = answers(it, accepted(branch="topic"))
        assert await it.prompt("/explain depth=deep style=long") == {
            "stopReason": "end_turn"
        }
        assert [*more[0]["requestedSchema"]["properties"]] == ["branch"]
        assert asked_of_model(it) == ["Explain topic, deep, long."]


async def test_without_forms_the_user_is_told_which_arguments_are_missing(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, files=FILES, trusted=True, editor=ACPX) as it:
        assert await it.prompt("/explain") == {"stopReason": "end_turn"}
        assert it.agent.text() == (
            "`/explain` was not run: it needs `branch`, `depth`. Send it like this: `/explain branch=… depth=…`."
        )
        assert not it.server.calls


async def test_missing_arguments_of_a_servers_prompt_are_requested(
    tmp_path: Path,
) -> None:
    prompt = {
        "name": "look",
        "arguments": [{"name": "file", "description": "which", "required": True}],
    }
    server = mcp_program(
        tmp_path, "review", prompts=[prompt], made={"look": "Look at {file}."}
    )
    async with stage(tmp_path, Reply("I have."), mcp=[server.entry]) as it:
        await ready(it, "review")
        asked = answers(it, accepted(file="a.txt"), {"action": "decline"})
        await it.prompt("/mcp:review:look")
        assert (
            asked[0]["requestedSchema"]["properties"]["file"]["description"] == "which"
        )
        assert asked_of_model(it) == ["Look at a.txt."]
        with pytest.raises(
            AgentError, match="`/mcp:review:look` was not run: it needs `file`"
        ):
            await it.prompt("/mcp:review:look")
