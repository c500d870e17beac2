"""The store that the tests of storage open."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.storage.store import SessionStore
from support.stores import Open


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    """Open the same store again each time."""
    return lambda: SessionStore.open(tmp_path / "sessions.db")
