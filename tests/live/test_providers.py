"""Real providers, over the real command's stdin and stdout: `make live`. Without a key
a test is skipped.
"""

from __future__ import annotations

import pytest

from live.conftest import Live
from support.client import AgentProcess
from support.compactions import shown_compactions

PATIENCE = 150.0
SHIP = "Halcyon"
NOTES = [
    f"Crate {number} holds {number * 7 % 90} lamps, packed in straw."
    for number in range(1, 401)
]
NOTES[250] = f"The ship that carries the crates is called {SHIP}."
READ = "Read notes.txt with your tool `read`, all of it. What is the ship called? Answer with its name alone."
AGAIN = "What is the ship called? Answer with its name alone."


async def ask(agent: AgentProcess, session: str, prompt: str) -> str:
    """Prompt, and return the text of the answer."""
    begun = len(agent.lines)
    assert await agent.prompt(session, prompt, PATIENCE) == {"stopReason": "end_turn"}
    return agent.text(since=begun)


def used(agent: AgentProcess) -> int:
    return int(agent.updates(kind="usage_update")[-1]["used"])


async def check_compaction(live: Live, command: str) -> None:
    (live.folder / "notes.txt").write_text("\n".join(NOTES))
    async with live.session as (agent, session):
        assert SHIP in await ask(agent, session, READ)
        before = used(agent)
        await ask(agent, session, f"{command} keep the name of the ship")
        [compaction] = shown_compactions(agent)
        assert compaction.statuses[-1] == "completed", compaction.text
        assert compaction.text
        assert used(agent) < before
        assert SHIP in await ask(agent, session, AGAIN)


async def test_a_question_is_answered(live: Live) -> None:
    async with live.session as (agent, session):
        assert (
            "pear"
            in (await ask(agent, session, "Answer with the one word: pear")).lower()
        )
        assert used(agent) > 0


async def test_a_tool_is_called_and_its_result_understood(live: Live) -> None:
    (live.folder / "notes.txt").write_text("\n".join(NOTES))
    async with live.session as (agent, session):
        assert SHIP in await ask(agent, session, READ)
        calls = agent.updates(kind="tool_call_update")
        assert any(call.get("status") == "completed" for call in calls)


async def test_compact_shortens_the_context_and_the_conversation_goes_on(
    live: Live,
) -> None:
    await check_compaction(live, "/compact")


async def test_the_providers_own_compaction_is_taken_back_by_it(live: Live) -> None:
    if live.kind == "openai-chat":
        pytest.skip("it has no compaction of its own")
    await check_compaction(live, "/native")


async def test_a_cancel_ends_the_answer_and_the_conversation_goes_on(
    live: Live,
) -> None:
    async with live.session as (agent, session):
        begun = len(agent.lines)
        turn = await agent.start_prompt(
            session, "Write the numbers from 1 to 3000, each on a line, without a tool."
        )
        await agent.wait_update("agent_message_chunk", timeout=PATIENCE, since=begun)
        await agent.cancel(session)
        assert await turn.result(10) == {"stopReason": "cancelled"}
        assert (
            "pear"
            in (await ask(agent, session, "Answer with the one word: pear")).lower()
        )
