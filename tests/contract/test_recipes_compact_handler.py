"""`compact`: a recipe that has done its work asks for a compaction."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.compactions import asked_last, is_summary_request, messages, shown_compactions
from support.editors import ZED_BETA
from support.models import Reply, Usage, model_server

RECIPE = "---\nhooks:\n  turn_end: {handler: compact}\n---\nFinish what is open.\n"
LONG = "The cart adds prices. " * 300


async def test_a_recipe_can_have_the_conversation_compacted_when_its_turn_ends(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "recipes"
    folder.mkdir(parents=True)
    (folder / "finish.md").write_text(RECIPE)
    script = [Reply(LONG), Reply("All done."), Reply("# Goal\nA cart."), Reply("Next.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        assert await agent.prompt(session, "/finish") == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], "# Goal\nA cart.")
        assert is_summary_request(server.calls[2].body)
        # It comes after the recipe's own answer, and the answer is part of what is summarised.
        assert server.calls[2].mentions("All done.")
        await agent.prompt(session, "And now?")
        assert asked_last(server.calls[3].body) == "And now?"
        assert not server.calls[3].mentions(LONG)
        assert messages(server.calls[3].body)[0]["role"] == "user"


async def test_a_compaction_that_a_recipe_asked_for_may_fail_without_harm(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "recipes"
    folder.mkdir(parents=True)
    (folder / "finish.md").write_text(RECIPE)
    script = [Reply(LONG, usage=Usage(3_000, 5)), Reply("All done."), Reply(""), Reply("Next.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        assert await agent.prompt(session, "/finish") == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(agent)
        assert compaction.statuses == ["in_progress", "failed"]
        await agent.prompt(session, "And now?")
        assert server.calls[3].mentions(LONG)
