"""Who may connect."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from acp_agent.authority import parse_authority
from acp_agent.cli import serve
from acp_agent.errors import AgentError
from acp_agent.server.web import AccessPolicy, parse_origin
from support.editors import BARE
from support.hosting import hosted
from support.models import Reply, ToolCall
from support.remote import serving, site
from support.stage import PATIENCE, results

TOKEN = "0123456789abcdef-secret"

MISLEADING_HOSTS = """
:8123 evil.example@localhost localhost@evil.example localhost:80@evil.example @localhost localhost,evil.example
localhost.evil.example evil.localhost localhost. 127.0.0.1. 127.0.0.1:8123. .localhost localhost/ localhost/a
[::1]evil.example [::1 ::1 ::1:8123 [::1]:8123:1 [::1%25lo] [fe80::1] [127.0.0.1] [::ffff:127.0.0.1] [v1.x]
localhost:1:2 localhost:http localhost:-1 localhost:99999 localhost:0 localhost:+80 localhost?x localhost#x
0x7f.1 0x7f000001 2130706433 017700000001 127.1 127.0.1 127.0.0.01 0.0.0.0 0 %6cocalhost xn--localhost-
\\localhost localhost\\@evil.example l\xf6calhost localh\xb2st http://localhost //localhost
"""
OTHER_ORIGINS = """
http:// http://user@localhost:8123 http://user:pass@localhost:8123 http://@localhost:8123 http:localhost
http://localhost:8123/ http://localhost:8123/a http://localhost:8123?a http://localhost:8123#a http://LOCALHOST
localhost:8123 //localhost:8123 ftp://localhost:8123 file:// evil://localhost:8123 about:blank data:
http://localhost:8123.evil.example http://localhost.:8123 http://localhost http://127.0.0.1:8123
http://evil.example#@localhost:8123 blob:http://localhost:8123 http://[::1]:8123 http://loc\xe4lhost:8123
"""


def refused(access: AccessPolicy, *more: tuple[str, str], **headers: str) -> int | None:
    """Return the status of a refusal, or None. `more` holds further values of repeated
    headers.
    """
    raw = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in (*headers.items(), *more)
    ]
    refusal = access.refusal(Headers(raw=raw))
    return None if refusal is None else refusal.status_code


async def status(address: str, **headers: str) -> int:
    """Of the response to an upgrade."""
    try:
        async with connect(address, additional_headers=headers):
            return 101
    except InvalidStatus as refusal:
        return refusal.response.status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8123"}, None),
        ({"host": "localhost:9000"}, None),  # a port that ssh forwards here
        ({"Host": "LOCALHOST"}, None),
        ({"host": "[::1]:8123"}, None),
        ({"host": "rebound.example:8123"}, 421),
        ({"host": "127.0.0.1.rebound.example"}, 421),
        ({}, 421),
        ({"host": "127.0.0.1:8123", "origin": "http://127.0.0.1:8123"}, 403),
        ({"host": "127.0.0.1:8123", "origin": "http://localhost:3000"}, 403),
        ({"host": "127.0.0.1:8123", "origin": "https://example.com"}, 403),
        ({"host": "127.0.0.1:8123", "origin": "null"}, 403),
        ({"host": "127.0.0.1:8123", "origin": "http://[oops"}, 403),
        ({"host": "[::1]"}, None),
        ({"host": "[0:0::1]:80"}, None),
        ({"host": "localhost:"}, None),
        *(
            ({"host": host}, 421)
            for host in (
                "",
                "localhost\t",
                "local host",
                "a" * 9_000,
                *MISLEADING_HOSTS.split(),
            )
        ),
        *(
            ({"host": "localhost:8123", "origin": origin}, 403)
            for origin in (
                "",
                "null, null",
                "http://localhost:8123 http://evil.example",
                *OTHER_ORIGINS.split(),
            )
        ),
        ({"host": "localhost", "origin": "http://localhost:80"}, 403),
        ({"host": "localhost:80", "origin": "http://localhost"}, 403),
        ({"host": "localhost:80", "origin": "https://localhost"}, 403),
    ],
)
def test_without_a_token_names_and_pages_that_are_not_this_machine_s_are_refused(
    headers: dict[str, str], status: int | None
) -> None:
    assert refused(AccessPolicy(None, ["127.0.0.1"]), **headers) == status


def test_a_header_that_is_sent_twice_is_refused_whatever_it_says() -> None:
    access = AccessPolicy(None, ["127.0.0.1"], [parse_origin("http://localhost:2718")])
    host = "127.0.0.1:8123"
    origin = "http://localhost:2718"
    for other in ("evil.example", host):
        assert refused(access, ("host", other), host=host) == 421
        assert refused(access, ("host", host), host=other) == 421
    for other in ("https://evil.example", "null", origin):
        assert refused(access, ("origin", other), host=host, origin=origin) == 403
        assert refused(access, ("origin", origin), host=host, origin=other) == 403


def test_a_page_of_an_earlier_server_at_the_same_address_is_refused_unless_it_is_named() -> (
    None
):
    for host in ("localhost:8123", "127.0.0.1:8123", "[::1]:8123", "localhost"):
        page = f"http://{host}"
        assert refused(AccessPolicy(None, ["127.0.0.1"]), host=host, origin=page) == 403
        named = AccessPolicy(None, ["127.0.0.1"], [parse_origin(page)])
        assert refused(named, host=host, origin=page) is None


@given(
    st.text(max_size=30)
    | st.from_regex(
        r"[a-z0-9.:@\[\]/%-]{0,20}(localhost|127\.0\.0\.1|\[::1\])[a-z0-9.:@\[\]/%-]{0,20}"
    )
)
def test_a_host_that_is_read_is_written_back_as_the_same_text(text: str) -> None:
    authority = parse_authority(text)
    if authority is not None and not authority.host.count(":"):
        port = "" if authority.port is None else str(authority.port)
        host, _, sent = text.lower().partition(":")
        assert (host, sent.lstrip("0")) == (authority.host, port)


REQUESTS = {
    "an absolute address": (
        b"GET http://127.0.0.1/acp HTTP/1.1",
        b"Host: localhost",
        403,
    ),
    "another's absolute address": (
        b"GET http://evil.example/acp HTTP/1.1",
        b"Host: localhost",
        403,
    ),
    "two hosts": (b"GET /acp HTTP/1.1", b"Host: localhost\r\nHost: evil.example", 400),
    "no host": (b"GET /acp HTTP/1.1", b"X: y", 400),
    "no host in HTTP/1.0": (b"GET /acp HTTP/1.0", b"X: y", 421),
    "a folded host": (b"GET /acp HTTP/1.1", b"Host: localhost\r\n .evil.example", 421),
    "a blank before the colon": (b"GET /acp HTTP/1.1", b"Host : localhost", 400),
    "userinfo": (b"GET /acp HTTP/1.1", b"Host: evil.example@localhost", 421),
    "two origins": (
        b"GET /acp HTTP/1.1",
        b"Host: localhost\r\nOrigin: null\r\nOrigin: http://localhost",
        400,
    ),
}


async def test_a_request_that_names_another_server_in_any_of_its_parts_opens_no_connection(
    tmp_path: Path,
) -> None:
    upgrade = (
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    async with hosted(tmp_path) as site:
        for name, (line, host, status) in REQUESTS.items():
            async with await anyio.connect_tcp("127.0.0.1", site.port) as one:
                await one.send(line + b"\r\n" + host + b"\r\n" + upgrade + b"\r\n")
                with anyio.fail_after(10):
                    answer = await one.receive()
            assert int(answer.split()[1]) == status, name


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", None),
        (f"bearer  {TOKEN}", None),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer \xff", 401),
        ("", 401),
        (None, 401),
    ],
)
def test_with_a_token_whoever_knows_it_comes_in_by_whatever_name(
    authorization: str | None, status: int | None
) -> None:
    headers = {"host": "agent.example", "origin": "https://agent.example"}
    more = {} if authorization is None else {"authorization": authorization}
    assert refused(AccessPolicy(TOKEN, ["0.0.0.0"]), **headers, **more) == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:2718", None),
        ("HTTP://LocalHost:2718", None),
        ("http://127.0.0.1:8123", 403),
        ("https://localhost:2718", 403),
        ("http://localhost:2719", 403),
        ("http://localhost:2718.example", 403),
        ("http://127.0.0.1:2718", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_an_origin_that_is_named_are_let_in_and_no_others(
    origin: str, status: int | None
) -> None:
    access = AccessPolicy(None, ["127.0.0.1"], [parse_origin("http://LOCALHOST:2718/")])
    assert refused(access, host="127.0.0.1:8123", origin=origin) == status
    assert refused(access, host="rebound.example:8123", origin=origin) == 421


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_command_does_not_find_the_token_where_the_environment_of_the_agent_can_be_read(
    tmp_path: Path,
) -> None:
    # A process of its own: the environment of one that was forked says nothing.
    env = {"ACP_AGENT_WIRE": "1", "PYTHONNODEBUGRANGES": "1"}
    halves = TOKEN.partition("-")
    words = [
        "tr '\\0' '\\n' < /proc/{pid}/environ",
        "echo looked",
        f"printf 'It is %s%s%s.' {halves[0]} {halves[1]} {halves[2]}",
    ]

    def answer(body: dict[str, Any]) -> Reply:
        if results(body):
            return Reply("Done.")
        command = "; ".join(words).format(pid=it.served.process.pid)
        return Reply(tool_calls=[ToolCall("shell", {"command": command})])

    async with site(tmp_path, script=answer, token=TOKEN, env=env) as it:
        async with it.client(env={"TOKEN": TOKEN}, capabilities=BARE) as agent:
            session = await it.opened(agent, "full-access")
            await agent.prompt(session, "Look", PATIENCE)
        [result] = results(it.server.calls[1].body)
    found, said = result.text.split("looked")
    assert "ACP_AGENT_WIRE=1" in found
    assert TOKEN not in found
    # Who finds it elsewhere has it, and it is not written down.
    assert f"It is {TOKEN}." in said
    recorded = "".join(
        path.read_text() for path in (it.home / "state" / "wire").iterdir()
    )
    assert "It is ***." in recorded
    assert TOKEN not in recorded


@pytest.mark.process
async def test_a_token_can_come_over_a_pipe_and_stands_in_no_file_then(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, pipe.write_text, TOKEN)
        async with serving(
            tmp_path / "home", "--websocket", "127.0.0.1:0", "--token-file", str(pipe)
        ) as served:
            assert await status(served.url()) == 401
            assert await status(served.url(), Authorization=f"Bearer {TOKEN}") == 101


@pytest.mark.process
@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1"])
async def test_on_an_address_that_other_machines_reach_the_agent_says_that_there_is_no_tls(
    tmp_path: Path, address: str
) -> None:
    env = {"ACP_AGENT_TOKEN": TOKEN}
    async with serving(
        tmp_path / "home", "--websocket", f"{address}:0", env=env
    ) as served:
        told = served.said.decode()
    assert ("There is no TLS" in told) is (address != "127.0.0.1")


REFUSED = {
    "not loopback": (
        ["--websocket", "0.0.0.0:0"],
        {},
        "0.0.0.0 is not a loopback address",
    ),
    "one of two": (
        ["--websocket", "127.0.0.1:0", "--websocket", "0.0.0.0:0"],
        {},
        "0.0.0.0 is not a loopback address",
    ),
    "a name": (
        ["--websocket", "agent.example:0"],
        {},
        "agent.example is not a loopback address",
    ),
    "a short token": (
        ["--websocket", "0.0.0.0:0"],
        {"ACP_AGENT_TOKEN": "short"},
        "ACP_AGENT_TOKEN has no token",
    ),
    "no file": (
        ["--token-file", "/nowhere"],
        {},
        "The token in /nowhere cannot be read (No such file or directory)",
    ),
    "no origin": (
        ["--origin", "localhost:2718"],
        {},
        "'localhost:2718' is not a web origin",
    ),
    "any origin": (["--origin", "*"], {}, "'*' is not a web origin"),
    "a page": (
        ["--origin", "http://localhost:2718/edit"],
        {},
        "'http://localhost:2718/edit' is not a web origin",
    ),
    "no address": (
        ["--websocket", "127.0.0.1:http"],
        {},
        "'127.0.0.1:http' is not an address",
    ),
    "no port": (["--websocket", f"127.0.0.1:{'1' * 5_000}"], {}, "'127.0.0.1:1"),
    "no brackets": (
        ["--websocket", "::1"],
        {},
        "'::1' is not an address. Write HOST:PORT, such as 127.0.0.1:8080",
    ),
    "a URL": (
        ["--websocket", "http://127.0.0.1:0"],
        {},
        "'http://127.0.0.1:0' is not an address",
    ),
    "not ours": (
        ["--websocket", "192.0.2.1:0"],
        {"ACP_AGENT_TOKEN": TOKEN},
        "Cannot listen on 192.0.2.1, port 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_be_served_is_said_in_a_sentence(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, env, said = REFUSED[case]
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    with pytest.raises(AgentError) as refusal:
        await serve.run(parser.parse_args(words))
    assert str(refusal.value).startswith(said)
    assert TOKEN not in str(refusal.value)


async def test_a_token_in_a_file_that_others_may_read_is_refused(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o640)
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    with pytest.raises(AgentError, match=f"chmod 600 {token}"):
        await serve.run(parser.parse_args(["--token-file", str(token)]))
