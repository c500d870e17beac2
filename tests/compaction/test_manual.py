"""`/compact` in a real process, from the prompt to the next request."""

from __future__ import annotations

from pathlib import Path

from support.client import connected_agent
from support.compactions import (
    asked_last,
    messages,
    said,
)
from support.editors import ZED_BETA
from support.models import Reply, ToolCall, Usage, model_server
from support.repo import make_repo

LONG = "The cart adds prices. " * 60


async def test_a_long_history_keeps_its_newest_messages_word_for_word_from_a_legal_cut(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    reads = [ToolCall("read", {"path": str(repo.path / name)}) for name in ("README.md", "shop/cart.py")]
    script = [
        *(Reply(f"Answer {number}. {LONG}", usage=Usage(1000 * number, 400)) for number in range(1, 5)),
        Reply("Both at once.", tool_calls=reads, usage=Usage(5000, 10)),
        Reply("Read.", usage=Usage(5500, 5)),
        Reply("# Goal\nA cart.", usage=Usage(6000, 50)),
        Reply("After.", usage=Usage(2000, 5)),
    ]
    env = {"ACP_AGENT_CONTEXT_WINDOW": "30000"}
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env() | env, capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(repo.path)
        for number in range(1, 5):
            await agent.prompt(session, f"Question {number}. {'x' * 8_000}")
        await agent.prompt(session, "Read both.")
        await agent.prompt(session, "/compact")
        await agent.prompt(session, "And now?")

        before, after = messages(server.calls[6].body)[:-1], messages(server.calls[7].body)
        summary, *kept = after
        assert "# Goal\nA cart." in said(summary)
        # Two fifths of a quarter of the conversation hold the last step, from the calls on.
        first = next(index for index, message in enumerate(before) if "Both at once." in said(message))
        assert kept == [*before[first:], {"role": "user", "content": [{"type": "text", "text": "And now?"}]}]
        assert '"Read both."' in asked_last(server.calls[6].body).splitlines()[-1]
        assert not server.calls[7].mentions(f"Answer 4. {LONG}")
        assert server.calls[7].mentions("A shopping cart")
