"""Names of folders and files that contain line ends, to forge a row of what a command
prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.cli.main import _COMMANDS  # pyright: ignore[reportPrivateUsage]
from acp_agent.cli.terminal.sessions import row_of
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.config.sandbox import MadeKeeper
from acp_agent.errors import ConfigError
from acp_agent.sandbox.planted import Findings
from acp_agent.storage.store import SessionRecord
from acp_agent.visible import on_one_line
from support.called import call_command

FORGED = "FORGED"
ENDS = ("\n", "\r", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1b[1E")


def forged(text: str) -> list[str]:
    """The rows that begin with a name's second part."""
    return [line for line in text.splitlines() if line.lstrip().startswith(FORGED)]


@pytest.mark.parametrize("end", ENDS, ids=ascii)
async def test_no_name_of_a_project_adds_a_row_to_what_a_command_prints(
    tmp_path: Path, end: str
) -> None:
    home = tmp_path / "home"
    project = tmp_path / f"project{end}{FORGED}  2026"
    hooks = project / ".acp-agent" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / f"look{end}{FORGED}.py").write_text("")
    (hooks / f"run{end}{FORGED}").write_text("#!/bin/sh\n")
    PermissionRules(home / "state").allow(project, f"shell make{end}{FORGED}")
    for words in (
        ("trust", str(project / "missing")),
        ("trust", "--yes", str(project)),
        ("trust", "--list"),
        ("permissions",),
        ("permissions", "revoke", "--project", str(project), "nothing"),
        ("trust", "--revoke", str(project)),
        ("trust", "--revoke", str(project)),
    ):
        ran = await call_command(home, *words)
        assert FORGED in ran.out + ran.err, words
        assert forged(ran.out + ran.err) == [], words
    for words in (("hooks", "list"), ("trust",), ("sessions",)):
        ran = await call_command(home, *words, cwd=project)
        assert forged(ran.out + ran.err) == [], words


def calls(project: Path, name: str) -> list[tuple[str, ...]]:
    """A call of each sub-command that prints a name: of an argument, of a file or of a
    folder.
    """
    here = str(project)
    gone = str(project / f"gone{name}")
    return [
        (name,),
        ("run", name),
        ("run", "--session", name, "x"),
        ("run", "--model", name, "x"),
        ("compact", "--session", name),
        ("compact-eval", gone),
        ("compact-eval", str(project / f"log{name}.jsonl")),
        ("sessions", "rm", name),
        ("sessions", "rename", name, name),
        ("sessions", "move", name, name),
        ("sessions", "fork", name),
        ("serve", "--token-file", gone),
        ("serve", "--host", name),
        ("inspect", name),
        ("wire", gone),
        ("hooks", "list"),
        ("hooks", "test", "turn_end", name),
        ("models", name),
        ("config",),
        ("login", name),
        ("logout", name),
        ("trust", name),
        ("permissions", "revoke", name),
        ("recipe", "list"),
        ("recipe", "check"),
        ("recipe", "check", gone),
        ("recipe", "check", f"{gone}.md"),
        ("recipe", "check", str(project / f"bad{name}.md")),
        ("recipe", "check", here),
        ("recipe", "show", name),
        ("recipe", "show", "ok", "--arg", f"{name}=1"),
        ("recipe", "new", name),
        ("recipe", "new", "some", "--project"),
        ("recipe", "new", "some", "--project"),
        ("schema", name),
        ("setup", name),
        ("doctor", name),
        ("doctor", "--offline"),
        ("doctor", "--offline", "--report"),
        ("demo", name),
        ("help", name),
        ("completion", name),
    ]


@pytest.mark.parametrize("end", ["\n", "\x1b[1E", "\u202e", "\u200b"], ids=ascii)
async def test_names_in_the_errors_of_every_sub_command_are_shown_visibly_on_one_line(
    tmp_path: Path, end: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    name = f"{end}{FORGED}"
    project = tmp_path / f"project{name}"
    recipes = project / ".acp-agent" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / f"bad{name}.md").write_text("---\ndescription: [\n---\nx")
    (recipes / "ok.md").write_text("---\ndescription: x\n---\nx {{ instructions }}")
    (project / f"bad{name}.md").write_text("---\nnothing: 1\n---\n{% bad %}")
    (project / f"log{name}.jsonl").write_text("{")
    env = {"ACP_AGENT_HOME": str(tmp_path / f"agent{name}")}
    for words in calls(project, name):
        for variables in ({}, env):
            ran = await call_command(home, *words, cwd=project, env=variables)
            shown = ran.out + ran.err
            assert forged(shown) == [], words
            assert end == "\n" or end not in shown, words


def test_every_sub_command_that_prints_names_is_called_here() -> None:
    called = {words[0] for words in calls(Path("/"), "x")}
    assert set(_COMMANDS) - called <= {"chat"}


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_name_adds_a_row_to_a_session_s_an_error_or_a_notice(
    tmp_path: Path, end: str
) -> None:
    name = f"/project{end}{FORGED}"
    record = SessionRecord("sess_1", name, (), f"Title{end}{FORGED}", 0, 0, 0)
    notices: list[str] = []
    found = Findings(
        planted=(),
        blocked=(f"{name} → {name}.blocked",),
        unstaged=(name,),
        unchecked=(name,),
        replaced=(name,),
        kept=(Path(name),),
    )
    MadeKeeper(tmp_path, notices).keep(found)
    for text in (
        row_of(record),
        str(ConfigError("It is wrong.", source=name, line=1)),
        *notices,
    ):
        assert FORGED in text
        assert len(text.splitlines()) == 1


@given(st.text())
def test_any_text_is_written_on_one_line_and_only_once(text: str) -> None:
    line = on_one_line(text)
    assert len(line.splitlines()) == bool(line)
    assert on_one_line(line) == line
