"""`acp-agent inspect`, as a person types it, and who is answered by the page that it serves."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acp_agent.cli.inspect.page import MARK
from acp_agent.conversation.events import SessionStarted
from acp_agent.storage.store import SessionStore
from support.called import call_command
from support.logs import LogBuilder
from support.stored import damage_texts
from support.terminal import AGENT, at_a_terminal, in_a_shell


@asynccontextmanager
async def store_of(home: Path, *sessions: str) -> AsyncGenerator[SessionStore]:
    """The store of the agent that `call_command` runs, with sessions of `home` in it."""
    (home / "state").mkdir(mode=0o700)
    store = await SessionStore.open(home / "state" / "sessions.db")
    try:
        for session in sessions:
            log = LogBuilder(cwd=str(home))
            log.prompt(f"This is {session}")
            log.step("Fine.")
            await store.create(session, str(home), (), log.events)
        yield store
    finally:
        await store.aclose()


async def test_the_newest_session_of_the_directory_is_written_for_the_user_alone(tmp_path: Path) -> None:
    async with store_of(tmp_path, "sess_old", "sess_new") as store:
        await store.create("sess_elsewhere", "/elsewhere", (), [SessionStarted("/elsewhere")])
    ran = await call_command(tmp_path, "inspect")
    assert (ran.code, ran.out, ran.err) == (0, "sess_new.html\n", "")
    page = tmp_path / "sess_new.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "This is sess_new" in page.read_text()

    named = await call_command(tmp_path, "inspect", "sess_o", "-o", "other.html")
    assert (named.code, named.out) == (0, "other.html\n")
    assert "This is sess_old" in (tmp_path / "other.html").read_text()
    assert (await call_command(tmp_path, "inspect", "sess_n", "-o", "other.html")).code == 0
    assert "This is sess_new" in (tmp_path / "other.html").read_text()


async def test_what_cannot_be_shown_is_said_and_no_file_of_somebody_else_is_replaced(tmp_path: Path) -> None:
    async with store_of(tmp_path, "sess_1", "sess_2"):
        pass
    (tmp_path / "index.html").write_text("<html>Mine.</html>")
    ran = await call_command(tmp_path, "inspect", "sess_1", "-o", "index.html")
    assert (ran.code, ran.out) == (1, "")
    assert "no page of this command" in ran.err
    assert (tmp_path / "index.html").read_text() == "<html>Mine.</html>"
    assert "no session" in (await call_command(tmp_path, "inspect", "sess_9")).err
    assert "2 sessions' ids" in (await call_command(tmp_path, "inspect", "sess_")).err
    assert "cannot be written" in (await call_command(tmp_path, "inspect", "-o", "no/such/folder.html")).err


async def test_an_entry_that_cannot_be_read_is_told_with_its_session_and_its_number(tmp_path: Path) -> None:
    async with store_of(tmp_path, "sess_1"):
        pass
    damage_texts(tmp_path, "Fine.", '"')
    ran = await call_command(tmp_path, "inspect")
    assert (ran.code, ran.out) == (1, "")
    assert "sess_1: The session's log holds an entry (number 4, 'assistant_answered')" in ran.err


async def test_a_page_goes_to_who_reads_it_from_a_pipe_and_nobody_else_holds_the_command_up(tmp_path: Path) -> None:
    async with store_of(tmp_path, "sess_1"):
        pass
    ran = await in_a_shell(tmp_path, f"{AGENT} inspect -o /dev/stdout | cat", {})
    assert (ran.out[: len(MARK)], ran.out[-8:], ran.err) == (MARK, "</html>\n", "")
    redirected = await in_a_shell(tmp_path, f"{AGENT} inspect -o - > page.html; cat page.html", {})
    assert redirected.out == ran.out

    os.mkfifo(tmp_path / "pipe")
    reads = await in_a_shell(tmp_path, f"cat pipe > read.html & {AGENT} inspect -o pipe; wait; cat read.html", {})
    assert reads.out == ran.out


async def asked(port: int, request: str) -> str:
    """What the page's server answers, to its end."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request.encode())
        answer = b""
        try:
            while True:
                answer += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return answer.decode()


async def test_the_page_is_served_to_who_has_its_address_and_no_web_site_gets_it(tmp_path: Path) -> None:
    async with (
        store_of(tmp_path, "sess_1") as store,
        at_a_terminal(tmp_path, "inspect", "--serve", "localhost:0", env={}) as person,
    ):
        with anyio.fail_after(30):
            await person.until("Ctrl-c ends it.")
            address = person.shown.split()[0]
            port, word = int(address.split(":")[2].partition("/")[0]), address.rstrip("/").rpartition("/")[2]
            for name in ("127.0.0.1", "localhost"):
                page = await asked(port, f"GET /{word}/ HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n")
                assert page.startswith("HTTP/1.1 200 OK\r\n")
                assert "This is sess_1" in page
                assert "connect-src &#x27;self&#x27;" in page
                assert "no-store" in page
            own = f"Host: 127.0.0.1:{port}\r\n"
            data = await asked(port, f"GET /{word}/data HTTP/1.1\r\n{own}\r\n")
            assert json.loads(data.partition("\r\n\r\n")[2])["title"] == "This is sess_1"
            for refused, request in {
                "421": f"GET /{word}/ HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n",
                "421 ": f"GET /{word}/ HTTP/1.1\r\n\r\n",
                "421  ": f"GET /{word}/ HTTP/1.1\r\n{own}Host: evil.example\r\n\r\n",
                "404": f"GET / HTTP/1.1\r\n{own}\r\n",
                "404 ": f"GET /{word[:-1]}x/ HTTP/1.1\r\n{own}\r\n",
                "404  ": f"GET /{word}/other HTTP/1.1\r\n{own}\r\n",
                "405": f"POST /{word}/ HTTP/1.1\r\n{own}\r\n",
            }.items():
                answer = await asked(port, request)
                assert answer.startswith(f"HTTP/1.1 {refused.strip()} ")
                assert "sess_1" not in answer
            assert await asked(port, f"GET /{'x' * 20_000} HTTP/1.1\r\n{own}\r\n") == ""
            await store.delete("sess_1")
            assert (await asked(port, f"GET /{word}/data HTTP/1.1\r\n{own}\r\n")).startswith("HTTP/1.1 410 ")


@pytest.mark.parametrize(
    "text", ["", "[::2]:80", "127.0.0.1:70000", "127.0.0.1:x", "0.0.0.0:80", "example.org:80", "192.168.0.1"]
)
async def test_nothing_but_an_address_of_loopback_is_served(tmp_path: Path, text: str) -> None:
    ran = await call_command(tmp_path, "inspect", "--serve", text)
    assert (ran.code, ran.out) == (1, "")
    assert "127.0.0.1" in ran.err
