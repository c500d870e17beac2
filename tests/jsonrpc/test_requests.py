from __future__ import annotations

import pytest

from acp_agent.jsonrpc.messages import (
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.router import Call
from jsonrpc.ends import echo, error, notification, request, router, serving, two_peers


async def test_two_peers_ask_each_other_in_the_midst_of_a_request() -> None:
    async def ask_back(call: Call, params: JsonObject) -> JsonValue:
        return await near.request("double", {"n": params["n"]})

    async def double(call: Call, params: JsonObject) -> JsonValue:
        assert isinstance(params["n"], int)
        return params["n"] * 2

    async with two_peers(router(ask_back=ask_back), router(double=double)) as (near, far):
        assert await far.request("ask_back", {"n": 21}) == 42


async def test_the_other_ends_error_is_raised_with_code_message_and_data() -> None:
    async def refusing(call: Call, params: JsonObject) -> JsonValue:
        raise RpcError(-32001, "Not now.", {"retry": 5})

    async with two_peers(router(), router(refusing=refusing)) as (near, _):
        with pytest.raises(RpcError) as caught:
            await near.request("refusing", {})
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32001, "Not now.", {"retry": 5})


async def test_responses_to_nothing_are_swallowed() -> None:
    async with serving(router(echo=echo)) as client:
        await client.send(
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "a client's opinion"}},
            {"jsonrpc": "2.0", "id": 77, "result": {}},
            {"jsonrpc": "2.0", "id": "x", "result": {}},
        )
        assert (await client.ask(request(1, "echo")))["id"] == 1


async def test_a_request_that_runs_out_of_time_is_taken_back_and_a_late_answer_is_ignored() -> None:
    async with serving(router(echo=echo)) as client:
        with pytest.raises(TimeoutError):
            await client.peer.request("permission", {}, timeout=0.01)
        asked, taken_back = await client.receive(), await client.receive()
        assert taken_back == notification("$/cancel_request", requestId=asked["id"])
        await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        assert (await client.ask(request(1, "echo")))["id"] == 1


async def test_a_cancelled_caller_takes_its_request_back() -> None:
    async def asking(call: Call, params: JsonObject) -> JsonValue:
        return await client.peer.request("permission", {})

    async with serving(router(asking=asking)) as client:
        asked = await client.ask(request(1, "asking"))
        await client.send(notification("$/cancel_request", requestId=1))
        lines = [await client.receive(), await client.receive()]
        assert notification("$/cancel_request", requestId=asked["id"]) in lines
        assert error(1, REQUEST_CANCELLED, "The request was cancelled.") in lines
