"""A model that fails: what the editor is answered, what is kept, and what the next request says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.client import AgentError
from support.editors import ZED_BETA
from support.models import KEY
from support.replies import BEFORE_HEADERS, Reply
from support.stage import Stage, conversation, stage

NOW = {"retry-after": "0"}


async def failure(it: Stage, prompt: str = "Go on") -> AgentError:
    """The error of a prompt, whose sentence stands in its message alone."""
    with pytest.raises(AgentError) as error:
        await it.prompt(prompt)
    assert error.value.message
    assert error.value.data is None
    assert "Traceback" not in error.value.message
    assert it.agent.stderr == ""
    return error.value


async def replayed(it: Stage) -> list[tuple[str, str]]:
    """Kind and text of each message that another process replays."""
    async with it.restarted() as later:
        await later.agent.load(it.session, it.folder)
        return [
            (update["sessionUpdate"].removesuffix("_message_chunk"), update["content"]["text"])
            for update in later.agent.updates()
            if update["sessionUpdate"].endswith("_message_chunk")
        ]


async def test_a_refused_key_is_auth_required_at_once_and_a_new_prompt_tries_again(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("Yes."), dialect="anthropic") as it:
        it.server.key = "another-key"
        error = await failure(it)
        assert error.code == -32000
        assert "ANTHROPIC_API_KEY" in error.message
        assert KEY not in error.message
        assert sum(request.path == "/v1/messages" for request in it.server.requests) == 1
        it.server.key = KEY
        assert await it.prompt("Now?") == {"stopReason": "end_turn"}


PASSING = {
    "429": Reply(http_status=429, headers=NOW),
    "529": Reply(http_status=529, headers=NOW),
    "503": Reply(http_status=503, headers=NOW),
    "error event": Reply("lost", sse_error="overloaded_error"),
    "no answer": Reply(drop_after=BEFORE_HEADERS),
    "cut before text": Reply("lost", drop_after=0),
}


async def test_what_passes_by_itself_is_tried_again_and_the_text_comes_once(tmp_path: Path) -> None:
    replies = [reply for trouble in PASSING.values() for reply in (trouble, Reply(["Hello", "."]))]
    async with stage(tmp_path, *replies, editor=ZED_BETA) as it:
        for number, name in enumerate(PASSING):
            heard = len(it.agent.lines)
            assert await it.prompt(name) == {"stopReason": "end_turn"}
            assert it.agent.text(since=heard) == "Hello."
            first, second = it.server.calls[2 * number :]
            assert first.body == second.body
            # An editor that shows notices is told that something is waited for.
            assert len(it.agent.updates(kind="notice", since=heard)) == 1
        shown = [("user", name) for name in PASSING]
        assert await replayed(it) == [line for name in shown for line in (name, ("agent", "Hello."))]


BROKEN = Reply(["Half ", "of ", "it"], drop_after=2)


@pytest.mark.parametrize(
    "broken",
    [BROKEN, replace(BROKEN, drop_after=None, sse_error="overloaded_error", fail_after=2)],
    ids=["cut", "error event"],
)
async def test_an_answer_that_breaks_off_is_an_error_and_what_was_shown_is_kept(tmp_path: Path, broken: Reply) -> None:
    async with stage(tmp_path, broken, Reply("Whole.")) as it:
        error = await failure(it, "Tell me")
        assert error.code == -32603
        assert "broke off" in error.message
        assert it.agent.text() == "Half of "
        assert len(it.server.calls) == 1
        assert await it.prompt("Again") == {"stopReason": "end_turn"}
        said = conversation(it.server.calls[1].body)
        assert said[0] == ("user", "Tell me")
        assert ("assistant", "Half of") in [(role, text.strip().split("\n")[0].strip()) for role, text in said]
        assert said[-1][1].endswith("Again")
        assert await replayed(it) == [
            ("user", "Tell me"),
            ("agent", "Half of "),
            ("user", "Again"),
            ("agent", "Whole."),
        ]
