"""`hooks` in the configuration files: commands, for which event, in which form, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.config import HookCommand, Settings, load_settings
from acp_agent.errors import ConfigError


class Machine:
    """A user's folder and a project's."""

    def __init__(self, root: Path) -> None:
        self.home, self.cwd = root / "home", root / "project"
        self.user, self.project = self.home / "config.yaml", self.cwd / ".acp-agent" / "config.yaml"
        self.user.parent.mkdir()
        self.project.parent.mkdir(parents=True)

    def load(self) -> Settings:
        return load_settings({"ACP_AGENT_HOME": str(self.home)}, self.cwd)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_users_commands_come_before_the_projects_each_with_its_place(machine: Machine) -> None:
    machine.user.write_text("""\
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
""")
    machine.project.write_text("hooks: {Stop: [{command: make test}]}\n")
    user, project = machine.user, machine.project
    assert machine.load().hooks == (
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
        HookCommand("before_tool_call", ("python3", "check.py"), "check", "config", f"{user}: hooks.PreToolUse.1"),
        HookCommand("before_tool_call", "/usr/bin/log", "log", "config", f"{user}: hooks.before_tool_call.0"),
        HookCommand("agent_stop", "make test", "make", "project", f"{project}: hooks.Stop.0"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PreToolUses: []", "2: hooks.PreToolUses: there is no such event; did you mean `PreToolUse`?"),
        ("Stop:\n    - command: x\n      macher: y", "4: hooks.Stop.0.macher: unknown key; did you mean `matcher`?"),
        ("Stop:\n    - {name: x}", "3: hooks.Stop.0.command: is required"),
        ("Stop:\n    - command: ['', x]", "3: hooks.Stop.0.command: should be a command line, or a list of a program"),
        ("Stop:\n    - command: [x, 3]", "3: hooks.Stop.0.command: should be a command line, or a list of a program"),
        (
            "Stop:\n    - command: x\n      matcher: '('",
            "4: hooks.Stop.0.matcher: `(` is no regular expression of RE2: ",
        ),
        ("Stop:\n    - command: x\n      timeout: 0", "4: hooks.Stop.0.timeout: should be greater than 0"),
        ("Stop:\n    - command: x\n      on_error: stop", "4: hooks.Stop.0.on_error: should be 'ask', 'allow'"),
        ("Stop: {command: x}", "2: hooks.Stop: should be a list"),
        ("Stop: [make]", "2: hooks.Stop.0: should be `key: value` lines of its own"),
        ("Stop:\n    - hooks: make", "3: hooks.Stop.0.hooks: should be a list"),
        (
            "Stop:\n    - hooks: []\n      command: x",
            "4: hooks.Stop.0.command: unknown key; known here: matcher, hooks",
        ),
        (
            "Stop:\n    - hooks:\n        - type: prompt\n          command: x",
            "4: hooks.Stop.0.hooks.0: its `type` is none",
        ),
        ("Stop:\n    - hooks:\n        - type: command", "4: hooks.Stop.0.hooks.0.command: is required"),
        (
            "Stop:\n    - hooks: [{command: x, asinc: true}]",
            "3: hooks.Stop.0.hooks.0.asinc: unknown key; known here: co",
        ),
    ],
)
@pytest.mark.parametrize("whose", ["user", "project"])
def test_a_wrong_hook_is_left_out_and_told_with_file_line_and_key(
    machine: Machine, text: str, message: str, whose: str
) -> None:
    file: Path = getattr(machine, whose)
    file.write_text(f"hooks:\n  {text}\n  SessionEnd: [{{command: well}}]\n")
    settings = machine.load()
    [fault] = settings.hook_faults
    assert fault.text.startswith(f"{file}:{message}")
    assert fault.origin == ("config" if whose == "user" else "project")
    assert [command.command for command in settings.hooks] == ["well"]


def test_a_section_that_holds_no_events_is_told_and_leaves_the_rest_of_the_file(machine: Machine) -> None:
    machine.user.write_text("mode: plan\nhooks: [make]\n")
    settings = machine.load()
    assert (settings.mode, settings.hooks) == ("plan", ())
    [fault] = settings.hook_faults
    assert fault.text == f"{machine.user}:2: hooks: should be `key: value` lines of its own, indented below"


def test_a_wrong_hook_hides_no_mistake_of_another_key(machine: Machine) -> None:
    machine.user.write_text("hooks: [make]\nmode: fast\n")
    with pytest.raises(ConfigError, match="2: mode: should be"):
        machine.load()


def test_commands_in_the_form_of_claude_codes_settings_are_those_of_ours(machine: Machine) -> None:
    machine.user.write_text("""\
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
    settings = machine.load()
    assert settings.hooks == (
        HookCommand(
            "before_tool_call",
            '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh --strict',
            "guard.sh",
            "config",
            f"{machine.user}: hooks.PreToolUse.0.hooks.0",
            matcher="Bash|Edit",
            timeout=5,
        ),
        HookCommand(
            "before_tool_call",
            ("check",),
            "check",
            "config",
            f"{machine.user}: hooks.PreToolUse.0.hooks.2",
            matcher="Bash|Edit",
            on_error="block",
        ),
        HookCommand("before_tool_call", "log", "log", "config", f"{machine.user}: hooks.PreToolUse.1"),
        HookCommand("agent_stop", "make test", "make", "config", f"{machine.user}: hooks.Stop.0.hooks.0"),
    )
    [fault] = settings.hook_faults
    assert fault.text.startswith(f"{machine.user}:6: hooks.PreToolUse.0.hooks.1: its `type` is none that is run here; ")


def test_events_of_claude_codes_that_there_are_not_here_are_told_in_one_sentence(machine: Machine) -> None:
    machine.user.write_text("""\
mode: plan
hooks:
  Notification: [{hooks: [{type: command, command: notify-send}]}]
  Stop: [{command: lint}]
  SubagentStop: [{hooks: [{type: prompt, prompt: Judge it.}]}]
""")
    settings = machine.load()
    assert [command.command for command in settings.hooks] == ["lint"]
    [fault] = settings.hook_faults
    assert fault.text == (
        f"{machine.user}:2: hooks: Notification and SubagentStop: there are no such events here, and what is bound to "
        "them is not run"
    )


def test_every_tool_may_be_matched_with_an_asterisk(machine: Machine) -> None:
    machine.user.write_text("hooks: {Stop: [{command: x, matcher: '*'}]}\n")
    assert [command.matcher for command in machine.load().hooks] == ["*"]
