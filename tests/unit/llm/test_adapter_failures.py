"""The adapters through the real SDKs: what is tried again, what ends a call, and what
the user reads then.
"""

from __future__ import annotations

import time

import pytest

from acp_agent.conversation import messages as m
from acp_agent.errors import ModelAuthError, ModelRequestError, ModelUnavailableError
from acp_agent.llm.provider import Answered, Retrying
from support.adapters import (
    DIALECTS,
    adapter,
    collect,
    outcome,
    playing,
    request,
    texts,
)
from support.models import BEFORE_HEADERS, Reply, ToolCall, model_server


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [429, 500, 503, 529, 408])
async def test_a_passing_failure_is_announced_and_tried_again(
    dialect: str, status: int
) -> None:
    wait = Reply(http_status=status, headers={"retry-after-ms": "7"})
    async with playing(dialect, wait, Reply("ok")) as (provider, server):
        events = await collect(provider, request())
    assert isinstance(events[0], Retrying)
    assert 0.007 <= events[0].delay < 0.05
    assert texts(events) == ["ok"]
    assert len(server.calls) == 2


PASSING = {
    "overloaded within the stream": Reply("x", sse_error="overloaded_error"),
    "lost before the headers": Reply(["a", "b"], drop_after=BEFORE_HEADERS),
    "lost before the first word": Reply(["a", "b"], drop_after=0),
    "lost within a call": Reply(
        tool_calls=[ToolCall("read", {"path": "a.py"}, "call_a")], drop_after=1
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("failure", PASSING)
async def test_what_fails_before_anything_was_shown_is_tried_again(
    dialect: str, failure: str
) -> None:
    again = Reply("ok", tool_calls=[ToolCall("read", {"path": "a.py"}, "call_a")])
    async with playing(dialect, PASSING[failure], again) as (provider, server):
        events = await collect(provider, request())
    assert texts(events) == ["ok"]
    assert isinstance(events[-1], Answered)
    assert events[-1].parts == (
        m.Text("ok"),
        m.ToolCall("call_a", "read", {"path": "a.py"}),
    )
    assert len(server.calls) == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_key_or_a_header_that_the_server_repeats_is_taken_out_of_the_message(
    dialect: str,
) -> None:
    body = {
        "error": {
            "message": "Incorrect key test-key, header hush-hush-hush",
            "type": "x",
            "code": "y",
        }
    }
    async with model_server([Reply(http_status=403, body=body)]) as server:
        provider = adapter(
            dialect, server.base_url, headers={"x-token": "hush-hush-hush"}
        )
        seen, error = await outcome(provider, request())
        await provider.aclose()
    assert isinstance(error, ModelAuthError)
    assert "_API_KEY. It said: Incorrect key ***, header ***" in str(error)
    assert (seen, len(server.calls)) == ([], 1)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_another_refusal_of_the_request_is_not_tried_again(dialect: str) -> None:
    async with playing(dialect, Reply(http_status=404)) as (provider, server):
        _, error = await outcome(provider, request())
    assert type(error) is ModelRequestError
    assert "as scripted" in str(error)
    assert len(server.calls) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_unreachable_provider_is_an_error_that_names_its_host(
    dialect: str,
) -> None:
    provider = adapter(dialect, "http://127.0.0.1:9")
    began = time.monotonic()
    seen, error = await outcome(provider, request())
    await provider.aclose()
    assert isinstance(error, ModelUnavailableError)
    assert "127.0.0.1:9" in str(error)
    assert [type(event) for event in seen] == [Retrying] * 2
    assert time.monotonic() - began < 15
