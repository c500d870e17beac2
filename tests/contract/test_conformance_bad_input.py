"""Whatever comes down the line: the right error, and the next request works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError, AgentProcess, connected_agent

PARSE_ERROR, INVALID_REQUEST, NOT_FOUND, INVALID_PARAMS, NO_SESSION = -32700, -32600, -32601, -32602, -32002

NO_JSON = [
    b"hello",
    b"{",
    b'{"jsonrpc": "2.0", "id": 1, "method": "session/list"',
    b"\xff\xfe\x00",
    b'{"jsonrpc": "2.0", "id": 1, "method": "session/l\xffist"}',
    b"NaN}",
]
NO_REQUEST = [
    b"42",
    b"null",
    b'"text"',
    b"true",
    b"{}",
    b'{"id": null}',
    b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "2.0", "id": null, "method": 7}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "session/list"}',
    b'{"jsonrpc": "2.0", "id": 1.5, "method": "session/list"}',
    b'{"jsonrpc": "2.0", "id": true, "method": "session/list"}',
]


async def still_works(agent: AgentProcess) -> None:
    assert "sessions" in await agent.request("session/list", {})


async def test_a_line_that_is_no_request_gets_the_right_error_with_a_null_id_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    async with connected_agent(home=tmp_path, laws=False) as agent:
        for lines, code in ((NO_JSON, PARSE_ERROR), (NO_REQUEST, INVALID_REQUEST)):
            for line in lines:
                await agent.send_line(line)
                error = await agent.read_error_with_null_id()
                assert error.code == code, line[:60]
                assert error.message
        await still_works(agent)
        assert agent.stderr == ""


NO_SENSE: list[tuple[dict[str, Any], int]] = [
    ({"method": "session/list", "jsonrpc": None}, INVALID_REQUEST),
    ({"method": "session/list", "jsonrpc": "1.0"}, INVALID_REQUEST),
    ({"method": ["session/list"]}, INVALID_REQUEST),
    ({"method": "session/list", "params": "text"}, INVALID_REQUEST),
    ({"method": "session/split", "params": {}}, NOT_FOUND),
    ({"method": "", "params": {}}, NOT_FOUND),
    ({"method": "__init__", "params": {}}, NOT_FOUND),
    ({"method": "session/prompt", "params": {"prompt": []}}, INVALID_PARAMS),
    ({"method": "session/prompt"}, INVALID_PARAMS),
    ({"method": "session/prompt", "params": {"sessionId": 7}}, INVALID_PARAMS),
    ({"method": "session/list", "params": {"cursor": 7}}, INVALID_PARAMS),
    ({"method": "authenticate", "params": {}}, INVALID_PARAMS),
]


async def test_a_request_that_makes_no_sense_is_answered_under_its_own_id(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        for number, (message, code) in enumerate(NO_SENSE):
            id = f"request {number}"
            await agent.send_line(json.dumps({"jsonrpc": "2.0", "id": id, **message}).encode())
            with pytest.raises(AgentError) as error:
                await agent.pending(id).result()
            assert error.value.code == code, message
            assert error.value.message
        await still_works(agent)


async def test_notifications_are_never_answered(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        await agent.notify("no/such", {})
        await agent.notify("session/cancel", {})
        await agent.notify("session/cancel")
        await agent.notify("session/list", {})
        await agent.notify("session/prompt", {"sessionId": "x"})
        await agent.send_line(b"")
        await agent.send_line(b"   ")
        await still_works(agent)
        assert agent.methods_between(1) == ["response session/list"]


async def test_answers_to_nothing_are_swallowed(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        for id in ("null", "999", '"x"', "1.5"):
            await agent.send_line(f'{{"jsonrpc": "2.0", "id": {id}, "result": {{}}}}'.encode())
            error = '{"code": -32602, "message": "Invalid params"}'
            await agent.send_line(f'{{"jsonrpc": "2.0", "id": {id}, "error": {error}}}'.encode())
        await still_works(agent)
        assert agent.methods_between(1) == ["response session/list"]


async def test_an_id_is_answered_as_it_was_sent(tmp_path: Path) -> None:
    async with connected_agent(home=tmp_path) as agent:
        for id in ("", "ü\n", 0, -1, 2**53, "1"):
            assert await (await agent.start_request("session/list", {}, id=id)).result() == {"sessions": []}
