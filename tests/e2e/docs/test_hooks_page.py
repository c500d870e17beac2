"""The pages on hooks: their examples run, and their tables have every name that the
code has.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import AliasChoices

import acp_agent.hooks as room
from acp_agent.config import load_settings
from acp_agent.config.hook_events import CLAUDE_TOOLS
from acp_agent.conversation.messages import Text
from acp_agent.hooks import (
    AfterToolCall,
    BeforeToolCall,
    Moment,
    Outcome,
    python_hooks,
    rules,
)
from acp_agent.hooks.answers import Answer
from acp_agent.hooks.discovery import discover
from acp_agent.hooks.executables import _program_run, command_hook
from acp_agent.hooks.outcomes import NOTHING, Decision
from acp_agent.hooks.payload import KEYS, payload
from support.hook_services import HookServices
from support.pages import DOCS, examples, section

SERVICES = HookServices()


def example(info: str) -> str:
    """The one example of hooks.md with this info string."""
    [(_, text)] = examples(info, DOCS / "hooks.md")
    return text


def rows(text: str) -> list[list[str]]:
    """The words in code of each row of the tables, by column."""
    found = [
        line.strip("| ").split(" | ")
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    return [
        [" ".join(re.findall(r"`([^`]+)`", column)) for column in row] for row in found
    ]


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
    push = BeforeToolCall(
        moment(tmp_path), "c", "shell", {"command": "git push --force"}
    )
    assert await hook.run(push, SERVICES) == Outcome(
        Decision("block", "Pushing is mine to do.")
    )
    assert (
        await hook.run(replace(push, input={"command": "git pull"}), SERVICES)
        == NOTHING
    )


async def test_the_configuration_and_the_guard_of_claude_code_work(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.yaml").write_text(example("yaml hooks"))
    guard, lint = load_settings({"ACP_AGENT_HOME": str(tmp_path)}).hooks
    assert (guard.event, guard.matcher, guard.timeout, guard.on_error) == (
        "before_tool_call",
        "Bash|Edit",
        5,
        "block",
    )
    assert (lint.event, lint.command, lint.name) == (
        "agent_stop",
        ("make", "--silent", "lint"),
        "lint",
    )
    (tmp_path / "guard.py").write_text(example("python hook"))
    run = _program_run((sys.executable, str(tmp_path / "guard.py")), "", "config")
    hook = replace(command_hook(guard, ""), run=run)
    edit = BeforeToolCall(
        moment(tmp_path), "c", "edit", {"path": "uv.lock", "edits": []}
    )
    assert (
        await hook.run(edit, SERVICES)
    ).reason == "Lock files are not edited by hand."
    assert await hook.run(replace(edit, input={"path": "a.py"}), SERVICES) == NOTHING


def test_the_form_of_claude_codes_settings_works(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example("yaml hooks-of-claude"))
    settings = load_settings({"ACP_AGENT_HOME": str(tmp_path)})
    [guard] = settings.hooks
    assert (guard.name, guard.matcher, guard.timeout, settings.hook_faults) == (
        "guard.sh",
        "Bash|Edit",
        30,
        (),
    )


@pytest.mark.parametrize("text", [text for _, text in examples("yaml rule")])
def test_a_rule_in_the_documentation_is_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(text)
    found = rules.load(tmp_path / "rule.yaml", "user")
    assert found.errors == ()
    assert found.hooks


async def test_the_functions_in_the_documentation_do_what_is_said_of_them(
    tmp_path: Path,
) -> None:
    outcomes: list[Outcome] = []
    push = BeforeToolCall(
        moment(tmp_path), "c", "shell", {"command": "git push --force"}
    )
    read = AfterToolCall(
        moment(tmp_path), "c", "read", {}, (Text(f"KEY=sk-{'a' * 20}"),)
    )
    for number, (_, text) in enumerate(
        examples("python hook", DOCS / "hooks-python.md")
    ):
        path = tmp_path / f"{number}.py"
        path.write_text(text)
        [hook] = python_hooks.load(path, "user").hooks
        outcomes += [
            await hook.run(event, SERVICES)
            for event in (push, read)
            if event.name in hook.events
        ]
    assert outcomes == [
        Outcome.block("Nobody pushes with --force here. Use --force-with-lease."),
        Outcome(tool_output="KEY=[a key]"),
    ]


def test_the_events_and_outcomes_in_the_documentation_have_what_is_said_of_them() -> (
    None
):
    told = {
        row[0]: row
        for row in rows(section("hooks-python.md", "What it is told"))
        if row[0]
    }
    assert told.keys() == {event.name for event in get_args(room.HookEvent)}
    for name, cls, has in told.values():
        assert getattr(room, cls).name == name
        assert all(hasattr(getattr(room, cls), word) for word in has.split())
    wanted = {
        row[0] for row in rows(section("hooks-python.md", "What it may want"))
    } - {""}
    assert wanted == set(Outcome.__dataclass_fields__) - {"decision", "unknown"}


AT = moment(Path("/shop"))
EVENTS: tuple[room.HookEvent, ...] = (
    room.SessionStart(AT, "new"),
    room.UserMessageSend(AT, ""),
    BeforeToolCall(AT, "c", "edit", {}),
    AfterToolCall(AT, "c", "edit", {}, ()),
    room.TurnEnd(AT, ""),
    room.AgentStop(AT, ""),
    room.BeforeCompaction(AT, "manual", 1, 1, 1),
    room.AfterCompaction(AT, "manual", 1, 1, 1, ""),
    room.SessionEnd(AT, "exit"),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
async def test_every_key_that_a_program_is_told_stands_on_the_page(
    event: room.HookEvent,
) -> None:
    told: dict[str, Any] = dict(await payload(event))
    page = section("hooks.md", "Events") + section("hooks.md", "What a program is told")
    assert {*told, *told["usage"]} - set(
        " ".join(re.findall(r"`([^`]+)`", page)).split()
    ) == set()


def test_every_tool_and_key_of_claude_code_stands_on_the_page() -> None:
    table = {
        row[0]: row
        for row in rows(section("hooks.md", "What a program is told"))
        if row[0] in CLAUDE_TOOLS
    }
    assert {ours: row[1] for ours, row in table.items()} == dict(CLAUDE_TOOLS)
    for tool, keys in KEYS.items():
        assert set(keys.values()) <= set(table[tool][2].split())


def test_every_key_of_an_answer_stands_on_the_page() -> None:
    words = set(
        re.findall(
            r"\w+",
            " ".join(
                re.findall(r"`([^`]+)`", section("hooks.md", "What it may answer"))
            ),
        )
    )
    known: set[str] = set()
    for name, field in Answer.model_fields.items():
        alias = field.validation_alias
        known |= (
            set(map(str, alias.choices))
            if isinstance(alias, AliasChoices)
            else {str(alias or name)}
        )
    assert known - words == {"updatedMCPToolOutput"}
