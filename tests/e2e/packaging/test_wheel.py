"""What a person gets who installs the package."""

from __future__ import annotations

import email
import json
import zipfile
from pathlib import Path

import pytest

from acp_agent import __version__
from support.checkout import REPOSITORY, succeed
from support.client import connected_agent
from support.models import Reply, ToolCall, model_server
from support.repo import BUG, make_repo

pytestmark = pytest.mark.process

METADATA_FOLDER = f"acp_agent_server-{__version__}.dist-info"
SCHEMA = {
    f"acp_agent/protocol/{room}/{name}"
    for room in ("v1", "v2")
    for name in ("schema.json", "schema.pin.json")
}


def test_the_wheel_holds_the_package_recipes_editors_and_pages_and_nothing_of_the_checkout_around_it(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    assert "acp_agent/py.typed" in packed
    assert {name.split("/")[0] for name in packed} == {"acp_agent", METADATA_FOLDER}
    for folder in ("recipes", "editors", "docs"):
        source = REPOSITORY / folder
        beginning = f"acp_agent/builtin_{folder}/"
        found = {
            name.removeprefix(beginning): text
            for name, text in packed.items()
            if name.startswith(beginning)
        }
        assert found
        files = [
            file
            for file in source.rglob("*")
            if file.is_file() and file.suffix != ".png"
        ]
        assert found == {
            file.relative_to(source).as_posix(): file.read_bytes() for file in files
        }
    files = [
        file
        for file in (REPOSITORY / "acp_agent").rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    ]
    assert {file.relative_to(REPOSITORY).as_posix() for file in files} - {
        *packed
    } == SCHEMA
    metadata = email.message_from_bytes(packed[f"{METADATA_FOLDER}/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("acp-agent-server", __version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == (
        "Apache-2.0",
        ">=3.11",
    )
    assert (
        packed[f"{METADATA_FOLDER}/licenses/LICENSE"]
        == (REPOSITORY / "LICENSE").read_bytes()
    )


async def test_the_installed_agent_offers_every_recipe_and_works(
    installed_agent: Path, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "shop")
    recipes = {file.stem for file in (REPOSITORY / "recipes").glob("*.md")}
    script = [
        Reply(tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply("It forgets the quantity."),
    ]

    async with (
        model_server(script) as server,
        connected_agent(
            home=tmp_path / "home", argv=[str(installed_agent)], env=server.env()
        ) as agent,
    ):
        session = await agent.new_session(repo.path)
        offered = await agent.wait_update("available_commands_update")
        result = await agent.prompt(session, "Look at the cart")

    assert recipes <= {command["name"] for command in offered["availableCommands"]}
    assert result == {"stopReason": "end_turn"}
    assert agent.text() == "It forgets the quantity."
    assert BUG in json.dumps(server.calls[1].body)


CODE = """
import acp_agent
from acp_agent.compaction import *
from acp_agent.schemas import *
print(acp_agent.__file__, *[schema_path(name) for name in SCHEMA_NAMES], sep="\\n")
assert CompactionService().choices == ("summary", "native", "mask", "excerpts")
"""


def test_the_installed_package_brings_its_schemas_and_compaction_to_python_code(
    installed_agent: Path, tmp_path: Path
) -> None:
    own, *schemas = map(
        Path,
        succeed(
            installed_agent.with_name("python"), "-c", CODE, cwd=tmp_path
        ).splitlines(),
    )
    assert all(
        path.is_relative_to(installed_agent.parents[1]) for path in (own, *schemas)
    )
    assert {path.name: path.read_bytes() for path in schemas} == {
        file.name: file.read_bytes()
        for file in (REPOSITORY / "acp_agent" / "schemas").glob("*.json")
    }
    assert __version__ in succeed(installed_agent, "--version", cwd=tmp_path).split()
