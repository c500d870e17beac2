"""`acp-agent setup`: an editor's settings get the agent, and keep all else; nothing is written without a yes."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_agent.cli.setup.editors import EDITORS, PLACEHOLDER, editors_dir, entry, sample
from support.called import call_command
from support.terminal import Ran

PROGRAM = Path(sys.executable).with_name("acp-agent")
WITH_SETTINGS = [name for name, editor in EDITORS.items() if editor.settings]
ZED = ".config/zed/settings.json"
MINE = json.dumps({"theme": "Éclair", "tabs": [1, 2]}, indent=4, ensure_ascii=False) + "\n"


def zed_settings(home: Path, text: str = MINE) -> Path:
    path = home / ZED
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    return path


async def setup(home: Path, *words: str) -> Ran:
    return await call_command(home, "setup", *words, env={"HOME": str(home)})


@pytest.mark.parametrize("name", WITH_SETTINGS)
async def test_the_agent_is_put_into_settings_that_were_not_there(tmp_path: Path, name: str) -> None:
    assert (await setup(tmp_path, name, "--yes")).code == 0
    file = EDITORS[name].file(tmp_path, {})
    assert file is not None
    written = json.loads(file.read_text())[EDITORS[name].at]["acp-agent"]
    assert (written["command"], written["args"]) == (str(PROGRAM), [])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = await setup(tmp_path, name)
    assert (again.code, again.out) == (0, ""), "what is set up is left alone"


@pytest.mark.parametrize("indent", [2, 4, "\t", None])
async def test_plain_json_is_written_and_nothing_but_the_entry_changes(tmp_path: Path, indent: Any) -> None:
    kept = {"env": {"SHOP_TOKEN": "hunter2-7c1f09aa55de"}, "default_mode": "plan"}
    other = {"command": "uvx", "args": ["other"]}
    before = {"theme": "One", "agent_servers": {"acp-agent": {"command": "/gone", "args": ["x"], **kept}, "o": other}}
    path = zed_settings(tmp_path / "dotfiles", f"\n{json.dumps(before, indent=indent)}\n\n")
    (tmp_path / ZED).parent.mkdir(parents=True)
    (tmp_path / ZED).symlink_to(path)
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, (tmp_path / ZED).is_symlink(), stat.S_IMODE(path.stat().st_mode)) == (0, True, 0o640)
    assert f"{tmp_path / ZED}\n  agent_servers.acp-agent: {{" in ran.out
    assert "hunter2" not in ran.out + ran.err
    new = {"type": "custom", "command": str(PROGRAM), "args": [], **kept}
    after = {"theme": "One", "agent_servers": {"acp-agent": new, "o": other}}
    assert path.read_text() == f"\n{json.dumps(after, indent=indent)}\n\n"


@pytest.mark.parametrize(
    "text",
    [
        '// mine\n{\n  "theme": "One", // dark\n}\n',
        '{\n  "theme": "One",\n  "agent_servers": {"other": {},},\n}',
        '{"theme": "One", "theme": "Two"}',
        '{\r\n  "theme": "One"\r\n}\r\n',
        '\ufeff{"theme": "One"}',
        '{"theme": "\\ud800"}',
        '{ "theme" : "One" }',
        "[]",
        '{"agent_servers": []}',
    ],
    ids=["comments", "commas", "twice", "crlf", "mark", "surrogate", "form", "list", "agents"],
)
async def test_for_settings_that_are_no_plain_json_the_text_is_printed_with_its_place(
    tmp_path: Path, text: str
) -> None:
    path = zed_settings(tmp_path, text)
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, ran.out) == (0, sample("zed/settings.json", str(PROGRAM)))
    assert f"{path} has a form of its own" in ran.err
    assert "Put `agent_servers` next to the rest." in ran.err
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), ((), 1)])
async def test_nothing_is_written_without_a_yes(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    path = zed_settings(tmp_path)
    ran = await setup(tmp_path, "zed", *words)
    assert (ran.code, path.read_text(), (tmp_path / "state").exists()) == (code, MINE, False)
    assert "Nothing was written." in ran.err


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


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_a_file_to_copy_holds_just_the_entry_that_is_written(name: str) -> None:
    editor = EDITORS[name]
    text = (editors_dir() / editor.sample).read_text()
    assert json.loads(text) == {editor.at: {"acp-agent": entry(editor, PLACEHOLDER)}}
