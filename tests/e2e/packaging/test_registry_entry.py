"""The entry for the registry of ACP agents keeps the rules that its checks have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from acp_agent import __version__
from acp_agent.cli.setup.editors import editors_dir
from support.checkout import REPOSITORY, environment

FOLDER = editors_dir() / "registry" / "acp-agent"
NEEDED = {"id", "name", "version", "description", "distribution", "license_url"}
KEYS = NEEDED | {"repository", "website", "authors", "license"}
INITIALIZE = {
    "protocolVersion": 1,
    "clientInfo": {"name": "ACP Registry Validator", "version": "1.0.0"},
    "clientCapabilities": {
        "terminal": True,
        "fs": {"readTextFile": True, "writeTextFile": True},
        "_meta": {"terminal_output": True, "terminal-auth": True},
    },
}


def test_the_entry_names_this_version_of_this_package_and_nothing_that_is_unknown_there() -> None:
    entry = json.loads((FOLDER / "agent.json").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    assert NEEDED <= entry.keys() <= KEYS
    assert entry["license_url"].endswith(f"/licenses/LICENSE-{entry['license'].removeprefix('Apache-')}")
    assert entry["id"] == FOLDER.name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["version"] == __version__
    assert (entry["license"], entry["authors"]) == (project["license"], [each["name"] for each in project["authors"]])
    [(kind, distribution)] = entry["distribution"].items()
    assert (kind, distribution["package"]) == ("uvx", f"{project['name']}=={__version__}")
    # uvx starts the program that has the package's name.
    assert list(project["scripts"]) == [project["name"]]


def test_the_agent_passes_the_check_of_the_registry(tmp_path: Path) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}

    done = subprocess.run(
        [sys.executable, "-m", "acp_agent"],
        input=f"{json.dumps(request)}\n",
        env={**environment(tmp_path), "TERM": "dumb"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    [line] = done.stdout.splitlines()
    result = json.loads(line)["result"]
    kinds = {method.get("type", "agent") for method in result["authMethods"]}
    assert kinds & {"agent", "terminal"}
    assert all(method["id"] and method["name"] for method in result["authMethods"])
    assert result["agentInfo"]["version"] == __version__
