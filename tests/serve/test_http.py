"""Streamable HTTP, request by request, as ACP's RFD describes it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2

from acp_agent.jsonrpc.framing import MAX_LINE_BYTES
from support.models import Reply, ToolCall
from support.remote import GREETING, JSON, Served, serving, site
from support.stage import PATIENCE

EVENTS = {"Accept": "text/event-stream"}
NOBODY = "00000000-0000-4000-8000-000000000000"


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


class Events:
    """What came over a stream.

    :ivar messages: all that came so far.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.messages: list[dict[str, Any]] = []
        self.response = response
        self._lines = response.aiter_lines()

    async def until(self, **fields: Any) -> dict[str, Any]:
        """Read until a message has these fields."""
        with anyio.fail_after(PATIENCE):
            async for line in self._lines:
                if line.startswith("data: "):
                    message = json.loads(line.removeprefix("data: "))
                    self.messages.append(message)
                    if fields.items() <= message.items():
                        return message
        raise AssertionError(f"the stream ended before {fields}")

    async def rest(self) -> None:
        """Read to the end."""
        with anyio.fail_after(PATIENCE):
            async for _ in self._lines:
                pass

    def kinds(self) -> list[str]:
        """What each message is."""
        return [
            message.get("params", {}).get("update", {}).get("sessionUpdate") or message.get("method") or "response"
            for message in self.messages
        ]


@asynccontextmanager
async def listening(served: Served, connection: str, session: str | None = None) -> AsyncGenerator[Events, None]:
    """A stream that is open."""
    headers = {**EVENTS, "Acp-Connection-Id": connection, **({"Acp-Session-Id": session} if session else {})}
    async with served.http.stream("GET", "/acp", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        yield Events(response)


async def status(served: Served, method: str, headers: Mapping[str, str], content: bytes = b"") -> int:
    """Of a request that has none of what is not named."""
    return (await served.http.request(method, "/acp", headers=headers, content=content)).status_code


async def test_what_is_not_as_described_gets_the_status_that_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        greeting = json.dumps(GREETING).encode()
        connection = {"Acp-Connection-Id": await served.greet()}
        gone = {"Acp-Connection-Id": NOBODY}
        listing = json.dumps(request(1, "session/list")).encode()
        prompt = json.dumps(request(2, "session/prompt", sessionId="sess_1", prompt=[])).encode()
        answers = {
            "no content type": await status(served, "POST", {"Content-Type": "text/plain"}, greeting),
            "a charset": await status(served, "POST", {"Content-Type": "application/json; charset=utf-8"}, greeting),
            "no JSON": await status(served, "POST", JSON, b"{"),
            "no object": await status(served, "POST", JSON, b"42"),
            "a batch": await status(served, "POST", JSON, b"[" + greeting + b"]"),
            "initialize as a notification": await status(
                served, "POST", JSON, b'{"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": 1}}'
            ),
            "no connection": await status(served, "POST", JSON, listing),
            "a connection that is none": await status(served, "POST", {**JSON, **gone}, listing),
            "no session": await status(served, "POST", {**JSON, **connection}, prompt),
            "another session": await status(served, "POST", {**JSON, **connection, "Acp-Session-Id": "sess_2"}, prompt),
            "its session": await status(served, "POST", {**JSON, **connection, "Acp-Session-Id": "sess_1"}, prompt),
            "no events": await status(served, "GET", {**connection, "Accept": "application/json"}),
            "a stream of no connection": await status(served, "GET", EVENTS),
            "a stream of a connection that is none": await status(served, "GET", {**EVENTS, **gone}),
            "the end of nothing": await status(served, "DELETE", {}),
            "the end of a connection that is none": await status(served, "DELETE", gone),
            "another method": await status(served, "PUT", JSON, listing),
            "another place": (await served.http.get("/other")).status_code,
        }
        assert answers == {
            "no content type": 415,
            "a charset": 200,
            "no JSON": 400,
            "no object": 400,
            "a batch": 501,
            "initialize as a notification": 400,
            "no connection": 400,
            "a connection that is none": 404,
            "no session": 400,
            "another session": 400,
            "its session": 202,
            "no events": 406,
            "a stream of no connection": 400,
            "a stream of a connection that is none": 404,
            "the end of nothing": 400,
            "the end of a connection that is none": 404,
            "another method": 405,
            "another place": 404,
        }
        twice = [("Acp-Session-Id", "sess_1"), ("Acp-Session-Id", "sess_2")]
        both = await served.http.get("/acp", headers=[*{**EVENTS, **connection}.items(), *twice])
        assert (both.status_code, both.text) == (400, "The header Acp-Session-Id came 2 times: send it once.\n")
        broken = await served.http.post("/acp", headers=JSON, content=b"{")
        assert (broken.json()["id"], broken.json()["error"]["code"]) == (None, -32700)
        old = await served.post({**GREETING, "params": {"protocolVersion": 0}})
        assert (old.status_code, old.json()["error"]["code"]) == (200, -32022)
        assert "Acp-Connection-Id" not in old.headers


async def test_each_message_comes_on_the_stream_that_it_belongs_to(tmp_path: Path) -> None:
    write = ToolCall("write", {"path": "a.txt", "content": "new\n"})
    async with site(tmp_path, Reply("I write.", tool_calls=[write]), Reply("Written.")) as it:
        served = it.served
        connection = await served.greet()
        async with listening(served, connection) as own:
            new = await served.post(request(1, "session/new", cwd=str(it.folder), mcpServers=[]), connection=connection)
            assert (new.status_code, new.content) == (202, b"")
            session = (await own.until(id=1))["result"]["sessionId"]
            async with listening(served, connection, session) as events:
                prompt = request(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Write it"}])
                await served.post(prompt, connection=connection, session=session)
                asked = await events.until(method="session/request_permission")
                choice = {"outcome": {"outcome": "selected", "optionId": asked["params"]["options"][0]["optionId"]}}
                answer = {"jsonrpc": "2.0", "id": asked["id"], "result": choice}
                # What belongs to a session says so.
                assert (await served.post(answer, connection=connection)).status_code == 400
                assert (await served.post(answer, connection=connection, session="sess_other")).status_code == 400
                assert (await served.post(answer, connection=connection, session=session)).status_code == 202
                assert (await events.until(id=2))["result"] == {"stopReason": "end_turn"}
            assert "available_commands_update" in events.kinds()
            assert {"tool_call", "agent_message_chunk"} <= set(events.kinds())
            assert own.kinds() == ["response"]

            # What nobody reads waits; what was read does not come again.
            await served.post(
                request(3, "session/set_mode", sessionId=session, modeId="plan"), connection=connection, session=session
            )
            async with listening(served, connection, session) as events:
                await events.until(id=3)
            assert "current_mode_update" in events.kinds()
            assert "agent_message_chunk" not in events.kinds()

            # Another connection can listen before it opens the session, which is answered on its own stream.
            other = await served.greet()
            async with listening(served, other, session) as replayed, listening(served, other) as opened:
                load = request(4, "session/load", sessionId=session, cwd=str(it.folder), mcpServers=[])
                await served.post(load, connection=other, session=session)
                assert "modes" in (await opened.until(id=4))["result"]
                while "usage_update" not in replayed.kinds():
                    await replayed.until(method="session/update")
                assert {"user_message_chunk", "tool_call", "agent_message_chunk"} <= set(replayed.kinds())
                assert (await served.http.delete("/acp", headers={"Acp-Connection-Id": other})).status_code == 202
                await replayed.rest()
                await opened.rest()
            assert await status(served, "POST", {**JSON, "Acp-Connection-Id": other}, b"{}") == 404
            # Nothing of that is anything to the first one.
            await served.post(request(5, "session/list"), connection=connection)
            assert (await own.until(id=5))["result"]["sessions"][0]["sessionId"] == session
    assert (it.folder / "a.txt").read_text() == "new\n"


async def test_whoever_asks_for_a_stream_again_takes_it_over_from_a_reader_that_may_be_lost(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        served = it.served
        connection = await served.greet()
        async with listening(served, connection) as lost, listening(served, connection) as own:
            await lost.rest()
            new = request(1, "session/new", cwd=str(it.folder), mcpServers=[])
            await served.post(new, connection=connection)
            session = (await own.until(id=1))["result"]["sessionId"]
            async with listening(served, connection, session) as gone, listening(served, connection, session) as events:
                await gone.rest()
                mode = request(2, "session/set_mode", sessionId=session, modeId="plan")
                await served.post(mode, connection=connection, session=session)
                await events.until(id=2)
                await served.post(request(3, "session/list"), connection=connection)
                await own.until(id=3)
            # A session that is deleted has no stream any more.
            delete = request(4, "session/delete", sessionId=session)
            await served.post(delete, connection=connection, session=session)
            # Its answer waits, though the session is gone when it is there; the next one has nowhere else to go.
            await served.post(request(5, "session/delete", sessionId=session), connection=connection, session=session)
            await own.until(id=5)
            async with listening(served, connection, session) as events:
                await events.until(id=4)


async def test_a_request_for_a_session_that_is_none_is_answered_where_its_client_listens(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        connection = await served.greet()
        nowhere = {"cwd": str(tmp_path), "mcpServers": []}
        async with listening(served, connection) as own, listening(served, connection, "sess_no") as events:
            asked = {"session/prompt": {"prompt": []}, "session/resume": nowhere, "session/load": nowhere}
            for id, (method, params) in enumerate(asked.items(), 1):
                message = request(id, method, sessionId="sess_no", **params)
                await served.post(message, connection=connection, session="sess_no")
                stream = own if method == "session/load" else events
                assert "sess_no" in (await stream.until(id=id))["error"]["message"]
        # Who has opened no stream for it finds the answer in the connection's own.
        async with listening(served, connection) as own:
            message = request(4, "session/prompt", sessionId="sess_other", prompt=[])
            await served.post(message, connection=connection, session="sess_other")
            assert (await own.until(id=4))["error"]["code"] == -32002


async def test_a_message_that_is_too_long_is_refused_and_the_next_one_is_taken(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        connection = await served.greet()
        headers = {**JSON, "Acp-Connection-Id": connection}
        size = MAX_LINE_BYTES + 1

        async def long() -> AsyncGenerator[bytes, None]:
            for _ in range(size // 65_536 + 1):
                yield b" " * 65_536

        assert await status(served, "POST", headers, b" " * size) == 413
        unsized = await served.http.post("/acp", headers=headers, content=long())
        assert (unsized.status_code, unsized.json()["error"]["code"]) == (413, -32600)
        async with listening(served, connection) as own:
            await served.post(request(1, "session/list"), connection=connection)
            assert (await own.until(id=1))["result"] == {"sessions": []}


async def test_who_is_refused_for_what_a_request_is_can_send_the_rest_of_it_and_the_next_one(tmp_path: Path) -> None:
    head = b"POST /acp HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n"
    async with serving(tmp_path) as served, await anyio.connect_tcp("127.0.0.1", served.port) as one:
        got = b""
        with anyio.fail_after(10):
            for count in (1, 2):
                await one.send(head + b"12")
                await served.greet()  # so that it has had the time to answer
                await one.send(b"345")
                while got.count(b"HTTP/1.1 415") < count:
                    got += await one.receive()
