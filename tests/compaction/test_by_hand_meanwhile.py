"""`/compact` while a summary is being prepared, or is ready: what is there already is used, and nobody pays twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.background import LONG, PREPARE, SUMMARY, Desk, desk, held
from support.client import AgentError
from support.compactions import (
    RECIPE_FILE,
    asked_last,
    both_editors,
    is_summary_request,
    said,
    shown_compactions,
)
from support.editors import ZED_BETA, Editor
from support.models import Reply, Usage
from support.trust import trust

NEW = "# Goal\nBy hand."


async def writing(it: Desk) -> None:
    """A turn behind which a summary is being written, and held."""
    await it.filled()
    await it.prompt("Two?", Reply("Second answer.", usage=Usage(PREPARE + 50, 5)))
    await it.server.wait_held()


async def test_a_summary_that_is_ready_is_put_in_its_place_at_once(tmp_path: Path) -> None:
    async with desk(tmp_path, Reply(SUMMARY, usage=Usage(500, 50))) as it:
        await it.filled()
        await it.prompt("Two?", Reply("Second answer."))
        await it.ready()
        begun = len(it.agent.lines)
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert "prepared in the background" in compaction.receipt
        assert it.agent.methods_between(begun)[-2:] == ["usage_update", "response session/prompt"]
        assert it.asked == 1
        await it.prompt("Three?", Reply("Third answer."))
        assert [said(message).splitlines()[-1] for message in it.last] == ["Two?", "Second answer.", "Three?"]
        assert SUMMARY in said(it.last[0])
        assert "summary_dropped" not in it.logged()
        assert len(shown_compactions(it.agent)) == 1


@both_editors
async def test_a_summary_that_is_being_written_is_gone_on_with_and_seen_from_its_beginning(
    tmp_path: Path, editor: Editor
) -> None:
    first, second, rest = "# Goal\nA ", "cart that ", "adds prices. " * 100
    hold = anyio.Event()
    summary = Reply([first, second, rest], hold=hold, hold_after=1)
    async with desk(tmp_path, summary, editor=editor) as it:
        await writing(it)
        assert shown_compactions(it.agent) == []
        turn = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.until(lambda: shown_compactions(it.agent), what="the beginning")
        if editor is ZED_BETA:
            await it.agent.wait_update("compaction_summary_chunk", content={"type": "text", "text": first})
        assert not turn.done
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert {*compaction.statuses[:-1]} == {"in_progress"}
        assert compaction.statuses[-1] == "completed"
        assert compaction.text == f"{first}{second}{rest}".strip()
        streamed = [line.update for line in compaction.lines if line.update_kind == "compaction_summary_chunk"]
        if editor is ZED_BETA:
            assert "".join(update["content"]["text"] for update in streamed) == f"{first}{second}{rest}"
        assert it.asked == 1


async def test_a_summary_is_gone_on_with_where_another_answer_tells_more_of_a_window_that_was_refused_once(
    tmp_path: Path,
) -> None:
    summary, hold = held()
    says = "This model's maximum context length is 20000 tokens. Please reduce the length of the messages."
    refusal = {"error": {"message": says, "type": "invalid_request_error", "code": "context_length_exceeded"}}
    async with desk(tmp_path, summary, Reply(NEW)) as it:
        await it.prompt("Before?", Reply(LONG, usage=Usage(5_000, 400)))
        await it.prompt("Refused?", Reply(http_status=400, body=refusal), Reply("Good.", usage=Usage(3_000, 5)))
        [_] = shown_compactions(it.agent)
        await it.prompt("Again?", Reply(LONG, usage=Usage(6_000, 400)))
        # From the refusal on, each answer corrects by how much the provider counts more than we do.
        await writing(it)
        begun = len(it.agent.lines)
        turn = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.until(lambda: shown_compactions(it.agent, since=begun), what="the beginning")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent, since=begun)
        assert (compaction.text, it.asked) == (SUMMARY, 1)


async def test_with_instructions_another_summary_is_written_and_that_one_is_given_up(tmp_path: Path) -> None:
    summary, _ = held()
    async with desk(tmp_path, summary, Reply(NEW)) as it:
        await writing(it)
        await it.prompt("/compact Mind the prices.")
        await it.server.wait_aborted()
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], NEW)
        [abandoned, asked] = [call.body for call in it.server.calls if is_summary_request(call.body)]
        assert "Mind the prices." in asked_last(asked)
        assert "Mind the prices." not in asked_last(abandoned)
        await it.prompt("Three?", Reply("Third answer."))
        assert len(shown_compactions(it.agent)) == 1
        assert NEW in said(it.last[0])


@pytest.mark.parametrize("state", ["ready", "running"])
async def test_another_recipe_writes_its_own_summary(tmp_path: Path, state: str) -> None:
    folder = tmp_path / ".acp-agent" / "recipes"
    folder.mkdir(parents=True)
    # The same words: but whose recipe it is, decides what its hooks make of the answer.
    (folder / "brief.md").write_text(RECIPE_FILE.read_text().replace("name: compact\n", "name: brief\n", 1))
    trust(tmp_path, tmp_path)
    summary, hold = held(usage=Usage(500, 50))
    async with desk(tmp_path, summary, Reply(NEW)) as it:
        await writing(it)
        if state == "ready":
            hold.set()
            await it.ready()
        await it.prompt("/brief")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], NEW)
        assert it.asked == 2
        # What was written to its end is paid for; of what was given up, nobody says what it cost.
        assert it.logged().count("summary_dropped") == (state == "ready")


async def test_a_cancel_while_it_is_waited_for_changes_nothing_and_the_next_one_takes_it(tmp_path: Path) -> None:
    hold = anyio.Event()
    summary = Reply(["# Goal", "\nA cart."], hold=hold, hold_after=1)
    async with desk(tmp_path, summary) as it:
        await writing(it)
        before = it.events()
        turn = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.wait_update("compaction_update", status="in_progress")
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        [cancelled] = shown_compactions(it.agent)
        assert cancelled.statuses == ["in_progress", "cancelled"]
        added = [kind for kind, _ in it.events()[len(before) :]]
        assert it.events()[: len(before)] == before
        assert added == ["user_prompted", "compaction_failed", "turn_ended"]
        ended = len(it.agent.lines)
        hold.set()
        await it.ready()
        # What it streamed after the cancel was shown to nobody.
        assert shown_compactions(it.agent, since=ended) == []
        await it.prompt("/compact")
        assert [shown.statuses for shown in shown_compactions(it.agent)] == [
            ["in_progress", "cancelled"],
            ["in_progress", "completed"],
        ]
        assert it.asked == 1


async def test_where_it_comes_to_nothing_another_one_is_written_in_the_same_compaction(tmp_path: Path) -> None:
    hold = anyio.Event()
    cut_off = Reply(["# Goal", "\nTo be"], hold=hold, hold_after=1, stop="max_tokens", usage=Usage(100, 10))
    async with desk(tmp_path, cut_off, Reply(NEW)) as it:
        await writing(it)
        turn = await it.agent.start_prompt(it.session, "/compact")
        await it.agent.wait_update("compaction_update", status="in_progress")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], NEW)
        assert it.logged().count("summary_dropped") == 1
        assert it.asked == 2


async def test_what_came_since_is_made_shorter_where_it_is_much_beside_a_summary_that_is_ready(tmp_path: Path) -> None:
    summary, hold = held(usage=Usage(500, 50))
    async with desk(tmp_path, summary) as it:
        await it.filled()
        await it.prompt("Two?", Reply(LONG + LONG, usage=Usage(PREPARE + 50, 100)))
        await it.server.wait_held()
        hold.set()
        await it.ready()
        await it.prompt("/compact")
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (["in_progress", "completed"], SUMMARY)
        assert it.asked == 1
        await it.prompt("Three?", Reply("Third answer."))
        assert SUMMARY in said(it.last[0])
        assert LONG[:500] in said(it.last[1])
        assert not it.server.calls[-1].mentions(LONG + LONG)


async def test_a_step_that_is_not_taken_by_hand_is_not_taken_over_either(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if is_summary_request(body):
            return Reply(SUMMARY, usage=Usage(500, 50))
        if not body.get("stream"):  # the provider's own compaction
            return Reply(http_status=400)
        return Reply(answers.pop(0), usage=Usage(PREPARE - 400, 400))

    answers = [LONG, "Second answer."]
    config = {"compaction": {"strategy": "native"}}
    async with desk(tmp_path, config=config, script=answer) as it:
        await it.prompt("One?")
        await it.prompt("Two?")
        await it.ready()
        begun = len(it.agent.lines)
        with pytest.raises(AgentError, match="history is unchanged"):
            await it.prompt("/compact")
        # The chosen way alone is tried by hand, and its failure is told.
        assert [shown.statuses for shown in shown_compactions(it.agent, since=begun)] == [["in_progress", "failed"]]
        assert it.asked == 1
