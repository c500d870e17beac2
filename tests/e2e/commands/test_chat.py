"""`acp-agent chat` in a terminal, as a person sees it and types."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from support.called import call_command
from support.compactions import asked_last, is_summary_request, messages, said
from support.models import Reply, ToolCall, Usage, model_server
from support.screens import (
    BACK_TAB,
    CTRL_C,
    CTRL_D,
    CTRL_Z,
    ENTER,
    leaves,
    sends,
    watching,
)

pytestmark = pytest.mark.process

LONG = "The cart adds prices. " * 600
EDIT = ToolCall(
    "edit",
    {"path": "cart.py", "edits": [{"old_text": "total = 1", "new_text": "total = 2"}]},
)
TOUCH = ToolCall("shell", {"command": "touch ran"})
READY = "context empty"


async def test_a_conversation_with_an_edit_that_is_allowed_and_a_compaction_goes_on_another_day(
    tmp_path: Path,
) -> None:
    (tmp_path / "cart.py").write_text("one = 1\ntotal = 1\n")
    read = ToolCall("read", {"path": "cart.py"})
    script = [
        Reply(
            ["I re", "ad it. "],
            thinking="Where is it?",
            tool_calls=[read],
            usage=Usage(9_000, 20),
        ),
        Reply(tool_calls=[EDIT], usage=Usage(9_100, 20)),
        Reply(LONG, usage=Usage(9_200, 400)),
        Reply("# Goal\nTotals.", usage=Usage(9_700, 20)),
        Reply("Welcome back.", usage=Usage(900, 5)),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "Set the total.")
                await person.until("Allow?")
                assert "✓ Read cart.py" in person.rows
                assert "I read it." in person.rows
                assert person.rows.index("? Edit cart.py") < person.rows.index(
                    "  -total = 1"
                )
                assert (person.colour("-total = 1"), person.colour("+total = 2")) == (
                    "red",
                    "green",
                )
                assert person.colour("Where is it?") == "brightblack"
                assert "[y] Allow  [a] Always allow edit  [n] Reject" in person.text
                # Whoever was typing has allowed nothing.
                person.type(f"yes, and then{ENTER}")
                await person.until("Allow?", 2)
                assert (tmp_path / "cart.py").read_text() == "one = 1\ntotal = 1\n"
                person.type(f"y{ENTER}")
                await person.until("✓ Edit cart.py")
                assert (tmp_path / "cart.py").read_text() == "one = 1\ntotal = 2\n"
                await person.until("9.6k of 128k tokens (8%), compacts at ")
                assert person.text.count("-total = 1") == 1
                assert person.bottom.startswith("ask · ")
                assert person.bottom.endswith(" · openai/gpt-test")

                person.type(BACK_TAB)
                await person.until("accept-edits · ")
                await sends(person, "/compact keep the totals")
                await person.until("Compacting …")
                await person.until("Totals.")
                await person.until("9,600 → ")
                assert is_summary_request(server.calls[3].body)
                after = re.search(r"9,600 → ([\d,]+) tokens", person.text)
                assert after
                meter = f"{int(after[1].replace(',', '')) / 1_000:.3g}k of 128k tokens"
                await person.until_so(lambda: meter in person.bottom, meter)
                session = await leaves(person)

            async with watching(
                tmp_path, "chat", "--follow", env=server.env()
            ) as person:
                await person.until_so(lambda: meter in person.bottom, meter)
                assert "> Set the total." in person.rows
                assert "> /compact keep the totals" in person.rows
                assert "✓ Edit cart.py" in person.rows
                assert person.bottom.startswith("accept-edits · ")
                await sends(person, "Go on.")
                await person.until("Welcome back.")
                assert "# Goal\nTotals." in said(messages(server.calls[4].body)[0])
                assert asked_last(server.calls[4].body) == "Go on."
                assert await leaves(person) == session


async def test_ctrl_c_cancels_the_turn_then_empties_the_line_then_leaves(
    tmp_path: Path,
) -> None:
    script = [
        Reply(["Some ", *["words "] * 5_000], delay=0.01),
        Reply(["Second ", *["words "] * 5_000], delay=0.01),
        Reply(["A ", "b "] * 3_000, delay=0.01),
        Reply("I run.", tool_calls=[TOUCH]),
        Reply(["C ", "d "] * 3_000, delay=0.01),
    ]
    async with model_server(script, "openai") as server:
        with anyio.fail_after(50):
            async with watching(tmp_path, "chat", env=server.env()) as person:
                await person.until(READY)
                await sends(person, "Say it.")
                await person.until("Some words")
                await sends(person, "Then this.")
                await person.until("(queued)")
                person.type(CTRL_C)
                await server.wait_aborted()
                await person.until("Cancelled.")
                await person.until(
                    "(waiting prompts were not sent, and are back in the input line)"
                )
                await person.until("> Then this.", 2)
                assert len(server.calls) == 1
                person.type(ENTER)
                await person.until("Second words")
                assert asked_last(server.calls[1].body) == "Then this."
                person.type(CTRL_C)
                await person.until("Cancelled.", 2)
                person.type(f"half{CTRL_Z} a thought")
                await person.until("> half a thought")
                person.type(CTRL_C)
                await person.until_gone("> half a thought")
                person.type(CTRL_C)
                await person.until("Press ctrl-c again, or ctrl-d, to quit.")
                await sends(person, "And this.")
                await person.until("A b A b")
                person.type(CTRL_C)
                await person.until("Cancelled.", 3)
                await sends(person, "And run it.")
                await person.until("Allow?")
                person.type(CTRL_C)
                await person.until("Cancelled.", 4)
                await person.until_gone("Allow?")
                await sends(person, "More.")
                await person.until("C d C d")
                # Left while the agent works: the turn ends as by a cancel, and is kept.
                person.type(CTRL_D)
                assert await person.ended() == 0
                assert person.echoes
        assert not (tmp_path / "ran").exists()
        begun = (await call_command(tmp_path, "sessions")).out.split()[0]
        assert begun in person.text
