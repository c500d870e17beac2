"""What a person types in `acp-agent chat`, and what they see while they do."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import Self

import anyio
import pytest
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from acp_agent.cli.chat.paste import PastingInput
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
        person.completer.commands = (
            Command("context", "What fills it"),
            Command("pin", "Keep it", "[text]"),
        )
        person.type(typed)
        await person.sees(menu)
        person.type(keys)
        await person.sees(completed)


async def test_lines_that_were_typed_or_pasted_stay_one_prompt_and_are_there_again_another_day(
    tmp_path: Path,
) -> None:
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
        (
            "x" * 1023 + "\r" + "second" + "\r" + "y" * 3000,
            "x" * 1023 + "\nsecond\n" + "y" * 3000,
        ),
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


@pytest.mark.parametrize(
    "pieces",
    [
        ("one\r", "two\r", "three\r"),
        ("one", "\r", "two", "\r", "three", "\r"),
        ("one", "\rtwo\r", "three\r"),
        ("one\n", "two\nthr", "ee\n"),
    ],
)
def test_lines_that_are_read_one_after_the_other_without_a_pause_are_one_paste(
    pieces: tuple[str, ...],
) -> None:
    with Pieces(pieces) as inner:
        keys = PastingInput(inner).read_keys()
        # What came before the first line end is in the line already.
        if keys[0].key != Keys.BracketedPaste:
            keys = [*keys, *PastingInput(inner).read_keys()]
    *text, paste, enter = keys
    assert (paste.key, enter.key) == (Keys.BracketedPaste, Keys.ControlM)
    assert (
        "".join(key.data for key in (*text, paste)).replace("\r", "\n")
        == "one\ntwo\nthree"
    )


class Pieces(DummyInput):
    """Keys that arrive in several reads, all of which are waiting already."""

    def __init__(self, pieces: tuple[str, ...]) -> None:
        self._pieces = deque(pieces)
        self._end, self._full = os.pipe()
        os.write(self._full, b"x" * len(pieces))

    def fileno(self) -> int:
        return self._end

    def read_keys(self) -> list[KeyPress]:
        os.read(self._end, 1)
        names = {"\r": Keys.ControlM, "\n": Keys.ControlJ}
        return [
            KeyPress(names.get(each, each), each) for each in self._pieces.popleft()
        ]

    @property
    def closed(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end)
        os.close(self._full)


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


async def test_what_was_being_typed_is_there_again_after_a_question(
    tmp_path: Path,
) -> None:
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
        rows = [
            "What was said.",
            f"Run {'x' * 20}",
            " … 0:00",
            ">",
            "ask · 54.3k of 200k toke",
        ]
        assert [row for row in person.rows if row] == rows
        person.screen.show_partial(lambda: [[("", "An answer that has come so far")]])
        await person.sees("An answer that has come")
        assert "Run" not in person.text


async def test_a_prompt_that_is_put_back_stands_before_what_was_typed_since_also_during_a_question(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path) as person:
        person.type("and more")
        await person.sees("> and more")
        person.screen.put_back("First\nthis")
        person.type(f"!{ENTER}")
        assert await person.input() == "First\nthis\nand more!"

        person.type("my next")
        await person.sees("> my next")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(person.screen.ask, "  Which way? ")
            await person.sees("Which way?")
            person.screen.put_back("Before.")
            person.type(f"This one.{ENTER}")
        person.type(ENTER)
        assert await person.input() == "Before.\nmy next"

        person.screen.put_back("Alone")
        person.type(f".{ENTER}")
        assert await person.input() == "Alone."
