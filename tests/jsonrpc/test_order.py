from __future__ import annotations

from typing import Any

import anyio
import pytest

from acp_agent.jsonrpc.messages import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
)
from acp_agent.jsonrpc.outbox import MAX_QUEUED_MESSAGES
from acp_agent.jsonrpc.router import Call
from jsonrpc.ends import echo, notification, request, router, serving


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
