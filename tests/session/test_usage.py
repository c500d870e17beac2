"""The context meter: what the provider counted last, of the whole window."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import connected_agent
from support.models import Reply, ToolCall, Usage, model_server


@pytest.mark.parametrize(
    ("env", "config", "size"),
    [
        ({}, "", 123_456),
        ({"ACP_AGENT_CONTEXT_WINDOW": "50000"}, "context_window: 60000", 50_000),
        ({}, "context_window: 60000", 60_000),
        ({}, "models: {anthropic/claude-test: {context_window: 70000}}", 123_456),
    ],
    ids=["the provider", "the variable", "the configuration", "not the model's settings, since the provider says"],
)
async def test_used_is_the_last_answers_count_and_size_the_whole_window(
    tmp_path: Path, env: dict[str, str], config: str, size: int
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "config.yaml").write_text(config)
    (tmp_path / "a.txt").write_text("text")
    read = ToolCall("read", {"path": str(tmp_path / "a.txt")})
    script = [
        Reply("One.", tool_calls=[read], usage=Usage(input=1_000, output=7, cache_read=200, cache_write=30)),
        Reply("Two.", usage=Usage(input=20, output=5, cache_read=1_230, cache_write=4)),
    ]
    async with (
        model_server(script, context_window=123_456) as server,
        connected_agent(home=tmp_path, env=server.env() | env) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "One?")
        meters = agent.updates(kind="usage_update")
        assert [(meter["used"], meter["size"]) for meter in meters] == [(1_237, size), (1_259, size)]
        costs = [meter["cost"]["amount"] for meter in meters]
        assert 0 < costs[0] < costs[1]


async def test_the_cost_of_a_summary_counts_whether_it_was_used_or_not(tmp_path: Path) -> None:
    long = "The cart adds prices. " * 300
    script = [
        Reply(long, usage=Usage(1_000, 100)),
        Reply("", usage=Usage(1_000_000, 0)),
        Reply("# Goal\nA cart.", usage=Usage(2_000_000, 0)),
        Reply("Two.", usage=Usage(1_000, 0)),
    ]
    async with model_server(script) as server, connected_agent(home=tmp_path, env=server.env()) as agent:
        session = await agent.new_session(tmp_path)
        for prompt in ("One?", "/compact", "/compact", "Two?"):
            await agent.prompt(session, prompt)
        first, compacted, last = (meter["cost"]["amount"] for meter in agent.updates(kind="usage_update"))
        # Three dollars for a million tokens.
        assert compacted - first == pytest.approx(9, abs=1e-4)  # and the odd token of the answers
        assert last - compacted == pytest.approx(0.003, abs=1e-4)
