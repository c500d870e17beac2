from __future__ import annotations

import json
import os

import anyio
import pytest

from acp_agent.jsonrpc.messages import (
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    PeerClosedError,
)
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Call
from acp_agent.jsonrpc.stdio import StdioTransport
from jsonrpc.ends import echo, forever, request, router, serving


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


async def test_the_end_does_not_wait_for_a_client_that_does_not_read() -> None:
    async def flood(call: Call, params: JsonObject) -> JsonValue:
        while True:
            await client.peer.notify("update", {"text": "x" * 1000})

    async with serving(router(flood=flood)) as client:
        await client.send(request(1, "flood"))
        await anyio.wait_all_tasks_blocked()
        await client.end_input()
        # What else has to end does so meanwhile.
        await client.peer.ended.wait()
        assert not client.finished.is_set()
        await client.finished.wait()
