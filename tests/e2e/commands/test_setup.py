"""`acp-agent setup`: an editor's settings get the agent, and keep all else; nothing is written without a yes."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_agent.cli.setup.editors import EDITORS, PLACEHOLDER, editors_dir, entry, read_settings, sample
from acp_agent.llm.places import BUILT_IN
from acp_agent.schemas import schema_path
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
    config = tmp_path / "state" / "config.yaml"
    line, text = config.read_text().split("\n", 1)
    assert line.startswith("# yaml-language-server: $schema=")
    assert (config.parent / line.partition("=")[2]).read_bytes() == schema_path("config").read_bytes()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    [model] = re.findall(r"^# model: anthropic/(\S+)$", text, re.MULTILINE)
    assert model in BUILT_IN["anthropic"].offered
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
    ],
    ids=["comments", "commas", "twice", "crlf", "mark", "surrogate", "form"],
)
async def test_for_settings_that_are_no_plain_json_the_text_is_printed_with_its_place(
    tmp_path: Path, text: str
) -> None:
    path = zed_settings(tmp_path, text)
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, ran.out) == (0, sample("zed/settings.json", str(PROGRAM)))
    assert f"{path} has comments or a form of its own" in ran.err
    assert "Put `agent_servers` next to the rest." in ran.err
    assert path.read_bytes() == text.encode()


async def test_an_entry_among_comments_that_is_right_is_known(tmp_path: Path) -> None:
    text = sample("zed/settings.json", str(PROGRAM)).replace('"env": {}', '"env": {"A": "http://x/*"}, // mine')
    zed_settings(tmp_path, f"/* all\n of it */ {text}")
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert "Zed is set up." in ran.err


@pytest.mark.parametrize(("words", "code"), [(("--dry-run",), 0), ((), 1)])
async def test_nothing_is_written_without_a_yes(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    path = zed_settings(tmp_path)
    ran = await setup(tmp_path, "zed", *words)
    assert (ran.code, path.read_text(), (tmp_path / "state").exists()) == (code, MINE, False)
    assert "Nothing was written." in ran.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"{\n'a': 1}", "line 2"),
        (b"[]", "it holds no object"),
        (b'{"agent_servers": []}', "`agent_servers` holds no object"),
        (b"{\xff}", "it is not UTF-8"),
    ],
)
async def test_settings_that_cannot_be_read_are_named_and_left_alone(tmp_path: Path, text: bytes, says: str) -> None:
    path = zed_settings(tmp_path)
    path.write_bytes(text)
    ran = await setup(tmp_path, "zed", "--yes")
    assert (ran.code, path.read_bytes(), (tmp_path / "state").exists()) == (1, text, False)
    assert str(path) in ran.err
    assert says in ran.err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("neovim",), "neovim/codecompanion.lua"),
        (("neovim", "--plugin", "avante"), "neovim/avante.lua"),
        (("neovim", "--plugin", "agentic"), "neovim/agentic.lua"),
        (("emacs",), "emacs/acp-agent.el"),
    ],
)
async def test_what_belongs_into_a_file_in_lua_or_lisp_is_printed_with_an_offer(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    for ran in (await setup(tmp_path, *words, "--dry-run"), await setup(tmp_path, *words)):
        assert (ran.code, ran.out) == (0, sample(name, str(PROGRAM)))
        assert f"where you set {words[-1]}" in ran.err or "--plugin" not in words
    assert str(PROGRAM) in sample(name, str(PROGRAM))
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_a_file_to_copy_holds_just_the_entry_that_is_written(name: str) -> None:
    editor = EDITORS[name]
    text = (editors_dir() / editor.sample).read_text()
    assert json.loads(text) == {editor.at: {"acp-agent": entry(editor, PLACEHOLDER)}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("// nothing\n", {}),
        ('{"a": "b // c", /* {"a": 2} */ "d": [1, 2,], }', {"a": "b // c", "d": [1, 2]}),
        ('{"a": "\\"/*", "b": ",}"} // }', {"a": '"/*', "b": ",}"}),
    ],
)
def test_settings_may_have_comments_and_trailing_commas(text: str, value: object) -> None:
    assert read_settings(text) == value
