"""A wheel of this checkout, and the agent installed from it into an environment that
holds nothing else of the project.

The environment's third-party packages are those of the interpreter that runs the tests,
reached through one .pth line. Such a line adds its folder without reading the .pth
files in it, so an editable install of this checkout is not seen: `acp_agent` can come
from the wheel alone.
"""

from __future__ import annotations

import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from support.checkout import REPOSITORY, succeed


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, as `pip` would build it."""
    folder = tmp_path_factory.mktemp("wheel")
    succeed(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        folder,
        cwd=REPOSITORY,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed_agent(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `acp-agent` executable of an environment into which only the wheel was
    installed.
    """
    environment = tmp_path_factory.mktemp("installed")
    venv.create(environment, with_pip=False, symlinks=True)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        environment / "bin" / "python",
        "--disable-pip-version-check",
    )
    succeed(
        *pip, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=environment
    )
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    (site_packages / "dependencies.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n", encoding="utf-8"
    )
    return environment / "bin" / "acp-agent"
