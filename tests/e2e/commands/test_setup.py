"""`acp-agent setup`: the agent is put into an editor's settings after a yes, and
nothing else in them changes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from acp_agent.cli.setup import EDITORS, sample
from acp_agent.cli.terminal.jsonc import parse_jsonc
from support.called import call_command
from support.terminal import Ran

PROGRAM = Path(sys.executable).with_name("acp-agent")
WITH_SETTINGS = [name for name, editor in EDITORS.items() if editor.settings]
ZED = ".config/zed/settings.json"


async def setup(home: Path, *words: str) -> Ran:
    return await call_command(home, "setup", *words, env={"HOME": str(home)})


@pytest.mark.parametrize("name", WITH_SETTINGS)
async def test_the_agent_is_put_into_settings_that_were_not_there(
    tmp_path: Path, name: str
) -> None:
    assert (await setup(tmp_path, name, "--yes")).code == 0
    file = EDITORS[name].file(tmp_path)
    assert file is not None
    written = json.loads(file.read_text())[EDITORS[name].at]["acp-agent"]
    assert (written["command"], written["args"]) == (str(PROGRAM), [])


MINE = """// mine
{
    /* "agent_servers": {} */
    "theme": "One", // not "Two"
    "agent_servers": {
        "other": {"command": "other", "env": {"OTHER_API_KEY": "sk-ant-REDACTED"}},
    },
}
"""


BEFORE = [
    "",
    "{}",
    "{\n}\n",
    '{"theme": "One"}',
    MINE,
    MINE.replace("\n", "\r\n"),
    "\ufeff{ }",
]


@pytest.mark.parametrize("name", ["zed", "vscode", "acpx"])
@pytest.mark.parametrize(
    "before",
    [*BEFORE, '{"agent_servers": {"x": {"env": {"SHOP_TOKEN": "sk-ant-REDACTED"}}}}'],
)
async def test_settings_that_are_there_get_the_entry_and_keep_the_rest_with_a_copy(
    tmp_path: Path, name: str, before: str
) -> None:
    editor = EDITORS[name]
    file = EDITORS[name].file(tmp_path)
    assert file is not None
    file.parent.mkdir(parents=True)
    before = before.replace("agent_servers", editor.at)
    file.write_bytes(before.encode())
    file.chmod(0o640)
    ran = await setup(tmp_path, name, "--yes")
    assert (ran.code, ran.out) == (0, sample(editor.sample, str(PROGRAM)))
    after = file.read_bytes().decode()
    backup = file.with_name(f"{file.name}.bak")
    assert "sk-ant-REDACTED" not in ran.err
    assert "+" in ran.err.partition(f"This changes {file}:")[2]
    assert f"Written: {file}. The previous file is {backup}." in ran.err
    assert backup.read_bytes().decode() == before
    assert file.stat().st_mode & 0o777 == 0o640
    entry = json.loads(sample(editor.sample, str(PROGRAM)))[editor.at]["acp-agent"]
    expected = parse_jsonc(before)
    assert isinstance(expected, dict)
    agents = expected.get(editor.at, {})
    assert isinstance(agents, dict)
    assert parse_jsonc(after) == {**expected, editor.at: {**agents, "acp-agent": entry}}
    rest = iter(after)  # all that was there still is, in its order
    assert all(character in rest for character in before if not character.isspace())
    assert ("\r\n" in before) == ("\r\n" in after)

    again = await setup(tmp_path, name, "--yes")
    assert f"{file} contains the agent already." in again.err
    assert file.read_bytes().decode() == after


async def test_the_program_of_an_entry_that_is_there_is_replaced_and_its_environment_stays(
    tmp_path: Path,
) -> None:
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    entry = '"acp-agent": {"command": "/old/acp-agent", "args": ["--x"], "env": {"A": "b"}} // mine'
    path.write_text(f'{{"agent_servers": {{\n  {entry}\n}}}}\n')
    assert (await setup(tmp_path, "zed", "--yes")).code == 0
    assert (
        path.read_text()
        == f'{{"agent_servers": {{\n  {entry.replace("/old/acp-agent", str(PROGRAM))}\n}}}}\n'
    )


async def test_an_entry_that_the_editor_installs_itself_is_left_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    path.write_text('{"agent_servers": {"acp-agent": {"type": "registry"}}}')
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, "contains the agent already" in ran.err) == (0, True)
    assert path.read_text() == '{"agent_servers": {"acp-agent": {"type": "registry"}}}'


@pytest.mark.parametrize(
    "text", ["[1]", '{"agent_servers": []}', '{"theme": }', "{'a': 1}", "\xff"]
)
async def test_settings_that_cannot_be_understood_are_left_alone_and_the_way_by_hand_is_named(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    ran = await setup(tmp_path, "zed", "--yes")
    assert ran.code == 1
    assert ran.err.startswith(f"acp-agent: {path} cannot be ")
    assert path.read_bytes() == text.encode("latin-1")


async def test_settings_behind_a_link_are_changed_where_they_are(
    tmp_path: Path,
) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "zed.json").write_text("{}")
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "dotfiles" / "zed.json")
    assert (await setup(tmp_path, "zed", "--yes")).code == 0
    assert path.is_symlink()
    assert "acp-agent" in (tmp_path / "dotfiles" / "zed.json").read_text()


@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), ((), 1)])
async def test_settings_that_are_there_are_not_changed_without_a_yes(
    tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    path.write_text(MINE)
    ran = await setup(tmp_path, "zed", *words)
    assert (ran.code, path.read_text(), [*path.parent.iterdir()]) == (
        code,
        MINE,
        [path],
    )
    assert f'+            "command": "{PROGRAM}"' in ran.err


@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), ((), 1)])
async def test_nothing_is_written_without_a_yes(
    tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
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
async def test_what_belongs_into_a_file_in_lua_or_lisp_is_printed(
    tmp_path: Path, editor: str, name: str
) -> None:
    ran = await setup(tmp_path, editor)
    assert (ran.code, ran.out) == (0, sample(name, str(PROGRAM)))
    assert ran.err.startswith("Put it ")
    assert str(PROGRAM) in ran.out
