from __future__ import annotations

import logging
from collections.abc import Awaitable

import pytest

from acp_agent.jsonrpc.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    Request,
    RpcError,
)
from acp_agent.jsonrpc.router import Call, Router
from support.ends import echo


async def outcome(call: Call) -> JsonValue:
    assert call.outcome is not None
    return await call.outcome


async def test_any_name_can_be_a_parameter_and_the_result_comes_later() -> None:
    names: JsonObject = {"call": 1, "self": 2, "context": 3, "": 4, "a b": 5, "request": 6, "method": 7}
    call = Router({"m": echo}).bind(Request(1, "m", names, False))
    assert (call.id, call.method, call.params, call.is_notification) == (1, "m", names, False)
    assert await outcome(call) == names


@pytest.mark.parametrize("is_notification", [False, True])
@pytest.mark.parametrize(("method", "params", "code"), [("x/y", {}, METHOD_NOT_FOUND), ("m", [1], INVALID_PARAMS)])
async def test_an_unknown_method_and_params_by_position_are_errors(
    method: str, params: JsonValue, code: int, is_notification: bool
) -> None:
    with pytest.raises(RpcError, match=method) as caught:
        Router({"m": echo}).bind(Request(None if is_notification else 1, method, params, is_notification))
    assert caught.value.code == code


async def test_what_a_handler_raises_before_there_is_anything_to_await_is_the_calls_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        raise KeyError("early")

    with caplog.at_level(logging.DEBUG):
        call = Router({"m": broken}).bind(Request(1, "m", {}, False))
        with pytest.raises(KeyError, match="early"):
            await outcome(call)
    assert caplog.records == []
