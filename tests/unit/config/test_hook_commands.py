"""`hooks` in the configuration files: their events, their forms, and errors for invalid
hooks.
"""

from __future__ import annotations

import pytest

from acp_agent.config import HookCommand
from support.configuration import Machine


def test_the_user_s_commands_precede_the_project_s_each_with_its_place(
    machine: Machine,
) -> None:
    text = """\
hooks:
  PreToolUse:
    - command: guard --strict
      matcher: Bash|Edit
      timeout: 2
      on_error: block
    - command: [python3, check.py]
      name: check
  before_tool_call:
    - command: /usr/bin/log
"""
    user = machine.user_file
    project = machine.project_file
    assert machine.load(text, "hooks: {Stop: [{command: make test}]}\n").hooks == (
        HookCommand(
            "before_tool_call",
            "guard --strict",
            "guard",
            "config",
            f"{user}: hooks.PreToolUse.0",
            matcher="Bash|Edit",
            timeout=2,
            on_error="block",
        ),
        HookCommand(
            "before_tool_call",
            ("python3", "check.py"),
            "check",
            "config",
            f"{user}: hooks.PreToolUse.1",
        ),
        HookCommand(
            "before_tool_call",
            "/usr/bin/log",
            "log",
            "config",
            f"{user}: hooks.before_tool_call.0",
        ),
        HookCommand(
            "agent_stop", "make test", "make", "project", f"{project}: hooks.Stop.0"
        ),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "PreToolUses: []",
            "2: hooks.PreToolUses: there is no event 'PreToolUses'; did you mean `PreToolUse`?",
        ),
        (
            "Stop:\n    - command: x\n      macher: y",
            "4: hooks.Stop.0.macher: unknown key; did you mean `matcher`?",
        ),
        ("Stop:\n    - {name: x}", "3: hooks.Stop.0.command: is required"),
        (
            "Stop:\n    - command: ['', x]",
            "3: hooks.Stop.0.command: should be a command line, or a list of strings",
        ),
        (
            "Stop:\n    - command: [x, 3]",
            "3: hooks.Stop.0.command: should be a command line, or a list of strings",
        ),
        (
            "Stop:\n    - command: x\n      matcher: '('",
            "4: hooks.Stop.0.matcher: `(` is not a valid RE2 regular expression: ",
        ),
        (
            "Stop:\n    - command: x\n      timeout: 0",
            "4: hooks.Stop.0.timeout: should be greater than 0",
        ),
        (
            "Stop:\n    - command: x\n      on_error: stop",
            "4: hooks.Stop.0.on_error: should be 'ask', 'allow'",
        ),
        ("Stop: {command: x}", "2: hooks.Stop: should be a list"),
        (
            "Stop: [make]",
            "2: hooks.Stop.0: should be a mapping: `key: value` lines, indented below the key",
        ),
        ("Stop:\n    - hooks: make", "3: hooks.Stop.0.hooks: should be a list"),
        (
            "Stop:\n    - hooks: []\n      command: x",
            "4: hooks.Stop.0.command: unknown key; use one of: hooks, matcher",
        ),
        (
            "Stop:\n    - hooks:\n        - type: prompt\n          command: x",
            "4: hooks.Stop.0.hooks.0: hooks of this `type` are not supported",
        ),
        (
            "Stop:\n    - hooks:\n        - type: command",
            "4: hooks.Stop.0.hooks.0.command: is required",
        ),
        (
            "Stop:\n    - hooks: [{command: x, asinc: true}]",
            "3: hooks.Stop.0.hooks.0.asinc: unknown key; use one of: co",
        ),
    ],
)
@pytest.mark.parametrize("whose", ["user", "project"])
def test_an_invalid_hook_is_ignored_and_reported_with_file_line_and_key(
    machine: Machine, text: str, message: str, whose: str
) -> None:
    file = machine.user_file if whose == "user" else machine.project_file
    settings = machine.load(
        **{whose: f"hooks:\n  {text}\n  SessionEnd: [{{command: well}}]\n"}
    )
    [fault] = settings.hook_faults
    assert fault.startswith(f"{file}:{message}")
    assert [command.command for command in settings.hooks] == ["well"]


def test_a_section_without_events_is_reported_and_the_rest_of_the_file_applies(
    machine: Machine,
) -> None:
    settings = machine.load("mode: plan\nhooks: [make]\n")
    assert (settings.mode, settings.hooks) == ("plan", ())
    [fault] = settings.hook_faults
    assert (
        fault
        == f"{machine.user_file}:2: hooks: should be a mapping: `key: value` lines, indented below the key"
    )
    assert "2: mode: should be" in str(machine.error("hooks: [make]\nmode: fast\n"))


def test_commands_in_the_form_of_claude_code_s_settings_work(
    machine: Machine,
) -> None:
    settings = machine.load("""\
hooks:
  PreToolUse:
    - matcher: Bash|Edit
      hooks:
        - {type: command, command: '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh --strict', timeout: 5}
        - {type: prompt, prompt: Judge it.}
        - {command: [check], on_error: block, statusMessage: Checking}
    - command: log
  Stop: [{hooks: [{type: command, command: make test}]}, {matcher: '*', hooks: []}]
""")
    assert settings.hooks == (
        HookCommand(
            "before_tool_call",
            '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh --strict',
            "guard.sh",
            "config",
            f"{machine.user_file}: hooks.PreToolUse.0.hooks.0",
            matcher="Bash|Edit",
            timeout=5,
        ),
        HookCommand(
            "before_tool_call",
            ("check",),
            "check",
            "config",
            f"{machine.user_file}: hooks.PreToolUse.0.hooks.2",
            matcher="Bash|Edit",
            on_error="block",
        ),
        HookCommand(
            "before_tool_call",
            "log",
            "log",
            "config",
            f"{machine.user_file}: hooks.PreToolUse.1",
        ),
        HookCommand(
            "agent_stop",
            "make test",
            "make",
            "config",
            f"{machine.user_file}: hooks.Stop.0.hooks.0",
        ),
    )
    [fault] = settings.hook_faults
    assert fault.startswith(
        f"{machine.user_file}:6: hooks.PreToolUse.0.hooks.1: hooks of this `type` are not supported; "
    )
