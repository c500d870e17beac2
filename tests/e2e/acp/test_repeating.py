"""Prompts around which an editor puts what nobody typed: what was said before, and what
it knows of the machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from support.editors import AVANTE
from support.memory import stage
from support.replies import Reply
from support.stage import Stage, conversation

LINK: dict[str, Any] = {
    "type": "resource_link",
    "uri": "file:///shop/b.py",
    "name": "b.py",
}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def as_avante_sends(*said: str) -> list[dict[str, Any]]:
    """A prompt of avante's.

    :param said: the newest first.
    """
    note = f"Continuing from previous session with {len(said)} recent user messages"
    framed = [
        text(f"<previous_user_message>{words}</previous_user_message>")
        for words in said
    ]
    return [LINK, *framed, text(f"<system_context>{note}</system_context>")]


async def title(it: Stage) -> str:
    [row] = (await it.agent.request("session/list", {}))["sessions"]
    return row["title"]


async def test_of_a_prompt_that_repeats_earlier_ones_the_model_reads_what_is_new(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("One."), Reply("Two."), editor=AVANTE) as it:
        await it.prompt(as_avante_sends("first\nwords"))
        await it.prompt(as_avante_sends("second words", "first\nwords"))
        asked = [
            said
            for role, said in conversation(it.server.calls[1].body)
            if role == "user"
        ]
        assert len(asked) == 2
        for words, whole in zip(("first\nwords", "second words"), asked, strict=True):
            assert words in whole
            assert "b.py" in whole
            assert "previous" not in whole
        assert "first" not in asked[1]
        assert await title(it) == "b.py first words"


async def asked(it: Stage, *prompts: list[dict[str, Any]]) -> list[str]:
    """Send the prompts, and return the user messages of the last request."""
    for prompt in prompts:
        await it.prompt(prompt)
    return [
        said for role, said in conversation(it.server.calls[-1].body) if role == "user"
    ]


async def test_a_new_prompt_that_stands_among_earlier_ones_is_read_and_no_old_one(
    tmp_path: Path,
) -> None:
    replies = [Reply("One."), Reply("Two."), Reply("Three.")]
    async with stage(tmp_path, *replies, editor=AVANTE) as it:
        await asked(it, as_avante_sends("first"), as_avante_sends("second", "first"))
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            # The new prompt has the ID and the position of an older message.
            await later.prompt(as_avante_sends("second", "new words", "first"))
            read = [
                said
                for role, said in conversation(later.server.calls[-1].body)
                if role == "user"
            ][-1]
            assert "new words" in read
            assert "second" not in read
            assert "first" not in read


async def test_words_that_are_said_again_are_read_again(tmp_path: Path) -> None:
    async with stage(tmp_path, *[Reply("Done.")] * 3, editor=AVANTE) as it:
        read = await asked(
            it,
            as_avante_sends("go on"),
            as_avante_sends("go on", "go on"),
            # The older prompts are no longer among the last five.
            as_avante_sends("go on"),
        )
        assert len(read) == 3
        assert all("go on" in each for each in read)


async def test_words_that_this_session_has_never_heard_are_all_read_the_oldest_first(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Done."), editor=AVANTE) as it:
        [read] = await asked(it, as_avante_sends("newest", "older", "oldest"))
        assert read.index("oldest") < read.index("older") < read.index("newest")
        assert "previous" not in read


async def test_a_prompt_that_waits_counts_as_said(tmp_path: Path) -> None:
    hold = anyio.Event()
    replies = [Reply("One.", hold=hold), Reply("Two."), Reply("Three.")]
    async with stage(tmp_path, *replies, editor=AVANTE) as it:
        first = await it.agent.start_prompt(it.session, as_avante_sends("first"))
        await it.held()
        second = await it.agent.start_prompt(
            it.session, as_avante_sends("second", "first")
        )
        third = await it.agent.start_prompt(
            it.session, as_avante_sends("third", "second", "first")
        )
        hold.set()
        for running in (first, second, third):
            assert await running.result() == {"stopReason": "end_turn"}
        read = [
            said
            for role, said in conversation(it.server.calls[-1].body)
            if role == "user"
        ]
        assert ["first" in each for each in read] == [True, False, False]
        assert ["second" in each for each in read] == [False, True, False]
        assert "third" in read[2]


async def test_a_command_among_repeated_prompts_is_run(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("One."), editor=AVANTE) as it:
        sent = as_avante_sends("first")
        await it.prompt(sent[1:])
        await it.prompt(as_avante_sends("first", "/context")[1:])
        assert len(it.server.calls) == 1
        assert "tokens" in it.agent.text()
