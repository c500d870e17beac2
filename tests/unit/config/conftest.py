"""Fixtures with a user's and a project's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.configuration import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
