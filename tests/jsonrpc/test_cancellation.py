from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_agent.jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
)
from acp_agent.jsonrpc.router import Call
from jsonrpc.ends import echo, error, forever, notification, request, router, serving

BAD_PARAMS: list[dict[str, Any]] = [{}, {"requestId": {}}, {"requestId": [1]}, {"requestId": 1.5}, {"requestId": True}]


async def test_a_request_whose_id_is_in_flight_is_refused_and_the_id_is_free_after_the_answer() -> None:
    async with serving(router(forever=forever, echo=echo)) as client:
        answer = await client.ask(request(1, "forever"), request(1, "echo"))
        assert (answer["id"], answer["error"]["code"]) == (1, INVALID_REQUEST)
        answer = await client.ask(notification("$/cancel_request", requestId=1))
        assert (answer["id"], answer["error"]["code"]) == (1, REQUEST_CANCELLED)
        assert (await client.ask(request(1, "echo")))["result"] == {}


async def test_cancel_request_ends_the_request_at_once_also_when_both_arrive_together() -> None:
    async with serving(router(forever=forever, echo=echo)) as client:
        answer = await client.ask(request("a", "forever"), notification("$/cancel_request", requestId="a"))
        assert answer == error("a", REQUEST_CANCELLED, "The request was cancelled.")


async def test_cancelling_what_is_not_in_flight_is_ignored() -> None:
    async with serving(router(echo=echo)) as client:
        for params in [*BAD_PARAMS, {"requestId": 9}]:
            await client.send(notification("$/cancel_request", **params))
        assert (await client.ask(request(1, "echo")))["id"] == 1


async def test_a_cancel_request_that_has_an_id_itself_is_answered() -> None:
    async with serving(router(forever=forever)) as client:
        first = await client.ask(request(1, "forever"), request(2, "$/cancel_request", requestId=1))
        assert first == {"jsonrpc": "2.0", "id": 2, "result": None}
        assert (await client.receive())["id"] == 1


@pytest.mark.parametrize("params", BAD_PARAMS)
async def test_a_cancel_request_that_has_an_id_itself_and_names_no_request_is_refused(params: dict[str, Any]) -> None:
    async with serving(router(forever=forever, echo=echo)) as client:
        answer = await client.ask(request(1, "forever"), request(2, "$/cancel_request", **params))
        assert (answer["id"], answer["error"]["code"]) == (2, INVALID_PARAMS)
        assert "requestId" in answer["error"]["message"]
        # What it did not name goes on.
        assert (await client.ask(request(3, "echo")))["id"] == 3


async def test_a_handler_may_turn_a_cancel_into_a_result_of_its_own() -> None:
    async def prompt(call: Call, params: JsonObject) -> JsonValue:
        stop = anyio.Event()
        call.on_cancel(stop.set)
        await stop.wait()
        assert call.cancel_requested
        return {"stopReason": "cancelled"}

    async with serving(router(prompt=prompt)) as client:
        answer = await client.ask(request(1, "prompt"), notification("$/cancel_request", requestId=1))
        assert answer["result"] == {"stopReason": "cancelled"}


async def test_an_on_cancel_hook_that_fails_cancels_the_request_all_the_same() -> None:
    async def prompt(call: Call, params: JsonObject) -> JsonValue:
        def fail() -> None:
            raise RuntimeError

        call.on_cancel(fail)
        await client.peer.notify("started", {})
        await anyio.sleep_forever()

    async with serving(router(prompt=prompt)) as client:
        await client.ask(request(1, "prompt"))
        answer = await client.ask(notification("$/cancel_request", requestId=1))
        assert answer["error"]["code"] == REQUEST_CANCELLED
