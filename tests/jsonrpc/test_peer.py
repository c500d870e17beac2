from __future__ import annotations

import json
import os
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
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    PeerClosedError,
    RpcError,
)
from acp_agent.jsonrpc.outbox import MAX_QUEUED_MESSAGES
from acp_agent.jsonrpc.peer import MAX_RUNNING_CALLS, Peer
from acp_agent.jsonrpc.router import Call
from acp_agent.jsonrpc.stdio import StdioTransport
from jsonrpc.ends import error, notification, request, router, serving, two_peers


async def echo(call: Call, params: JsonObject) -> JsonValue:
    return params


async def forever(call: Call, params: JsonObject) -> JsonValue:
    await anyio.sleep_forever()


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
        for params in ({"requestId": 9}, {"requestId": {}}, {}):
            await client.send(notification("$/cancel_request", **params))
        assert (await client.ask(request(1, "echo")))["id"] == 1


async def test_a_cancel_request_that_has_an_id_itself_is_answered() -> None:
    async with serving(router(forever=forever)) as client:
        first = await client.ask(request(1, "forever"), request(2, "$/cancel_request", requestId=1))
        assert first == {"jsonrpc": "2.0", "id": 2, "result": None}
        assert (await client.receive())["id"] == 1


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


async def test_everything_sent_before_a_response_is_written_before_it() -> None:
    async def stream(call: Call, params: JsonObject) -> JsonValue:
        for n in range(1000):
            await client.peer.notify("update", {"n": n})
        return "done"

    async with serving(router(stream=stream)) as client:
        await client.send(request(1, "stream"))
        lines = [await client.receive() for _ in range(1001)]
        assert [line["params"]["n"] for line in lines[:-1]] == list(range(1000))
        assert lines[-1]["result"] == "done"


async def test_what_is_registered_for_after_the_response_is_sent_after_it_and_in_order() -> None:
    async def new(call: Call, params: JsonObject) -> JsonValue:
        for n in (1, 2):

            async def follow(n: int = n) -> None:
                await client.peer.flush()
                await client.peer.notify("commands", {"n": n})
                if n == 1:
                    raise RuntimeError("the next one runs all the same")

            call.after_response(follow)
        await client.peer.notify("before", {})
        return {}

    async with serving(router(new=new)) as client:
        await client.send(request(1, "new"))
        lines = [await client.receive() for _ in range(4)]
        assert [line.get("method") or "response" for line in lines] == ["before", "response", "commands", "commands"]
        assert [line["params"]["n"] for line in lines[2:]] == [1, 2]


async def test_after_an_error_response_nothing_follows() -> None:
    async def new(call: Call, params: JsonObject) -> JsonValue:
        async def follow() -> None:
            await client.peer.notify("commands", {})

        call.after_response(follow)
        raise RuntimeError("no")

    async with serving(router(new=new, echo=echo)) as client:
        assert "error" in await client.ask(request(1, "new"))
        assert (await client.ask(request(2, "echo")))["id"] == 2


async def test_a_batch_is_answered_by_one_array_in_its_order_once_all_are_done() -> None:
    release = anyio.Event()

    async def slow(call: Call, params: JsonObject) -> JsonValue:
        async def follow() -> None:
            await client.peer.notify("followed", {})

        call.after_response(follow)
        await release.wait()
        return "slow"

    async def freeing(call: Call, params: JsonObject) -> JsonValue:
        release.set()
        return None

    async with serving(router(slow=slow, echo=echo, freeing=freeing)) as client:
        answers = await client.ask(
            [
                request(1, "slow"),
                42,
                notification("freeing"),
                request(2, "nowhere"),
                request(3, "echo"),
                {"id": None, "result": 1},
            ]
        )
        assert [(answer["id"], answer.get("result") or answer["error"]["code"]) for answer in answers[:-1]] == [
            (1, "slow"),
            (None, INVALID_REQUEST),
            (2, METHOD_NOT_FOUND),
        ]
        assert answers[-1] == {"jsonrpc": "2.0", "id": 3, "result": {}}
        assert (await client.receive())["method"] == "followed"


async def test_a_batch_of_nothing_but_notifications_is_not_answered_and_one_of_nothing_but_errors_is() -> None:
    async with serving(router(echo=echo)) as client:
        answers = await client.ask([notification("echo"), notification("nowhere")], [1, 2])
        assert [answer["error"]["code"] for answer in answers] == [INVALID_REQUEST, INVALID_REQUEST]


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


async def test_when_the_input_ends_calls_are_cancelled_and_run_returns() -> None:
    ended = anyio.Event()

    async def running(call: Call, params: JsonObject) -> JsonValue:
        try:
            await client.peer.notify("started", {})
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with serving(router(running=running)) as client:
        await client.ask(request(1, "running"))
        await client.end_input()
        await client.finished.wait()
        assert ended.is_set()


async def test_when_the_input_ends_requests_of_ours_fail_and_later_ones_too_while_notifications_vanish() -> None:
    async with serving(router()) as client, anyio.create_task_group() as tasks:

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
        await client.peer.flush()


async def test_a_client_that_has_ended_its_input_still_reads_the_last_answers() -> None:
    async def prompt(call: Call, params: JsonObject) -> JsonValue:
        await client.peer.notify("started", {})
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return {"stopReason": "cancelled"}

    async with serving(router(prompt=prompt, forever=forever)) as client:
        await client.ask(request(1, "prompt"), request(2, "forever"))
        await client.end_input()
        lines = await client.rest()
        assert {line["id"]: line.get("result") or line["error"]["code"] for line in lines} == {
            1: {"stopReason": "cancelled"},
            2: REQUEST_CANCELLED,
        }


async def test_a_follower_that_is_still_busy_does_not_hold_up_the_end() -> None:
    async def new(call: Call, params: JsonObject) -> JsonValue:
        call.after_response(anyio.sleep_forever)
        return {}

    async with serving(router(new=new)) as client:
        await client.ask(request(1, "new"))
        await client.end_input()
        await client.finished.wait()


async def test_a_client_that_closes_its_reading_end_ends_the_connection_without_a_traceback() -> None:
    async with serving(router(echo=echo)) as client:
        await client.stop_reading()
        await client.send(request(1, "echo"))
        await client.finished.wait()


async def test_close_ends_the_connection_from_this_side() -> None:
    async with serving(router()) as client:
        client.peer.close()
        await client.finished.wait()
        assert await client.rest() == []


async def test_cancelling_run_from_outside_ends_the_calls_and_closes_the_transport() -> None:
    read_fd, write_fd = os.pipe()
    other_read, other_write = os.pipe()
    peer = Peer(StdioTransport(read_fd, other_write), router(forever=forever))
    os.write(write_fd, b'{"jsonrpc": "2.0", "id": 1, "method": "forever"}\n')
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert os.read(other_read, 100) == b""
    os.close(write_fd)
    os.close(other_read)


async def test_a_line_that_was_begun_is_finished_when_run_is_cancelled() -> None:
    read_fd, write_fd = os.pipe()
    other_read, other_write = os.pipe()
    peer = Peer(StdioTransport(read_fd, other_write), router())
    reader = StdioTransport(other_read, write_fd)
    line = None
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.run)
            await peer.notify("update", {"text": "x" * 100_000})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                line = await reader.read_line()
    assert line is not None
    assert len(json.loads(line)["params"]["text"]) == 100_000
    await reader.aclose()


async def test_a_client_that_does_not_read_holds_up_its_own_updates_only() -> None:
    sent = 0

    async def flood(call: Call, params: JsonObject) -> JsonValue:
        nonlocal sent
        while True:
            await client.peer.notify("update", {"text": "x" * 1000})
            sent += 1

    async def count(call: Call, params: JsonObject) -> JsonValue:
        counted.set()
        return None

    counted = anyio.Event()
    async with serving(router(flood=flood, count=count)) as client:
        await client.send(request(1, "flood"))
        await anyio.wait_all_tasks_blocked()
        assert 0 < sent < 2 * MAX_QUEUED_MESSAGES
        await client.send(b"nonsense\n", notification("count"))
        await counted.wait()
        await client.send(notification("$/cancel_request", requestId=1))
        kinds: list[Any] = []
        while len(kinds) < 2:
            line = await client.receive()
            if "error" in line:
                kinds.append((line["id"], line["error"]["code"]))
        assert sorted(kinds, key=str) == [(1, REQUEST_CANCELLED), (None, PARSE_ERROR)]


async def test_more_calls_than_can_run_at_a_time_are_refused_and_the_peer_goes_on() -> None:
    async with serving(router(forever=forever, echo=echo), seconds=30) as client:
        await client.send(*(request(n, "forever") for n in range(MAX_RUNNING_CALLS)))
        answer = await client.ask(request("more", "echo"))
        assert (answer["id"], answer["error"]["code"]) == ("more", INTERNAL_ERROR)
        await client.ask(notification("$/cancel_request", requestId=5))
        assert (await client.ask(request("again", "echo")))["result"] == {}


async def test_the_end_does_not_wait_for_a_client_that_does_not_read() -> None:
    async def flood(call: Call, params: JsonObject) -> JsonValue:
        while True:
            await client.peer.notify("update", {"text": "x" * 1000})

    async with serving(router(flood=flood)) as client:
        await client.send(request(1, "flood"))
        await anyio.wait_all_tasks_blocked()
        await client.end_input()
        await client.finished.wait()


def joined(before: JsonObject, after: JsonObject) -> JsonObject | None:
    first, second = before["text"], after["text"]
    assert isinstance(first, str)
    assert isinstance(second, str)
    return {"text": first + second} if len(first) + len(second) <= 100 else None


async def test_neighbouring_notifications_are_joined_while_they_wait_and_nothing_is_lost() -> None:
    async def stream(call: Call, params: JsonObject) -> JsonValue:
        for n in range(50):
            await client.peer.notify("delta", {"text": f"{n},"}, merge=joined)
        return None

    async with serving(router(stream=stream)) as client:
        await client.send(request(1, "stream"))
        texts: list[str] = []
        while "method" in (line := await client.receive()):
            texts.append(line["params"]["text"])
        assert "".join(texts) == "".join(f"{n}," for n in range(50))
        assert 1 < len(texts) < 5
        assert all(len(text) <= 100 for text in texts)


async def test_only_neighbours_of_one_method_that_both_allow_it_are_joined() -> None:
    async def stream(call: Call, params: JsonObject) -> JsonValue:
        await client.peer.notify("delta", {"text": "a"}, merge=joined)
        await client.peer.notify("other", {"text": "b"}, merge=joined)
        await client.peer.notify("delta", {"text": "c"}, merge=joined)
        await client.peer.notify("delta", {"text": "d"})
        await client.peer.notify("delta", {"text": "e"}, merge=joined)
        await client.peer.notify("delta", {"text": "f"}, merge=joined)
        return None

    async with serving(router(stream=stream)) as client:
        await client.send(request(1, "stream"))
        lines = [await client.receive() for _ in range(5)]
        assert [(line["method"], line["params"]["text"]) for line in lines] == [
            ("delta", "a"),
            ("other", "b"),
            ("delta", "c"),
            ("delta", "d"),
            ("delta", "ef"),
        ]


async def test_what_was_written_is_not_joined_any_more() -> None:
    async with serving(router()) as client:
        for text in "ab":
            await client.peer.notify("delta", {"text": text}, merge=joined)
            await client.peer.flush()
        assert [(await client.receive())["params"]["text"] for _ in "ab"] == ["a", "b"]


async def test_flush_returns_when_all_is_written() -> None:
    async with serving(router()) as client, anyio.create_task_group() as tasks:
        flushed = anyio.Event()

        async def fill() -> None:
            for _ in range(100):
                await client.peer.notify("update", {"text": "x" * 10_000})
            await client.peer.flush()
            flushed.set()

        tasks.start_soon(fill)
        await anyio.wait_all_tasks_blocked()
        assert not flushed.is_set()
        for _ in range(100):
            await client.receive()
        await flushed.wait()


async def test_a_notification_that_json_cannot_hold_is_the_senders_error() -> None:
    async with serving(router(echo=echo)) as client:
        odd: Any = {"a": object()}
        with pytest.raises(TypeError):
            await client.peer.notify("update", odd)
        assert (await client.ask(request(1, "echo")))["id"] == 1


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
