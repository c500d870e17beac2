"""A program between an editor on stdin and stdout and an agent elsewhere: lines in and out, over WebSocket or HTTP.

    python bridge.py ws://127.0.0.1:8123/acp            # or http://…, which is HTTP/2; http1://… is HTTP/1.1

So that all test support for agents on stdin and stdout works with one that serves. `TOKEN` in the environment is sent.
It follows ACP's description of the transport for clients; whatever is not as described there is said on stderr. Ends
with 0 when its stdin ends, and with 1 when the agent ends the connection. Imports nothing of acp_agent.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from websockets.asyncio.client import connect

sys.path.append(str(Path(__file__).parents[1]))
from support.http2 import OneConnection

LONGEST = 128 << 20


async def lines() -> AsyncIterator[bytes]:
    """What the editor says."""
    rest = b""
    while True:
        await anyio.wait_readable(0)
        chunk = os.read(0, 1 << 20)
        if not chunk:
            return
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def say(data: bytes) -> None:
    """Tell the editor something."""
    view = memoryview(data + b"\n")
    while view:
        view = view[os.write(1, view) :]


def complain(problem: str) -> None:
    """Something is not as described."""
    print(f"Traceback (most recent call last): {problem}", file=sys.stderr, flush=True)  # which fails the test


async def over_websocket(url: str, headers: dict[str, str]) -> int:
    """A message is a text frame."""
    status = 1
    async with connect(url, additional_headers=headers, max_size=LONGEST) as socket:
        assert socket.response is not None
        if "Acp-Connection-Id" not in socket.response.headers:
            complain("no Acp-Connection-Id on the upgrade")
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                async for message in socket:
                    say(message.encode() if isinstance(message, str) else message)
                tasks.cancel_scope.cancel()

            tasks.start_soon(read)
            async for line in lines():
                await socket.send(line.decode())
            status = 0
            tasks.cancel_scope.cancel()
    return status


class OverHttp:
    """POST for what the editor says, a stream of events for the connection and for each session."""

    def __init__(self, client: httpx2.AsyncClient, url: str, tasks: TaskGroup, version: str) -> None:
        self._client = client
        self._url = url
        self._tasks = tasks
        self._version = version
        self._named: dict[str, str] = {}
        self._open: dict[str, anyio.Event] = {}
        self._asked: dict[Any, str] = {}
        self._closing = False

    async def run(self) -> None:
        """Until the editor has gone."""
        async for line in lines():
            message = json.loads(line)
            if not self._named:
                await self._initialize(message, line)
            else:
                await self._post(message, line)
        self._closing = True
        response = await self._client.delete(self._url, headers=self._named)
        if response.status_code != 202:
            complain(f"DELETE: {response.status_code}")

    async def _initialize(self, message: dict[str, Any], line: bytes) -> None:
        response = await self._client.post(self._url, content=line, headers={"Content-Type": "application/json"})
        if response.status_code != 200 or response.http_version != self._version:
            complain(f"initialize: {response.http_version} {response.status_code} {response.text}")
        connection_id, answer = response.headers.get("Acp-Connection-Id"), response.json()
        if connection_id is not None:
            # Of the transport, and not of the protocol's schema.
            if answer["result"].pop("connectionId", None) != connection_id:
                complain(f"initialize: {answer}")
            self._named = {"Acp-Connection-Id": connection_id}
            await self._listen("")
        say(json.dumps(answer).encode())

    async def _post(self, message: dict[str, Any], line: bytes) -> None:
        params = message.get("params")
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        if "method" not in message:
            session_id = self._asked.pop(message["id"], None)
        headers = {**self._named, "Content-Type": "application/json"}
        if isinstance(session_id, str):
            headers["Acp-Session-Id"] = session_id
            await self._listen(session_id)
        response = await self._client.post(self._url, content=line, headers=headers)
        if response.status_code != 202 or response.content:
            complain(f"{line[:200]!r}: {response.status_code} {response.text}")

    async def _listen(self, session_id: str) -> None:
        """Open a stream, unless it is open."""
        if session_id not in self._open:
            self._open[session_id] = anyio.Event()
            self._tasks.start_soon(self._read, session_id)
        await self._open[session_id].wait()

    async def _read(self, session_id: str) -> None:
        headers = {**self._named, "Accept": "text/event-stream"}
        if session_id:
            headers["Acp-Session-Id"] = session_id
        async with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code != 200:
                complain(f"GET for {session_id or 'the connection'}: {response.status_code}")
            self._open[session_id].set()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    self._told(session_id, line.removeprefix("data: "))
        if not session_id and not self._closing:
            os._exit(1)

    def _told(self, stream: str, line: str) -> None:
        message = json.loads(line)
        params, result = message.get("params"), message.get("result")
        named = params.get("sessionId", "") if isinstance(params, dict) else stream
        if named != stream:
            complain(f"on the stream of {stream or 'the connection'}: {line[:200]}")
        if "method" in message and "id" in message and stream:
            self._asked[message["id"]] = stream
        say(line.encode())
        if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            self._tasks.start_soon(self._listen, result["sessionId"])


async def over_http(url: str, headers: dict[str, str], *, second: bool) -> int:
    """With HTTP/2, or with 1.1."""
    async with anyio.create_task_group() as tasks:
        limits = httpx2.Limits(max_connections=None)
        transport = OneConnection(tasks) if second else httpx2.AsyncHTTPTransport(limits=limits)
        async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=None) as client:
            await OverHttp(client, url, tasks, "HTTP/2" if second else "HTTP/1.1").run()
            tasks.cancel_scope.cancel()
    return 0


async def main() -> int:
    """Choose by the address."""
    url = sys.argv[1]
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"} if "TOKEN" in os.environ else {}
    if url.startswith("ws:"):
        return await over_websocket(url, headers)
    return await over_http(url.replace("http1:", "http:", 1), headers, second=url.startswith("http:"))


if __name__ == "__main__":
    sys.exit(anyio.run(main))
