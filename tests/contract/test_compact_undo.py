"""`/compact undo`: what the model is sent afterwards is what it would have been sent without the compaction."""

from __future__ import annotations

import pytest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.compactions import bare, both_editors, is_summary_request, messages, shown_compactions
from support.editors import ZED_BETA, Editor
from support.layers import summarising, whole_text
from support.models import Reply, ToolCall
from support.stage import Stage, results, stage
from support.terminal import run_command

AT_ONCE: Mapping[str, Any] = {"compaction": {"prepare": False}}

PROSE = "The cart adds up what the lines cost. " * 60
SUMMARY = "## Goal and requirements\nThe shop."


def answers(number: int) -> Reply:
    return Reply(f"Answer {number}. {PROSE}")


def live(it: Stage) -> dict[str, Any]:
    """The newest request that asked for no summary, without what moves from call to call."""
    return bare(next(call.body for call in reversed(it.server.calls) if not is_summary_request(call.body)))


def summarised(it: Stage) -> dict[str, Any]:
    """What the newest summary request was about: the request as it was, without the recipe's message."""
    asked = bare(next(call.body for call in reversed(it.server.calls) if is_summary_request(call.body)))
    return {**asked, "messages": asked["messages"][:-1]}


def turn(prompt: str, answer: object = None) -> list[dict[str, Any]]:
    said = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    if answer is not None:
        said.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
    return said


async def answer_to(it: Stage, prompt: str) -> str:
    begun = len(it.agent.lines)
    assert await it.prompt(prompt) == {"stopReason": "end_turn"}
    return it.agent.text(since=begun)


@both_editors
async def test_the_next_request_is_the_earlier_one_with_what_came_since(tmp_path: Path, editor: Editor) -> None:
    script = summarising([SUMMARY], answers)
    async with stage(tmp_path, script=script, editor=editor, config=AT_ONCE) as it:
        await it.prompt("/pin Whole cents.")
        await it.prompt("Never rename the cart. What is in it?")
        await it.prompt("And its lines?")
        await it.prompt("/compact")
        before = summarised(it)
        await it.prompt("Compacted?")
        assert SUMMARY in whole_text(it.server.calls[-1].body)
        begun = len(it.agent.lines)
        assert "undone" in await answer_to(it, "/compact undo")
        used = [update["used"] for update in it.agent.updates(kind="usage_update")]
        assert used[-1] > used[-2] > 0
        assert it.agent.methods_between(begun).count("usage_update") == 1
        await it.prompt("Undone?")
        since = [*turn("Compacted?", answers(2).text), *turn("Undone?")]
        assert live(it) == {**before, "messages": [*before["messages"], *since]}


async def test_an_undo_holds_after_a_restart_on_either_side_of_it(tmp_path: Path) -> None:
    script = summarising([SUMMARY], answers)
    async with stage(tmp_path, script=script, config=AT_ONCE) as it:
        await it.prompt("What is in the cart?")
        await it.prompt("/compact")
        before = summarised(it)
        async with it.restarted() as second:
            await second.agent.load(it.session, it.folder)
            await second.prompt("/compact undo")
        async with it.restarted(capabilities=ZED_BETA) as third:
            await third.agent.load(it.session, it.folder)
            users = list(third.agent.texts("user_message_chunk").values())
            assert users == ["What is in the cart?", "/compact", "/compact undo"]
            assert "undone" in third.agent.text()
            [compaction] = shown_compactions(third.agent)
            assert (compaction.statuses, compaction.text) == (["completed"], SUMMARY)
            await third.prompt("Go on.")
            assert live(third) == {**before, "messages": [*before["messages"], *turn("Go on.")]}
            listed = await third.agent.request("session/list", {})
            assert [one["sessionId"] for one in listed["sessions"]] == [it.session]


async def test_two_compactions_are_undone_one_after_the_other_and_then_there_is_nothing_to_undo(tmp_path: Path) -> None:
    script = summarising([f"{SUMMARY} One.", f"{SUMMARY} Two."], answers)
    async with stage(tmp_path, script=script, config=AT_ONCE) as it:
        await it.prompt("First.")
        await it.prompt("/compact")
        first = summarised(it)
        await it.prompt("Second.")
        await it.prompt("/compact")
        second = summarised(it)
        assert "Two." in await _summary_after(it)
        assert "undone" in await answer_to(it, "/compact undo")
        await it.prompt("Third.")
        kept = [*turn("Ask.", answers(2).text), *turn("Third.")]
        assert live(it) == {**second, "messages": [*second["messages"], *kept]}
        assert "undone" in await answer_to(it, "/compact undo")
        await it.prompt("Fourth.")
        kept = [
            *turn("Second.", answers(1).text), *turn("Ask.", answers(2).text),
            *turn("Third.", answers(3).text), *turn("Fourth."),
        ]  # fmt: skip
        assert live(it) == {**first, "messages": [*first["messages"], *kept]}
        before = live(it)["messages"]
        assert "no compaction to undo" in await answer_to(it, "/compact undo")
        await it.prompt("Fifth.")
        since = [*turn("Fourth.", answers(4).text)[1:], *turn("Fifth.")]
        assert live(it)["messages"] == [*before, *since]
        assert len(it.agent.updates(kind="tool_call")) == 2


async def _summary_after(it: Stage) -> str:
    await it.prompt("Ask.")
    return whole_text(it.server.calls[-1].body)


async def test_masked_results_come_back_in_full(tmp_path: Path) -> None:
    big = ToolCall("shell", {"command": "seq 100000 103000"})
    replies = [Reply(tool_calls=[big]), Reply("Counted."), *(answers(number) for number in range(6))]
    config = {"compaction": {"prepare": False, "strategy": "mask"}}
    script = summarising([], lambda number: replies[number])
    env = {"ACP_AGENT_CONTEXT_WINDOW": "40000"}
    async with stage(tmp_path, script=script, env=env, config=config, mode="full-access") as it:
        await it.prompt("Count.")
        await it.prompt(f"Go on. {PROSE * 8}")
        await it.prompt(f"Go on. {PROSE * 8}")
        whole = live(it)["messages"]
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        await it.prompt("Masked?")
        assert "101500" not in str(live(it)["messages"])
        await it.prompt("/compact undo")
        await it.prompt("Undone?")
        after = live(it)["messages"]
        assert after[: len(whole)] == whole
        assert "101500" in str(after)


async def test_a_file_that_was_read_before_may_be_edited_again_if_it_is_still_the_same(tmp_path: Path) -> None:
    def edit(old: str, new: str, path: str = "a.txt") -> ToolCall:
        return ToolCall("edit", {"path": path, "edits": [{"old_text": old, "new_text": new}]})

    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]),
        answers(1),
        Reply(tool_calls=[edit("two", "2"), ToolCall("read", {"path": "since.txt"})]),
        answers(2),
        Reply(tool_calls=[edit("two", "2"), edit("late", "later", "since.txt")]),
        answers(3),
        Reply(tool_calls=[edit("three", "3")]),
        answers(4),
    ]
    script = summarising([SUMMARY], lambda number: replies[number])
    async with stage(tmp_path, script=script, config=AT_ONCE, mode="full-access", dialect="anthropic") as it:
        (it.folder / "since.txt").write_text("late\n")
        await it.prompt("Read it.")
        await it.prompt("/compact")
        await it.prompt("Edit it, and read the other.")
        refused, _ = results(it.server.calls[-1].body)
        assert refused.is_error
        await it.prompt("/compact undo")
        await it.prompt("Edit both.")
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\n"
        assert (it.folder / "since.txt").read_text() == "later\n", "what was read since the compaction stays read"
        (it.folder / "a.txt").write_text("one\n2\nthree\nfour\n")
        await it.prompt("Edit it.")
        [refused] = results(it.server.calls[-1].body)
        assert refused.is_error
        assert (it.folder / "a.txt").read_text() == "one\n2\nthree\nfour\n"


async def test_pins_and_settings_made_since_outlive_an_undo(tmp_path: Path) -> None:
    script = summarising([SUMMARY] * 2, answers)
    async with stage(tmp_path, script=script, config=AT_ONCE) as it:
        await it.prompt("/pin First.")
        await it.prompt("What is here?")
        await it.prompt("/compact")
        await it.prompt("/unpin 1")
        await it.prompt("/pin Second.")
        await it.agent.set_mode(it.session, "plan")
        await it.prompt("/compact undo")
        await it.prompt("/compact")
        await it.prompt("Go on.")
        sent = whole_text(it.server.calls[-1].body)
        assert "Second." in sent
        # What was unpinned may be told of as that, and is no standing order any more.
        assert "does not hold any more" in sent.rpartition("First.")[0][-200:] or "First." not in sent
        assert "plan" in sent


async def test_only_the_bare_word_undoes_and_more_words_are_told_the_form(tmp_path: Path) -> None:
    script = summarising([SUMMARY], answers)
    async with stage(tmp_path, script=script, config=AT_ONCE) as it:
        await it.prompt("What is here?")
        await it.prompt("/compact keep the status of the tests")
        assert "keep the status of the tests" in str(messages(it.server.calls[-1].body)[-1])
        for word, more in (("undo", "the last change in cart.py"), ("status", "of the tests")):
            assert f"`/compact {word}`" in await answer_to(it, f"/compact {word} {more}")
        assert len(it.server.calls) == 2
        assert len(shown_compactions(it.agent)) == 1
        await it.prompt([{"type": "text", "text": "/compact "}, {"type": "text", "text": "undo "}])
        assert "undone" in it.agent.text()


@pytest.mark.process
async def test_a_compaction_is_undone_from_the_terminal(tmp_path: Path) -> None:
    script = summarising([SUMMARY], answers)
    async with stage(tmp_path, script=script, config=AT_ONCE) as it:
        await it.prompt("What is here?")
        await it.prompt("/compact")
        before = summarised(it)
        await it.agent.request("session/close", {"sessionId": it.session})
        ran = await run_command(it.home, "compact", "-c", it.session, "undo", env=it.server.env())
        assert ran.code == 0
        assert "undone" in ran.out
        ran = await run_command(it.home, "compact", "-c", it.session, "undo", env=it.server.env())
        assert "no compaction to undo" in ran.out
        await it.agent.load(it.session, it.folder)
        await it.prompt("Go on.")
        assert live(it) == {**before, "messages": [*before["messages"], *turn("Go on.")]}
