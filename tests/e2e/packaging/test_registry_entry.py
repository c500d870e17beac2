"""The entry for the registry of ACP agents keeps the rules that its checks have."""

from __future__ import annotations

import json
import re
import tomllib

from acp_agent import __version__
from acp_agent.cli.setup import editors_dir
from support.checkout import REPOSITORY

FOLDER = editors_dir() / "registry" / "acp-agent"
NEEDED = {"id", "name", "version", "description", "distribution", "license_url"}
KEYS = NEEDED | {"repository", "website", "authors", "license"}


def test_the_entry_names_this_version_of_this_package_and_nothing_that_is_unknown_there() -> (
    None
):
    entry = json.loads((FOLDER / "agent.json").read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    assert NEEDED <= entry.keys() <= KEYS
    assert entry["license_url"].endswith(
        f"/licenses/LICENSE-{entry['license'].removeprefix('Apache-')}"
    )
    assert entry["id"] == FOLDER.name
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    assert entry["version"] == __version__
    assert (entry["license"], entry["authors"]) == (
        project["license"],
        [each["name"] for each in project["authors"]],
    )
    [(kind, distribution)] = entry["distribution"].items()
    assert (kind, distribution["package"]) == (
        "uvx",
        f"{project['name']}=={__version__}",
    )
    # uvx starts the program that has the package's name.
    assert [*project["scripts"]] == ["acp-agent", project["name"]]
    assert len({*project["scripts"].values()}) == 1
