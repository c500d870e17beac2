from __future__ import annotations

import pytest

from acp_agent.jsonrpc.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    Request,
    RpcError,
)
from acp_agent.jsonrpc.router import IncomingCall, Router
from support.ends import echo


async def test_any_name_can_be_a_parameter() -> None:
    names: JsonObject = {
        "call": 1,
        "self": 2,
        "context": 3,
        "": 4,
        "a b": 5,
        "request": 6,
        "method": 7,
        "found": 8,
    }
    assert (
        await (
            await Router({"m": echo}).begin(IncomingCall(Request(1, "m", names, False)))
        )
        == names
    )


@pytest.mark.parametrize("is_notification", [False, True])
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [("x/y", {}, METHOD_NOT_FOUND), ("m", [1], INVALID_PARAMS)],
)
async def test_an_unknown_method_and_params_by_position_are_errors(
    method: str, params: JsonValue, code: int, is_notification: bool
) -> None:
    with pytest.raises(RpcError, match=method) as caught:
        await Router({"m": echo}).begin(
            IncomingCall(
                Request(None if is_notification else 1, method, params, is_notification)
            )
        )
    assert caught.value.code == code
