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
from acp_agent.compaction.strategies.excerpts import SUMMARY as EXCERPTS
from support.compactions import TERMINAL, ShownCompaction, shown_compactions
from support.dialogues import Piece, asks_for_summary, check_legal, pieces, texts
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
        config={"compaction": {"prepare": False, "wait": True}},
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


async def test_at_the_threshold_a_failing_summary_gives_way_to_excerpts_and_the_turn_goes_on(
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
                assert shown.text == EXCERPTS
                assert all(said in "".join(texts(last)) for said in ("Read it.", "Question 1?", "prices.txt"))
                assert texts(last)[-1] == "Well?"


async def test_a_refused_request_is_followed_by_one_that_fits_whatever_becomes_of_the_summary(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with ladder(tmp_path) as (stage_, says):
        for name, fault in FAULTS.items():
            with subtests.test(name):
                it = await talked(stage_, says)
                begun, asked = len(it.agent.lines), len(it.server.calls)
                says.summaries = [fault]
                it.server.max_prompt_tokens = TAKES
                assert await it.prompt("Well?") == {"stopReason": "end_turn"}
                shown = check_end(it, begun, asked)
                assert shown.statuses == ["in_progress", "completed"]
                refused, *tries, last = [call.body for call in it.server.calls[asked:]]
                assert tries
                assert all(is_for_summary(body) for body in tries)
                assert pieces(refused)[-1].text == texts(last)[-1] == "Well?"
                assert shown.text == EXCERPTS
                assert "prices.txt" in "".join(texts(last))
                check_legal(last)
