"""A model on the loopback interface that answers at once, in Anthropic's Messages API
and OpenAI's Responses API.

Owns HTTP/1.1 as far as an SDK needs it, and the time at which each request came and
each answer was out. Every event of the stream is sent by itself, as a model does it,
and as fast as the connection takes it.

https://docs.anthropic.com/en/api/messages-streaming
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

KEY = "benchmark-key"
MODEL = "claude-benchmark"
WINDOW = 10_000_000
"""Tokens; large, so that nothing is compacted but on request."""

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    :ivar deltas: pieces of its text.
    :ivar calls: tool calls behind the text, as name and arguments.
    :ivar pause: seconds before each delta.
    :ivar hangs: never ends, once the deltas are out.
    :ivar tokens: of the prompt, as it is counted; if None, one for each four bytes of
        the request.
    """

    deltas: Sequence[str] = ()
    calls: Sequence[tuple[str, JsonObject]] = ()
    pause: float = 0.0
    hangs: bool = False
    tokens: int | None = None


@dataclass(slots=True)
class Exchange:
    """One call of the model: when its first line arrived and when its last event went
    out, by `perf_counter`.
    """

    arrived: float
    body: JsonObject = field(default_factory=dict[str, Any])
    ended: float = 0.0


_Event: TypeAlias = tuple[bytes, bool]
"""A chunk of the stream, and whether it is a piece of the text."""
Script: TypeAlias = Callable[[JsonObject], Reply]


class ModelServer:
    """What it is to say, and what it was asked.

    :ivar reply: makes the answer to a request's body; may be set anew at any time.
    """

    def __init__(self) -> None:
        self.reply: Script = _hello
        self.exchanges: list[Exchange] = []
        self.url = ""
        self._calls = 0
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def env(self) -> dict[str, str]:
        """What sends an agent here."""
        return {
            "ACP_AGENT_MODEL": f"anthropic/{MODEL}",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
        }

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one connection's requests, one after another."""
        task = asyncio.current_task()
        if task is not None:
            self._connections[task] = writer
            task.add_done_callback(self._connections.pop)
        try:
            while request_line := await reader.readline():
                arrived = perf_counter()
                method, path, _ = request_line.decode().split(" ", 2)
                body = await _body(reader)
                events = APIS.get(path.partition("?")[0])
                if method == "POST" and events is not None:
                    exchange = Exchange(arrived, json.loads(body))
                    self.exchanges.append(exchange)
                    self._calls += 1
                    titled = "json_schema" in str(exchange.body.get("output_config"))
                    reply = _TITLE if titled else self.reply(exchange.body)
                    tokens = len(body) // 4 if reply.tokens is None else reply.tokens
                    await _answer(
                        exchange,
                        list(events(reply, self._calls, tokens)),
                        reply.pause,
                        writer,
                    )
                elif method == "GET" and path.startswith("/v1/models/"):
                    await _respond(writer, "200 OK", _model())
                else:
                    error = {"type": "not_found_error", "message": path}
                    await _respond(
                        writer, "404 Not Found", {"type": "error", "error": error}
                    )
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def hang_up(self) -> None:
        """End all connections."""
        for writer in self._connections.values():
            writer.close()
        await asyncio.gather(*self._connections)


def _messages(reply: Reply, number: int, tokens: int) -> Iterator[_Event]:
    """The events of an answer in Anthropic's Messages API."""
    usage = {
        "input_tokens": tokens,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    message: JsonObject = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
    }
    yield (
        _chunk(
            "message_start",
            message=message
            | {"stop_reason": None, "usage": usage | {"output_tokens": 1}},
        ),
        False,
    )
    if reply.deltas:
        yield (
            _chunk(
                "content_block_start",
                index=0,
                content_block={"type": "text", "text": ""},
            ),
            False,
        )
        for text in reply.deltas:
            yield (
                _chunk(
                    "content_block_delta",
                    index=0,
                    delta={"type": "text_delta", "text": text},
                ),
                True,
            )
        if reply.hangs:
            return
        yield _chunk("content_block_stop", index=0), False
    for place, (name, arguments) in enumerate(reply.calls, 1 if reply.deltas else 0):
        block: JsonObject = {
            "type": "tool_use",
            "id": f"toolu_{number}_{place}",
            "name": name,
            "input": {},
        }
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        yield _chunk("content_block_start", index=place, content_block=block), False
        yield _chunk("content_block_delta", index=place, delta=delta), False
        yield _chunk("content_block_stop", index=place), False
    stop = {
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
    }
    yield (
        _chunk(
            "message_delta",
            delta=stop,
            usage=usage | {"output_tokens": max(1, len(reply.deltas))},
        ),
        False,
    )
    yield _chunk("message_stop") + b"0\r\n\r\n", False


def _responses(reply: Reply, number: int, tokens: int) -> Iterator[_Event]:
    """The same in OpenAI's Responses API."""
    response: JsonObject = {
        "id": f"resp_{number}",
        "object": "response",
        "status": "in_progress",
        "output": [],
    }
    message: JsonObject = {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    place = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    yield _chunk("response.created", response=response), False
    if reply.deltas:
        yield _chunk("response.output_item.added", output_index=0, item=message), False
        for text in reply.deltas:
            yield _chunk("response.output_text.delta", **place, delta=text), True
        if reply.hangs:
            return
        said: JsonObject = {
            "type": "output_text",
            "text": "".join(reply.deltas),
            "annotations": [],
        }
        yield (
            _chunk(
                "response.output_item.done",
                output_index=0,
                item=message | {"content": [said]},
            ),
            False,
        )
    for index, (name, arguments) in enumerate(reply.calls, 1):
        ids = {
            "id": f"fc_{number}_{index}",
            "call_id": f"call_{number}_{index}",
            "status": "completed",
        }
        call = {
            "type": "function_call",
            "name": name,
            "arguments": json.dumps(arguments),
        } | ids
        yield _chunk("response.output_item.done", output_index=index, item=call), False
    usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
    done = response | {"status": "completed", "usage": usage}
    yield _chunk("response.completed", response=done) + b"0\r\n\r\n", False


APIS: dict[str, Callable[[Reply, int, int], Iterator[_Event]]] = {
    "/v1/messages": _messages,
    "/v1/responses": _responses,
}


@asynccontextmanager
async def model_server() -> AsyncGenerator[ModelServer]:
    """A model server on a free port, until the block ends."""
    model = ModelServer()
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield model
    finally:
        server.close()
        await model.hang_up()


_TITLE = Reply(('{"title": "A greeting"}',))
"""For an agent that asks until it gets one."""


def _hello(request: JsonObject) -> Reply:
    return Reply(("Hello", ", ", "world."))


async def _body(reader: asyncio.StreamReader) -> bytes:
    length = 0
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return await reader.readexactly(length)


async def _respond(writer: asyncio.StreamWriter, status: str, body: JsonObject) -> None:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()


async def _answer(
    exchange: Exchange, events: list[_Event], pause: float, writer: asyncio.StreamWriter
) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )
    for event, is_delta in events:
        if is_delta and pause:
            await asyncio.sleep(pause)
        exchange.ended = perf_counter()
        writer.write(event)
        await writer.drain()


def _chunk(name: str, **data: Any) -> bytes:
    event = f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


def _model() -> JsonObject:
    return {
        "type": "model",
        "id": MODEL,
        "display_name": MODEL,
        "created_at": "2026-01-01T00:00:00Z",
        "max_input_tokens": WINDOW,
        "max_tokens": 64_000,
    }
