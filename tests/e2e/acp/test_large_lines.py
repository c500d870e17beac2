"""No line to an editor reaches 10 MiB, at which some give up."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.server.content import MAX_TEXT
from acp_agent.session.mailbox import MAX_CHARACTERS
from support.client import AgentError
from support.editors import BARE, TOAD
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

LARGE = (
    "\x01" * 8 + "\n"
) * 240_000  # twelve million bytes of JSON, and a sixth as many characters
LIMIT = 10 << 20
SECONDS = 120.0


def said(it: Stage, kind: str) -> str:
    return "".join(update["content"]["text"] for update in it.agent.updates(kind=kind))


def longest(it: Stage) -> int:
    return max(len(line.raw) for line in it.agent.lines if line.received)


async def test_twelve_megabytes_of_prompt_and_answer_are_shown_and_replayed_by_their_beginnings(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply([LARGE], thinking=LARGE), dialect="anthropic"
    ) as it:
        assert await it.prompt([{"type": "text", "text": LARGE}], SECONDS) == {
            "stopReason": "end_turn"
        }
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder, timeout=SECONDS)
            for kind in ("user_message", "agent_message", "agent_thought"):
                shown = said(later, f"{kind}_chunk")
                assert (
                    shown
                    == f"{LARGE[:MAX_TEXT]}\n… ({len(LARGE) - MAX_TEXT} more characters)"
                )
            assert max(longest(it), longest(later)) < LIMIT


@pytest.mark.parametrize("as_file", [False, True])
async def test_a_prompt_with_more_text_than_any_model_reads_is_refused_and_nothing_of_it_is_kept(
    tmp_path: Path, as_file: bool
) -> None:
    words = "word\n" * (MAX_CHARACTERS // 5 + 1)
    file = {"type": "resource", "resource": {"uri": "file:///a.log", "text": words}}
    async with stage(tmp_path, Reply("Hello.")) as it:
        with pytest.raises(
            AgentError, match=r"The maximum is 4,000,000\. Nothing was sent or stored"
        ) as error:
            await it.prompt(
                [file if as_file else {"type": "text", "text": words}], SECONDS
            )
        assert error.value.code == -32602
        assert it.server.calls == []
        assert await it.prompt("Hello") == {"stopReason": "end_turn"}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder)
            assert said(later, "user_message_chunk") == "Hello"


async def test_a_call_that_writes_nearly_as_much_as_it_may_is_asked_shown_and_replayed_in_lines_below_ten(
    tmp_path: Path,
) -> None:
    # With the backslashes of JSON, just below 1 MiB.
    text = ("\t a line\n" * 88_889)[:800_000]
    write = Reply(
        tool_calls=[ToolCall("write", {"path": "large.txt", "content": text})]
    )
    async with stage(tmp_path, write, Reply("Written."), editor=BARE) as it:
        assert await it.prompt("Write much", SECONDS) == {"stopReason": "end_turn"}
        assert (it.folder / "large.txt").read_text() == text
        call = it.calls()[0]
        assert call["status"] == "completed"
        assert call["rawInput"] == {"path": "large.txt", "content": text}
        async with it.restarted() as later:
            await later.agent.load(it.session, it.folder, timeout=SECONDS)
            assert max(longest(it), longest(later)) < LIMIT


async def test_an_edit_that_no_line_to_the_editor_can_hold_is_refused_and_the_model_told(
    tmp_path: Path,
) -> None:
    text = "one\n" + "a line of text\n" * 800_000
    edit = {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "1"}]}
    calls = [ToolCall("read", {"path": "a.txt", "limit": 3}), ToolCall("edit", edit)]
    replies = [*(Reply(tool_calls=[call]) for call in calls), Reply("Done.")]
    async with stage(
        tmp_path, *replies, editor=TOAD, files={"a.txt": text}, dialect="anthropic"
    ) as it:
        assert await it.prompt(timeout=SECONDS) == {"stopReason": "end_turn"}
        assert longest(it) < LIMIT
        assert (it.folder / "a.txt").read_text() == text
        [result] = results(it.server.calls[-1].body)
        assert result.is_error
        assert "a.txt is larger than 10 MiB" in result.text
