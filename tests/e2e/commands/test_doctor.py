"""`acp-agent doctor`: what is there and what is not; each thing is told as what it is,
and advice is true.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.called import call_command
from support.doctor import advice_of, of, write
from support.doctor import doctor as doctor_of

CONFIG = """
model: shop/tea
providers: {shop: {base_url: "http://127.0.0.1:9/v1", api_key_env: SHOP_KEY}}
mcp_servers:
  good: {command: sh}
  gone: {command: no-such-program}
  closed: {url: "http://127.0.0.1:9/mcp", headers: {Authorization: "Bearer ${NO_SUCH_VARIABLE}"}}
"""
ZED = ".config/zed/settings.json"
doctor = partial(doctor_of, run=call_command)


def areas(findings: list[dict[str, Any]]) -> list[str]:
    """In their order."""
    return list(dict.fromkeys(each["area"] for each in findings))


@pytest.mark.parametrize(
    ("path", "text", "area", "says"),
    [
        ("state/keys.json", "{", "keys", "keys.json"),
        ("state/config.yaml", "model: [\n", "config", "config.yaml"),
        (
            "state/config.yaml",
            "compaction: {strategy: sumary}\n",
            "config",
            "there is no strategy 'sumary'",
        ),
        (
            ".acp-agent/config.yaml",
            "mode: nonsense\n",
            "config",
            "config.yaml:1: mode: ",
        ),
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
    ("variable", "value", "says"),
    [
        ("PYTHONPATH", "/shop/src", "PYTHONPATH names /shop/src."),
        ("PYTHONPYCACHEPREFIX", ".cache", "PYTHONPYCACHEPREFIX is .cache"),
        ("PYTHONUSERBASE", ".python", "PYTHONUSERBASE is .python"),
    ],
)
async def test_settings_of_python_that_load_code_of_a_project_are_told(
    tmp_path: Path, variable: str, value: str, says: str
) -> None:
    _, found = await doctor(tmp_path, "--offline", env={variable: value})
    assert of(found, "python")[0][0] == "warn"
    assert says in of(found, "python")[0][1]


async def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    hook = "hooks:\n  nonsense:\n    - {command: x}\n"
    config = write(
        tmp_path / "state" / "config.yaml",
        f"{CONFIG}compaction: {{target: 0.5}}\n{hook}",
    )
    write(tmp_path / ".acp-agent" / "hooks" / "guard.py", "")
    (tmp_path / ".git").mkdir()
    ran, found = await doctor(tmp_path, "--offline")
    assert ran.code == 1
    assert [level for level, text in of(found, "keys") if text.startswith("shop:")] == [
        "fail"
    ]
    assert of(found, "mcp") == [
        ("ok", "good: sh, not started here."),
        ("fail", "gone: no-such-program was not found on the PATH."),
        (
            "fail",
            "closed: `headers` of its entry uses the environment variable NO_SUCH_VARIABLE, which is not set.",
        ),
    ]
    assert (
        advice_of(found, "trust")
        == f"After you have read them: acp-agent trust {tmp_path}"
    )
    fault, notice = [text for level, text in of(found, "config") if level == "warn"]
    assert fault.startswith(f"A hook is ignored: {config}:")
    assert notice.startswith(f"{config}: `compaction.target` ")


@pytest.mark.parametrize(
    ("entry", "level", "says"),
    [
        (
            {"command": ["acp-agent"]},
            "fail",
            "which is not the absolute path of a program",
        ),
        (
            {"command": "/gone/acp-agent"},
            "fail",
            "which is not the absolute path of a program",
        ),
        (
            {"command": "acp-agent"},
            "fail",
            "which is not the absolute path of a program",
        ),
        (None, "warn", "Zed does not know the agent"),
    ],
)
async def test_an_entry_that_no_editor_can_use_is_told(
    tmp_path: Path, entry: object, level: str, says: str
) -> None:
    agents = {"acp-agent": entry} if entry else {}
    write(tmp_path / ZED, json.dumps({"agent_servers": agents}, indent=2))
    _, found = await doctor(tmp_path, "--offline")
    [(is_level, text)] = of(found, "editors")
    assert (is_level, says in text) == (level, True), text
    assert advice_of(found, "editors") == "acp-agent setup zed adds it."


@pytest.mark.process
async def test_a_directory_that_is_gone_is_named_as_what_is_wrong(
    tmp_path: Path,
) -> None:
    gone = tmp_path / "gone"
    script = f"mkdir {gone} && cd {gone} && rmdir {gone} && exec {sys.executable} -m acp_agent doctor --offline"
    done = await anyio.run_process(["sh", "-c", script], check=False)
    assert (
        done.stderr
        == b"acp-agent: The current directory no longer exists. Change to another one.\n"
    )
