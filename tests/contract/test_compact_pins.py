"""`/pin` and `/unpin`, in what the model reads and what the editor shows."""

from __future__ import annotations

from pathlib import Path

from support.compactions import is_summary_request
from support.editors import ZED_BETA
from support.layers import summarising, whole_text
from support.stage import Stage, stage

PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."


def answers(number: int) -> str:
    return f"Answer {number}. {PROSE}"


def last(it: Stage) -> str:
    return whole_text(next(call.body for call in reversed(it.server.calls) if not is_summary_request(call.body)))


async def answer_to(it: Stage, prompt: str) -> str:
    begun = len(it.agent.lines)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    return it.agent.text(since=begun)


async def test_a_pin_reaches_the_model_with_the_next_request_before_any_compaction(tmp_path: Path) -> None:
    async with stage(tmp_path, script=summarising([], answers)) as it:
        said = await answer_to(it, "/pin Totals are\n  whole cents.")
        assert said.startswith("Pinned as 1.")
        assert it.server.calls == []
        await it.prompt("What is a total?")
        assert last(it).count("Totals are\n  whole cents.") == 1
        assert "/pin" not in last(it)


async def test_pins_are_listed_taken_back_and_never_get_their_number_again(tmp_path: Path) -> None:
    async with stage(tmp_path, script=summarising([SUMMARY], answers)) as it:
        assert "Nothing is pinned." in await answer_to(it, "/pin")
        await it.prompt("/pin First.")
        await it.prompt("/pin Second.")
        listed = await answer_to(it, "/pin")
        assert listed.index("First.") < listed.index("Second.")
        assert "Pin 1 was taken back." in await answer_to(it, "/unpin 1")
        assert "no pin 1" in await answer_to(it, "/unpin #1")
        assert "Pinned as 3." in await answer_to(it, "/pin Third.")
        await it.prompt("Go on.")
        await it.prompt("/compact")
        await it.prompt("Go on.")
        assert "First." not in last(it)
        assert "Second." in last(it)
        assert "Third." in last(it)


async def test_pins_outlive_a_restart_and_the_replay_shows_the_commands_and_their_answers(tmp_path: Path) -> None:
    async with stage(tmp_path, script=summarising([SUMMARY], answers), editor=ZED_BETA) as it:
        await it.prompt("/pin Totals are whole cents.")
        await it.prompt("What is a total?")
        await it.prompt("/compact")
        shown = (it.agent.text(), list(it.agent.texts("user_message_chunk").values()))
        async with it.restarted() as later:
            await later.agent.load(later.session, later.folder)
            assert "Pinned as 1." in later.agent.text()
            assert "Pinned as 1." in shown[0]
            users = list(later.agent.texts("user_message_chunk").values())
            assert users == ["/pin Totals are whole cents.", "What is a total?", "/compact"]
            assert "Pin 1:" in await answer_to(later, "/pin")
            await later.prompt("Go on.")
            assert last(later).count("Totals are whole cents.") == 1


async def test_a_pin_may_mention_files_in_blocks_of_their_own(tmp_path: Path) -> None:
    blocks = [
        {"type": "text", "text": "/pin Keep to "},
        {"type": "resource_link", "uri": "file:///shop/STYLE.md", "name": "STYLE.md"},
        {"type": "text", "text": " at all times."},
    ]
    async with stage(tmp_path, script=summarising([], answers)) as it:
        await it.prompt(blocks)
        await it.prompt("Go on.")
        assert "Keep to file:///shop/STYLE.md at all times." in last(it)
