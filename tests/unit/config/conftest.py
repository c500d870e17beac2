"""A user's file and a project's, for the tests of what is read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.configuration import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
