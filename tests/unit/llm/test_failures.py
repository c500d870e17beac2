"""What a failure means and what the user is told."""

from __future__ import annotations

import pytest

from acp_agent.llm.client import _backoff, _retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert _retry_after(headers) == seconds


def test_waits_grow_and_are_bounded() -> None:
    assert [0.75 * wait <= _backoff(4, n) <= wait for n, wait in enumerate([4, 8, 16, 20, 20], start=1)] == [True] * 5
