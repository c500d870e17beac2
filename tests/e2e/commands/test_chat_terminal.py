"""`acp-agent chat` and its terminal: one that goes, a dumb one, a narrow one, and none."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import anyio
import pytest

from support.called import call_command
from support.compactions import messages
from support.models import Reply, ToolCall, model_server
from support.screens import CTRL_D, leaves, sends, watching

READY = "context empty"


@pytest.mark.process
async def test_nothing_that_the_model_or_a_file_says_is_obeyed_by_the_terminal(
    tmp_path: Path,
) -> None:
    evil = [
        "Look: \x1b",
        "[31mred\x1b]0;title",
        "\x07 \x9b2J \x1bP+q\x1b\\ over\rALLOWED\x08\x08 \u202egnp.exe end\n",
    ]
    (tmp_path / "a\x1b[2J.txt").write_text("\x1b]52;c;aGk=\x07clipboard\n")
    read = ToolCall("read", {"path": "a\x1b[2J.txt"})
    shell = ToolCall("shell", {"command": "echo \x1b[2J\x1b]0;owned\x07"})
    script = [
        Reply(evil, thinking="\x1b[1mhm\x1b[0m", tool_calls=[read]),
        Reply(tool_calls=[shell]),
        Reply("Over."),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            env = {**server.env(), "NO_COLOR": "1"}
            async with watching(tmp_path, "chat", env=env) as person:
                await person.until(READY)
                await sends(person, "Go.")
                await person.until("Allow?")
                person.type(CTRL_D)
                await person.until("Over.")
                await leaves(person)
            for sequence in (
                b"\x1b[31mred",
                b"\x1b]",
                b"\x07",
                b"\xc2\x9b",
                b"\x1bP",
                b"\x1b[2J",
                b"\x08\x08",
                b"\xe2\x80\xae",
            ):
                assert sequence not in person.raw, sequence
            assert not re.search(rb"\x1b\[[0-9;]*(?:3[0-9]|9[0-7]|4[0-8])m", person.raw)
            assert "red" in person.text
            assert "overALLOWED" in person.text
            assert "Nobody is here to ask" in str(messages(server.calls[2].body)[-1])


@pytest.mark.process
async def test_lines_that_are_pasted_without_a_mark_reach_the_model_as_one_prompt(
    tmp_path: Path,
) -> None:
    async with model_server([Reply("Done.")], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                person.type("请联网搜索：\nline 2\nline 3")
                await person.until("line 3")
                person.type("\r")
                await person.until("Done.")
                await leaves(person)
        [call] = server.calls[:1]
        assert "请联网搜索：\nline 2\nline 3" in str(
            messages(call.body)[-1]["content"]
        ).replace("\\n", "\n")


@pytest.mark.process
async def test_a_closed_terminal_saves_what_was_said(tmp_path: Path) -> None:
    async with model_server(
        [Reply(["Some ", *["words "] * 5_000], delay=0.01)], "openai"
    ) as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                assert not person.echoes
                await sends(person, "Say it.")
                await person.until("Some words")
                # Which of both is seen first.
                assert await person.closes() in (
                    1,
                    128 + signal.SIGHUP,
                )
            await server.wait_aborted()
        async with watching(tmp_path, "chat", "--follow", env=server.env()) as person:
            with anyio.fail_after(50):
                await person.until("Some words")
                assert "> Say it." in person.rows


@pytest.mark.process
async def test_an_opened_session_says_how_many_prompts_it_leaves_out_and_shows_attachments_as_one_prompt(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("Alpha.")
    (tmp_path / "b.txt").write_text("Beta.")
    async with model_server([Reply("Yes.")] * 4, "openai") as server:
        for words in (
            ["One."],
            ["--follow", "Two."],
            ["--follow", "Three."],
            ["--follow", "Read @a.txt and @b.txt now."],
        ):
            ran = await call_command(tmp_path, "run", *words, env=server.env())
            assert ran.code == 0, ran.err
        with anyio.fail_after(50):
            async with watching(
                tmp_path, "chat", "--follow", env=server.env()
            ) as person:
                await person.until("(2 earlier prompts not shown; `/export` writes")
                await person.until("now.")
                shown = [row for row in person.rows if row.startswith("> ")]
                assert shown == ["> Three.", "> Read"]
                assert "   now." in person.rows
                await person.until_so(lambda: person.bottom.startswith("ask · "))
                await leaves(person)


async def test_without_a_terminal_that_moves_its_cursor_the_way_to_ask_is_said(
    tmp_path: Path,
) -> None:
    ran = await call_command(tmp_path, "chat")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("acp-agent: `chat` needs a terminal")
    assert '`acp-agent run "…"`' in ran.err
