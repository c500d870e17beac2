"""A model on the loopback interface that answers at once, in the words of Anthropic's Messages API.

Owns HTTP/1.1 as far as an SDK needs it, and the time at which each request came and each answer was out. Every event of
the stream is sent by itself, as a model does it, and as fast as the connection takes it.

https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

KEY = "benchmark-key"
MODEL = "claude-benchmark"
WINDOW = 1_000_000
"""Tokens; large, so that nothing is compacted but on request."""

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    :ivar deltas: pieces of its text.
    :ivar calls: tool calls behind the text, as name and arguments.
    :ivar pause: seconds before each delta.
    :ivar hangs: never ends, once the deltas are out.
    :ivar tokens: of the prompt, as it is counted.
    """

    deltas: Sequence[str] = ()
    calls: Sequence[tuple[str, JsonObject]] = ()
    pause: float = 0.0
    hangs: bool = False
    tokens: int = 2_000


@dataclass(slots=True)
class Exchange:
    """One call of the model: when its first line arrived and when its last event went out, by `perf_counter`."""

    arrived: float
    body: JsonObject = field(default_factory=dict[str, Any])
    ended: float = 0.0


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

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
                if method == "POST" and path.partition("?")[0] == "/v1/messages":
                    exchange = Exchange(arrived, json.loads(body))
                    self.exchanges.append(exchange)
                    await self._answer(exchange, writer)
                elif method == "GET" and path.startswith("/v1/models/"):
                    await _respond(writer, "200 OK", _model())
                else:
                    error = {"type": "not_found_error", "message": path}
                    await _respond(writer, "404 Not Found", {"type": "error", "error": error})
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def hang_up(self) -> None:
        """End all connections."""
        for writer in self._connections.values():
            writer.close()
        await asyncio.gather(*self._connections)

    async def _answer(self, exchange: Exchange, writer: asyncio.StreamWriter) -> None:
        reply = self.reply(exchange.body)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for event, is_delta in self._events(reply):
            if is_delta and reply.pause:
                await asyncio.sleep(reply.pause)
            exchange.ended = perf_counter()
            writer.write(event)
            await writer.drain()

    def _events(self, reply: Reply) -> list[tuple[bytes, bool]]:
        """The stream's events in their chunks, made before the first is sent, and which of them are text."""
        self._calls += 1
        number = self._calls
        message: JsonObject = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(reply.tokens, 1),
        }
        events = [(_chunk("message_start", message=message), False)]
        index = 0
        if reply.deltas:
            events.append((_chunk("content_block_start", index=0, content_block={"type": "text", "text": ""}), False))
            for text in reply.deltas:
                delta = {"type": "text_delta", "text": text}
                events.append((_chunk("content_block_delta", index=0, delta=delta), True))
            if reply.hangs:
                return events
            events.append((_chunk("content_block_stop", index=0), False))
            index = 1
        for place, (name, arguments) in enumerate(reply.calls, index):
            block: JsonObject = {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            events.append((_chunk("content_block_start", index=place, content_block=block), False))
            events.append((_chunk("content_block_delta", index=place, delta=delta), False))
            events.append((_chunk("content_block_stop", index=place), False))
        stop = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
        events.append(
            (_chunk("message_delta", delta=stop, usage=_usage(reply.tokens, max(1, len(reply.deltas)))), False)
        )
        events.append((_chunk("message_stop") + b"0\r\n\r\n", False))
        return events


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


def _chunk(name: str, **data: Any) -> bytes:
    event = f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


def _usage(prompt: int, output: int) -> JsonObject:
    return {
        "input_tokens": prompt,
        "output_tokens": output,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }


def _model() -> JsonObject:
    return {
        "type": "model",
        "id": MODEL,
        "display_name": MODEL,
        "created_at": "2026-01-01T00:00:00Z",
        "max_input_tokens": WINDOW,
        "max_tokens": 64_000,
    }
