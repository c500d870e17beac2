"""What a person gets who installs the package."""

from __future__ import annotations

import email
import json
import zipfile
from pathlib import Path

from acp_agent import __version__
from support.checkout import REPOSITORY, succeed
from support.client import connected_agent
from support.models import Reply, ToolCall, model_server
from support.repo import BUG, make_repo

METADATA_FOLDER = f"acp_agent-{__version__}.dist-info"
SCHEMA = {f"acp_agent/protocol/{room}/{name}" for room in ("v1", "v2") for name in ("schema.json", "schema.pin.json")}


def test_the_wheel_holds_every_recipe_byte_for_byte(wheel: Path) -> None:
    recipes = {file.name: file.read_bytes() for file in (REPOSITORY / "recipes").glob("*.md")}

    with zipfile.ZipFile(wheel) as archive:
        names = [Path(name) for name in archive.namelist() if name.startswith("acp_agent/builtin_recipes/")]
        packed = {name.name: archive.read(name.as_posix()) for name in names}

    assert packed == recipes
    assert "compact.md" in packed


def test_the_wheel_holds_the_files_for_editors_that_setup_puts_in_place(wheel: Path) -> None:
    files = {file.relative_to(REPOSITORY / "editors").as_posix() for file in (REPOSITORY / "editors").rglob("*.*")}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folder = "acp_agent/builtin_editors/"
    assert {name.removeprefix(folder) for name in names if name.startswith(folder)} == files


def test_the_wheel_holds_the_package_and_nothing_of_the_checkout_around_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert "acp_agent/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"acp_agent", METADATA_FOLDER}


def test_the_wheel_holds_every_file_of_the_package_but_the_schema_that_the_models_were_generated_from(
    wheel: Path,
) -> None:
    files = {file for file in (REPOSITORY / "acp_agent").rglob("*") if file.is_file() and file.suffix != ".pyc"}

    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.startswith("acp_agent/builtin_")}

    missing = {file.relative_to(REPOSITORY).as_posix() for file in files} - packed
    assert missing == SCHEMA


def test_the_wheel_names_its_version_its_license_and_its_python(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{METADATA_FOLDER}/METADATA"))
        license_text = archive.read(f"{METADATA_FOLDER}/licenses/LICENSE")

    assert (metadata["Name"], metadata["Version"]) == ("acp-agent", __version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    assert license_text == (REPOSITORY / "LICENSE").read_bytes()


def test_the_installed_agent_is_the_wheel_and_not_the_checkout(installed_agent: Path, tmp_path: Path) -> None:
    python = installed_agent.with_name("python")

    where = succeed(python, "-c", "import acp_agent; print(acp_agent.__file__)", cwd=tmp_path)

    assert Path(where.strip()).is_relative_to(installed_agent.parents[1])


def test_the_installed_agent_tells_its_version(installed_agent: Path, tmp_path: Path) -> None:
    assert __version__ in succeed(installed_agent, "--version", cwd=tmp_path).split()


async def test_the_installed_agent_offers_every_recipe_and_works(installed_agent: Path, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "shop")
    recipes = {file.stem for file in (REPOSITORY / "recipes").glob("*.md")}
    script = [Reply(tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]), Reply("It forgets the quantity.")]

    async with (
        model_server(script) as server,
        connected_agent(home=tmp_path / "home", argv=[str(installed_agent)], env=server.env()) as agent,
    ):
        session = await agent.new_session(repo.path)
        offered = await agent.wait_update("available_commands_update")
        result = await agent.prompt(session, "Look at the cart")

    assert recipes <= {command["name"] for command in offered["availableCommands"]}
    assert result == {"stopReason": "end_turn"}
    assert agent.text() == "It forgets the quantity."
    assert BUG in json.dumps(server.calls[1].body)


def test_the_installed_package_offers_compaction_to_python_code(installed_agent: Path, tmp_path: Path) -> None:
    python = installed_agent.with_name("python")
    code = "from acp_agent.compaction import *; print(CompactionService().choices)"

    offered = succeed(python, "-c", code, cwd=tmp_path)

    assert offered.strip() == "('summary', 'native', 'mask', 'excerpts')"


def test_the_installed_agent_brings_the_schemas_that_editors_check_files_with(
    installed_agent: Path, tmp_path: Path
) -> None:
    code = "from acp_agent.schemas import *; print(*[schema_path(name) for name in SCHEMA_NAMES], sep='\\n')"

    paths = [Path(line) for line in succeed(installed_agent.with_name("python"), "-c", code, cwd=tmp_path).splitlines()]
    printed = succeed(installed_agent, "schema", "recipe", cwd=tmp_path)

    assert all(path.is_relative_to(installed_agent.parents[1]) for path in paths)
    assert {path.name: path.read_bytes() for path in paths} == {
        file.name: file.read_bytes() for file in (REPOSITORY / "acp_agent" / "schemas").glob("*.json")
    }
    assert json.loads(printed)["$id"] == "urn:acp-agent:schema:recipe"
