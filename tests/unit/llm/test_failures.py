"""What a failure means and what the user is told."""

from __future__ import annotations

import pytest

from acp_agent.errors import ModelRequestError
from acp_agent.llm.client import RetryPolicy, wait_asked_for
from acp_agent.llm.errors import (
    CallFailed,
    error_of,
    verdict,
)
from acp_agent.llm.places import Endpoint

ENDPOINT = Endpoint(
    "openai", "openai-responses", "https://api.openai.com/v1", key="s3cret-value", key_hint="OPENAI_API_KEY"
)


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
    assert wait_asked_for(headers) == seconds


def test_an_exhausted_account_is_not_tried_again() -> None:
    failure = CallFailed("status", "You exceeded your current quota", status=429, code="insufficient_quota")
    error = error_of(failure, ENDPOINT)
    assert verdict(failure) == "refused"
    assert isinstance(error, ModelRequestError)
    assert "exceeded your current quota" in str(error)


def test_waits_grow_and_are_bounded() -> None:
    policy = RetryPolicy(base=4)
    assert [0.75 * wait <= policy.delay(n) <= wait for n, wait in enumerate([4, 8, 16, 20, 20], start=1)] == [True] * 5
