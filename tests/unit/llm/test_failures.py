"""What a failure means and what the user is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from acp_agent.config.settings import ProviderKind
from acp_agent.errors import ModelRequestError
from acp_agent.llm.client import make_client
from acp_agent.llm.places import Endpoint
from acp_agent.llm.tries import _backoff, _retry_after
from support.adapters import PROFILE, adapter, outcome, request
from support.http_server import Exchange, http_server


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
        ({"llm_provider-retry-after": "7"}, 7.0),
        ({"llm_provider-retry-after-ms": "250"}, 0.25),
        ({"retry-after": "2", "llm_provider-retry-after": "7"}, 2.0),
        ({"retry-after": "soon", "llm_provider-retry-after": "7"}, 7.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_the_wait_that_a_provider_asks_for(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert _retry_after(headers) == seconds


def test_a_wait_may_be_a_moment_as_http_allows_it() -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    wait = _retry_after({"retry-after": moment})
    assert wait is not None
    assert 30 < wait <= 60


WRONG: list[tuple[str, str, int, Any, str, str]] = [
    (
        "chat",
        "/api",
        404,
        "404 page not found",
        "does not serve /api/chat/completions (status 404)",
        "expect `/v1` at its end",
    ),
    (
        "chat",
        "/v1",
        404,
        {"detail": "Not Found"},
        "does not serve /v1/chat/completions (status 404)",
        "Check its path.",
    ),
    (
        "chat",
        "/v1/chat/completions",
        404,
        "",
        "/v1/chat/completions/chat/completions",
        "everything after `/v1`",
    ),
    (
        "chat",
        "",
        200,
        {"error": "Unexpected endpoint or method. (POST /chat/completions)"},
        "does not serve",
        "`/v1` at its end",
    ),
    (
        "openai",
        "/v1",
        404,
        "<html>nginx</html>",
        "does not serve /v1/responses",
        "set `kind: openai-chat`",
    ),
    (
        "openai",
        "/v1",
        405,
        {"detail": "Method Not Allowed"},
        "does not serve /v1/responses",
        "set `kind: openai-chat`",
    ),
    (
        "anthropic",
        "/v1",
        404,
        {"error": {"message": "File Not Found"}},
        "/v1/v1/messages (status 404)",
        "Remove `/v1`",
    ),
    (
        "anthropic",
        "",
        404,
        "",
        "does not serve /v1/messages (status 404)",
        "supports Anthropic's Messages API",
    ),
]


@pytest.mark.parametrize(("dialect", "base", "status", "body", "tried", "mend"), WRONG)
async def test_a_wrong_base_url_is_an_error_that_says_what_was_tried_and_what_mends_it(
    dialect: str, base: str, status: int, body: Any, tried: str, mend: str
) -> None:
    asked: list[str] = []

    async def app(exchange: Exchange) -> None:
        asked.append(exchange.request.path)
        await exchange.respond(status, body)

    kinds: dict[str, ProviderKind] = {
        "anthropic": "anthropic",
        "openai": "openai-responses",
        "chat": "openai-chat",
    }
    async with http_server(app) as url:
        place = Endpoint("local", kinds[dialect], url + base, key="test-key")
        _, error = await outcome(
            make_client(place, lambda _: PROFILE, first_delay=0.001), request()
        )
    assert len(asked) == 1
    assert type(error) is ModelRequestError
    assert tried in str(error)
    assert "Check `providers.local.base_url` in config.yaml." in str(error)
    assert mend in str(error)


async def test_a_model_that_is_not_there_is_no_wrong_base_url() -> None:
    async def app(exchange: Exchange) -> None:
        await exchange.respond(
            404, {"error": {"message": "model 'x' not found, try pulling it first"}}
        )

    async with http_server(app) as url:
        _, error = await outcome(adapter("chat", url), request())
    assert "try pulling it first" in str(error)
    assert "base_url" not in str(error)


def test_waits_grow_and_are_bounded() -> None:
    assert [
        0.75 * wait <= _backoff(4, n) <= wait
        for n, wait in enumerate([4, 8, 16, 20, 20], start=1)
    ] == [True] * 5
