"""The page on hooks: its examples run, and its tables have every name that the code has."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import AliasChoices

from acp_agent.config import load_settings
from acp_agent.hooks.answers import Answer
from acp_agent.hooks.contract import Services
from acp_agent.hooks.discovery import discover
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    Moment,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.executables import command_hook, program_run
from acp_agent.hooks.outcomes import NOTHING, Decision, Outcome
from acp_agent.hooks.payload import KEYS, TOOLS, payload
from support.checkout import REPOSITORY

PAGE = (REPOSITORY / "docs" / "hooks.md").read_text()
NO_SERVICES = cast("Services", None)


def example(info: str) -> str:
    """The page's one example with this info string."""
    [text] = re.findall(rf"^```{info}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def section(title: str) -> str:
    """The text below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The words in code of each row of the tables, by column."""
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[" ".join(re.findall(r"`([^`]+)`", column)) for column in row] for row in found]


async def transcript() -> str:
    return "/nowhere"


def moment(cwd: Path) -> Moment:
    return Moment("s", str(cwd), transcript)


async def test_the_program_in_the_folder_refuses_what_it_should(tmp_path: Path) -> None:
    guard = tmp_path / "hooks" / "guard"
    guard.parent.mkdir()
    guard.write_text(example("sh hook"))
    guard.chmod(0o755)
    found = await discover(load_settings({"ACP_AGENT_HOME": str(tmp_path)}))
    assert found.errors == ()
    [hook] = found.hooks
    assert hook.events == {"before_tool_call"}
    push = BeforeToolCall(moment(tmp_path), "c", "shell", {"command": "git push --force"})
    refused = Outcome(Decision("block", "Pushing is mine to do."))
    assert await hook.run(push, NO_SERVICES) == refused
    assert await hook.run(replace(push, input={"command": "git pull"}), NO_SERVICES) == NOTHING


async def test_the_configuration_and_the_guard_of_claude_code_work(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example("yaml hooks"))
    guard, lint = load_settings({"ACP_AGENT_HOME": str(tmp_path)}).hooks
    assert (guard.event, guard.matcher, guard.timeout, guard.on_error) == ("before_tool_call", "Bash|Edit", 5, "block")
    assert (lint.event, lint.command, lint.name) == ("agent_stop", ("make", "--silent", "lint"), "lint")
    (tmp_path / "guard.py").write_text(example("python hook"))
    run = program_run((sys.executable, str(tmp_path / "guard.py")), "", "config")
    hook = replace(command_hook(guard, ""), run=run)
    edit = BeforeToolCall(moment(tmp_path), "c", "edit", {"path": "uv.lock", "edits": []})
    assert (await hook.run(edit, NO_SERVICES)).reason == "Lock files are not edited by hand."
    assert await hook.run(replace(edit, input={"path": "a.py"}), NO_SERVICES) == NOTHING


def test_the_form_of_claude_codes_settings_works(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example("yaml hooks-of-claude"))
    settings = load_settings({"ACP_AGENT_HOME": str(tmp_path)})
    [guard] = settings.hooks
    assert (guard.name, guard.matcher, guard.timeout, settings.hook_faults) == ("guard.sh", "Bash|Edit", 30, ())


def test_a_copy_of_claude_codes_settings_works_as_its_editor_has_indented_it(tmp_path: Path) -> None:
    commands = [{"type": "command", "command": "guard"}, {"type": "command", "command": "lint", "async": True}]
    section = {"PreToolUse": [{"matcher": "Bash", "hooks": commands}]}
    for text in (json.dumps({"hooks": section}, indent="\t"), "mode: ask\nhooks: " + json.dumps(section, indent="\t")):
        (tmp_path / "config.yaml").write_text(text)
        settings = load_settings({"ACP_AGENT_HOME": str(tmp_path)})
        assert [hook.command for hook in settings.hooks] == ["guard"]
        [fault] = settings.hook_faults
        line = next(number for number, line in enumerate(text.split("\n"), start=1) if '"async"' in line)
        assert f"config.yaml:{line}: hooks.PreToolUse.0.hooks.1.async: unknown key" in str(fault)


AT = moment(Path("/shop"))
EVENTS: tuple[HookEvent, ...] = (
    SessionStart(AT, "new"),
    UserMessageSend(AT, ""),
    BeforeToolCall(AT, "c", "edit", {}),
    AfterToolCall(AT, "c", "edit", {}, ()),
    TurnEnd(AT, ""),
    AgentStop(AT, ""),
    BeforeCompaction(AT, "manual", 1, 1, 1),
    AfterCompaction(AT, "manual", 1, 1, 1, ""),
    SessionEnd(AT, "exit"),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
async def test_every_key_that_a_program_is_told_stands_on_the_page(event: HookEvent) -> None:
    told: dict[str, Any] = dict(await payload(event))
    words = " ".join(re.findall(r"`([^`]+)`", section("Events") + section("What a program is told"))).split()
    assert {*told, *told["usage"]} - set(words) == set()


def test_every_tool_and_key_of_claude_code_stands_on_the_page() -> None:
    table = {row[0]: row for row in rows(section("What a program is told")) if row[0] in TOOLS}
    assert {ours: row[1] for ours, row in table.items()} == dict(TOOLS)
    for tool, keys in KEYS.items():
        assert set(keys.values()) <= set(table[tool][2].split())


def test_every_key_of_an_answer_stands_on_the_page() -> None:
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", section("What it may answer")))))
    known: set[str] = set()
    for name, field in Answer.model_fields.items():
        alias = field.validation_alias
        known |= set(map(str, alias.choices)) if isinstance(alias, AliasChoices) else {str(alias or name)}
    assert known - words == {"updatedMCPToolOutput"}
