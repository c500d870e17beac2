"""`acp-agent doctor` where much is wrong: each thing is told as what it is, the rest is checked, and advice is true."""

from __future__ import annotations

import json
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.doctor import advice_of, doctor, doctor_without_powers, follow, of, on_another_machine, write
from support.models import Reply, model_server
from support.terminal import AGENT, in_a_shell, run_command

ALL = ["program", "state", "config", "keys", "model", "trust", "editors"]


def areas(findings: list[dict[str, Any]]) -> list[str]:
    """In their order."""
    return list(dict.fromkeys(each["area"] for each in findings))


async def unset(home: Path, env: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """What is found without a variable."""
    return (await doctor(home, "--offline", env={key: value for key, value in env.items() if key != name}))[1]


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
    advice = advice_of(found, area)
    assert name in advice
    assert "unset it" in advice
    assert "schema" not in advice
    for mended in (
        await unset(tmp_path, env, name),
        (await doctor(tmp_path, "--offline", env={**env, name: right}))[1],
    ):
        assert not [each for each in mended if each["level"] == "fail"]


async def test_a_model_that_its_provider_does_not_have_is_told_with_who_has_named_it(tmp_path: Path) -> None:
    async with model_server([Reply(http_status=404), Reply(http_status=404), Reply("OK")], "openai") as server:
        _, found = await doctor(tmp_path, env=server.env())
        assert "ACP_AGENT_MODEL names it" in advice_of(found, "model")
        config = write(tmp_path / "state" / "config.yaml", "model: openai/gpt-test\n")
        env = {name: value for name, value in server.env().items() if name != "ACP_AGENT_MODEL"}
        _, found = await doctor(tmp_path, env=env)
        assert advice_of(found, "model") == "To choose another model: `model` in config.yaml, as provider/model."
        config.write_text("model: openai/gpt-other\n")
        _, found = await doctor(tmp_path, env=env)
        assert [level for level, _ in of(found, "model")] == ["ok"]


@pytest.mark.parametrize(
    ("path", "schema"), [("state/config.yaml", "config"), (".acp-agent/config.yaml", "project")], ids=["own", "project"]
)
async def test_a_wrong_file_comes_with_the_schema_that_is_its_own(tmp_path: Path, path: str, schema: str) -> None:
    write(tmp_path / path, "nonsense: 1\n")
    _, found = await doctor(tmp_path, "--offline")
    [(level, text)] = of(found, "config")
    assert level == "fail"
    assert text.startswith(f"{tmp_path / path}:1: nonsense: ")
    assert f"`acp-agent schema {schema}`" in advice_of(found, "config")
    shown = await run_command(tmp_path, "schema", schema)
    of_servers = "mcp_servers" in json.loads(shown.out)["properties"]
    assert of_servers == (schema == "config"), "a project's file may not name servers"


async def test_a_strategy_that_is_none_is_told_as_a_session_would(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", "compaction: {strategy: sumary}\n")
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    [(level, text)] = of(found, "config")
    assert (level, "there is no strategy 'sumary'" in text) == ("fail", True)


async def test_a_key_that_any_model_of_the_configuration_needs_is_missed(tmp_path: Path) -> None:
    async with model_server([Reply("OK")], "openai") as server:
        text = "small_model: google/gemini-x\ncompaction: {model: anthropic/claude-x}\nmodel: openai/gpt-test\n"
        write(tmp_path / "state" / "config.yaml", text)
        env = {"ANTHROPIC_BASE_URL": server.base_url}
        _, found = await doctor(tmp_path, "--offline", env={**env, "ACP_AGENT_MODEL": "openrouter/x/y"})
        assert [text for level, text in of(found, "keys") if level == "fail"] == [
            "anthropic: there is no key for it, though the configuration names it.",
            "google: there is no key for it, though the configuration names it.",
            "openrouter: there is no key for it, though ACP_AGENT_MODEL names it.",
        ]
        assert "acp-agent login anthropic" in advice_of(found, "keys", "anthropic")
        assert (await run_command(tmp_path, "login", "anthropic", env=env, stdin="test-key\n")).code == 0
        _, found = await doctor(tmp_path, "--offline", env=env)
        assert ("ok", "anthropic: a key is stored.") in of(found, "keys")
        server.add()


async def test_in_a_directory_that_is_gone_all_else_is_checked(tmp_path: Path) -> None:
    gone = shlex.quote(str(tmp_path / "gone"))
    async with model_server([], "openai") as server:
        line = f"mkdir {gone}; cd {gone}; rmdir {gone}; {AGENT} doctor --json --offline"
        ran = await in_a_shell(tmp_path, line, {"PATH": "/bin", **server.env()})
    found = json.loads(ran.out)
    assert ran.code == 1
    assert [each["level"] for each in found if each["area"] == "directory"] == ["fail"]
    assert areas(found) == ["program", "directory", *(area for area in ALL if area not in ("program", "trust"))]


async def test_a_check_that_fails_inside_is_told_and_the_others_are_made(tmp_path: Path) -> None:
    write(tmp_path / "state" / "config.yaml", "model: openai/gpt-test\n")
    broken = (
        "import shutil\ndef disk_usage(path): raise ValueError('the disk is odd')\nshutil.disk_usage = disk_usage\n"
    )
    env = {"OPENAI_API_KEY": "test-key", **on_another_machine(tmp_path / "site", broken)}
    ran, found = await doctor(tmp_path, "--offline", env=env)
    assert ran.code == 1
    [(level, text)] = of(found, "state")
    log = tmp_path / "state" / "logs" / "acp-agent.log"
    assert (level, text) == (
        "fail",
        f"The check failed inside (ValueError: the disk is odd). The details are in {log}.",
    )
    assert "Traceback" in log.read_text()
    assert areas(found) == ALL


@pytest.mark.parametrize(("free", "told"), [(199_999_999, True), (200_000_000, False)])
async def test_a_disk_that_is_nearly_full_is_told(tmp_path: Path, free: int, told: bool) -> None:
    write(tmp_path / "state" / "config.yaml", "")
    disk = f"import shutil\nfull = shutil._ntuple_diskusage(10**9, 0, {free})\nshutil.disk_usage = lambda path: full\n"
    _, found = await doctor(tmp_path, "--offline", env=on_another_machine(tmp_path / "site", disk))
    line = ("warn", f"There are {free // 1_000_000} MB left on the disk of {tmp_path / 'state'}.")
    assert (line in of(found, "state")) == told


@pytest.mark.parametrize("which", ["folder", "file", "dangling"])
async def test_a_log_that_cannot_be_written_is_told_until_it_is_moved_away(tmp_path: Path, which: str) -> None:
    write(tmp_path / "state" / "config.yaml", "")
    logs = tmp_path / "state" / "logs"
    log = logs / "acp-agent.log"
    if which == "dangling":
        logs.symlink_to(tmp_path / "gone")
        wrong = logs
    else:
        write(log, "")
        wrong = logs if which == "folder" else log
        wrong.chmod(0o500)
    found = await doctor_without_powers(tmp_path, {})
    assert ("warn", f"{wrong} cannot be written to, so that nothing is logged.") in of(found, "state")
    assert advice_of(found, "state") == "Move it away."
    wrong.rename(tmp_path / "away")
    assert [level for level, _ in of(await doctor_without_powers(tmp_path, {}), "state")] == ["ok"]


async def test_a_home_below_a_folder_that_is_closed_is_told_as_one_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "shut" / "deep").mkdir(parents=True)
    home = tmp_path / "shut" / "deep" / "home"
    (tmp_path / "shut").chmod(0)
    try:
        found = await doctor_without_powers(tmp_path, {"ACP_AGENT_HOME": str(home)})
    finally:
        (tmp_path / "shut").chmod(0o700)
    assert of(found, "state") == [("fail", f"{home} is not there, and cannot be made.")]
    assert of(await doctor_without_powers(tmp_path, {"ACP_AGENT_HOME": str(home)}), "state")[0][0] == "ok"


async def test_sessions_that_others_could_read_are_closed_and_told_of_once(tmp_path: Path) -> None:
    async with model_server([Reply("Fine.")], "openai") as server:
        assert (await run_command(tmp_path, "run", "Hi", env=server.env())).code == 0
    database = tmp_path / "state" / "sessions.db"
    database.chmod(0o644)
    _, found = await doctor(tmp_path, "--offline")
    assert ("warn", f"Others could read {database} (mode 0644); it is closed now.") in of(found, "sessions")
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    _, found = await doctor(tmp_path, "--offline")
    assert [level for level, _ in of(found, "sessions")] == ["ok"]


async def test_what_is_to_be_typed_can_be_typed_whatever_the_folder_is_called(tmp_path: Path) -> None:
    place = tmp_path / "Ada's  shop; $HOME"
    write(place / ".acp-agent" / "hooks" / "guard.py", "")
    state = place / "state"
    write(state / "config.yaml", "")
    state.chmod(0o755)
    env = {"ACP_AGENT_HOME": str(state)}
    _, found = await doctor(place, "--offline", env=env)
    for area in ("state", "trust"):
        await follow(place, advice_of(found, area), env)
    _, found = await doctor(place, "--offline", env=env)
    assert [level for area in ("state", "trust") for level, _ in of(found, area)] == ["ok", "ok"]
    shown = await run_command(place, "doctor", "--offline", env=env)
    assert f"What {place / '.acp-agent'} brings is allowed to run." in shown.out


IMPATIENT = "import openai, acp_agent.commands.doctor.models as it\nit.SECONDS = 5.0\n"
"""With the SDK loaded, so that the time goes to asking alone."""


@pytest.mark.parametrize(
    ("reply", "says", "advice"),
    [
        (Reply("x", hang=True), "did not answer within 5 seconds.", "Look at the network, a proxy (HTTPS_PROXY)"),
        (Reply(http_status=500), "refused each try within 5 seconds. openai: it answered with status 500", "Wait, and"),
        (Reply(http_status=503), "refused each try within 5 seconds. openai: it is overloaded", "Wait, and"),
        (Reply(http_status=429), "refused each try within 5 seconds. openai: the rate limit is reached", "Wait, and"),
        (
            Reply("x", sse_error="overloaded_error"),
            "refused each try within 5 seconds. openai: it is overloaded",
            "Wait, and",
        ),
    ],
    ids=["silent", "500", "503", "429", "stream"],
)
async def test_a_model_that_does_not_answer_in_time_is_told_with_why(
    tmp_path: Path, reply: Reply, says: str, advice: str
) -> None:
    async with model_server(lambda _: reply, "openai") as server:
        env = {**server.env(), **on_another_machine(tmp_path / "site", IMPATIENT)}
        ran, found = await doctor(tmp_path, env=env)
    assert (ran.code, ran.err) == (1, "")
    [(level, text)] = of(found, "model")
    assert (level, text) == ("fail", f"openai/gpt-test {says}")
    assert advice_of(found, "model").startswith(advice)
    assert areas(found) == ALL


async def test_a_provider_that_wants_to_be_asked_much_later_is_not_waited_for(tmp_path: Path) -> None:
    async with model_server([Reply(http_status=429, headers={"retry-after": "200"})], "openai") as server:
        _, found = await doctor(tmp_path, env=server.env())
        assert len(server.calls) == 1
    [(level, text)] = of(found, "model")
    assert level == "fail"
    assert "it asks to wait 200 seconds" in text


async def test_a_request_that_is_sent_again_without_a_part_is_no_answer_yet(tmp_path: Path) -> None:
    error = {
        "message": "Your organization must be verified to generate reasoning summaries.",
        "code": "unsupported_value",
    }
    refusals = [Reply(http_status=400, body={"error": error}), Reply(http_status=403)]
    async with model_server(refusals, "openai") as server:
        _, found = await doctor(tmp_path, env={**server.env(), "ACP_AGENT_MODEL": "openai/gpt-6-luna"})
        assert len(server.calls) == 2
    [(level, text)] = of(found, "model")
    assert (level, "refused the key (status 403)" in text) == ("fail", True)
