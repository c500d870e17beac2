"""Patterns that other people wrote: none brings the agent to a standstill, and one that cannot be had is refused."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support.editors import ZED_BETA
from support.mcp import mcp_program, ready, says, tool
from support.models import Reply, ToolCall
from support.stage import PATIENCE, results, stage

HOSTILE = "a" * 60 + "!"
"""An engine that backtracks looks for `^(a+)+$` in it for years."""

CHECKED = f"""\
---
hooks:
  after_tool_call:
    handler: validate_tool_output
    params: {{tool: read, pattern: "(a+)+$", schema: {{type: string, pattern: "^(a+)+$"}}}}
  turn_end:
    handler: validate_output
    params:
      schema:
        type: object
        properties: {{name: {{type: string, pattern: "^(a+)+$"}}}}
        patternProperties: {{"^(b+)+$": {{type: "null"}}}}
        additionalProperties: false
---
Check {HOSTILE}
"""
RULES = f"""\
- on: user_message_send
  when: {{prompt: "*{"a*" * 20}b"}}
  then: {{block: No.}}
- on: before_tool_call
  when: {{path: "{"*a" * 20}*b"}}
  then: {{block: No.}}
- on: user_message_send
  when: {{prompt: "*{"a*" * 20}"}}
  then: {{context: The rules were read.}}
"""
REFUSED = """\
---
hooks:
  after_tool_call:
    handler: validate_tool_output
    params: {pattern: "^(?!error)"}
---
Look.
"""


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / name).write_text(text)


@pytest.mark.process
async def test_a_hostile_pattern_in_a_recipe_a_schema_a_matcher_and_a_search_hangs_nothing(tmp_path: Path) -> None:
    write(tmp_path / "home" / "state" / "recipes", "check.md", CHECKED)
    hooks = {"PreToolUse": [{"command": "exit 2", "matcher": "^(a+)+$|(e+)+x"}]}
    calls = [ToolCall("read", {"path": "a.txt"}), ToolCall("grep", {"pattern": "^(a+)+$"})]
    wrong = f'{{"name": "{HOSTILE}", "{"b" * 60}!": 1}}'
    replies = [Reply(tool_calls=calls), Reply(wrong), Reply('{"name": "aaa", "bb": null}')]
    files = {"a.txt": f"{HOSTILE}\n"}
    async with stage(tmp_path, *replies, files=files, config={"hooks": hooks}, editor=ZED_BETA) as it:
        assert await it.prompt("/check") == {"stopReason": "end_turn"}
        read, searched = results(it.server.calls[1].body)
        assert "nothing in it matches the pattern (a+)+$" in read.text
        assert searched.text == "No line matches in 1 file."
        assert it.server.calls[2].mentions("does not match '^(a+)+$'")
        assert it.server.calls[2].mentions("Additional properties are not allowed")
        assert len(it.server.calls) == 3
        os.kill(it.agent.pid, signal.SIGTERM)
        await it.agent.wait_exit()


async def test_a_hostile_glob_in_a_rule_hangs_nothing(tmp_path: Path) -> None:
    write(tmp_path / "home" / "state" / "hooks", "rules.yaml", RULES)
    calls = [ToolCall("read", {"path": HOSTILE})]
    async with stage(tmp_path, Reply(tool_calls=calls), Reply("Done.")) as it:
        assert await it.prompt(HOSTILE * 50) == {"stopReason": "end_turn"}
        assert it.server.calls[0].mentions("The rules were read.")
        assert len(it.server.calls) == 2


async def test_a_hostile_pattern_of_an_mcp_server_hangs_nothing(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    answer = says("Found.") | {"structuredContent": {"name": HOSTILE}}
    server = mcp_program(tmp_path, "garden", tools=[tool("look", outputSchema=schema)], results={"look": answer})
    replies = [Reply(tool_calls=[ToolCall("mcp__garden__look", {})]), Reply("Done.")]
    async with stage(tmp_path, *replies, mcp=[server.entry], mode="full-access") as it:
        await ready(it, "garden")
        assert await it.prompt() == {"stopReason": "end_turn"}
        assert len(it.server.calls) == 2


@pytest.mark.parametrize("params", ['{pattern: "^(?!error)"}', '{schema: {items: {pattern: "^(?!error)"}}}'])
async def test_lookahead_in_a_recipe_is_refused_when_it_is_read(tmp_path: Path, params: str) -> None:
    write(tmp_path / "home" / "state" / "recipes", "look.md", REFUSED.replace('{pattern: "^(?!error)"}', params))
    async with stage(tmp_path, Reply("Fine."), editor=ZED_BETA) as it:
        notice = await it.agent.wait_update("notice", timeout=PATIENCE)
        assert "look.md" in str(notice)
        assert "`^(?!error)`" in str(notice)
        assert "lookaround" in str(notice)
        assert await it.prompt() == {"stopReason": "end_turn"}
