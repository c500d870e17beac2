"""What a person types in `acp-agent chat`, and what they see while they do."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from acp_agent.conversation.updates import Command
from support.chat import Person, typing
from support.screens import CTRL_C, CTRL_D, CTRL_R, ENTER, ESCAPE, TAB, UP


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src/cart.py", "src/cards.txt", "my notes/deep/cart.py", ".hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "menu", "keys", "completed"),
    [
        ("/cont", "What fills it", TAB, "> /context"),
        ("/text", "What fills it", TAB, "> /context"),
        ("/pi", "/pin [text]", TAB, "> /pin"),
        ("See @", " src/", "src/cart", "> See @src/cart"),
        ("See @src/cart", " cart.py", TAB, "> See @src/cart.py"),
        ('See @"my notes/', " deep/", TAB, '> See @"my notes/deep/'),
        ("See @.h", " .hidden", TAB, "> See @.hidden"),
    ],
)
async def test_commands_and_mentions_are_offered_and_completed(
    project: Path, typed: str, menu: str, keys: str, completed: str
) -> None:
    async with typing(project) as person:
        person.completer.commands = (Command("context", "What fills it"), Command("pin", "Keep it", "text"))
        person.type(typed)
        await person.sees(menu)
        person.type(keys)
        await person.sees(completed)


async def test_lines_that_were_typed_or_pasted_stay_one_prompt_and_are_there_again_another_day(tmp_path: Path) -> None:
    async with typing(tmp_path) as person:
        person.type(f"First{ESCAPE}{ENTER}line{ENTER}")
        assert await person.input() == "First\nline"
        person.type(f"\x1b[200~a\n\nb\x1b[201~{ENTER}")
        assert await person.input() == "a\n\nb"
    async with typing(tmp_path) as person:
        person.type(UP)
        await person.sees("  b")
        person.type(f"{CTRL_C}{CTRL_R}irst")
        await person.sees("> First")
        person.type(ENTER * 2)
        assert await person.input() == "First\nline"


@pytest.mark.parametrize(
    ("typed", "prompt"),
    [
        ("请联网搜索：\rline 2\rline 3", "请联网搜索：\nline 2\nline 3"),
        ("one\ntwo", "one\ntwo"),
        ("one\r\n\r\n\tthree", "one\n\n\tthree"),
        ("\n".join(f"line {number} of a long paste" for number in range(300)),) * 2,
        ("x" * 1023 + "\r" + "second" + "\r" + "y" * 3000, "x" * 1023 + "\nsecond\n" + "y" * 3000),
    ],
)
@pytest.mark.parametrize("end", ["", "\r", "\r\n"])
async def test_lines_that_come_at_once_are_one_prompt_also_where_the_terminal_does_not_mark_a_paste(
    tmp_path: Path, typed: str, prompt: str, end: str
) -> None:
    async with typing(tmp_path) as person:
        person.type(typed + end)
        if not end:
            await person.sees(prompt.rsplit(maxsplit=1)[-1][-20:])
            person.type(ENTER)
        assert await person.input() == prompt
        person.type(f"next{ENTER}")
        assert await person.input() == "next"


async def test_what_is_typed_line_by_line_is_a_prompt_each(tmp_path: Path) -> None:
    async with typing(tmp_path) as person:
        for typed in ("one\r", "two\r\r", "\r", "three\n"):
            person.type(typed)
            if typed.strip():
                assert await person.input() == typed.strip()


async def answered(person: Person, question: str, keys: str) -> str | None:
    """The answer to a question where these keys are typed."""
    answers: list[str | None] = []

    async def ask() -> None:
        answers.append(await person.screen.ask(f"  {question} "))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await person.sees(question)
        person.type(keys)
    return answers[0]


async def test_what_was_being_typed_is_there_again_after_a_question(tmp_path: Path) -> None:
    async with typing(tmp_path) as person:
        person.type("my next")
        await person.sees("> my next")
        assert await answered(person, "Which way?", f" This one.{ENTER}") == "This one."
        await person.sees("> my next")
        assert "  Which way? This one." in person.rows
        assert await answered(person, "Sure?", CTRL_D) is None
        await person.sees("> my next")
        person.type(ENTER)
        assert await person.input() == "my next"


async def test_what_streams_what_is_waited_for_and_the_meter_have_their_rows_in_a_narrow_terminal(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path, columns=24) as person:
        person.screen.print([[("", "What was said.")]])
        person.screen.busy(f"Run {'x' * 20}")
        person.screen.show_meter("ask · 54.3k of 200k tokens (27%)")
        await person.sees("ask · 54.3k of 200k toke")
        rows = ["What was said.", f"Run {'x' * 20}", " … 0:00", ">", "ask · 54.3k of 200k toke"]
        assert [row for row in person.rows if row] == rows
        person.screen.show_partial("", "An answer that has come so far")
        await person.sees("An answer that has come")
        assert "Run" not in person.text
