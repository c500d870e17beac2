from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_agent.jsonrpc.messages import JsonObject, JsonValue, encode
from acp_agent.jsonrpc.outbox import MAX_QUEUED_BYTES, MAX_QUEUED_MESSAGES, Outbox
from support.waiting import all_blocked


class Reader:
    """A transport whose other end reads when it is told to.

    :ivar written: each piece that was written.
    """

    def __init__(self, *, reads: bool = True) -> None:
        self.written: list[bytes] = []
        self.reads = anyio.Event()
        if reads:
            self.reads.set()

    async def read_line(self) -> bytes | None:
        return None

    async def write(self, data: bytes) -> None:
        await self.reads.wait()
        self.written.append(data)

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def writing(outbox: Outbox) -> AsyncGenerator[None]:
    """A writer; at the end, everything is written and the queue is finished."""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.run, anyio.CancelScope())
            yield
            await all_blocked()
            outbox.finish()


def joined(before: JsonObject, after: JsonObject) -> JsonObject | None:
    text = f"{before['text']}{after['text']}"
    return {"text": text} if len(text) <= 8 else None


def texts(reader: Reader) -> list[tuple[str, str]]:
    """Method and text of each notification that was written."""
    lines = [json.loads(line) for data in reader.written for line in data.splitlines()]
    return [(line["method"], line["params"]["text"]) for line in lines]


async def full(reader: Reader) -> Outbox:
    outbox = Outbox(reader)
    for _ in range(MAX_QUEUED_MESSAGES):
        await outbox.send(b"old\n")
    return outbox


@given(
    st.recursive(
        st.none()
        | st.integers()
        | st.floats()
        | st.text()
        | st.sampled_from(["\ud800", "a\u2028b\u0085é", "\udc00x"]),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_notification_is_one_line_for_every_reader_and_holds_what_a_message_would_hold(
    value: JsonValue,
) -> None:
    reader = Reader()

    async def run() -> None:
        outbox = Outbox(reader)
        async with writing(outbox):
            await outbox.notify("m", {"x": value})

    anyio.run(run)
    (line,) = reader.written
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == json.loads(encode(method="m", params={"x": value}))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two"]),
            st.text("abc", max_size=5),
            st.booleans(),
            st.booleans(),
        )
    )
)
def test_joining_keeps_every_character_in_its_order_whatever_is_written_in_between(
    sent: list[tuple[str, str, bool, bool]],
) -> None:
    async def run() -> list[tuple[str, str]]:
        reader = Reader()
        outbox = Outbox(reader)
        async with writing(outbox):
            for method, text, mergeable, written in sent:
                await outbox.notify(
                    method, {"text": text}, merge=joined if mergeable else None
                )
                if written:
                    await all_blocked()
        return texts(reader)

    expected = [(method, char) for method, text, _, _ in sent for char in text]
    assert [
        (method, char) for method, text in anyio.run(run) for char in text
    ] == expected


async def test_only_neighbours_of_one_method_that_both_allow_it_are_joined_while_they_wait() -> (
    None
):
    reader = Reader()
    outbox = Outbox(reader)
    async with writing(outbox):
        await outbox.notify("delta", {"text": "a"}, merge=joined)
        await outbox.notify("other", {"text": "b"}, merge=joined)
        await outbox.notify("delta", {"text": "c"}, merge=joined)
        await outbox.notify("delta", {"text": "d"})
        for text in "efghijklmn":
            await outbox.notify("delta", {"text": text}, merge=joined)
        await all_blocked()
        await outbox.notify("delta", {"text": "o"}, merge=joined)
    alone = [("delta", "a"), ("other", "b"), ("delta", "c"), ("delta", "d")]
    assert texts(reader) == [
        *alone,
        ("delta", "efghijkl"),
        ("delta", "mn"),
        ("delta", "o"),
    ]


async def test_those_who_wait_for_room_are_served_in_the_order_they_came_and_a_cancelled_one_is_not() -> (
    None
):
    reader = Reader()
    outbox = await full(reader)
    scopes = [anyio.CancelScope() for _ in range(6)]

    async def send(n: int) -> None:
        with scopes[n]:
            await outbox.send(b"%d\n" % n)

    async with anyio.create_task_group() as tasks:
        for n in range(6):
            tasks.start_soon(send, n)
        await all_blocked()
        scopes[0].cancel()
        scopes[3].cancel()
        await all_blocked()
        async with writing(outbox):
            await all_blocked()
        assert (
            b"".join(reader.written) == b"old\n" * MAX_QUEUED_MESSAGES + b"1\n2\n4\n5\n"
        )


async def test_the_queue_is_bounded_in_bytes_too_but_takes_one_message_of_any_size() -> (
    None
):
    reader = Reader(reads=False)
    outbox = Outbox(reader)
    await outbox.send(b"x" * (MAX_QUEUED_BYTES + 1))
    with anyio.move_on_after(0) as waiting:
        await outbox.send(b"y")
    assert waiting.cancelled_caught
    reader.reads.set()
    async with writing(outbox):
        await outbox.send(b"z")
    assert b"".join(reader.written)[-2:] == b"xz"


@pytest.mark.parametrize("end", [Outbox.drain, Outbox.finish])
async def test_at_the_end_those_who_wait_are_let_go(
    end: Callable[[Outbox], None],
) -> None:
    outbox = await full(Reader())
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outbox.send, b"1\n")
            tasks.start_soon(outbox.notify, "m", {})
            await all_blocked()
            end(outbox)
        await outbox.send(b"2\n")
