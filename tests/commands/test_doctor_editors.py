"""`acp-agent doctor` and editors: what their entries really start, and advice that is true when it is followed."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_agent import __version__
from support.doctor import advice_of, doctor, doctor_without_powers, follow, of, on_another_machine, write

PROGRAM = Path(sys.executable).with_name("acp-agent")
ZED = ".config/zed/settings.json"


def zed(home: Path, **entries: Any) -> Path:
    """Zed's settings, with these agents."""
    text = json.dumps({"agent_servers": {name.replace("_", "-"): entry for name, entry in entries.items()}}, indent=2)
    return write(home / ZED, text)


def script(path: Path, text: str) -> str:
    """A program; its path."""
    return str(write(path, text, 0o755))


@pytest.mark.parametrize(
    ("text", "level", "says"),
    [
        ("#!/bin/sh\necho ls 9.1\n", "fail", "which is not acp-agent: with --version, it said 'ls 9.1'."),
        ("#!/bin/sh\necho acp-agent-of-others 9.1\n", "fail", "it said 'acp-agent-of-others 9.1'"),
        ("#!/bin/sh\necho acp-agent 9.1 of others\n", "fail", "it said 'acp-agent 9.1 of others'"),
        ("#!/no/such/python\n", "fail", "which fails: with --version, it cannot be started"),
        ("#!/bin/sh\necho one >&2\necho no module >&2\nexit 3\n", "fail", "it ended with status 3: no module"),
        ("#!/bin/sh\nkill -9 $$\n", "fail", "it ended with status -9"),
        ("#!/bin/sh\nyes | head -c 1000000\n", "fail", "it said 'y'"),
        ("#!/bin/sh\n", "warn", "which may not be acp-agent: with --version, it said nothing."),
    ],
)
async def test_an_entry_that_starts_another_program_is_no_entry_of_the_agent(
    tmp_path: Path, text: str, level: str, says: str
) -> None:
    env = {"HOME": str(tmp_path)}
    other = script(tmp_path / "other", text)
    zed(tmp_path, acp_agent={"command": other, "args": []})
    _, found = await doctor(tmp_path, "--offline", env=env)
    [(is_level, is_text)] = of(found, "editors")
    assert (is_level, is_text.startswith(f"Zed starts {other}, which ")) == (level, True)
    assert says in is_text
    await follow(tmp_path, advice_of(found, "editors"), env, more=" --yes")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM}.")]


async def test_a_program_that_does_not_end_is_told_and_ended(tmp_path: Path) -> None:
    less_patient = "import acp_agent.commands.doctor.starting as it\nit.SECONDS = 1.0\n"
    env = {"HOME": str(tmp_path), **on_another_machine(tmp_path / "site", less_patient)}
    zed(tmp_path, acp_agent={"command": script(tmp_path / "other", "#!/bin/sh\necho $$ > $HOME/pid\nsleep 1000\n")})
    _, found = await doctor(tmp_path, "--offline", env=env)
    [(level, text)] = of(found, "editors")
    assert level == "warn"
    assert "it did not end within 1 seconds" in text
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_script_that_passes_its_arguments_on_is_the_agent(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    launcher = tmp_path / "launcher"
    zed(tmp_path, acp_agent={"command": str(launcher), "env": {"WHICH": str(PROGRAM)}})
    script(launcher, '#!/bin/sh\nexec "$WHICH"\n')
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert [level for level, _ in of(found, "editors")] == ["warn"]
    assert 'let it pass its arguments on ("$@")' in advice_of(found, "editors")
    script(launcher, '#!/bin/sh\nexec "$WHICH" "$@"\n')
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"Zed starts {launcher}.")]


async def test_an_entry_under_another_name_that_starts_the_agent_is_seen_and_others_are_not_started(
    tmp_path: Path,
) -> None:
    env = {"HOME": str(tmp_path)}
    (tmp_path / "mine").symlink_to(PROGRAM)
    other = script(tmp_path / "other", "#!/bin/sh\ntouch $HOME/started\n")
    (project := tmp_path / "acp-agent").mkdir()
    zed(
        tmp_path,
        linked={"command": str(tmp_path / "mine")},
        module={"command": sys.executable, "args": ["-m", "acp_agent"]},
        other={"command": other, "args": ["--agent", "@others/acp-agent", "claude-acp-agent", str(project)]},
        remote={"type": "registry"},
    )
    ran, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [
        ("ok", f"Zed starts {tmp_path / 'mine'} as 'linked'."),
        ("ok", f"Zed starts {sys.executable} -m acp_agent as 'module'."),
    ]
    assert not (tmp_path / "started").exists()
    zed(tmp_path, mine={"command": "/gone/acp-agent", "args": ["x"]})
    ran, found = await doctor(tmp_path, "--offline", env=env)
    assert ran.code == 1
    assert of(found, "editors") == [("fail", "Zed starts /gone/acp-agent, which is no program.")]
    assert f"Put {PROGRAM} for the `command` of 'mine' in {tmp_path / ZED}" in advice_of(found, "editors", "Zed starts")
    zed(tmp_path, mine={"command": str(PROGRAM)})
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM} as 'mine'.")]


async def test_an_agent_of_somebody_else_with_our_name_among_its_arguments_is_not_spoken_of(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    other = script(tmp_path / "other", "#!/bin/sh\necho other 1.0\n")
    zed(tmp_path, other={"command": other, "args": ["acp-agent"]})
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", "Zed does not know the agent.")]


@pytest.mark.parametrize(
    ("entry", "level", "says"),
    [
        ({"command": str(PROGRAM), "args": ["run"]}, "fail", "with arguments it is a command for the terminal"),
        ({"command": str(PROGRAM), "args": "run"}, "fail", "with arguments it is a command for the terminal"),
        ({"command": str(PROGRAM), "args": [1]}, "fail", "`args` that are no list of texts"),
        ({"command": ["acp-agent"]}, "fail", "which is no program"),
        ("acp-agent", "warn", "Zed does not know the agent"),
    ],
)
async def test_an_entry_that_no_editor_can_use_is_told_and_written_again(
    tmp_path: Path, entry: object, level: str, says: str
) -> None:
    env = {"HOME": str(tmp_path)}
    zed(tmp_path, acp_agent=entry)
    _, found = await doctor(tmp_path, "--offline", env=env)
    [(is_level, text)] = of(found, "editors")
    assert (is_level, says in text) == (level, True), text
    await follow(tmp_path, advice_of(found, "editors"), env, more=" --yes")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM}.")]


async def test_another_version_than_this_one_is_told(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    old = script(tmp_path / "old", "#!/bin/sh\necho acp-agent 0.0.1\n")
    zed(tmp_path, acp_agent={"command": old})
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", f"Zed starts {old}, which is version 0.0.1; this is {__version__}.")]
    await follow(tmp_path, advice_of(found, "editors"), env, more=" --yes")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM}.")]


async def test_agents_that_are_no_object_are_told_as_what_setup_will_not_touch(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    path = write(tmp_path / ZED, '{"agent_servers": []}')
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", f"Zed: `agent_servers` in {path} holds no object.")]
    path.write_text("{}")  # taken out, as it says
    await follow(tmp_path, advice_of(found, "editors"), env, more=" --yes")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM}.")]


@pytest.mark.parametrize("here", ["settings", "program"])
@pytest.mark.parametrize(
    ("title", "program", "file"),
    [
        ("VSCodium", "codium", ".config/VSCodium/User/settings.json"),
        ("code-server", "code-server", ".local/share/code-server/User/settings.json"),
    ],
)
async def test_a_build_of_vs_code_has_settings_of_its_own(
    tmp_path: Path, here: str, title: str, program: str, file: str
) -> None:
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/bin"}
    code, other = tmp_path / ".config/Code/User/settings.json", tmp_path / file
    if here == "settings":
        write(other, "{}")
    else:
        script(tmp_path / "bin" / program, "#!/bin/sh\n")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", f"{title} does not know the agent.")]
    done = await follow(tmp_path, advice_of(found, "editors"), env, more=" --yes")
    assert f"In {title}: install the extension" in done.err
    assert not code.exists()
    write(code, "{}")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [
        ("warn", "VS Code does not know the agent."),
        ("ok", f"{title} starts {PROGRAM}."),
    ]
    await follow(tmp_path, advice_of(found, "editors"), env, more=" --yes")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert [level for level, _ in of(found, "editors")] == ["ok", "ok"]


async def test_two_builds_of_an_editor_with_one_file_get_one_entry(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    code, codium = (tmp_path / ".config" / name / "User" / "settings.json" for name in ("Code", "VSCodium"))
    write(code, "{}")
    codium.parent.mkdir(parents=True)
    codium.symlink_to(code)
    _, found = await doctor(tmp_path, "--offline", env=env)
    advice = {each["advice"] for each in found if each["area"] == "editors"}
    await follow(tmp_path, advice.pop(), env, more=" --yes")
    assert not advice
    assert codium.is_symlink()
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert [level for level, _ in of(found, "editors")] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("key", "title", "program", "file"),
    [
        ("neovim", "Neovim", "nvim", "nvim/lua/plugins/agent.lua"),
        ("emacs", "Emacs", "emacs", "emacs/lisp/agent.el"),
    ],
)
async def test_what_is_printed_for_an_editor_is_found_where_its_user_has_put_it(
    tmp_path: Path, key: str, title: str, program: str, file: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    script(tmp_path / "bin" / program, "#!/bin/sh\n")
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(elsewhere), "PATH": f"{tmp_path / 'bin'}:/bin"}
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", f"{title} does not know the agent.")]
    assert advice_of(found, "editors") == f"See: acp-agent setup {key}"
    done = await follow(tmp_path, advice_of(found, "editors"), env, more=" --dry-run")
    write(elsewhere / file, done.out)
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"{title} is told of the agent.")]
    # The program that is named there may go, or have been that of another machine.
    write(elsewhere / file, done.out.replace(str(PROGRAM), "/gone/bin/acp-agent"))
    _, found = await doctor(tmp_path, "--offline", env=env)
    told = f"{title} is told in {elsewhere / file} to start /gone/bin/acp-agent, which is no program."
    assert of(found, "editors") == [("warn", told)]
    assert advice_of(found, "editors") == f"Put {PROGRAM} in its place."
    for works in ('"~/bin/acp-agent" "/gone/bin/acp-agent"', "-- acp-agent, as the path has it"):
        write(elsewhere / file, works)
        (tmp_path / "bin" / "acp-agent").unlink(missing_ok=True)
        script(tmp_path / "bin" / "acp-agent", "#!/bin/sh\n")
        _, found = await doctor(tmp_path, "--offline", env=env)
        assert of(found, "editors") == [("ok", f"{title} is told of the agent.")]


@pytest.mark.parametrize("closed", [".config/zed", ".config", ZED])
async def test_settings_that_nobody_may_read_are_told_with_what_is_closed(tmp_path: Path, closed: str) -> None:
    env = {"HOME": str(tmp_path)}
    path, shut = zed(tmp_path, acp_agent={"command": str(PROGRAM)}), tmp_path / closed
    mode = shut.stat().st_mode
    shut.chmod(0)
    try:
        found = await doctor_without_powers(tmp_path, env)
        told = ("warn", f"Zed: {path} cannot be read (Permission denied).")
        assert told in of(found, "editors")
        assert str(shut) in advice_of(found, "editors", "Zed: ")
    finally:
        shut.chmod(mode)
    assert ("ok", f"Zed starts {PROGRAM}.") in of(await doctor_without_powers(tmp_path, env), "editors")
