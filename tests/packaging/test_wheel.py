"""What a person gets from `pip install acp-agent`."""

from __future__ import annotations

import email
import zipfile
from pathlib import Path

from acp_agent import __version__
from support.checkout import REPOSITORY, succeed

METADATA_FOLDER = f"acp_agent-{__version__}.dist-info"


def test_the_wheel_holds_every_recipe_byte_for_byte(wheel: Path) -> None:
    recipes = {file.name: file.read_bytes() for file in (REPOSITORY / "recipes").glob("*.md")}

    with zipfile.ZipFile(wheel) as archive:
        names = [Path(name) for name in archive.namelist() if name.startswith("acp_agent/builtin_recipes/")]
        packed = {name.name: archive.read(name.as_posix()) for name in names}

    assert packed == recipes
    assert "compact.md" in packed


def test_the_wheel_holds_the_package_and_nothing_of_the_checkout_around_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert "acp_agent/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"acp_agent", METADATA_FOLDER}


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
