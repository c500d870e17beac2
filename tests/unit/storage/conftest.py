"""The store for the tests of storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.storage.store import SessionStore
from support.stores import Open


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    """Return a function that opens the same store each time."""
    return lambda: SessionStore.open(tmp_path / "sessions.db")
