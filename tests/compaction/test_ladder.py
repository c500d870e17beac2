"""Whatever a model server does with the requests of a compaction, it ends: soon, and in a context that can be sent, or
in a clear error with the history as it was."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.calls import MAX_REQUESTS
from acp_agent.compaction.strategies.deterministic import LEDGER_SUMMARY
from support.compactions import TERMINAL, ShownCompaction, shown_compactions
from support.dialogues import Piece, asks_for_part, asks_for_summary, check_legal, pieces, texts
from support.editors import ZED_BETA
from support.replies import Reply, ToolCall, Usage
from support.stage import Stage, stage

WINDOW = 40_000
TOO_FULL = 26_000
"""Tokens past the threshold of that window."""
TAKES = 9_000
"""Tokens that the provider takes of a sudden."""
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""
SUMMARY = "# Goal and requirements\nA cart that adds prices."
GOOD = Reply(SUMMARY)
TOO_LONG = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8 maximum"}}
FAULTS: Mapping[str, Reply] = {
    "overflow": Reply(http_status=400, body=TOO_LONG),
    "empty": Reply(""),
    "garbage": Reply(body={"what": ["is", "this"]}),
    "status 500": Reply(http_status=500, headers={"retry-after": "0"}),
    "no such model": Reply(http_status=404),
    "dropped": Reply(["# Goal", " and"], drop_after=1),
    "an error in the stream": Reply(["# Goal", " and"], sse_error="api_error", fail_after=1),
    "larger": Reply("word " * 30_000),
    "max_tokens": Reply("# Goal", stop="max_tokens"),
    "no room": Reply("# Goal", stop="model_context_window_exceeded"),
    "reasoning only": Reply(thinking="Let me think."),
    "tool calls only": Reply(tool_calls=[ToolCall("shell", {"command": "touch ran"})]),
    "refusal": Reply("No.", stop="refusal"),
}


@dataclass(slots=True)
class Server:
    """What the model says: long answers, and to requests for summaries what is put here, the last of it for ever.

    :ivar used: tokens that each answer is said to make of the context; None counts them.
    """

    summaries: list[Reply] = field(default_factory=list[Reply])
    used: int | None = None

    def answer(self, body: Mapping[str, Any]) -> Reply:
        if is_for_summary(body):
            return self.summaries.pop(0) if len(self.summaries) > 1 else self.summaries[0]
        if texts(body)[-1] == "Read it." and not texts(body, "result"):
            return Reply("Reading.", tool_calls=[ToolCall("read", {"path": "prices.txt"})])
        usage = None if self.used is None else Usage(self.used - 500, 500)
        return Reply(
            LONG if texts(body)[-1].startswith("Read") or "Question" in texts(body)[-1] else "Well.", usage=usage
        )


@asynccontextmanager
async def ladder(tmp_path: Path) -> AsyncGenerator[tuple[Stage, Server], None]:
    """A session that is not talked in yet."""
    says = Server()
    async with stage(
        tmp_path,
        script=says.answer,
        editor=ZED_BETA,
        files={"prices.txt": "The price is one.\n" * 800},
        config={"compaction": {"prepare": False}},
        env={"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)},
    ) as it:
        yield it, says


async def talked(it: Stage, says: Server, used: int | None = None, questions: int = 1) -> Stage:
    """Another session of the same agent, with an old result of a tool and a long answer more than questions."""
    it = replace(it, session=await it.agent.new_session(it.folder))
    it.server.max_prompt_tokens, says.used = None, None
    assert await it.prompt("Read it.") == {"stopReason": "end_turn"}
    for number in range(1, questions + 1):
        says.used = used if number == questions else None
        assert await it.prompt(f"Question {number}?") == {"stopReason": "end_turn"}
    return it


def check_end(it: Stage, since: int, asked: int) -> ShownCompaction:
    """One compaction was shown, with one end, after no more requests than are allowed."""
    [shown] = shown_compactions(it.agent, since=since)
    assert [status for status in shown.statuses if status in TERMINAL] == shown.statuses[-1:]
    wire = [call for call in it.server.calls[asked:] if is_for_summary(call.body)]
    assert len(wire) <= MAX_REQUESTS
    assert not (it.folder / "ran").exists()
    return shown


def is_for_summary(body: Mapping[str, Any]) -> bool:
    """Whether a request is one of a compaction's, also where tool calls were refused after it."""
    refused = "Write the summary as plain text"
    return asks_for_summary(body) or any(refused in text for text in texts(body, "result"))


def said(body: Mapping[str, Any]) -> list[Piece]:
    """What a request holds but for the last prompt."""
    return pieces(body)[:-1]


async def test_a_manual_compaction_that_fails_is_told_and_the_history_stays(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with ladder(tmp_path) as (stage_, says):
        for name, fault in FAULTS.items():
            with subtests.test(name):
                it = await talked(stage_, says)
                before, begun, asked = it.server.calls[-1].body, len(it.agent.lines), len(it.server.calls)
                says.summaries = [fault]
                turn = await it.agent.start_prompt(it.session, "/compact")
                await it.agent.until(lambda turn=turn: turn.done, 30)
                shown = check_end(it, begun, asked)
                assert shown.statuses == ["in_progress", "failed"]
                assert "history is unchanged" in shown.text
                assert turn.answer is not None
                error = turn.answer.message.get("error", {}).get("message", "")
                assert shown.text == (error or it.agent.text(since=begun))
                assert await it.prompt("Well?") == {"stopReason": "end_turn"}
                after = said(it.server.calls[-1].body)
                assert after[: len(pieces(before))] == pieces(before)
                assert [piece.role for piece in after[len(pieces(before)) :]] == ["assistant"]


async def test_at_the_threshold_a_failing_summary_leaves_masked_results_and_the_turn_goes_on(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with ladder(tmp_path) as (stage_, says):
        for name, fault in FAULTS.items():
            with subtests.test(name):
                # Without the old result it would still be more than the target, so that a summary is asked for.
                it = await talked(stage_, says, used=TOO_FULL, questions=2)
                begun, asked = len(it.agent.lines), len(it.server.calls)
                says.summaries = [fault]
                assert await it.prompt("Well?") == {"stopReason": "end_turn"}
                shown = check_end(it, begun, asked)
                assert shown.statuses == ["in_progress", "completed"]
                assert asks_for_summary(it.server.calls[asked].body)
                last = it.server.calls[-1].body
                check_legal(last)
                [masked] = texts(last, "result")
                assert masked.startswith("[masked result] read prices.txt")
                assert [text for text in texts(last) if len(text) < 20] == [
                    *("Read it.", "Question 1?", "Question 2?", "Well?")
                ]
                assert texts(last, "assistant") == ["Reading.", LONG, LONG, LONG]


@pytest.mark.parametrize(("results", "worth"), [(1, False), (2, True)])
async def test_results_give_way_together_where_what_they_gain_is_worth_the_broken_cache(
    tmp_path: Path, results: int, worth: bool
) -> None:
    def answer(body: Mapping[str, Any]) -> Reply:
        if asks_for_summary(body):
            return Reply("")
        last = pieces(body)[-1]
        if last.role != "result" and last.text.startswith("Read"):
            return Reply("Reading.", tool_calls=[ToolCall("read", {"path": f"{last.text[5:]}.txt"})])
        return Reply("Well." if last.text == "Well?" else LONG)

    prices = {f"{number}.txt": f"The price is {number}.\n" * 560 for number in range(results)}
    config, env = {"compaction": {"prepare": False}}, {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW)}
    async with stage(
        tmp_path, script=answer, editor=ZED_BETA, files=prices, config=config, env=env, dialect="anthropic"
    ) as it:
        for number in range(results):
            await it.prompt(f"Read {number}")
        for number in range(4 - results):
            await it.prompt(f"Question {number}?")
        before = pieces(it.server.calls[-1].body)
        assert shown_compactions(it.agent) == []
        assert await it.prompt("Well?") == {"stopReason": "end_turn"}
        [shown] = shown_compactions(it.agent)
        assert asks_for_summary(it.server.calls[-2].body)
        last = it.server.calls[-1].body
        masked = [text.startswith("[masked result]") for text in texts(last, "result")]
        assert masked == [worth] * results
        assert shown.statuses == ["in_progress", "completed" if worth else "failed"]
        # The provider's cache holds what went before.
        assert (pieces(last)[: len(before)] == before) is not worth


@pytest.mark.parametrize("first", [0, 1], ids=["from the first part on", "from the second part on"])
async def test_a_refused_request_is_followed_by_one_that_fits_whatever_becomes_of_the_summary(
    tmp_path: Path, subtests: pytest.Subtests, first: int
) -> None:
    async with ladder(tmp_path) as (stage_, says):
        for name, fault in FAULTS.items():
            with subtests.test(name):
                it = await talked(stage_, says)
                begun, asked = len(it.agent.lines), len(it.server.calls)
                says.summaries = [*[GOOD] * first, fault]
                it.server.max_prompt_tokens = TAKES
                assert await it.prompt("Well?") == {"stopReason": "end_turn"}
                shown = check_end(it, begun, asked)
                assert shown.statuses == ["in_progress", "completed"]
                refused, *parts, last = [call.body for call in it.server.calls[asked:]]
                assert all(asks_for_part(part) or is_for_summary(part) for part in parts)
                assert len(parts) > first
                assert pieces(refused)[-1].text == texts(last)[-1] == "Well?"
                assert shown.text == LEDGER_SUMMARY
                assert "prices.txt" in "".join(texts(last))
                check_legal(last)


async def test_three_failures_in_a_row_end_the_attempts_until_somebody_compacts_by_hand(tmp_path: Path) -> None:
    async with ladder(tmp_path) as (stage_, says):
        it = await talked(stage_, says, used=TOO_FULL)
        says.summaries = [Reply("")]
        begun = len(it.agent.lines)
        for turn in range(1, 6):
            assert await it.prompt(f"Well {turn}?") == {"stopReason": "end_turn"}
        assert sum(asks_for_summary(call.body) for call in it.server.calls) == 3
        told = [line for line in it.agent.lines[begun:] if line.update_kind == "notice"]
        assert len(told) == 1
        assert "/compact tries again" in str(told[0].message)

        says.summaries = [GOOD]
        assert await it.prompt("/compact") == {"stopReason": "end_turn"}
        assert await it.prompt("Question 2?") == {"stopReason": "end_turn"}
        asked = len(it.server.calls)
        assert await it.prompt("Well?") == {"stopReason": "end_turn"}
        assert sum(asks_for_summary(call.body) for call in it.server.calls[asked:]) == 1
        assert shown_compactions(it.agent)[-1].statuses[-1] == "completed"
