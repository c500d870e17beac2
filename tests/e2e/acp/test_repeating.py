"""Prompts around which an editor puts what nobody typed: what was said before, and what it knows of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.editors import AVANTE
from support.memory import stage
from support.replies import Reply
from support.stage import Stage, conversation

LINK: dict[str, Any] = {"type": "resource_link", "uri": "file:///shop/b.py", "name": "b.py"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def as_avante_sends(*said: str) -> list[dict[str, Any]]:
    """A prompt of avante's.

    :param said: the newest first.
    """
    note = f"Continuing from previous session with {len(said)} recent user messages"
    framed = [text(f"<previous_user_message>{words}</previous_user_message>") for words in said]
    return [LINK, *framed, text(f"<system_context>{note}</system_context>")]


async def title(it: Stage) -> str:
    [row] = (await it.agent.request("session/list", {}))["sessions"]
    return row["title"]


async def test_of_a_prompt_that_repeats_earlier_ones_the_model_reads_what_is_new(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("One."), Reply("Two."), editor=AVANTE) as it:
        await it.prompt(as_avante_sends("first\nwords"))
        await it.prompt(as_avante_sends("second words", "first\nwords"))
        asked = [said for role, said in conversation(it.server.calls[1].body) if role == "user"]
        assert len(asked) == 2
        for words, whole in zip(("first\nwords", "second words"), asked, strict=True):
            assert words in whole
            assert "b.py" in whole
            assert "previous" not in whole
        assert "first" not in asked[1]
        assert await title(it) == "b.py first words"
