"""How long a connection may take, the proxy's answer and TLS included, and that an answer may take longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from importlib import import_module

import anyio
import pytest

from acp_agent.conversation.messages import Text, UserMessage
from acp_agent.errors import ModelUnavailableError
from acp_agent.llm.provider import Answered, ModelEvent, ModelRequest, Retrying
from acp_agent.llm.retry import RetryPolicy
from support.adapters import DIALECTS, Adapter, adapter
from support.models import BEFORE_HEADERS, Reply, model_server

LIMIT = 0.6
POLICY = RetryPolicy(attempts=2, base=0.005, connect_attempts=2, connection=LIMIT)
REQUEST = ModelRequest("m", "", (UserMessage("u", (Text("Hello"),)),))


@asynccontextmanager
async def provider(dialect: str, base_url: str) -> AsyncIterator[Adapter]:
    made = adapter(dialect, base_url, policy=POLICY)
    import_module("anthropic" if dialect == "anthropic" else "openai")  # which takes time as well
    try:
        with anyio.fail_after(10):
            yield made
    finally:
        await made.aclose()


@asynccontextmanager
async def server(answer: bytes = b"") -> AsyncIterator[tuple[str, list[bytes]]]:
    """Takes connections; keeps the first bytes of each, answers with these, and is silent from then on."""
    received: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        received.append(await reader.read(65_536))
        writer.write(answer)
        await reader.read()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", received
    finally:
        listening.close()
        for writer in writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def given_up(made: Adapter) -> tuple[list[ModelEvent], str]:
    seen: list[ModelEvent] = []

    async def listen() -> None:
        async with aclosing(made.stream(REQUEST)) as events:
            async for event in events:
                seen.append(event)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(ModelUnavailableError) as caught:
        await listen()
    return seen, str(caught.value)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 Connection established\r\n\r\n"], ids=["no CONNECT", "no TLS behind it"]
)
async def test_a_proxy_that_makes_no_connection_is_given_up(
    dialect: str, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with server(answer) as (address, received):
        monkeypatch.setenv("https_proxy", f"http://{address}")
        async with provider(dialect, "https://models.invalid") as made:
            seen, error = await given_up(made)
    assert [first.split()[:2] for first in received] == [[b"CONNECT", b"models.invalid:443"]] * 2
    assert [type(event) for event in seen] == [Retrying]
    assert "models.invalid) cannot be reached. Check the network, the proxy settings" in error
    assert answer or "no connection within 0.6 seconds" in error


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_host_that_takes_connections_but_speaks_no_tls_is_given_up(dialect: str) -> None:
    async with server() as (address, received), provider(dialect, f"https://{address}") as made:
        seen, error = await given_up(made)
    assert [first[:1] for first in received] == [b"\x16"] * 2
    assert [type(event) for event in seen] == [Retrying]
    assert f"{address}) cannot be reached" in error


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_may_think_for_longer_than_a_connection_may_take(dialect: str) -> None:
    thought = anyio.Event()
    replies = [Reply("ok"), Reply("ok", hold=thought, hold_after=BEFORE_HEADERS)]
    async with model_server(replies) as server, provider(dialect, server.base_url) as made:

        async def think() -> None:
            await server.wait_held()
            await anyio.sleep(2 * LIMIT)  # the time itself is what it takes
            thought.set()

        said: list[ModelEvent] = []
        for _ in replies:  # over a new connection, and over one that is there
            async with anyio.create_task_group() as tasks:
                if len(server.calls) == 1:
                    tasks.start_soon(think)
                async with aclosing(made.stream(REQUEST)) as events:
                    said = [event async for event in events]
            assert isinstance(said[-1], Answered)
            assert not any(isinstance(event, Retrying) for event in said)


def test_the_limits_make_an_error_within_fifteen_seconds() -> None:
    policy = RetryPolicy()
    question = 3  # seconds that the first use of a model waits for its window
    # A try that could go beyond `connect_limit` is not begun.
    assert question + max(policy.connection, policy.connect_limit) < 15
