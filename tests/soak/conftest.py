"""The option of `make soak`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--minutes",
        type=float,
        default=60.0,
        help="how long turns and compactions go on (60)",
    )
