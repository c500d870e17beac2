"""A program between an editor on stdin and stdout and an agent elsewhere: lines in and
out, over WebSocket.

    python bridge.py ws://127.0.0.1:8123/acp

So that all test support for agents on stdin and stdout works with one that serves.
`TOKEN` in the environment is sent. It follows ACP's description of the transport for
clients; whatever is not as described there is said on stderr. Ends with 0 when its
stdin ends, and with 1 when the agent ends the connection.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator

import anyio
from websockets.asyncio.client import connect

LONGEST = 128 << 20


async def lines() -> AsyncIterator[bytes]:
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
    view = memoryview(data + b"\n")
    while view:
        view = view[os.write(1, view) :]


def complain(problem: str) -> None:
    # Which fails the test.
    print(f"Traceback (most recent call last): {problem}", file=sys.stderr, flush=True)


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


async def main() -> int:
    headers = (
        {"Authorization": f"Bearer {os.environ['TOKEN']}"}
        if "TOKEN" in os.environ
        else {}
    )
    return await over_websocket(sys.argv[1], headers)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
