from __future__ import annotations

import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.messages import JsonObject
from acp_agent.jsonrpc.outbox import MAX_QUEUED_BYTES, MAX_QUEUED_MESSAGES, Outbox


def joined(before: JsonObject, after: JsonObject) -> JsonObject | None:
    text = f"{before['text']}{after['text']}"
    return {"text": text} if len(text) <= 8 else None


def characters(data: bytes) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in data.splitlines()]
    return [(line["method"], char) for line in lines for char in line["params"]["text"]]


@given(
    st.lists(st.tuples(st.sampled_from(["one", "two"]), st.text("abc", max_size=5), st.booleans(), st.booleans())),
)
def test_joining_keeps_every_character_in_its_order_whatever_is_taken_in_between(
    sent: list[tuple[str, str, bool, bool]],
) -> None:
    async def run() -> bytes:
        outbox = Outbox()
        taken = b""
        for method, text, mergeable, take in sent:
            await outbox.put_notification(method, {"text": text}, joined if mergeable else None)
            if take:
                taken += await outbox.take() or b""
        await outbox.put_notification("end", {"text": "."}, None)
        return taken + (await outbox.take() or b"")

    expected = [(method, char) for method, text, _, _ in sent for char in text]
    assert characters(anyio.run(run)) == [*expected, ("end", ".")]


async def full() -> Outbox:
    outbox = Outbox()
    for _ in range(MAX_QUEUED_MESSAGES):
        assert outbox.offer(b"old\n")
    assert not outbox.offer(b"refused\n")
    return outbox


async def test_those_who_wait_for_room_are_served_in_the_order_they_came_and_a_cancelled_one_is_not() -> None:
    outbox = await full()
    scopes = [anyio.CancelScope() for _ in range(6)]

    async def put(n: int) -> None:
        with scopes[n]:
            await outbox.put(b"%d\n" % n)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for n in range(6):
                tasks.start_soon(put, n)
            await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()
            scopes[3].cancel()
            await anyio.wait_all_tasks_blocked()
            assert await outbox.take() == b"old\n" * MAX_QUEUED_MESSAGES
        assert await outbox.take() == b"1\n2\n4\n5\n"


async def test_nobody_overtakes_those_who_wait() -> None:
    outbox = await full()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.put, b"first\n")
            await anyio.wait_all_tasks_blocked()
            assert await outbox.take() is not None
            assert not outbox.offer(b"second\n")


async def test_the_queue_is_bounded_in_bytes_too_but_takes_one_message_of_any_size() -> None:
    outbox = Outbox()
    assert outbox.offer(b"x" * (MAX_QUEUED_BYTES + 1))
    assert not outbox.offer(b"y")
    await outbox.take()
    assert outbox.offer(b"y")


async def test_many_lines_are_taken_in_one_piece() -> None:
    outbox = Outbox()
    for n in range(100):
        outbox.offer(b"%d\n" % n)
    assert await outbox.take() == b"".join(b"%d\n" % n for n in range(100))


@pytest.mark.parametrize("end", [Outbox.drain, Outbox.close])
async def test_at_the_end_those_who_wait_are_let_go(end: object) -> None:
    outbox = await full()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.put, b"1\n")
            tasks.start_soon(outbox.put_notification, "m", {}, None)
            await anyio.wait_all_tasks_blocked()
            assert callable(end)
            end(outbox)
        await outbox.put(b"2\n")


async def test_params_that_turn_out_to_be_no_json_once_joined_are_dropped_and_the_rest_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outbox = Outbox()
    odd: object = object()
    await outbox.put_notification("bad", {"text": "a"}, lambda _, after: after)
    await outbox.put_notification("bad", {"text": odd}, lambda _, after: after)  # pyright: ignore[reportArgumentType]
    await outbox.put_notification("good", {"text": "b"}, None)
    assert characters(await outbox.take() or b"") == [("good", "b")]
    assert "bad" in caplog.text
