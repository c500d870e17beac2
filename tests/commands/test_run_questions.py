"""The questions of `acp-agent run`, with somebody at the terminal, with nobody, and with somebody who leaves."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from support.compactions import messages
from support.models import ModelServer, Reply, ToolCall, model_server
from support.terminal import AGENT, at_a_terminal, in_a_shell, run_command

TOUCH = ToolCall("shell", {"command": "touch ran"})


def told(server: ModelServer, request: int) -> str:
    """The text of the last result in a request."""
    return messages(server.calls[request].body)[-1]["content"][0]["content"][0]["text"]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
async def test_an_open_question_does_not_hold_up_the_end(tmp_path: Path, sent: signal.Signals) -> None:
    async with (
        model_server([Reply("I run.", tool_calls=[TOUCH])], "openai") as server,
        at_a_terminal(tmp_path, "run", "Run it.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("Allow?")
            if sent is signal.SIGINT:
                person.type("\x03")
            else:
                person.send_signal(sent)
            assert await person.ended() == 128 + sent
        assert "(cancelled)" in person.shown
        assert "acp-agent: interrupted." in person.shown
        assert "Traceback" not in person.shown
        assert not (tmp_path / "ran").exists()


async def test_a_terminal_that_is_closed_ends_the_command_as_shells_have_it(tmp_path: Path) -> None:
    async with (
        model_server([Reply("I run.", tool_calls=[TOUCH])], "openai") as server,
        at_a_terminal(tmp_path, "run", "Run it.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("Allow?")
            assert await person.closes() == 128 + signal.SIGHUP
        assert not (tmp_path / "ran").exists()
    assert "sess_" in (await run_command(tmp_path, "sessions")).out


async def test_the_rest_of_an_answer_that_was_interrupted_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    async with (
        model_server([Reply(["Some ", *["words "] * 2_000], delay=0.01)], "openai") as server,
        at_a_terminal(tmp_path, "run", "Say it.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("words")
            # What is not stored is not shown: with the store locked, there is a rest when the interrupt comes.
            with closing(sqlite3.connect(tmp_path / "state" / "sessions.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await run_command(tmp_path, "--version")  # long enough for more to come
                person.send_signal(signal.SIGINT)
                await server.wait_aborted()
                other.execute("COMMIT")
            assert await person.ended() == 128 + signal.SIGINT
        assert re.fullmatch(r"Some (words )+\r\nsess_\w+: .*\r\n.*interrupted\.\r\n", person.shown)


async def test_a_terminal_obeys_nothing_of_an_answer_and_another_program_gets_all_of_it(tmp_path: Path) -> None:
    script = [Reply(["\x1b[2J\x1b]0;title\x07 \x9b2J ", "\x1b", "[31mSo."]) for _ in range(2)]
    async with model_server(script, "openai") as server:
        async with at_a_terminal(tmp_path, "run", "Say it.", env=server.env()) as person:
            with anyio.fail_after(40):
                assert await person.ended() == 0
        assert not {"\x1b", "\x07", "\x9b"} & set(person.shown)
        assert "So." in person.shown
        piped = await run_command(tmp_path, "run", "Say it.", env=server.env())
        assert piped.out == "\x1b[2J\x1b]0;title\x07 \x9b2J \x1b[31mSo.\n"


async def test_a_secret_that_an_answer_says_piece_by_piece_is_not_shown_and_another_program_gets_it(
    tmp_path: Path,
) -> None:
    key = "Zq9aB3dE5fG7haB3dE5fG7h"
    script = [Reply(["Your key is ", *key, " now. The", " end."], delay=0.03) for _ in range(2)]
    async with model_server(script, "openai") as server:
        env = {**server.env(), "MY_API_KEY": key}
        async with at_a_terminal(tmp_path, "run", "Say it.", env=env) as person:
            with anyio.fail_after(40):
                assert await person.ended() == 0
        assert person.shown.startswith("Your key is *** now. The end.\r\n")
        assert (await run_command(tmp_path, "run", "Say it.", env=env)).out == f"Your key is {key} now. The end.\n"


async def test_who_leaves_in_place_of_an_answer_is_not_there_and_who_answers_is(tmp_path: Path) -> None:
    script = [Reply("I run.", tool_calls=[TOUCH]), Reply("Again.", tool_calls=[TOUCH]), Reply("Ran.")]
    async with (
        model_server(script, "openai") as server,
        at_a_terminal(tmp_path, "run", "Run it.", env=server.env()) as person,
    ):
        with anyio.fail_after(40):
            await person.until("Allow?")
            person.type("\x04")
            await person.until("nobody is here to ask")
            assert not (tmp_path / "ran").exists()
            await person.until("Allow?", times=2)
            person.type("y\n")
            assert await person.ended() == 0
        assert told(server, 1).startswith("Nobody is here to ask, so nothing was done.")
        assert (tmp_path / "ran").exists()


async def test_closed_streams_are_nobody_there_and_nobody_who_listens(tmp_path: Path) -> None:
    script = [Reply("I run.", tool_calls=[TOUCH]), Reply("Not.")]
    async with model_server(script, "openai") as server:
        ran = await in_a_shell(tmp_path, f"{AGENT} run Hi. <&- 2>&-", server.env())
        assert (ran.code, ran.out) == (0, "I run.\nNot.\n")
        assert told(server, 1).startswith("Nobody is here to ask, so nothing was done.")


async def test_without_somebody_to_ask_nothing_that_needs_permission_runs(tmp_path: Path) -> None:
    call = ToolCall("shell", {"command": "touch ran"})
    script = [Reply("I run.", tool_calls=[call]), Reply("Not."), Reply("I run.", tool_calls=[call]), Reply("Ran.")]
    async with model_server(script, "openai") as server:
        refused = await run_command(tmp_path, "run", "Run it.", env=server.env())
        assert refused.code == 0
        assert "--mode full-access." in refused.err
        assert not (tmp_path / "ran").exists()
        assert told(server, 1).startswith("Nobody is here to ask, so nothing was done.")
        assert (
            await run_command(tmp_path, "run", "--mode", "full-access", "--follow", "Again.", env=server.env())
        ).code == 0
        assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("path", "mode", "named"),
    [
        ("a.txt", "ask", "accept-edits or full-access"),
        (".git/hooks/pre-commit", "ask", "full-access"),
        (".acp-agent/config.yaml", "accept-edits", "full-access"),
        ("../outside.txt", "accept-edits", "full-access"),
    ],
)
async def test_without_somebody_to_ask_the_modes_are_named_that_would_allow_this_very_call(
    tmp_path: Path, path: str, mode: str, named: str
) -> None:
    call = ToolCall("write", {"path": path, "content": "x"})
    async with model_server([Reply("I write.", tool_calls=[call]), Reply("Not.")], "openai") as server:
        refused = await run_command(tmp_path, "run", "--mode", mode, "Write it.", env=server.env())
    assert f"Allow it with --mode {named}." in refused.err


async def test_what_the_model_asks_is_typed_and_not_offered_where_nobody_can(tmp_path: Path) -> None:
    options = [{"label": "Rewrite", "description": "All of it"}, {"label": "Mend"}]
    asked = [{"question": "Which way?", "options": options}, {"question": "What name?"}]
    script = [Reply(tool_calls=[ToolCall("ask_user", {"questions": asked})]), Reply("So be it."), Reply("Alone.")]
    async with model_server(script, "openai") as server:
        async with at_a_terminal(tmp_path, "run", "Ask me.", env=server.env()) as person:
            with anyio.fail_after(40):
                await person.until("2. Mend")
                await person.until("number or name>")
                person.type("7\n")
                await person.until("is none of its choices")
                await person.until("number or name>", times=2)
                person.type("2\n")
                await person.until("What name?")
                person.type("Ada\n")
                assert await person.ended() == 0
        assert told(server, 1) == "Which way?\n→ Mend\n\nWhat name?\n→ Ada"
        assert (await run_command(tmp_path, "run", "Alone.", env=server.env())).code == 0
        offered = [[tool["name"] for tool in call.body["tools"]] for call in server.calls]
        assert ["ask_user" in names for names in offered] == [True, True, False]
