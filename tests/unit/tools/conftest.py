"""Fixtures of the tests of tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    root.mkdir()
    return Workspace(root)


@pytest.fixture(scope="module", autouse=True)
def users_git(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a user's git configuration, in the place of that of whoever runs
    the tests.
    """
    home = tmp_path_factory.mktemp("user")
    (home / ".config" / "git").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            patch.delenv(name, raising=False)
        yield home / ".config" / "git"
