"""The Model Context Protocol's conformance suite, with the agent as the client.
Authorization is not supported.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import REPOSITORY, environment
from support.npm import newer_node, npm_package

SUITE = "@modelcontextprotocol/conformance"
SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
)


def suite(
    *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    program = npm_package(SUITE) / "dist" / "index.js"
    command = (newer_node(), program, *arguments)
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=env
    )


def test_these_are_all_scenarios_for_clients_but_authorization() -> None:
    listed = suite("list", "--client").stdout
    names = [
        line.split()[1]
        for line in listed.partition("Client scenarios")[2].splitlines()
        if line.startswith("  - ")
    ]
    assert tuple(name for name in names if not name.startswith("auth/")) == SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_agent_does_as_a_client_of_mcp_has_to(
    tmp_path: Path, scenario: str
) -> None:
    command = shlex.join((sys.executable, "-m", "support.mcp_conformance"))
    env = environment(tmp_path) | {"PYTHONPATH": f"{REPOSITORY / 'tests'}:{REPOSITORY}"}
    options = (
        "--scenario",
        scenario,
        "--timeout",
        "90000",
        "--output-dir",
        str(tmp_path / "out"),
    )
    done = suite("client", "--command", command, *options, env=env)
    [file] = (tmp_path / "out").glob("*/checks.json")
    checks = [
        check for check in json.loads(file.read_text()) if check["status"] != "INFO"
    ]
    assert checks
    # A busy machine can be slightly late. That is not a fault of the client.
    faults = [
        check
        for check in checks
        if check["status"] != "SUCCESS" and not check["details"].get("slightlyLate")
    ]
    assert not faults, f"{faults}\n{done.stdout}{done.stderr}"
