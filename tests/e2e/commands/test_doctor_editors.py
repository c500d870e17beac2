"""`acp-agent doctor` and editors: what their entries start, and advice that is true when it is followed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.called import call_command
from support.doctor import advice_of, doctor, of, write

PROGRAM = Path(sys.executable).with_name("acp-agent")
ZED = ".config/zed/settings.json"


@pytest.mark.parametrize(
    ("entry", "level", "says"),
    [
        (
            {"command": str(PROGRAM), "args": ["run"]},
            "fail",
            "with arguments",
        ),
        ({"command": ["acp-agent"]}, "fail", "which is no program"),
        ({"command": "/gone/acp-agent"}, "fail", "which is no program"),
        ({"command": "acp-agent"}, "warn", "editors have a shorter PATH"),
        ("acp-agent", "warn", "Zed does not know the agent"),
    ],
)
async def test_an_entry_that_no_editor_can_use_is_told_and_written_again(
    tmp_path: Path, entry: object, level: str, says: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "acp-agent").symlink_to(PROGRAM)
    env = {"PATH": f"{tmp_path / 'bin'}:/bin"}
    write(tmp_path / ZED, json.dumps({"agent_servers": {"acp-agent": entry}}, indent=2))
    _, found = await doctor(tmp_path, "--offline", env=env, run=call_command)
    [(is_level, text)] = of(found, "editors")
    assert (is_level, says in text) == (level, True), text
    assert advice_of(found, "editors").endswith(": acp-agent setup zed")
    assert (await call_command(tmp_path, "setup", "zed", "--yes")).code == 0
    _, found = await doctor(tmp_path, "--offline", env=env, run=call_command)
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM}.")]


async def test_what_setup_writes_is_found_where_the_user_keeps_it(tmp_path: Path) -> None:
    write(tmp_path / "bin" / "codium", "#!/bin/sh\n", 0o755)
    env = {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere"), "PATH": f"{tmp_path / 'bin'}:/bin"}
    _, found = await doctor(tmp_path, "--offline", env=env, run=call_command)
    assert of(found, "editors") == [("warn", "VSCodium does not know the agent.")]
    assert (await call_command(tmp_path, "setup", "vscodium", "--yes", env=env)).code == 0
    assert (tmp_path / "elsewhere/VSCodium/User/settings.json").exists()
    _, found = await doctor(tmp_path, "--offline", env=env, run=call_command)
    assert of(found, "editors") == [("ok", f"VSCodium starts {PROGRAM}.")]


async def test_settings_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / ZED, "{")
    _, found = await doctor(tmp_path, "--offline", run=call_command)
    [(level, text)] = of(found, "editors")
    assert (level, text.startswith(f"Zed: {path} cannot be read (")) == ("warn", True)
