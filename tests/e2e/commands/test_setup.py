"""`acp-agent setup`: an editor without settings gets some after a yes; those that are there are never changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from acp_agent.cli.setup import EDITORS, sample
from support.called import call_command
from support.terminal import Ran

PROGRAM = Path(sys.executable).with_name("acp-agent")
WITH_SETTINGS = [name for name, editor in EDITORS.items() if editor.settings]
ZED = ".config/zed/settings.json"


async def setup(home: Path, *words: str) -> Ran:
    return await call_command(home, "setup", *words, env={"HOME": str(home)})


@pytest.mark.parametrize("name", WITH_SETTINGS)
async def test_the_agent_is_put_into_settings_that_were_not_there(tmp_path: Path, name: str) -> None:
    assert (await setup(tmp_path, name, "--yes")).code == 0
    file = EDITORS[name].file(tmp_path)
    assert file is not None
    written = json.loads(file.read_text())[EDITORS[name].at]["acp-agent"]
    assert (written["command"], written["args"]) == (str(PROGRAM), [])


async def test_settings_that_are_there_are_left_alone_and_the_text_is_printed_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    path.write_text('// mine\n{"theme": "One"}\n')
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, ran.out) == (0, sample("zed/settings.json", str(PROGRAM)))
    assert f"{path} is there already, and is not changed. Put `agent_servers` next to the rest." in ran.err
    assert path.read_text() == '// mine\n{"theme": "One"}\n'


@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), ((), 1)])
async def test_nothing_is_written_without_a_yes(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    ran = await setup(tmp_path, "zed", *words)
    assert (ran.code, (tmp_path / ".config").exists()) == (code, False)


@pytest.mark.parametrize(
    ("editor", "name"),
    [
        ("neovim", "neovim/codecompanion.lua"),
        ("avante", "neovim/avante.lua"),
        ("agentic", "neovim/agentic.lua"),
        ("emacs", "emacs/acp-agent.el"),
    ],
)
async def test_what_belongs_into_a_file_in_lua_or_lisp_is_printed(tmp_path: Path, editor: str, name: str) -> None:
    ran = await setup(tmp_path, editor)
    assert (ran.code, ran.out) == (0, sample(name, str(PROGRAM)))
    assert ran.err.startswith("Put it ")
    assert str(PROGRAM) in ran.out
