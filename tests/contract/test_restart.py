"""What is left of a session after the agent has ended, by itself or by force: for the user, and for the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentProcess, connected_agent
from support.compactions import bare, both_editors, messages, said, shown_compactions
from support.editors import ZED, ZED_BETA, Editor
from support.models import Reply, ToolCall, Usage, model_server
from support.repo import make_repo

pytestmark = pytest.mark.process

LONG = "The cart adds prices. " * 60


async def kill(agent: AgentProcess) -> None:
    agent.kill()
    await agent.wait_exit()


def shown(agent: AgentProcess, since: int) -> list[tuple[str, str]]:
    """What an editor shows of a conversation: kinds and texts, chunks joined."""
    seen: list[tuple[str, str]] = []
    last = None
    for line in agent.lines[since:]:
        update, kind = line.update, line.update_kind
        if kind.endswith("message_chunk"):
            text = update["content"]["text"]
            if (kind, update["messageId"]) == last:
                text = seen.pop()[1] + text
            seen.append((kind, text))
            last = (kind, update["messageId"])
        elif kind in ("tool_call", "compaction_update", "plan"):
            seen.append((kind, update.get("status", "")))
            last = None
    return seen


def followed(before: Mapping[str, Any], after: Mapping[str, Any], answer: str, prompt: str) -> None:
    """The later request is the earlier one with its answer and a new prompt, and nothing else."""
    bare_before, bare_after = bare(before), bare(after)
    added = [
        {"role": "assistant", "content": [{"type": "text", "text": answer}]},
        {"role": "user", "content": [{"type": "text", "text": prompt}]},
    ]
    assert bare_after == {**bare_before, "messages": [*bare_before["messages"], *added]}


@both_editors
async def test_after_a_restart_load_shows_everything_once_and_the_model_gets_the_compacted_context(
    tmp_path: Path, editor: Editor
) -> None:
    repo = make_repo(tmp_path / "repo")
    read = ToolCall("read", {"path": str(repo.program)})
    plan = ToolCall("plan", {"entries": [{"content": "Look", "status": "completed"}]})
    script = [
        Reply("Looking.", thinking="Where?", tool_calls=[plan, read], usage=Usage(2000, 10)),
        Reply(f"Read. {LONG}", usage=Usage(3000, 400)),
        Reply(["# Goal\n", "A cart."], usage=Usage(3100, 300)),
        Reply("Two.", usage=Usage(900, 5)),
    ]
    async with model_server(script) as server:
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=editor) as agent:
            session = await agent.new_session(repo.path)
            for prompt in ("One?", "/compact the files", "Two?"):
                await agent.prompt(session, prompt)
            [live] = shown_compactions(agent)
        server.add(Reply("Three."), Reply("Four."))
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=editor) as agent:
            begun = len(agent.lines)
            await agent.load(session, repo.path)
            response = agent.methods_between(begun).index("response session/load")
            [replayed] = shown_compactions(agent)
            assert (replayed.id, replayed.statuses, replayed.text) == (live.id, ["completed"], "# Goal\nA cart.")
            assert agent.updates(kind="compaction_summary_chunk") == []
            compaction = ("compaction_update" if editor is ZED_BETA else "tool_call", "completed")
            assert shown(agent, begun) == [
                ("user_message_chunk", "One?"),
                ("agent_message_chunk", "Looking."),
                ("plan", ""),
                ("tool_call", "completed"),
                ("agent_message_chunk", f"\n\nRead. {LONG}"),
                ("user_message_chunk", "/compact the files"),
                compaction,
                ("user_message_chunk", "Two?"),
                ("agent_message_chunk", "Two."),
            ]
            assert agent.text("agent_thought_chunk") == "Where?"
            assert "usage_update" not in agent.methods_between(begun)[:response]
            meter = await agent.wait_update("usage_update", since=begun)
            assert meter["used"] == 905
            await agent.prompt(session, "Three?")
            followed(server.calls[3].body, server.calls[4].body, "Two.", "Three?")
            await kill(agent)
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=editor) as agent:
            await agent.resume(session, repo.path)
            await agent.prompt(session, "Four?")
            assert shown(agent, 0) == [("agent_message_chunk", "Four.")]
            followed(server.calls[4].body, server.calls[5].body, "Three.", "Four?")


async def test_what_was_on_the_screen_when_the_agent_was_killed_is_replayed_and_known_to_the_model(
    tmp_path: Path,
) -> None:
    held = Reply(["It forgets ", "the quantity."], thinking="Hm.", hold=anyio.Event(), hold_after=2)
    async with model_server([Reply("One."), held], "openai") as server:
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "One?")
            await agent.start_prompt(session, "Two?")
            await agent.until(lambda: "It forgets " in agent.text())
            await kill(agent)
        server.add(Reply("Three."))
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            await agent.load(session, tmp_path)
            seen = [("user_message_chunk", "Two?"), ("agent_message_chunk", "It forgets ")]
            assert shown(agent, 0)[-2:] == seen
            assert await agent.prompt(session, "Three?") == {"stopReason": "end_turn"}
            begun = len(agent.lines)
            await agent.load(session, tmp_path)
            assert shown(agent, begun)[-4:-2] == seen
        texts = [said(message) for message in messages(server.calls[-1].body)]
        assert texts == ["One?", "One.", "Two?", "It forgets ", "Three?"]


@pytest.mark.parametrize("words", [1, 40])
async def test_no_word_that_was_shown_is_lost_whenever_the_agent_is_killed(tmp_path: Path, words: int) -> None:
    answer = Reply([f"w{number:03} " for number in range(400)], delay=0.005)
    async with model_server([answer]) as server:
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            await agent.start_prompt(session, "Count")
            await agent.until(lambda: len(agent.text()) >= 5 * words, 20)
            await kill(agent)
            seen = agent.text()
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            await agent.load(session, tmp_path)
            assert agent.text().startswith(seen)


async def test_calls_that_a_kill_left_open_are_shown_as_failed_and_answered_for_the_model(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    calls = [ToolCall("read", {"path": str(repo.program)}), ToolCall("shell", {"command": "touch ran"})]
    async with model_server([Reply("Both.", tool_calls=calls)]) as server:
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED) as agent:
            session = await agent.new_session(repo.path)
            agent.permission_hold = anyio.Event()
            await agent.start_prompt(session, "Do both.")
            await agent.until(lambda: agent.desk.permissions, 20)
            ids = [update["toolCallId"] for update in agent.updates(kind="tool_call")]
            await kill(agent)
        server.add(Reply("Then not."))
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED) as agent:
            await agent.load(session, repo.path)
            assert [(u["toolCallId"], u["status"]) for u in agent.updates(kind="tool_call")] == [
                (ids[0], "completed"),
                (ids[1], "failed"),
            ]
            assert await agent.prompt(session, "Go on.") == {"stopReason": "end_turn"}
        *_, results = messages(server.calls[-1].body)
        blocks = results["content"]
        assert [(block["type"], block.get("is_error", False)) for block in blocks] == [
            ("tool_result", False),
            ("tool_result", True),
            ("text", False),
        ]
        assert "interrupted" in blocks[1]["content"][0]["text"]
        assert not (repo.path / "ran").exists()


async def test_a_kill_in_the_middle_of_a_compaction_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    held = Reply(["# Goal", "\nA cart."], hold=anyio.Event(), hold_after=1)
    async with model_server([Reply(LONG), held], "openai") as server:
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "One?")
            await agent.start_prompt(session, "/compact")
            await agent.wait_update("compaction_summary_chunk")
            await kill(agent)
        server.add(Reply("Two."))
        async with connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent:
            await agent.load(session, tmp_path)
            assert shown(agent, 0) == [
                ("user_message_chunk", "One?"),
                ("agent_message_chunk", LONG),
                ("user_message_chunk", "/compact"),
            ]
            await agent.prompt(session, "Two?")
            followed(server.calls[0].body, server.calls[2].body, LONG, "Two?")
