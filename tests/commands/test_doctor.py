"""`acp-agent doctor`: what is there, what is not, and what to do about it."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from acp_agent.commands.doctor.findings import Finding, conclusion, report
from support.doctor import doctor, of, write
from support.models import Reply, model_server
from support.terminal import run_command

CONFIG = """
model: shop/tea
providers: {shop: {base_url: "http://127.0.0.1:9/v1", api_key_env: SHOP_KEY}}
mcp_servers:
  good: {command: sh}
  gone: {command: no-such-program}
  closed: {url: "http://127.0.0.1:9/mcp", headers: {Authorization: "Bearer ${NO_SUCH_VARIABLE}"}}
hooks: {turn_end: [{command: "true"}]}
"""


async def test_where_all_is_well_it_asks_the_model_once_and_changes_nothing(tmp_path: Path) -> None:
    async with model_server([Reply("OK")], "openai") as server:
        ran, found = await doctor(tmp_path, env=server.env())
        assert (ran.code, ran.err) == (0, "")
        assert len(server.calls) == 1
        assert server.calls[0].body["max_output_tokens"] <= 64
    assert not [finding for finding in found if finding["level"] == "fail"]
    [(level, text)] = of(found, "model")
    assert level == "ok"
    assert text.startswith("openai/gpt-test answered within ")
    assert of(found, "state") == [("ok", f"{tmp_path / 'state'} is not there yet, and will be made.")]
    assert ("ok", "openai: OPENAI_API_KEY is set.") in of(found, "keys")
    assert not (tmp_path / "state").exists()


async def test_keys_that_cannot_be_read_are_named_and_the_rest_is_checked(tmp_path: Path) -> None:
    write(tmp_path / "state" / "keys.json", "{")
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    [(level, text)] = of(found, "keys")
    assert level == "fail"
    assert str(tmp_path / "state" / "keys.json") in text
    assert {"trust", "editors"} <= {finding["area"] for finding in found}


async def test_offline_nobody_is_asked(tmp_path: Path) -> None:
    async with model_server([], "openai") as server:
        ran, found = await doctor(tmp_path, "--offline", env=server.env())
        assert (ran.code, server.calls) == (0, [])
    assert of(found, "model") == [("ok", "openai/gpt-test was not asked (--offline).")]


async def test_a_model_that_refuses_fails_with_its_reason_and_without_the_key(tmp_path: Path) -> None:
    async with model_server([Reply(http_status=401)], "openai") as server:
        ran, found = await doctor(tmp_path, env=server.env())
    assert ran.code == 1
    [(level, text)] = of(found, "model")
    assert level == "fail"
    assert "OPENAI_API_KEY" in text
    assert server.env()["OPENAI_API_KEY"] not in ran.out


async def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", CONFIG)
    write(tmp_path / ".acp-agent" / "hooks" / "guard.py", "")
    (tmp_path / ".git").mkdir()
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    assert [level for level, text in of(found, "keys") if text.startswith("shop:")] == ["fail"]
    assert [(level, text.partition(":")[0]) for level, text in of(found, "mcp")] == [
        ("ok", "good"),
        ("fail", "gone"),
        ("fail", "closed"),
    ]
    assert "NO_SUCH_VARIABLE" in of(found, "mcp")[2][1]
    assert of(found, "hooks") == [("ok", "config.yaml names 1 command.")]
    [untrusted] = [finding for finding in found if finding["area"] == "trust"]
    assert (untrusted["level"], untrusted["advice"]) == (
        "warn",
        f"If you know what it does: acp-agent trust {tmp_path}",
    )
    assert (await run_command(tmp_path, "trust")).code == 0
    _, found = await doctor(tmp_path, "--offline")
    assert [level for level, _ in of(found, "trust")] == ["ok"]


async def test_a_configuration_and_a_database_that_cannot_be_read_fail_and_the_rest_is_checked(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", "model: [\n")
    write(tmp_path / "state" / "sessions.db", "This is no database. " * 100)
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    [(level, text)] = of(found, "config")
    assert (level, "config.yaml" in text) == ("fail", True)
    [(level, text)] = of(found, "sessions")
    assert (level, "sessions.db" in text) == ("fail", True)
    assert of(found, "editors")
    assert (tmp_path / "state" / "sessions.db").read_text().startswith("This is no database.")


async def test_a_home_that_others_can_enter_and_one_that_cannot_be_made_are_told(tmp_path: Path) -> None:
    async with model_server([Reply("Fine.")], "openai") as server:
        assert (await run_command(tmp_path, "run", "Hi", env=server.env())).code == 0
    (tmp_path / "state").chmod(0o755)
    _, found = await doctor(tmp_path, "--offline")
    assert "(mode 0755)" in of(found, "state")[0][1]
    assert of(found, "state")[0][0] == "warn"
    with closing(sqlite3.connect(tmp_path / "state" / "sessions.db")) as database:
        [(session,)] = database.execute("SELECT session_id FROM sessions")
    assert session in of(found, "sessions")[0][1]
    write(tmp_path / "file", "")
    _, found = await doctor(tmp_path, "--offline", env={"ACP_AGENT_HOME": str(tmp_path / "file" / "home")})
    assert of(found, "state")[0][0] == "fail"


async def test_editors_are_found_with_what_they_start(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    zed = tmp_path / ".config" / "zed" / "settings.json"
    write(zed, "{} // mine")
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", "Zed does not know the agent.")]
    write(zed, '{"agent_servers": {"acp-agent": {"command": "/no/such/program"}}}')
    ran, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("fail", "Zed starts /no/such/program, which is no program.")]
    assert ran.code == 1
    write(zed, '{"agent_servers": {"acp-agent": {"type": "registry", "env": {}}}}')
    ran, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", "Zed starts what the registry of agents names.")]
    assert (await run_command(tmp_path, "setup", "zed", "--yes", env=env)).code == 0
    write(tmp_path / "bin" / "nvim", "#!/bin/sh\n", 0o755)
    env["PATH"] = f"{tmp_path / 'bin'}:/bin"
    _, found = await doctor(tmp_path, "--offline", env=env)
    zed_line, neovim = of(found, "editors")
    assert (zed_line[0], neovim) == ("ok", ("warn", "Neovim does not know the agent."))
    write(tmp_path / ".config" / "nvim" / "lua" / "chat.lua", 'cmd = { "acp-agent" }')
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors")[1] == ("ok", "Neovim is told of the agent.")


async def test_an_editor_that_cannot_start_the_agent_is_told_of(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:/bin"}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "acp-agent").symlink_to(Path(sys.executable).with_name("acp-agent"))
    settings = tmp_path / ".jetbrains" / "acp.json"
    write(settings, '{"agent_servers": {"acp-agent": {"command": "acp-agent"}}}')
    _, found = await doctor(tmp_path, "--offline", env=env)
    [(level, text)] = of(found, "editors")
    assert level == "warn"
    assert "shorter PATH" in text
    write(settings, json.dumps({"agent_servers": {"acp-agent": {"command": str(tmp_path / "bin" / "acp-agent")}}}))
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert [level for level, _ in of(found, "editors")] == ["ok"]
    settings.unlink()
    os.mkfifo(settings)
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", f"JetBrains: {settings} cannot be read (it is no regular file).")]


async def test_keys_of_earlier_versions_are_told_with_file_and_line(tmp_path: Path) -> None:
    config = write(tmp_path / "state" / "config.yaml", "compaction:\n  target: 0.5\n")
    _, found = await doctor(tmp_path, "--offline")
    [told] = [text for level, text in of(found, "config") if level == "warn"]
    assert told.startswith(f"{config}: `compaction.target` (line 2) is no longer used")


async def test_what_is_wrong_at_home_is_said_in_words(tmp_path: Path) -> None:
    config = write(tmp_path / "state" / "config.yaml", "hooks:\n  nonsense:\n    - {command: x}\n")
    write(tmp_path / "state" / "logs", "no folder")
    _, found = await doctor(tmp_path, "--offline")
    [fault] = [text for level, text in of(found, "config") if level == "warn"]
    assert fault.startswith(f"A hook is left out: {config}:")
    assert ("warn", f"{tmp_path / 'state' / 'logs'} cannot be written to, so that nothing is logged.") in of(
        found, "state"
    )


FINDINGS = st.lists(
    st.builds(
        Finding,
        level=st.sampled_from(["ok", "warn", "fail"]),
        area=st.sampled_from(["model", "state"]),
        text=st.text("ab \n", min_size=1),
        advice=st.text("xy \n"),
    )
)


@given(FINDINGS)
def test_every_finding_is_a_line_and_its_advice_another_one(findings: list[Finding]) -> None:
    lines = report(findings).split("\n")
    assert len(lines) == len(findings) + sum(bool(finding.advice) for finding in findings) + 2
    assert lines[-1] == conclusion(findings)
    assert (lines[-1] == "All is well.") == all(finding.level == "ok" for finding in findings)
