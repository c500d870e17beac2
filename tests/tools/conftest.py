"""What all tests of the tools start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "project"
    root.mkdir()
    return Workspace(root)
