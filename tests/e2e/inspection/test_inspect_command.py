"""`acp-agent inspect`, as a person types it, and who is answered by the page that it
serves.
"""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from acp_agent.conversation.events import (
    AssistantAnswered,
    ModelChanged,
    SessionStarted,
)
from acp_agent.conversation.messages import AssistantMessage, Text, Thinking
from acp_agent.storage.store import SessionStore
from support.called import call_command
from support.logs import LogBuilder
from support.terminal import at_a_terminal

MODEL = "anthropic/claude-sonnet-5-5"


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


async def test_the_newest_session_of_the_directory_is_written_for_the_user_alone(
    tmp_path: Path,
) -> None:
    async with store_of(tmp_path, "sess_old", "sess_new") as store:
        await store.create(
            "sess_elsewhere", "/elsewhere", (), [SessionStarted("/elsewhere")]
        )
    ran = await call_command(tmp_path, "inspect")
    assert (ran.code, ran.out, ran.err) == (0, "sess_new.html\n", "")
    page = tmp_path / "sess_new.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "This is sess_new" in page.read_text()

    named = await call_command(tmp_path, "inspect", "sess_o", "-o", "other.html")
    assert (named.code, named.out) == (0, "other.html\n")
    assert "This is sess_old" in (tmp_path / "other.html").read_text()
    assert (
        await call_command(tmp_path, "inspect", "sess_n", "-o", "other.html")
    ).code == 0
    assert "This is sess_new" in (tmp_path / "other.html").read_text()


async def test_each_answer_says_whether_its_reasoning_is_still_sent(
    tmp_path: Path,
) -> None:
    sealed = [
        Thinking(
            "Hm.", "anthropic", {"type": "thinking", "signature": f"sealed-{number}"}
        )
        for number in (1, 2)
    ]
    async with store_of(tmp_path) as store:
        log = LogBuilder(cwd=str(tmp_path))
        log.add(ModelChanged(MODEL))
        for number, thought in enumerate(sealed):
            log.prompt(f"Question {number}")
            parts = (thought, Text(f"Answer {number}"))
            log.add(AssistantAnswered(AssistantMessage(f"a{number}", parts, MODEL)))
            log.end()
        log.withhold(["a0"], final=True)
        await store.create("sess_1", str(tmp_path), (), log.events)
    assert (
        await call_command(tmp_path, "inspect", "sess_1", "-o", "page.html")
    ).code == 0
    page = (tmp_path / "page.html").read_text()
    withheld = page.index("No longer sent.")
    sent = page.index("Sent with the next request to the model.")
    assert page.index("Question 0") < withheld < page.index("Question 1") < sent


async def test_what_cannot_be_shown_is_said_and_no_file_of_somebody_else_is_replaced(
    tmp_path: Path,
) -> None:
    async with store_of(tmp_path, "sess_1", "sess_2"):
        pass
    (tmp_path / "index.html").write_text("<html>Mine.</html>")
    ran = await call_command(tmp_path, "inspect", "sess_1", "-o", "index.html")
    assert (ran.code, ran.out) == (1, "")
    assert "was not written by this command" in ran.err
    assert (tmp_path / "index.html").read_text() == "<html>Mine.</html>"
    assert "is not a session" in (await call_command(tmp_path, "inspect", "sess_9")).err
    assert "2 session ids" in (await call_command(tmp_path, "inspect", "sess_")).err
    assert (
        "cannot be written"
        in (await call_command(tmp_path, "inspect", "-o", "no/such/folder.html")).err
    )


@pytest.mark.process
async def test_the_page_is_served_to_who_has_its_address_and_no_web_site_gets_it(
    tmp_path: Path,
) -> None:
    async with (
        store_of(tmp_path, "sess_1") as store,
        at_a_terminal(tmp_path, "inspect", "--serve", env={}) as person,
        httpx2.AsyncClient(trust_env=False) as browser,
    ):
        with anyio.fail_after(30):
            await person.until("Ctrl-c ends it.")
            page = httpx2.URL(person.shown.split()[0])
            for name in ("127.0.0.1", "localhost"):
                answer = await browser.get(
                    page, headers={"Host": f"{name}:{page.port}"}
                )
                assert answer.status_code == 200
                assert "This is sess_1" in answer.text
                assert "connect-src &#x27;self&#x27;" in answer.text
                assert answer.headers["cache-control"] == "no-store"
            shown = (await browser.get(page.join("data"))).json()
            assert shown["title"] == "This is sess_1"
            assert (
                await browser.get(page.join(f"data?{shown['head']}"))
            ).status_code == 204
            for path, host, status in (
                (page.path, "evil.example", 421),
                ("/", "localhost", 404),
                (f"{page.path[:-2]}x/", "localhost", 404),
                (f"{page.path}other", "localhost", 404),
            ):
                answer = await browser.get(
                    page.join(path), headers={"Host": f"{host}:{page.port}"}
                )
                assert answer.status_code == status
                assert "sess_1" not in answer.text
            await store.delete("sess_1")
            assert (await browser.get(page.join("data"))).status_code == 410
