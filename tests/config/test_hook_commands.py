"""`hooks` in the configuration files: commands, for which event, and what is wrong with one."""

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
        ("Stop:\n    - command: x\n      matcher: '('", "4: hooks.Stop.0.matcher: is not a regular expression: "),
        ("Stop:\n    - command: x\n      timeout: 0", "4: hooks.Stop.0.timeout: should be greater than 0"),
        ("Stop:\n    - command: x\n      on_error: stop", "4: hooks.Stop.0.on_error: should be 'allow' or 'block'"),
        ("Stop: {command: x}", "2: hooks.Stop: should be a list"),
    ],
)
@pytest.mark.parametrize("whose", ["user", "project"])
def test_a_mistake_is_told_with_file_line_and_key(machine: Machine, text: str, message: str, whose: str) -> None:
    file: Path = getattr(machine, whose)
    file.write_text(f"hooks:\n  {text}\n")
    with pytest.raises(ConfigError) as error:
        machine.load()
    assert str(error.value).startswith(f"{file}:{message}")


def test_every_tool_may_be_matched_with_an_asterisk(machine: Machine) -> None:
    machine.user.write_text("hooks: {Stop: [{command: x, matcher: '*'}]}\n")
    assert [command.matcher for command in machine.load().hooks] == ["*"]
