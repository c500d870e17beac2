"""Values of secrets in `acp-agent chat`: nowhere on the screen, at no moment, however they are broken into rows."""

from __future__ import annotations

from pathlib import Path

import anyio

from support.models import Reply, ToolCall, model_server
from support.screens import CTRL_D, ENTER, Watcher, sends, watching

KEY = "Zq9aB3dE5fG7haB3dE5fG7haB3dE5fG7haB3dE5fG7h"
PHRASE = "correct horse battery staple ninety nine bottles"
ENV = {"MY_API_KEY": KEY, "DB_PASSPHRASE": PHRASE}
NONE_OF_IT = [KEY[:5], KEY[-5:], *PHRASE.split()]


def shown(person: Watcher) -> list[str]:
    """The parts of secrets that are on the screen."""
    return [part for part in NONE_OF_IT if part in person.text]


async def test_a_value_is_at_no_moment_on_the_screen_while_an_answer_is_written(tmp_path: Path) -> None:
    pieces = ["It ", "is ", *KEY, " and ", *(f"{word} " for word in PHRASE.split()), "so.\n", "The", " end."]
    async with model_server([Reply(pieces, thinking=f"It is {PHRASE}?", delay=0.01)], "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env={**server.env(), **ENV}, columns=40) as person:
                await person.until("context empty")
                await sends(person, "Tell me.")
                await person.until_so(lambda: bool(shown(person)) or "The end." in person.text)
                assert shown(person) == []
                assert "It is ***?" in person.rows
                assert "It is *** and *** so." in person.rows
                person.type(CTRL_D)
                assert await person.ended() == 0
            async with watching(tmp_path, "chat", "--follow", env={**server.env(), **ENV}, columns=40) as person:
                await person.until("The end.")
                assert shown(person) == []


async def test_a_value_is_masked_in_questions_titles_and_results_before_they_are_broken_or_cut(tmp_path: Path) -> None:
    command = f"echo {'x' * 80} {PHRASE}; echo {PHRASE} >&2\necho {KEY}; exit 3"
    asked = [{"question": f"Is the passphrase that was set still {PHRASE}?"}]
    script = [
        Reply(f"Is the one that is in use {PHRASE}?", tool_calls=[ToolCall("shell", {"command": command})]),
        Reply(tool_calls=[ToolCall("ask_user", {"questions": asked})]),
        Reply(tool_calls=[ToolCall("read", {"path": f"missing {PHRASE}"})]),
        Reply("Over."),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env={**server.env(), **ENV}, columns=60) as person:
                await person.until("context empty")
                await sends(person, "Go.")
                await person.until("Allow?")
                assert "Is the one that is in use ***?" in person.rows
                assert "  echo ***; exit 3" in person.rows
                assert shown(person) == []
                person.type(f"y{ENTER}")
                await person.until("? Is the passphrase that was set still ***?")
                person.type(f"Yes.{ENTER}")
                await person.until("Over.")
                assert "✗ Read missing ***" in person.rows
                assert shown(person) == []
                person.type(CTRL_D)
                assert await person.ended() == 0
