"""`acp-agent doctor`: what is there and what is not; each thing is told as what it is, and advice is true."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acp_agent.cli.doctor import checks
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
hooks: {turn_end: [{command: "true"}]}
"""
doctor = partial(doctor_of, run=call_command)
ALL = ["program", "state", "sessions", "config", "keys", "model", "trust", "editors"]


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
        ("state/sessions.db", "This is no database. " * 100, "sessions", "sessions.db"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_checked(
    tmp_path: Path, path: str, text: str, area: str, says: str
) -> None:
    write(tmp_path / path, text)
    ran, found = await doctor(tmp_path, "--offline")
    assert (ran.code, says in of(found, area)[0][1], of(found, area)[0][0]) == (1, True, "fail")
    assert {"state", "sessions", "config", "editors"} <= {*areas(found)}
    assert (tmp_path / path).read_text() == text


@pytest.mark.parametrize(
    ("name", "wrong", "right", "area"),
    [
        ("ACP_AGENT_MODEL", "gpt-test", "openai/gpt-test", "config"),
        ("ACP_AGENT_MODEL", "opnai/gpt-test", "openai/gpt-test", "model"),
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
    assert [each["area"] for each in found if each["level"] == "fail"] == [area]
    assert name in advice_of(found, area)
    _, found = await doctor(tmp_path, "--offline", env={**env, name: right})
    assert not [each for each in found if each["level"] == "fail"]


async def test_a_model_that_its_provider_does_not_have_is_told_with_who_has_named_it(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", "model: openai/gpt-test\n")
    async with model_server([Reply(http_status=404), Reply(http_status=404)], "openai") as server:
        _, found = await doctor(tmp_path, env=server.env())
        assert "ACP_AGENT_MODEL names it" in advice_of(found, "model")
        env = {name: value for name, value in server.env().items() if name != "ACP_AGENT_MODEL"}
        _, found = await doctor(tmp_path, env=env)
        assert advice_of(found, "model") == "To choose another model: `model` in config.yaml, as provider/model."


@pytest.mark.parametrize(
    ("path", "schema"), [("state/config.yaml", "config"), (".acp-agent/config.yaml", "project")], ids=["own", "project"]
)
async def test_a_wrong_file_comes_with_the_schema_that_is_its_own(tmp_path: Path, path: str, schema: str) -> None:
    write(tmp_path / path, "nonsense: 1\n")
    _, found = await doctor(tmp_path, "--offline")
    [(level, text)] = of(found, "config")
    assert (level, text.startswith(f"{tmp_path / path}:1: nonsense: ")) == ("fail", True)
    assert f"`acp-agent schema {schema}`" in advice_of(found, "config")


async def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", CONFIG)
    write(tmp_path / ".acp-agent" / "hooks" / "guard.py", "")
    (tmp_path / ".git").mkdir()
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    assert [level for level, text in of(found, "keys") if text.startswith("shop:")] == ["fail"]
    assert of(found, "mcp") == [
        ("ok", "good: sh."),
        ("fail", "gone: no-such-program is no program on the PATH."),
        ("fail", "closed: NO_SUCH_VARIABLE is not set."),
    ]
    assert of(found, "hooks") == [("ok", "config.yaml names 1 command.")]
    assert advice_of(found, "trust") == f"If you know what it does: acp-agent trust {tmp_path}"


async def test_a_key_that_any_model_of_the_configuration_needs_is_missed(tmp_path: Path) -> None:
    text = "small_model: google/gemini-x\ncompaction: {model: anthropic/claude-x}\nmodel: openai/gpt-test\n"
    write(tmp_path / "state" / "config.yaml", text)
    _, found = await doctor(tmp_path, "--offline", env={"ACP_AGENT_MODEL": "openrouter/x/y"})
    assert [text for level, text in of(found, "keys") if level == "fail"] == [
        "anthropic: there is no key for it, though the configuration names it.",
        "google: there is no key for it, though the configuration names it.",
        "openrouter: there is no key for it, though ACP_AGENT_MODEL names it.",
    ]
    assert "acp-agent login anthropic" in advice_of(found, "keys", "anthropic")
    assert (await call_command(tmp_path, "login", "--no-check", "anthropic", stdin="test-key\n")).code == 0
    _, found = await doctor(tmp_path, "--offline")
    assert ("ok", "anthropic: a key is stored.") in of(found, "keys")


async def test_a_disk_that_is_nearly_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "state" / "config.yaml", "")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=199_999_999))
    _, found = await doctor(tmp_path, "--offline")
    assert ("warn", f"There are 199 MB left on the disk of {tmp_path / 'state'}.") in of(found, "state")


async def test_what_is_wrong_in_the_home_is_said_in_words(tmp_path: Path) -> None:
    config = write(
        tmp_path / "state" / "config.yaml", "compaction: {target: 0.5}\nhooks:\n  nonsense:\n    - {command: x}\n"
    )
    with closing(sqlite3.connect(tmp_path / "state" / "sessions.db")):
        pass
    (tmp_path / "state").chmod(0o755)
    _, found = await doctor(tmp_path, "--offline")
    fault, notice = [text for level, text in of(found, "config") if level == "warn"]
    assert fault.startswith(f"A hook is left out: {config}:")
    assert notice.startswith(f"{config}: `compaction.target` (line 1) is no longer used")
    assert of(found, "state") == [
        ("warn", f"Others can enter {tmp_path / 'state'} (mode 0755)."),
    ]


async def test_a_home_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    write(tmp_path / "file", "")
    home = tmp_path / "file" / "home"
    _, found = await doctor(tmp_path, "--offline", env={"ACP_AGENT_HOME": str(home)})
    assert of(found, "state") == [("fail", f"{home} is not there, and cannot be made.")]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply("x", hang=True), "did not answer within 5 seconds."),
        (Reply(http_status=503), "did not answer within 5 seconds. openai: it is overloaded"),
    ],
    ids=["silent", "503"],
)
async def test_a_model_that_does_not_answer_in_time_is_told_with_why(
    tmp_path: Path, reply: Reply, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SECONDS", 5.0)
    async with model_server(lambda _: reply, "openai") as server:
        ran, found = await doctor(tmp_path, env=server.env())
    assert (ran.code, of(found, "model")[0][0], areas(found)) == (1, "fail", ALL)
    assert of(found, "model")[0][1].startswith(f"openai/gpt-test {says}")
