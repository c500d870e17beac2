"""`/compact` in a real process, from the prompt to the next request."""

from __future__ import annotations

from pathlib import Path

import anyio

from support.client import connected_agent
from support.compactions import (
    RECIPE_TEXT,
    asked_last,
    bare,
    both_editors,
    is_summary_request,
    messages,
    said,
    shown_compactions,
)
from support.editors import ZED_BETA, Editor
from support.models import Reply, ToolCall, Usage, model_server
from support.repo import make_repo

LONG = "The cart adds prices. " * 60


@both_editors
async def test_a_summary_streams_and_takes_the_place_of_the_conversation(tmp_path: Path, editor: Editor) -> None:
    repo = make_repo(tmp_path / "repo")
    hold = anyio.Event()
    script = [
        Reply("Looking.", tool_calls=[ToolCall("read", {"path": str(repo.program)})], usage=Usage(2000, 10)),
        Reply(f"It adds up prices. {LONG * 3}", usage=Usage(3000, 1200)),
        Reply([LONG, "The end."], hold=hold, hold_after=1, usage=Usage(4300, 300)),
        Reply("Still here.", usage=Usage(900, 5)),
    ]
    async with (
        model_server(script) as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=editor) as agent,
    ):
        session = await agent.new_session(repo.path)
        await agent.prompt(session, "What does the cart do?")
        begun = len(agent.lines)
        turn = await agent.start_prompt(session, "/compact keep the file names")
        await server.wait_held()
        await agent.until(lambda: LONG in "".join(c.chunks for c in shown_compactions(agent)), what="the first chunk")
        [running] = shown_compactions(agent)
        assert (running.statuses[0], turn.done) == ("in_progress", False)
        assert "completed" not in running.statuses
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}

        labels = agent.methods_between(begun)
        [compaction] = shown_compactions(agent)
        assert labels[labels.index("usage_update") - 1] == compaction.lines[-1].label
        assert labels[-2:] == ["usage_update", "response session/prompt"]
        assert {*compaction.statuses[:-1]} == {"in_progress"}
        assert compaction.statuses[-1] == "completed"
        assert compaction.text == f"{LONG}The end."
        used = [update["used"] for update in agent.updates(kind="usage_update")]
        assert used[-2] == 4200
        assert 0 < used[-1] < used[-2]

        await agent.prompt(session, "Go on.")
        live, summarised, after = (call.body for call in server.calls[1:])
        prefix, asked = bare(live), bare(summarised)
        answer = {"role": "assistant", "content": [{"type": "text", "text": f"It adds up prices. {LONG * 3}"}]}
        assert {**asked, "messages": asked["messages"][:-1]} == {**prefix, "messages": [*prefix["messages"], answer]}
        assert is_summary_request(summarised)
        assert "keep the file names" in asked_last(summarised)
        assert (after["system"], after["tools"]) == (live["system"], live["tools"])
        assert f"{LONG}The end." in said(messages(after)[0])
        assert asked_last(after) == "Go on."
        assert not server.calls[3].mentions(RECIPE_TEXT)
        assert not server.calls[3].mentions("/compact")
        assert not server.calls[3].mentions(f"It adds up prices. {LONG * 3}")


async def test_a_file_has_to_be_read_again_after_a_compaction(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    read = ToolCall("read", {"path": str(repo.program)})
    edit = ToolCall(
        "edit", {"path": str(repo.program), "edits": [{"old_text": "line.price for", "new_text": "line.cents for"}]}
    )
    script = [
        Reply(tool_calls=[read]),
        Reply(f"Read. {LONG}"),
        Reply("# Goal\nEdit the cart."),
        Reply(tool_calls=[edit]),
        Reply(tool_calls=[read]),
        Reply(tool_calls=[edit]),
        Reply("Edited."),
    ]
    async with model_server(script) as server, connected_agent(home=tmp_path, env=server.env()) as agent:
        session = await agent.new_session(repo.path)
        await agent.prompt(session, "Read it.")
        await agent.prompt(session, "/compact")
        before = repo.program.read_text()
        turn = await agent.start_prompt(session, "Edit it.")
        await server.wait_calls(5)
        assert repo.program.read_text() == before
        assert await turn.result() == {"stopReason": "end_turn"}
        [refused] = messages(server.calls[4].body)[-1]["content"]
        assert refused["is_error"]
        assert "line.cents for" in repo.program.read_text()


async def test_a_prompt_that_arrives_meanwhile_is_answered_on_the_new_context(tmp_path: Path) -> None:
    hold = anyio.Event()
    script = [Reply(f"One. {LONG}"), Reply("# Goal\nCount.", hold=hold), Reply("Three.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        await agent.prompt(session, "Count.")
        compact = await agent.start_prompt(session, "/compact")
        await server.wait_held()
        queued = await agent.start_prompt(session, "Go on counting.")
        hold.set()
        assert await queued.result() == {"stopReason": "end_turn"}
        assert compact.answer is not None
        assert compact.answer.index < min(
            line.index for line in agent.lines if line.update.get("content") == {"type": "text", "text": "Three."}
        )
        assert "# Goal\nCount." in said(messages(server.calls[2].body)[0])
        assert asked_last(server.calls[2].body) == "Go on counting."


async def test_where_nothing_can_be_compacted_it_says_so_and_shows_no_compaction(tmp_path: Path) -> None:
    script = [Reply(f"One. {LONG}"), Reply("# Goal\nCount.")]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        assert await agent.prompt(session, "/compact") == {"stopReason": "end_turn"}
        assert "nothing to compact" in agent.text()
        assert shown_compactions(agent) == []
        assert server.calls == []
        await agent.prompt(session, "Count.")
        await agent.prompt(session, "/compact")
        begun = len(agent.lines)
        assert await agent.prompt(session, "/compact") == {"stopReason": "end_turn"}
        assert "nothing to compact" in agent.text(since=begun)
        assert shown_compactions(agent, since=begun) == []


async def test_a_second_compaction_takes_the_first_summary_in(tmp_path: Path) -> None:
    script = [
        Reply(f"One. {LONG}"),
        Reply("# Goal\nFirst summary."),
        Reply(f"Two. {LONG}"),
        Reply("# Goal\nSecond summary."),
        Reply("Three."),
    ]
    async with (
        model_server(script, "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        session = await agent.new_session(tmp_path)
        for prompt in ("Count.", "/compact", "On.", "/compact", "Further."):
            assert await agent.prompt(session, prompt) == {"stopReason": "end_turn"}
        first, second = shown_compactions(agent)
        assert first.id != second.id
        assert server.calls[3].mentions("First summary.")
        assert "Second summary." in said(messages(server.calls[4].body)[0])
        assert not server.calls[4].mentions("First summary.")
        assert not server.calls[4].mentions(f"Two. {LONG}")


async def test_instructions_may_come_in_further_blocks(tmp_path: Path) -> None:
    text = {"type": "text", "text": "/compact "}
    async with (
        model_server((), "openai") as server,
        connected_agent(home=tmp_path, env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        for block, expected in (
            ({"type": "text", "text": "the tests"}, "the tests"),
            ({"type": "resource_link", "uri": "file:///shop/cart.py", "name": "cart"}, "file:///shop/cart.py"),
        ):
            server.add(Reply(f"One. {LONG}"), Reply("# Goal\nCount."))
            session = await agent.new_session(tmp_path)
            await agent.prompt(session, "Count.")
            assert await agent.prompt(session, [text, block]) == {"stopReason": "end_turn"}
            assert is_summary_request(server.calls[-1].body)
            assert expected in asked_last(server.calls[-1].body)
            assert shown_compactions(agent)[-1].statuses[-1] == "completed"
