"""The files to copy in `editors/`: each can be read by its editor, and none is without instructions."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from acp_agent.cli.setup.editors import EDITORS, PLACEHOLDER, editors_dir
from support.checkout import REPOSITORY
from support.npm import NPM_FOLDER, node, npm_package

FOLDER = REPOSITORY / "editors"
FOLDERS = sorted(path for path in FOLDER.iterdir() if path.is_dir())
FILES = sorted(path for path in FOLDER.rglob("*.*") if path.suffix != ".md")
LINK = re.compile(r"\]\(([^)#:]+)\)")
PARSE = (
    "import('luaparse').then(({default: l}) => l.parse(require('fs').readFileSync(0, 'utf8'), {luaVersion: 'LuaJIT'}))"
)


def linked(page: Path) -> set[Path]:
    """The files that a page's links lead to."""
    return {(page.parent / link).resolve() for link in LINK.findall(page.read_text())}


def short(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


@pytest.mark.parametrize("folder", FOLDERS, ids=short)
def test_a_folder_says_how_to_use_its_files_and_how_that_was_checked(folder: Path) -> None:
    page = folder / "README.md"
    files = {file for file in FILES if file.is_relative_to(folder)}

    assert files
    assert files <= linked(page) & linked(FOLDER / "README.md")
    assert page in linked(FOLDER / "README.md")
    assert folder.name == "registry" or page in linked(REPOSITORY / "docs" / "editors.md")
    for checked in re.findall(r"^\*\*Checked\*\*: (?:.+\n?)+", page.read_text(), re.MULTILINE) or [""]:
        assert re.search(r"\d{4}-\d\d-\d\d|in the tests", checked), checked


def test_what_setup_puts_in_place_is_what_the_folders_have() -> None:
    assert editors_dir() == FOLDER
    assert {FOLDER / editor.sample for editor in EDITORS.values()} <= set(FILES)


@pytest.mark.parametrize("file", FILES, ids=short)
def test_a_file_can_be_read_or_run_and_has_one_place_for_the_command(file: Path) -> None:
    assert "registry" in file.parts or file.read_text().count(f'"{PLACEHOLDER}"') == 1
    assert file.suffix != ".json" or json.loads(file.read_text())
    assert file.suffix != ".sh" or file.stat().st_mode & 0o100


@pytest.mark.parametrize("file", [file for file in FILES if file.suffix == ".lua"], ids=short)
def test_a_file_in_lua_can_be_read(file: Path) -> None:
    npm_package("luaparse")
    subprocess.run([node(), "-e", PARSE], input=file.read_bytes(), cwd=NPM_FOLDER, check=True, timeout=30)
