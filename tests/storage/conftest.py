"""What every test of a store is tried with."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stores import STORES, Open


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same store again each time."""
    return lambda: STORES[request.param](tmp_path)
