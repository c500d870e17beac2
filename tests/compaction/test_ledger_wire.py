"""The fact ledger in the requests that the model server received: made of real calls, by no model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.client import AgentProcess, connected_agent
from support.compactions import is_summary_request
from support.layers import layers, summarising
from support.models import ModelServer, Reply, ToolCall, model_server
from support.repo import Repo, make_repo
from support.stage import stage

AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False}}
PROSE = "The cart adds up what the lines cost. " * 120
SUMMARY = "## Goal and requirements\nThe shop."
TESTS = "python -B -m unittest -q"
EDIT = {"old_text": "line.price for", "new_text": "line.price * line.quantity for"}


def work(repo: Repo) -> list[Reply | str]:
    """Steps of three prompts and an answer after each compaction."""
    return [
        Reply(
            tool_calls=[
                ToolCall("read", {"path": "shop/cart.py", "offset": 1, "limit": 9}),
                ToolCall("read", {"path": "README.md"}),
                ToolCall("write", {"path": "notes.md", "content": "Cents.\n"}),
            ]
        ),
        Reply(tool_calls=[ToolCall("shell", {"command": TESTS}), ToolCall("shell", {"command": "sh cart.sh"})]),
        f"One of two fails. {PROSE}",
        "Going on.",
        Reply(tool_calls=[ToolCall("read", {"path": "shop/cart.py"})]),
        Reply(tool_calls=[ToolCall("edit", {"path": "shop/cart.py", "edits": [EDIT]})]),
        Reply(tool_calls=[ToolCall("shell", {"command": "rm AGENTS.md && git checkout -q -b fix"})]),
        f"Edited. {PROSE}",
        "Going on.",
        Reply(tool_calls=[ToolCall("shell", {"command": TESTS})]),
        f"Both pass. {PROSE}",
        "Going on.",
    ]


async def facts_after(agent: AgentProcess, server: ModelServer, session: str, prompt: str) -> str:
    assert await agent.prompt(session, prompt) == {"stopReason": "end_turn"}
    await agent.prompt(session, "/compact")
    await agent.prompt(session, "Go on.")
    assert not is_summary_request(server.calls[-1].body)
    return layers(server.calls[-1].body)["recorded_facts"]


async def test_files_commands_tests_errors_and_the_branch_are_recorded_over_two_compactions(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    (repo.path / "cart.sh").write_text("echo no such cart >&2; exit 3\n")
    head = repo.git("rev-parse", "HEAD").strip()[:12]
    steps = work(repo)
    async with model_server(summarising([SUMMARY] * 3, lambda number: steps[number])) as server:
        server.write_config(tmp_path, AT_ONCE)
        async with connected_agent(home=tmp_path, env=server.env()) as agent:
            session = await agent.new_session(repo.path)
            await agent.set_mode(session, "full-access")
            first = await facts_after(agent, server, session, "Run the tests; see https://shop.example/issues/7.")
            assert f"Branch `main`, head `{head}`" in first
            assert "- `shop/cart.py`: lines 1-9 read, hash " in first
            assert "- `notes.md`: created, hash " in first
            assert re.search(rf"- `{TESTS}`: exit 1, Ran 2 tests .*FAILED \(failures=1\)\n", first)
            assert "- `sh cart.sh`: exit 3" in first
            errors = first.partition("### Errors still open")[2]
            assert "- `sh cart.sh`: no such cart" in errors
            assert f"- `{TESTS}`: FAIL: test_total" in errors
            assert "- https://shop.example/issues/7" in first

            (repo.path / "README.md").write_text("# Another shop\n")
            second = await facts_after(agent, server, session, "Repair it.")
            assert f"Branch `fix`, head `{head}`" in second
            assert "- `shop/cart.py`: edited, lines 1-" in second
            assert "- `AGENTS.md`: deleted" in second
            assert "- `notes.md`: created, hash " in second, "what the first compaction knew is still there"
            assert "README.md`: lines 1-3 read, hash " in second
            assert "changed since you read it" in next(line for line in second.splitlines() if "README.md" in line)
            assert re.search(rf"- `{TESTS}`: exit 1, .*FAILED .*, stale \(before later file changes\)\n", second)

            third = await facts_after(agent, server, session, "Run the tests again.")
            assert re.search(rf"- `{TESTS}`: exit 0, Ran 2 tests .*OK\n", third)
            assert third.count(TESTS) == 1, "cured, and no error any more"
            assert "- `sh cart.sh`: no such cart" in third
            assert "https://shop.example/issues/7" in third


async def test_facts_are_of_the_whole_results_also_where_these_had_been_masked(tmp_path: Path) -> None:
    noisy = "seq 100000 103000; echo '1 passed, 1 failed in 0.1s'; false"
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": f"pytest -q || ({noisy})"})])]
    replies += [Reply(f"Answer. {PROSE * 3}") for _ in range(9)]
    config = {"compaction": {"prepare": False, "strategy": "mask"}}
    script = summarising([SUMMARY], lambda number: replies[number])
    env = {"ACP_AGENT_CONTEXT_WINDOW": "40000"}
    async with stage(tmp_path, script=script, env=env, config=config, mode="full-access") as it:
        for _ in range(3):
            await it.prompt(f"Go on. {PROSE * 2}")
        await it.prompt("/compact")
        await it.prompt("Masked?")
        assert "101500" not in str(it.server.calls[-1].body)
        it.server.write_config(it.home, AT_ONCE)
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            await later.prompt("/compact")
            await later.prompt("Go on.")
            facts = layers(later.server.calls[-1].body)["recorded_facts"]
            run = next(line for line in facts.splitlines() if line.startswith("- ") and "pytest -q" in line)
            assert "exit 1" in run
            assert "1 passed, 1 failed" in run


async def test_the_ledger_keeps_to_its_own_budget_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    files = {f"page-{number:03}-of-the-catalogue-of-spring.txt": f"{number}\n" for number in range(60)}
    reads = [ToolCall("read", {"path": name}) for name in files]
    replies = [Reply(tool_calls=reads), Reply(f"Read. {PROSE * 3}"), Reply("Going on.")]
    script = summarising([SUMMARY], lambda number: replies[number])
    env = {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
    async with stage(tmp_path, script=script, files=files, env=env, config=AT_ONCE) as it:
        await it.prompt("Read all pages.")
        await it.prompt("/compact")
        await it.prompt("Go on.")
        facts = layers(it.server.calls[-1].body)["recorded_facts"]
        # A twenty-fifth of the window, and the sentence before it.
        assert len(facts) < 4 * 800 + 400
        assert "page-059-of" in facts
        assert "page-000-of" not in facts
        assert "(Left out for room: " in facts
