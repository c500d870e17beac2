"""`acp-agent doctor`: what is there and what is not; each thing is told as what it is, and advice is true."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acp_agent.cli.setup import doctor as command
from support.called import call_command
from support.doctor import advice_of, of, write
from support.doctor import doctor as doctor_of
from support.models import Reply, model_server

CONFIG = """
model: shop/tea
providers: {shop: {base_url: "http://127.0.0.1:9/v1", api_key_env: SHOP_KEY}}
mcp_servers:
  good: {command: sh}
  gone: {command: no-such-program}
  closed: {url: "http://127.0.0.1:9/mcp", headers: {Authorization: "Bearer ${NO_SUCH_VARIABLE}"}}
"""
PROGRAM = Path(sys.executable).with_name("acp-agent")
ZED = ".config/zed/settings.json"
doctor = partial(doctor_of, run=call_command)
ALL = ["program", "state", "sessions", "config", "keys", "model", "trust"]


def areas(findings: list[dict[str, Any]]) -> list[str]:
    """In their order."""
    return list(dict.fromkeys(each["area"] for each in findings))


async def test_where_all_is_well_it_says_so_and_changes_nothing(tmp_path: Path) -> None:
    async with model_server([Reply("OK")], "openai") as server:
        ran, found = await doctor(tmp_path, env=server.env())
        assert server.calls[0].body["max_output_tokens"] <= 64
    assert (ran.code, ran.err, areas(found)) == (0, "", ALL)
    assert of(found, "model")[0][1].startswith("openai/gpt-test answered within ")
    assert of(found, "state") == [("ok", f"{tmp_path / 'state'} is not there yet, and will be made.")]
    assert ("ok", "openai: OPENAI_API_KEY is set.") in of(found, "keys")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("path", "text", "area", "says"),
    [
        ("state/keys.json", "{", "keys", "keys.json"),
        ("state/config.yaml", "model: [\n", "config", "config.yaml"),
        ("state/config.yaml", "compaction: {strategy: sumary}\n", "config", "there is no strategy 'sumary'"),
        (".acp-agent/config.yaml", "nonsense: 1\n", "config", "config.yaml:1: nonsense: "),
        ("state/sessions.db", "This is no database. " * 100, "sessions", "sessions.db"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_checked(
    tmp_path: Path, path: str, text: str, area: str, says: str
) -> None:
    write(tmp_path / path, text)
    ran, found = await doctor(tmp_path, "--offline")
    assert (ran.code, of(found, area)[0][0]) == (1, "fail")
    assert says in of(found, area)[0][1]
    assert {"state", "sessions", "config"} <= {*areas(found)}
    assert area != "config" or "`acp-agent schema config`" in advice_of(found, "config")
    assert (tmp_path / path).read_text() == text


@pytest.mark.parametrize(
    ("name", "wrong", "right", "area"),
    [
        ("ACP_AGENT_MODEL", "gpt-test", "openai/gpt-test", "config"),
        ("ACP_AGENT_CONTEXT_WINDOW", "200k", "200000", "config"),
        ("ACP_AGENT_HOME", "state", "", "state"),
    ],
)
async def test_a_variable_that_is_wrong_is_named_and_not_the_file(
    tmp_path: Path, name: str, wrong: str, right: str, area: str
) -> None:
    write(tmp_path / "state" / "config.yaml", "model: openai/gpt-test\n")
    env = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", name: wrong}
    ran, found = await doctor(tmp_path, "--offline", env=env)
    assert ran.code == 1
    assert all(name in each["text"] for each in found if each["level"] == "fail")
    assert of(found, area)[0][0] == "fail"
    _, found = await doctor(tmp_path, "--offline", env={**env, name: right})
    assert not [each for each in found if each["level"] == "fail"]


async def test_a_model_that_its_provider_does_not_have_is_told_with_where_it_is_chosen(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", "model: openai/gpt-test\n")
    async with model_server([Reply(http_status=404)], "openai") as server:
        _, found = await doctor(tmp_path, env=server.env())
    assert "ACP_AGENT_MODEL, or else `model` in config.yaml" in advice_of(found, "model")


async def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    hook = "hooks:\n  nonsense:\n    - {command: x}\n"
    config = write(tmp_path / "state" / "config.yaml", f"{CONFIG}compaction: {{target: 0.5}}\n{hook}")
    write(tmp_path / ".acp-agent" / "hooks" / "guard.py", "")
    (tmp_path / ".git").mkdir()
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    assert [level for level, text in of(found, "keys") if text.startswith("shop:")] == ["fail"]
    assert of(found, "mcp") == [
        ("ok", "good: sh, not started here."),
        ("fail", "gone: no-such-program is no program on the PATH."),
        ("fail", "closed: NO_SUCH_VARIABLE is not set."),
    ]
    assert advice_of(found, "trust") == f"If you know what it does: acp-agent trust {tmp_path}"
    fault, notice = [text for level, text in of(found, "config") if level == "warn"]
    assert fault.startswith(f"A hook is left out: {config}:")
    assert notice.startswith(f"{config}: `compaction.target` ")


async def test_a_key_that_any_model_of_the_configuration_needs_is_missed(tmp_path: Path) -> None:
    text = "small_model: google/gemini-x\ncompaction: {model: anthropic/claude-x}\nmodel: openai/gpt-test\n"
    write(tmp_path / "state" / "config.yaml", text)
    _, found = await doctor(tmp_path, "--offline", env={"ACP_AGENT_MODEL": "openrouter/x/y"})
    missing = [text.partition(":")[0] for level, text in of(found, "keys") if level == "fail"]
    assert missing == ["anthropic", "google", "openrouter"]
    assert "acp-agent login anthropic" in advice_of(found, "keys", "anthropic")
    assert (await call_command(tmp_path, "login", "--no-check", "anthropic", stdin="test-key\n")).code == 0
    _, found = await doctor(tmp_path, "--offline")
    assert ("ok", "anthropic: a key is stored.") in of(found, "keys")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply("x", hang=True), "did not answer within 2 seconds."),
        (Reply(http_status=503), "did not answer within 2 seconds. openai: it is overloaded"),
    ],
    ids=["silent", "503"],
)
async def test_a_model_that_does_not_answer_in_time_is_told_with_why(
    tmp_path: Path, reply: Reply, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SECONDS", 2.0)
    async with model_server(lambda _: reply, "openai") as server:
        ran, found = await doctor(tmp_path, env=server.env())
    assert (ran.code, of(found, "model")[0][0], areas(found)) == (1, "fail", ALL)
    assert of(found, "model")[0][1].startswith(f"openai/gpt-test {says}")


@pytest.mark.parametrize(
    ("entry", "level", "says"),
    [
        ({"command": ["acp-agent"]}, "fail", "which is not the absolute path of a program"),
        ({"command": "/gone/acp-agent"}, "fail", "which is not the absolute path of a program"),
        ({"command": "acp-agent"}, "fail", "which is not the absolute path of a program"),
        (None, "warn", "Zed does not know the agent"),
    ],
)
async def test_an_entry_that_no_editor_can_use_is_told(tmp_path: Path, entry: object, level: str, says: str) -> None:
    agents = {"acp-agent": entry} if entry else {}
    write(tmp_path / ZED, json.dumps({"agent_servers": agents}, indent=2))
    _, found = await doctor(tmp_path, "--offline")
    [(is_level, text)] = of(found, "editors")
    assert (is_level, says in text) == (level, True), text
    assert advice_of(found, "editors") == "acp-agent setup zed prints the entry."


async def test_an_editors_entry_is_found_among_comments_and_settings_that_cannot_be_read_are_told(
    tmp_path: Path,
) -> None:
    entry = json.dumps({"command": str(PROGRAM), "env": {"URL": "http://x/*"}})
    path = write(tmp_path / ZED, f'// mine\n{{"agent_servers": /* {{ */ {{"acp-agent": {entry},}}, // all\n}}\n')
    _, found = await doctor(tmp_path, "--offline")
    assert of(found, "editors") == [("ok", f"Zed starts {PROGRAM}.")]
    path.write_text("{")
    _, found = await doctor(tmp_path, "--offline")
    [(level, text)] = of(found, "editors")
    assert (level, text.startswith(f"Zed: {path} cannot be read (")) == ("warn", True)


async def test_what_setup_writes_is_found_where_the_user_keeps_it(tmp_path: Path) -> None:
    write(tmp_path / "bin" / "codium", "#!/bin/sh\n", 0o755)
    env = {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere"), "PATH": f"{tmp_path / 'bin'}:/bin"}
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("warn", "VSCodium does not know the agent.")]
    assert (await call_command(tmp_path, "setup", "vscodium", "--yes", env=env)).code == 0
    assert (tmp_path / "elsewhere/VSCodium/User/settings.json").exists()
    _, found = await doctor(tmp_path, "--offline", env=env)
    assert of(found, "editors") == [("ok", f"VSCodium starts {PROGRAM}.")]
