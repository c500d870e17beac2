"""Both directions of a connection over real pipes: answers, order, cancelling, and the
end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from acp_agent.jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    PeerClosedError,
    RpcError,
)
from acp_agent.jsonrpc.outbox import MAX_QUEUED_MESSAGES
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import IncomingCall
from acp_agent.jsonrpc.transport import StdioTransport
from support.ends import (
    echo,
    error,
    forever,
    notification,
    plain_error,
    request,
    serve,
    serving,
)

CANCELLED = "The request was cancelled."


async def test_a_request_is_answered_with_its_id_and_the_handlers_result() -> None:
    async with serving({"echo": echo}) as client:
        for id in (1, "one", None, 10**40):
            assert await client.ask(request(id, "echo", a=[1])) == {
                "jsonrpc": "2.0",
                "id": id,
                "result": {"a": [1]},
            }


@pytest.mark.parametrize(
    ("line", "id", "code"),
    [
        (b"nonsense\n", None, PARSE_ERROR),
        (b"x" * 2_000 + b"\n", None, INVALID_REQUEST),
        (request(5, "echo", text="x" * 2_000), 5, INVALID_REQUEST),
        (
            b'{"method": "echo", "id": "five", "params": {"id": 6, "text": "'
            + b"x" * 200_000
            + b'"}}\n',
            "five",
            INVALID_REQUEST,
        ),
        (
            b'{"jsonrpc": "2.0", "id": 5, "result": {"params": "'
            + b"x" * 2_000
            + b'"}}\n',
            None,
            INVALID_REQUEST,
        ),
        (b'{"jsonrpc": "1.0", "id": 5, "method": "echo"}\n', 5, INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 5, "method": "echo"}]\n', None, INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "nowhere"}\n', 5, METHOD_NOT_FOUND),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "echo", "params": [1]}\n',
            5,
            INVALID_PARAMS,
        ),
    ],
)
async def test_a_bad_line_gets_its_error_and_the_next_one_its_answer(
    line: bytes, id: Any, code: int
) -> None:
    async with serving({"echo": echo}, max_line=1000) as client:
        answer = await client.ask(line)
        assert (answer["id"], answer["error"]["code"]) == (id, code)
        assert answer["error"].keys() == {"code", "message"}
        assert (await client.ask(b"\n  \r\n", request(6, "echo")))["result"] == {}


async def test_whatever_is_raised_is_the_answer_as_the_error_mapper_says_and_never_a_traceback() -> (
    None
):
    async def broken(call: IncomingCall, params: JsonObject) -> JsonValue:
        raise KeyError("secret")

    def early(call: IncomingCall, params: JsonObject) -> Awaitable[JsonValue]:
        raise IndexError("before there is anything to await")

    async def odd(call: IncomingCall, params: JsonObject) -> Any:
        return {1, 2}

    async def read_params(method: str, params: JsonObject) -> JsonObject:
        if params:
            raise ValueError("wrong params")
        return params

    def mapper(error: Exception) -> RpcError:
        return RpcError(-32000, f"mapped {type(error).__name__}", {"why": 1})

    handlers = {"broken": broken, "early": early, "odd": odd}
    async with serving(
        handlers, error_mapper=mapper, read_params=read_params
    ) as client:
        assert await client.ask(request(1, "odd", x=1)) == error(
            1, -32000, "mapped ValueError", {"why": 1}
        )
        for method, name in (
            ("broken", "KeyError"),
            ("early", "IndexError"),
            ("odd", "TypeError"),
        ):
            assert await client.ask(request(2, method)) == error(
                2, -32000, f"mapped {name}", {"why": 1}
            )


async def test_a_handler_takes_what_was_read_of_its_params_while_the_next_line_waits() -> (
    None
):
    read: list[JsonValue] = []

    async def read_params(method: str, params: JsonObject) -> JsonValue:
        await checkpoint()
        read.append(params["n"])
        return [params["n"]]

    async with serving({"echo": echo}, read_params=read_params) as client:
        await client.send(*(request(n, "echo", n=n) for n in range(3)))
        assert [(await client.receive())["result"] for _ in range(3)] == [[0], [1], [2]]
    assert read == [0, 1, 2]


async def test_notifications_are_never_answered_and_the_error_mapper_hears_of_those_that_fail() -> (
    None
):
    heard: list[Exception] = []

    async def broken(call: IncomingCall, params: JsonObject) -> JsonValue:
        assert call.is_notification
        raise KeyError("x")

    def mapper(error: Exception) -> RpcError:
        heard.append(error)
        return RpcError(1, "")

    async with serving({"broken": broken, "echo": echo}, error_mapper=mapper) as client:
        lines = [
            notification("echo"),
            notification("broken"),
            notification("nowhere"),
            request(1, "echo"),
        ]
        assert (await client.ask(*lines))["id"] == 1
        assert {type(error) for error in heard} == {KeyError, RpcError}


async def test_calls_begin_in_the_order_of_the_wire_and_a_plain_function_acts_while_the_line_is_read() -> (
    None
):
    order: list[str] = []

    def prompt(call: IncomingCall, params: JsonObject) -> Awaitable[JsonValue]:
        order.append(f"queued {params['n']}")

        async def run() -> JsonValue:
            order.append(f"started {params['n']}")
            await checkpoint()
            return None

        return run()

    async with serving({"prompt": prompt}) as client:
        await client.send(*(request(n, "prompt", n=n) for n in range(3)))
        assert sorted([(await client.receive())["id"] for _ in range(3)]) == [0, 1, 2]
    assert order == [f"{what} {n}" for what in ("queued", "started") for n in range(3)]


async def test_what_is_sent_before_a_response_is_written_before_it_and_what_follows_after_it() -> (
    None
):
    async def stream(call: IncomingCall, params: JsonObject) -> JsonValue:
        for n in (1, 2):

            async def follow(n: int = n) -> None:
                await checkpoint()
                await client.peer.notify("follow", {"n": n})
                if n == 1:
                    raise RuntimeError("the next one runs all the same")

            call.after_response(follow)
        for n in range(1000):
            await client.peer.notify("update", {"n": n})
        if params:
            raise RuntimeError("nothing follows")
        return "done"

    async with serving({"stream": stream, "echo": echo}) as client:
        await client.send(request(1, "stream"))
        lines = [await client.receive() for _ in range(1003)]
        assert [line["params"]["n"] for line in lines[:1000]] == list(range(1000))
        assert lines[1000]["result"] == "done"
        assert [line["params"]["n"] for line in lines[1001:]] == [1, 2]
        await client.send(request(2, "stream", fails=True))
        assert "error" in [await client.receive() for _ in range(1001)][-1]
        assert (await client.ask(request(3, "echo")))["id"] == 3


async def test_a_client_that_does_not_read_holds_up_its_own_updates_only() -> None:
    sent = 0

    async def flood(call: IncomingCall, params: JsonObject) -> JsonValue:
        nonlocal sent
        while True:
            await client.peer.notify("update", {"text": "x" * 1000})
            sent += 1

    async def count(call: IncomingCall, params: JsonObject) -> JsonValue:
        counted.set()
        return None

    counted = anyio.Event()
    async with serving({"flood": flood, "count": count}) as client:
        await client.send(request(1, "flood"))
        await anyio.wait_all_tasks_blocked()
        assert 0 < sent < 2 * MAX_QUEUED_MESSAGES
        await client.send(notification("count"))
        await counted.wait()
        await client.send(notification("$/cancel_request", requestId=1))
        while "id" not in (line := await client.receive()):
            pass
        assert (line["id"], line["error"]["code"]) == (1, REQUEST_CANCELLED)


async def test_cancel_request_ends_a_request_and_frees_its_id_which_is_refused_before() -> (
    None
):
    async with serving({"forever": forever, "echo": echo}) as client:
        answer = await client.ask(request(1, "forever"), request(1, "echo"))
        assert (answer["id"], answer["error"]["code"]) == (1, INVALID_REQUEST)
        answer = await client.ask(notification("$/cancel_request", requestId=1))
        assert answer == error(1, REQUEST_CANCELLED, CANCELLED)
        answer = await client.ask(
            request(1, "forever"), notification("$/cancel_request", requestId=1)
        )
        assert answer == error(1, REQUEST_CANCELLED, CANCELLED), (
            "also when both arrive together"
        )
        assert (await client.ask(request(1, "echo")))["result"] == {}


async def test_a_cancel_request_with_an_id_is_answered_also_where_it_names_nothing() -> (
    None
):
    async with serving({"forever": forever}) as client:
        for params in ({}, {"requestId": {}}, {"requestId": 9}):
            assert (await client.ask(request(1, "$/cancel_request", **params)))[
                "result"
            ] is None
        lines = [
            await client.ask(
                request(1, "forever"), request(2, "$/cancel_request", requestId=1)
            )
        ]
        lines.append(await client.receive())
        assert {line["id"]: "error" in line for line in lines} == {1: True, 2: False}


async def test_a_handler_may_turn_a_cancel_into_a_result_of_its_own() -> None:
    async def prompt(call: IncomingCall, params: JsonObject) -> JsonValue:
        stop = anyio.Event()
        call.on_cancel(stop.set)
        await stop.wait()
        assert call.cancel_requested
        return {"stopReason": "cancelled"}

    async with serving({"prompt": prompt}) as client:
        answer = await client.ask(
            request(1, "prompt"), notification("$/cancel_request", requestId=1)
        )
        assert answer["result"] == {"stopReason": "cancelled"}


async def test_two_peers_ask_each_other_in_the_midst_of_a_request_and_raise_each_others_errors() -> (
    None
):
    async def ask_back(call: IncomingCall, params: JsonObject) -> JsonValue:
        return await near.request("double", {"n": params["n"]})

    async def double(call: IncomingCall, params: JsonObject) -> JsonValue:
        if not isinstance(params["n"], int):
            raise RpcError(-32001, "Not now.", {"retry": 5})
        return params["n"] * 2

    near_read, far_write = os.pipe()
    far_read, near_write = os.pipe()
    near = Peer(StdioTransport(near_read, near_write), plain_error)
    far = Peer(StdioTransport(far_read, far_write), plain_error)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, near, {"ask_back": ask_back})
            tasks.start_soon(serve, far, {"double": double})
            assert await far.request("ask_back", {"n": 21}) == 42
            with pytest.raises(RpcError) as caught:
                await near.request("double", {"n": "x"})
            assert (caught.value.code, caught.value.message, caught.value.data) == (
                -32001,
                "Not now.",
                {"retry": 5},
            )
            near.close()
            far.close()


async def test_a_request_that_runs_out_of_time_is_taken_back_and_a_late_answer_is_ignored() -> (
    None
):
    async with serving({"echo": echo}) as client:
        with pytest.raises(TimeoutError):
            await client.peer.request("permission", {}, timeout=0.01)
        asked = await client.receive()
        taken_back = await client.receive()
        assert taken_back == notification("$/cancel_request", requestId=asked["id"])
        late = [
            {"jsonrpc": "2.0", "id": id, "result": {}}
            for id in (asked["id"], 77, "x", None)
        ]
        assert (await client.ask(*late, request(1, "echo")))["id"] == 1


async def test_when_the_input_ends_requests_of_ours_fail_and_later_ones_too_while_notifications_vanish() -> (
    None
):
    async with serving({}) as client, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(PeerClosedError, match="not answered"):
                await client.peer.request("permission", {})

        tasks.start_soon(ask)
        await client.receive()
        await client.end_input()
        await client.finished.wait()
        with pytest.raises(PeerClosedError, match="not sent"):
            await client.peer.request("permission", {})
        await client.peer.notify("update", {})


async def test_calls_are_cancelled_when_the_input_ends_and_their_answers_can_still_be_read() -> (
    None
):
    async def prompt(call: IncomingCall, params: JsonObject) -> JsonValue:
        await client.peer.notify("started", {})
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return {"stopReason": "cancelled"}

    async def followed(call: IncomingCall, params: JsonObject) -> JsonValue:
        call.after_response(anyio.sleep_forever)
        return {}

    async with serving(
        {"prompt": prompt, "forever": forever, "followed": followed}
    ) as client:
        await client.ask(
            request(1, "prompt"), request(2, "forever"), request(3, "followed")
        )
        await client.end_input()
        lines = await client.rest()
        assert {
            line["id"]: line.get("result", line.get("error", {}).get("code"))
            for line in lines
        } == {
            1: {"stopReason": "cancelled"},
            2: REQUEST_CANCELLED,
            3: {},
        }


async def test_a_client_that_closes_its_reading_end_ends_the_connection_without_a_traceback() -> (
    None
):
    async with serving({"echo": echo}) as client:
        await client.stop_reading()
        await client.send(request(1, "echo"))
        await client.finished.wait()


async def test_a_line_that_was_begun_is_finished_when_run_is_cancelled_and_calls_end() -> (
    None
):
    read_fd, write_fd = os.pipe()
    other_read, other_write = os.pipe()
    peer = Peer(StdioTransport(read_fd, other_write), plain_error)
    reader = StdioTransport(other_read, write_fd)
    await reader.write(b'{"jsonrpc": "2.0", "id": 1, "method": "forever"}\n')
    line = None
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve, peer, {"forever": forever})
            await peer.notify("update", {"text": "x" * 100_000})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                line = await reader.read_line()
    assert line is not None
    assert len(json.loads(line)["params"]["text"]) == 100_000
    await reader.aclose()
