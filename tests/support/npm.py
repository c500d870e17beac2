"""The clients and servers from npm that tests talk to, installed by `make test` into tests/npm/node_modules.

    package = npm_package("@copilotkit/aimock")
    subprocess.Popen([node(), script], ...)

A test that needs them skips where Node is missing; under CI (the variable `CI` is set) it fails instead, so that
no run counts as complete without them. Knows nothing of what the packages do.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

NPM_FOLDER = Path(__file__).parents[1] / "npm"


def node() -> Path:
    """The Node executable.

    :raises pytest.skip.Exception: there is none, and this is not CI.
    """
    found = shutil.which("node")
    if found is None:
        _unavailable("Node is not installed, so what needs a client from npm was not tested.")
    return Path(found)


def npm_package(name: str) -> Path:
    """The folder of one package named in tests/npm/package.json.

    :param name: as in package.json, such as `@copilotkit/aimock`.
    :raises pytest.skip.Exception: it is not installed, and this is not CI.
    """
    node()
    folder = NPM_FOLDER / "node_modules" / name
    if not (folder / "package.json").is_file():
        _unavailable(f"{name} is not in tests/npm/node_modules, so what needs it was not tested: run `make test`.")
    return folder


def _unavailable(sentence: str) -> NoReturn:
    if os.environ.get("CI", "") not in ("", "0", "false"):
        pytest.fail(sentence)
    pytest.skip(sentence)
