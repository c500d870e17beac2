"""What a person types at the questions of `acp-agent chat`."""

from __future__ import annotations

from pathlib import Path

import anyio

from support.compactions import messages
from support.models import Reply, ToolCall, model_server
from support.screens import ENTER, leaves, sends, watching


async def test_a_choice_is_named_by_its_number_or_its_name_and_other_words_are_asked_for_in_a_tidy_row(
    tmp_path: Path,
) -> None:
    colours = [{"label": "Red", "description": "warm"}, {"label": "Blue"}]
    ways = [{"label": "Light grey"}, {"label": "Dark green"}, {"label": "Pink"}]
    asked = [
        {"question": "Which colour?", "options": colours},
        {"question": "Which walls?", "options": ways, "multiple": True, "own_words": True},
    ]
    script = [Reply(tool_calls=[ToolCall("ask_user", {"questions": asked})]), Reply("So be it.")]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until("context empty")
                await sends(person, "Ask me.")
                await person.until("  number or name>")
                person.type(f"green{ENTER}")
                await person.until("is none of its choices")
                person.type(f"blue{ENTER}")
                await person.until("  numbers or names (or nothing)>")
                person.type(f"dark GREEN, 1 pink{ENTER}")
                await person.until_so(lambda: person.rows.count("  In other words") == 1)
                await person.until_so(lambda: "  (or nothing)>" in person.rows)
                person.type(f"and the door{ENTER}")
                await person.until("So be it.")
                assert "  (or nothing)> and the door" in person.rows
                told = messages(server.calls[1].body)[-1]["content"][0]["content"][0]["text"]
                assert told == ("Which colour?\n→ Blue\n\nWhich walls?\n→ Dark green, Light grey, Pink; and the door")
                await leaves(person)
