"""Names of folders and files that contain line ends, to forge a row of what a command
prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
