"""The model server when it refuses, waits, breaks off or is left, as the real SDKs see it."""

from __future__ import annotations

import anyio
import pytest
from anthropic import APIConnectionError as AnthropicConnectionError
from anthropic import APIStatusError as AnthropicStatusError
from anthropic import RateLimitError
from httpx2 import HTTPError
from openai import APIError, InternalServerError

from support.models import BEFORE_HEADERS, Reply, model_server
from support.sdks import ASK, CHAT, RESPONSES, anthropic, claude, openai


async def test_a_status_comes_with_headers_and_the_dialects_error() -> None:
    limited, broken = Reply(http_status=429, headers={"retry-after": "7"}), Reply(http_status=500)
    async with model_server([limited, broken]) as server:
        async with anthropic(server) as client:
            with pytest.raises(RateLimitError) as caught:
                await claude(client)
            assert caught.value.response.headers["retry-after"] == "7"
            assert caught.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
        async with openai(server) as client:
            with pytest.raises(InternalServerError):
                await client.responses.create(**RESPONSES)


async def test_a_wrong_key_is_refused() -> None:
    async with model_server([Reply("x")]) as server, anthropic(server, key="wrong") as client:
        with pytest.raises(AnthropicStatusError) as caught:
            await claude(client)
        assert caught.value.status_code == 401
        assert server.remaining == 1


async def test_an_error_in_mid_stream_is_raised_by_each_sdk() -> None:
    reply = Reply(["a", "b"], sse_error="overloaded_error", fail_after=1)
    async with model_server(lambda request: reply) as server:
        async with anthropic(server) as client:
            with pytest.raises(AnthropicStatusError, match="overloaded_error"):
                await claude(client)
        async with openai(server) as client:
            with pytest.raises(APIError, match="overloaded_error"):
                async for _ in await client.chat.completions.create(**CHAT, stream=True):
                    pass
            events = [event async for event in await client.responses.create(**RESPONSES, stream=True)]
            assert events[-1].type == "error"


async def test_a_cut_connection_loses_nothing_that_was_sent_before() -> None:
    async with model_server([Reply(["a", "b", "c"], drop_after=2)]) as server, anthropic(server) as client:
        heard: list[str] = []

        async def listen() -> None:
            async with client.messages.stream(**ASK) as stream:
                stream_text = stream.text_stream
                while True:
                    heard.append(await anext(stream_text))

        with pytest.raises((HTTPError, AnthropicConnectionError)):
            await listen()
        assert heard == ["a", "b"]
        assert not server.calls[0].finished


async def test_a_connection_can_be_cut_before_any_answer() -> None:
    async with model_server([Reply(drop_after=BEFORE_HEADERS)]) as server, anthropic(server) as client:
        with pytest.raises(AnthropicConnectionError):
            await claude(client)


async def test_a_held_reply_goes_on_when_the_event_is_set() -> None:
    hold = anyio.Event()
    async with model_server([Reply(["a", "b"], hold=hold, hold_after=1)]) as server, anthropic(server) as client:
        async with client.messages.stream(**ASK) as stream:
            texts = stream.text_stream
            assert await anext(texts) == "a"
            await server.wait_held()
            hold.set()
            assert await anext(texts) == "b"
        await server.wait_finished()


async def test_the_server_notices_a_client_that_hangs_up() -> None:
    async with model_server([Reply("a", hang=True)]) as server, anthropic(server) as client:
        with anyio.CancelScope() as scope:
            async with client.messages.stream(**ASK):
                await server.wait_held()
                scope.cancel()
        await server.wait_aborted()
        assert server.calls[0].aborted


async def test_a_client_that_waits_before_any_headers_is_noticed_too() -> None:
    never = anyio.Event()
    async with model_server([Reply(hold=never, hold_after=BEFORE_HEADERS)]) as server, openai(server) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.responses.create(**RESPONSES))
            await server.wait_held()
            tasks.cancel_scope.cancel()
        await server.wait_aborted()


async def test_one_connection_serves_several_calls() -> None:
    async with model_server([Reply("a"), Reply("b")]) as server, anthropic(server) as client:
        await claude(client)
        await claude(client)
        assert [call.connection for call in server.calls] == [1, 1]
        assert await server.wait_calls(2) is server.calls[1]
