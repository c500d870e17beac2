"""The files to copy in `editors/`: each can be read by its editor, and none is without
instructions.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from acp_agent.cli.setup import EDITORS, PLACEHOLDER, editors_dir
from support.checkout import REPOSITORY
from support.npm import NPM_FOLDER, node, npm_package

FOLDER = REPOSITORY / "editors"
FILES = sorted(path for path in FOLDER.rglob("*.*") if path.suffix != ".md")
PARSE = (
    "import('luaparse').then(({default: l}) => "
    "l.parse(require('fs').readFileSync(0, 'utf8'), {luaVersion: 'LuaJIT'}))"
)


def short(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def test_what_setup_puts_in_place_is_what_the_folders_have() -> None:
    assert editors_dir() == FOLDER
    assert {FOLDER / editor.sample for editor in EDITORS.values()} <= set(FILES)


@pytest.mark.parametrize("file", FILES, ids=short)
def test_a_file_can_be_read_or_run_and_has_one_place_for_the_command(
    file: Path,
) -> None:
    assert (
        "registry" in file.parts
        or file.suffix == ".svg"
        or file.read_text().count(f'"{PLACEHOLDER}"') == 1
    )
    assert file.suffix != ".json" or json.loads(file.read_text())
    assert file.suffix != ".sh" or file.stat().st_mode & 0o100


@pytest.mark.clients
@pytest.mark.parametrize(
    "file", [file for file in FILES if file.suffix == ".lua"], ids=short
)
def test_a_file_in_lua_can_be_read(file: Path) -> None:
    npm_package("luaparse")
    subprocess.run(
        [node(), "-e", PARSE],
        input=file.read_bytes(),
        cwd=NPM_FOLDER,
        check=True,
        timeout=30,
    )
