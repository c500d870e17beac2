"""`acp-agent setup`: an editor's settings get the agent, and keep all else; nothing is written without a yes."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from acp_agent.commands.editors import EDITORS, PLACEHOLDER, editors_dir, entry, sample
from acp_agent.commands.jsonc import JsonText
from acp_agent.llm.builtin import BUILT_IN
from acp_agent.schemas import schema_path
from support.terminal import at_a_terminal, run_command, without_powers

PROGRAM = Path(sys.executable).with_name("acp-agent")
WITH_SETTINGS = [name for name, editor in EDITORS.items() if editor.settings is not None]
ZED = ".config/zed/settings.json"
MINE = '// mine\n{\n  "theme": "One", // dark\n}\n'


def zed_settings(home: Path) -> Path:
    path = home / ZED
    path.parent.mkdir(parents=True)
    path.write_text(MINE)
    path.chmod(0o640)
    return path


@pytest.mark.parametrize("name", WITH_SETTINGS)
async def test_the_agent_is_put_into_settings_that_were_not_there(tmp_path: Path, name: str) -> None:
    ran = await run_command(tmp_path, "setup", name, "--yes", env={"HOME": str(tmp_path)})
    assert ran.code == 0
    file = EDITORS[name].file(tmp_path, {})
    assert file is not None
    written = json.loads(file.read_text())[EDITORS[name].at]["acp-agent"]
    assert (written["command"], written["args"]) == (str(PROGRAM), [])
    assert os.access(written["command"], os.X_OK)
    config = tmp_path / "state" / "config.yaml"
    line = config.read_text().splitlines()[0]
    assert line.startswith("# yaml-language-server: $schema=")
    assert (config.parent / line.partition("=")[2]).read_bytes() == schema_path("config").read_bytes()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    ran = await run_command(tmp_path, "setup", name, env={"HOME": str(tmp_path)})
    assert (ran.code, ran.out) == (0, ""), "what is set up is left alone"


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_settings_are_looked_for_where_the_platform_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    below = {
        "zed": (".config/zed/settings.json", "xdg/zed/settings.json", ".config/zed/settings.json"),
        "jetbrains": (".jetbrains/acp.json",) * 3,
        "vscode": (
            ".config/Code/User/settings.json",
            "xdg/Code/User/settings.json",
            "Library/Application Support/Code/User/settings.json",
        ),
        "acpx": (".acpx/config.json",) * 3,
    }
    kin = {
        "vscode": {
            "VSCodium": tuple(path.replace("/Code/", "/VSCodium/") for path in below["vscode"]),
            "code-server": (
                ".local/share/code-server/User/settings.json",
                "data/code-server/User/settings.json",
                "Library/Application Support/code-server/User/settings.json",
            ),
        }
    }
    elsewhere = {"XDG_CONFIG_HOME": str(tmp_path / "xdg"), "XDG_DATA_HOME": str(tmp_path / "data")}
    for number, (platform, env) in enumerate((("linux", {}), ("linux", elsewhere), ("darwin", elsewhere))):
        monkeypatch.setattr(sys, "platform", platform)
        editor = EDITORS[name]
        assert editor.file(tmp_path, env) == tmp_path / below[name][number]
        assert {each.title: each.file(tmp_path, env) for each in editor.kin} == {
            title: tmp_path / paths[number] for title, paths in kin.get(name, {}).items()
        }


@pytest.mark.timeout(30)
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("command", [("setup", "zed", "--yes"), ("doctor",)])
async def test_settings_that_are_a_named_pipe_are_refused_at_once(
    tmp_path: Path, command: tuple[str, ...], linked: bool
) -> None:
    path = tmp_path / ZED
    path.parent.mkdir(parents=True)
    pipe = tmp_path / "pipe" if linked else path
    os.mkfifo(pipe)
    if linked:
        path.symlink_to(pipe)
    ran = await run_command(tmp_path, *command, env={"HOME": str(tmp_path)})
    assert f"{path} cannot be read (it is no regular file)" in ran.out + ran.err
    assert not (tmp_path / "state" / "config.yaml").exists()


async def test_the_configuration_to_begin_with_names_a_model_that_is_offered(tmp_path: Path) -> None:
    await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})
    [model] = re.findall(r"^# model: anthropic/(\S+)$", (tmp_path / "state/config.yaml").read_text(), re.MULTILINE)
    assert model in BUILT_IN["anthropic"].offered


async def test_comments_order_mode_and_links_of_settings_stay(tmp_path: Path) -> None:
    real = zed_settings(tmp_path / "dotfiles")
    (tmp_path / ".config/zed").mkdir(parents=True)
    (tmp_path / ZED).symlink_to(real)
    ran = await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})
    assert ran.code == 0
    assert (tmp_path / ZED).is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    before, after = MINE.split("{\n")
    assert real.read_text().startswith(f"{before}{{\n")
    assert real.read_text().endswith(after)
    assert "+  " in ran.out
    assert "theme" in ran.out


async def test_what_a_user_has_set_beside_the_command_stays(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    old = {"type": "custom", "command": "/gone/acp-agent", "env": {"A": "1"}, "args": [], "default_mode": "plan"}
    text = json.dumps({"agent_servers": {"acp-agent": old, "other": {}}}, indent=2)
    text = text.replace('"plan"', '"plan" // while I try it').replace('"1"', '"\\ud800"').replace("\n", "\r\n")
    path.write_bytes(text.encode())
    ran = await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})
    assert ran.code == 0
    assert path.read_bytes().decode() == text.replace("/gone/acp-agent", str(PROGRAM))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "registry", "env": {"A": "1"}}, {"type": "custom", "args": [], "env": {"A": "1"}}),
        ({"type": "custom", "command": "uvx", "args": ["acp-agent"]}, {"type": "custom", "args": [], "env": {}}),
        ({"type": "registry", "command": "/a/acp-agent"}, {"type": "custom", "args": [], "env": {}}),
        ({"type": "custom", "command": "/a/acp-agent", "args": ["run"]}, {"type": "custom", "args": [], "env": {}}),
    ],
)
async def test_what_told_of_another_way_to_start_it_goes(
    tmp_path: Path, old: dict[str, object], new: dict[str, object]
) -> None:
    path = zed_settings(tmp_path)
    path.write_text(json.dumps({"agent_servers": {"acp-agent": old}}))
    assert (await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})).code == 0
    assert json.loads(path.read_text())["agent_servers"]["acp-agent"] == {**new, "command": str(PROGRAM)}


async def test_settings_of_comments_alone_keep_them(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    path.write_text("// mine\n/* and this */")
    assert (await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})).code == 0
    assert path.read_text().startswith("// mine\n/* and this */\n{\n")
    assert JsonText.read(path.read_text()).get("agent_servers", "acp-agent", "command") == str(PROGRAM)


async def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    for words, code in ((("--dry-run",), 0), ((), 1)):
        ran = await run_command(tmp_path, "setup", "zed", *words, env={"HOME": str(tmp_path)})
        assert (ran.code, "Nothing was written." in ran.err) == (code, True)
        assert f"+++ {path}" in ran.out
    async with at_a_terminal(tmp_path, "setup", "zed", env={"HOME": str(tmp_path)}) as person:
        await person.until("Write this?")
        person.type("n\n")
        assert await person.ended() == 1
    assert path.read_text() == MINE
    assert not (tmp_path / "state").exists()
    async with at_a_terminal(tmp_path, "setup", "zed", env={"HOME": str(tmp_path)}) as person:
        await person.until("Write this?")
        person.type("y\n")
        assert await person.ended() == 0
    assert JsonText.read(path.read_text()).get("agent_servers", "acp-agent", "command") == str(PROGRAM)


async def test_settings_that_cannot_be_read_are_named_and_left_alone(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    for text, says in (("{\n'a': 1}", f"{path}: line 2"), ('{"agent_servers": []}', "holds no object")):
        path.write_text(text)
        ran = await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})
        assert (ran.code, path.read_text()) == (1, text)
        assert says in ran.err
        assert "Nothing was written" in ran.err
    path.write_bytes(b"{\xff}")
    ran = await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})
    assert (ran.code, path.read_bytes()) == (1, b"{\xff}")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("neovim",), "neovim/codecompanion.lua"),
        (("neovim", "--plugin", "avante"), "neovim/avante.lua"),
        (("neovim", "--plugin", "agentic"), "neovim/agentic.lua"),
        (("emacs",), "emacs/acp-agent.el"),
    ],
)
async def test_what_belongs_into_a_file_in_lua_or_lisp_is_printed(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    ran = await run_command(tmp_path, "setup", *words, "--dry-run", env={"HOME": str(tmp_path)})
    assert f"where you set {words[-1]}" in ran.err or "--plugin" not in words
    assert (ran.code, ran.out) == (0, sample(name, str(PROGRAM)))
    assert str(PROGRAM) in ran.out
    assert PLACEHOLDER not in ran.out


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("codecompanion", "fs = { readTextFile = false, writeTextFile = false }"),  # it writes over unsaved buffers
        ("avante", "auto_approve_tool_permissions = false"),  # else it allows every call itself
        ("avante", '{ name = "compact", '),  # else the command is its own
        ("agentic", "reconnect = true"),  # else it waits for ever for an agent that has ended
    ],
)
def test_a_plugin_is_told_what_it_gets_wrong_by_itself(name: str, setting: str) -> None:
    assert setting in sample(f"neovim/{name}.lua", "/bin/acp-agent")


async def test_a_plugin_of_an_editor_that_has_none_is_refused(tmp_path: Path) -> None:
    ran = await run_command(tmp_path, "setup", "zed", "--plugin", "avante", "--yes", env={"HOME": str(tmp_path)})
    assert (ran.code, ran.out) == (1, "")
    assert "Zed has no plugin 'avante'" in ran.err
    assert not (tmp_path / ZED).exists()


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_a_file_to_copy_holds_just_the_entry_that_is_written(name: str) -> None:
    editor = EDITORS[name]
    text = (editors_dir() / editor.sample).read_text()
    assert json.loads(text) == {editor.at: {"acp-agent": entry(editor, PLACEHOLDER)}}
    assert JsonText.read("").put((editor.at, "acp-agent"), entry(editor, PLACEHOLDER)).text == text


def test_a_path_is_quoted_where_it_is_put() -> None:
    odd = '/home/a "b"/acp-agent'
    assert JsonText.read(sample("zed/settings.json", odd)).get("agent_servers", "acp-agent", "command") == odd
    assert '\\"b\\"' in sample("neovim/avante.lua", odd)


@pytest.mark.parametrize(
    "text",
    [
        '{"agent_servers": {"acp-agent": {"command": "/old/acp-agent", "env": {"OPENAI_API_KEY": "<it>"}}}}',
        '{"agent_servers": {\n"acp-agent": {\n"env": {"SHOP_TOKEN": "<it>"},\n"command": "/old/acp-agent"\n}}}\n',
    ],
)
async def test_no_key_is_printed_with_what_changes(tmp_path: Path, text: str) -> None:
    key = "hunter2-7c1f09aa55de"
    settings = tmp_path / ".config" / "zed" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(text.replace("<it>", key))
    for words in (["--dry-run"], ["--yes"]):
        ran = await run_command(tmp_path, "setup", "zed", *words, env={"HOME": str(tmp_path)})
        assert ran.code == 0
        assert "acp-agent" in ran.out
        assert key not in ran.out + ran.err
    assert key in settings.read_text()


@pytest.mark.parametrize("editor", ["neovim", "emacs"])
async def test_what_is_printed_comes_with_an_offer_that_may_be_refused(tmp_path: Path, editor: str) -> None:
    env = {"HOME": str(tmp_path)}
    tried = await run_command(tmp_path, "setup", editor, "--dry-run", env=env)
    refused = await run_command(tmp_path, "setup", editor, env=env)
    assert (tried.code, refused.code) == (0, 0)
    assert tried.out == refused.out != ""
    assert not (tmp_path / "state").exists()


async def test_settings_that_change_while_it_asks_are_not_written_over(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    async with at_a_terminal(tmp_path, "setup", "zed", env={"HOME": str(tmp_path)}) as person:
        await person.until("Write this?")
        path.write_text('{"theme": "Two"}')
        person.type("y\n")
        await person.until("has changed meanwhile")
        assert await person.ended() == 1
    assert path.read_text() == '{"theme": "Two"}'


async def test_a_section_that_is_null_becomes_one(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    path.write_text('{"agent_servers": /* none yet */ null, "theme": "One"}')
    assert (await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})).code == 0
    settings = JsonText.read(path.read_text())
    assert settings.get("agent_servers", "acp-agent", "command") == str(PROGRAM)
    assert "/* none yet */" in settings.text
    assert settings.get("theme") == "One"


async def test_settings_that_are_read_only_are_left_alone_and_nothing_is_asked(tmp_path: Path) -> None:
    path = zed_settings(tmp_path)
    path.chmod(0o444)
    for words, code in (("--yes",), 1), ((), 1), (("--dry-run",), 0):
        ran = await without_powers(tmp_path, "setup", "zed", *words, env={"HOME": str(tmp_path)})
        assert ran.code == code
        assert (f"{path} is read-only, and was left alone." in ran.err) == bool(code)
        assert (path.read_text(), (tmp_path / "state").exists()) == (MINE, False)


@pytest.mark.parametrize("bom", ["", "\ufeff"])
async def test_line_ends_and_a_byte_order_mark_stay(tmp_path: Path, bom: str) -> None:
    path = zed_settings(tmp_path)
    text = f'{bom}{{\r\n  // mine\r\n  "theme": "One",\r\n}}\r\n'
    path.write_bytes(text.encode())
    assert (await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})).code == 0
    written = path.read_bytes().decode()
    assert written.startswith(f"{bom}{{\r\n")
    assert written.endswith(text.removeprefix(f"{bom}{{"))
    assert "\n" not in written.replace("\r\n", "")
    again = await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})
    assert (again.code, again.out) == (0, "")


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
async def test_settings_in_which_nothing_stands_get_the_entry(tmp_path: Path, text: str) -> None:
    path = zed_settings(tmp_path)
    path.write_text(text)
    assert (await run_command(tmp_path, "setup", "zed", "--yes", env={"HOME": str(tmp_path)})).code == 0
    assert json.loads(path.read_text())["agent_servers"]["acp-agent"]["command"] == str(PROGRAM)
