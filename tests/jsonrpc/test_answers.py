from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel

from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.peer import MAX_RUNNING_CALLS
from acp_agent.jsonrpc.router import Call
from jsonrpc.ends import echo, error, forever, notification, request, router, serving


async def test_a_request_is_answered_with_its_id_and_the_handlers_result() -> None:
    async with serving(router(echo=echo)) as client:
        for id in (1, "one", None, 10**40):
            assert await client.ask(request(id, "echo", a=[1])) == {"jsonrpc": "2.0", "id": id, "result": {"a": [1]}}


@pytest.mark.parametrize(
    ("line", "id", "code"),
    [
        (b"nonsense\n", None, PARSE_ERROR),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"x": NaN}}\n', None, PARSE_ERROR),
        (b"\xff\xfe\n", None, PARSE_ERROR),
        (b"[" * 100_000 + b"\n", None, PARSE_ERROR),
        (b"42\n", None, INVALID_REQUEST),
        (b"{}\n", None, INVALID_REQUEST),
        (b"[]\n", None, INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 5, "method": "echo"}\n', 5, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "echo", "params": "text"}\n', 5, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": true, "method": "echo"}\n', None, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "nowhere"}\n', 5, METHOD_NOT_FOUND),
    ],
)
async def test_a_bad_line_gets_its_error_and_the_peer_goes_on(line: bytes, id: Any, code: int) -> None:
    async with serving(router(echo=echo)) as client:
        answer = await client.ask(line)
        assert (answer["id"], answer["error"]["code"]) == (id, code)
        assert answer["error"]["data"] == {"details": answer["error"]["message"]}
        assert (await client.ask(request(6, "echo")))["result"] == {}


async def test_a_line_beyond_the_limit_is_an_error_and_the_next_one_is_answered() -> None:
    async with serving(router(echo=echo), max_line=1000) as client:
        answer = await client.ask(request(1, "echo", text="x" * 100_000), request(2, "echo"))
        assert (answer["id"], answer["error"]["code"]) == (None, INVALID_REQUEST)
        assert (await client.receive())["id"] == 2


async def test_blank_lines_are_ignored() -> None:
    async with serving(router(echo=echo)) as client:
        assert (await client.ask(b"\n  \r\n", request(1, "echo")))["id"] == 1


async def test_lone_surrogates_and_line_separators_in_parameters_come_back_as_one_readable_line() -> None:
    async with serving(router(echo=echo)) as client:
        answer = await client.ask(rb'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"t":"\ud800\u2028"}}' + b"\n")
        assert answer["result"] == {"t": "\ufffd\u2028"}


async def test_an_unexpected_exception_is_an_internal_error_with_its_text_and_no_traceback() -> None:
    async def broken(call: Call, params: JsonObject) -> JsonValue:
        raise RuntimeError("The disk is full.")

    async with serving(router(broken=broken)) as client:
        assert await client.ask(request(1, "broken")) == error(1, INTERNAL_ERROR, "The disk is full.")


async def test_the_error_mapper_decides_and_sees_the_only_exception_of_a_group() -> None:
    async def broken(call: Call, params: JsonObject) -> JsonValue:
        async with anyio.create_task_group():
            raise KeyError("secret")

    def mapper(error: Exception) -> RpcError:
        return RpcError(-32000, f"mapped {type(error).__name__}", {"why": 1})

    async with serving(router(broken=broken), error_mapper=mapper) as client:
        assert await client.ask(request(1, "broken")) == error(1, -32000, "mapped KeyError", {"why": 1})


async def test_an_error_mapper_that_fails_itself_does_not_lose_the_answer() -> None:
    async def broken(call: Call, params: JsonObject) -> JsonValue:
        raise RuntimeError("first")

    def mapper(error: Exception) -> RpcError:
        raise RuntimeError("second")

    async with serving(router(broken=broken), error_mapper=mapper) as client:
        assert await client.ask(request(1, "broken")) == error(1, INTERNAL_ERROR, "first")


async def test_an_error_that_a_handler_raises_on_purpose_is_sent_as_it_is() -> None:
    async def refusing(call: Call, params: JsonObject) -> JsonValue:
        raise RpcError(-32002, "No such thing.", {"uri": "x"})

    async with serving(router(refusing=refusing)) as client:
        assert await client.ask(request(1, "refusing")) == error(1, -32002, "No such thing.", {"uri": "x"})


async def test_a_result_that_json_cannot_hold_is_an_internal_error() -> None:
    async def odd(call: Call, params: JsonObject) -> Any:
        return {1, 2}

    async with serving(router(odd=odd)) as client:
        answer = await client.ask(request(1, "odd"))
        assert answer["error"]["code"] == INTERNAL_ERROR


async def test_error_data_that_json_cannot_hold_is_left_out() -> None:
    async def odd(call: Call, params: JsonObject) -> JsonValue:
        data: Any = {1, 2}
        raise RpcError(-1, "No.", data)

    async with serving(router(odd=odd)) as client:
        assert await client.ask(request(1, "odd")) == error(1, -1, "No.")


async def test_notifications_are_never_answered_whatever_happens() -> None:
    seen: list[str] = []

    async def noted(call: Call, params: JsonObject) -> JsonValue:
        assert call.is_notification
        seen.append(call.method)
        return {"ignored": True}

    async def broken(call: Call, params: JsonObject) -> JsonValue:
        raise RuntimeError

    async with serving(router(noted=noted, broken=broken, echo=echo)) as client:
        answer = await client.ask(
            notification("noted"), notification("broken"), notification("nowhere"), request(1, "echo")
        )
        assert answer["id"] == 1
        assert seen == ["noted"]


async def test_the_error_mapper_hears_of_a_notification_that_failed() -> None:
    heard: list[Exception] = []

    async def broken(call: Call, params: JsonObject) -> JsonValue:
        raise KeyError("x")

    def mapper(error: Exception) -> RpcError:
        heard.append(error)
        return RpcError(1, "")

    async with serving(router(broken=broken, echo=echo), error_mapper=mapper) as client:
        await client.ask(notification("broken"), request(1, "echo"))
        assert [type(error) for error in heard] == [KeyError]


async def test_calls_begin_in_the_order_of_the_wire_and_a_plain_function_acts_while_the_line_is_read() -> None:
    order: list[str] = []

    def prompt(call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        order.append(f"queued {params['n']}")

        async def run() -> JsonValue:
            order.append(f"started {params['n']}")
            await checkpoint()
            return None

        return run()

    async with serving(router(prompt=prompt)) as client:
        await client.send(*(request(n, "prompt", n=n) for n in range(3)))
        assert sorted([(await client.receive())["id"] for _ in range(3)]) == [0, 1, 2]
    assert order == [f"{what} {n}" for what in ("queued", "started") for n in range(3)]


async def test_a_slow_request_does_not_hold_up_the_next_one() -> None:
    async with serving(router(forever=forever, echo=echo)) as client:
        assert (await client.ask(request(1, "forever"), request(2, "echo")))["id"] == 2


async def test_more_calls_than_can_run_at_a_time_are_refused_and_the_peer_goes_on() -> None:
    async with serving(router(forever=forever, echo=echo), seconds=30) as client:
        await client.send(*(request(n, "forever") for n in range(MAX_RUNNING_CALLS)))
        answer = await client.ask(request("more", "echo"))
        assert (answer["id"], answer["error"]["code"]) == ("more", INTERNAL_ERROR)
        await client.ask(notification("$/cancel_request", requestId=5))
        assert (await client.ask(request("again", "echo")))["result"] == {}


async def test_invalid_params_name_the_field_and_not_the_value() -> None:
    class Params(BaseModel):
        key: int

    async def handler(call: Call, params: Params) -> JsonValue:
        return params.key

    served = router()
    served.register("typed", Params.model_validate, handler)
    async with serving(served) as client:
        answer = await client.ask(request(1, "typed", key="sk-secret"))
        assert answer["error"]["code"] == INVALID_PARAMS
        assert "key" in answer["error"]["message"]
        assert "sk-secret" not in str(answer)
        assert (await client.ask(request(2, "typed", key=3)))["result"] == 3
