"""A summary that is being prepared, or is ready, while something else happens in its
session.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_agent.compaction.strategies.modelless import SUMMARY as EXCERPTS
from support.background import OUT_OF_ROOM, PREPARE, Desk, held
from support.client import AgentError
from support.compactions import is_summary_request, said, shown_compactions
from support.editors import ZED_BETA
from support.memory import agent_in_memory, desk
from support.models import Reply, ToolCall, Usage

SMALL = {
    "models": {
        "openai/gpt-test": {"context_window": 20_000},
        "openai/small-test": {"context_window": 13_000},
    }
}


def whole(it: Desk) -> list[str]:
    return [said(message).splitlines()[-1] for message in it.last]


HOOK = """\
from pathlib import Path
from acp_agent.hooks import *

def note(*words):
    with (Path(__file__).parent / "heard").open("a") as file:
        file.write(" ".join(words) + "\\n")

@hook("before_compaction")
async def before(event, services):
    note("before", event.reason)
    return Outcome.block("Not on a Friday.") if (Path(__file__).parent / "veto").exists() else None

@hook("after_compaction")
async def after(event, services):
    note("after", event.reason)

@hook("turn_end")
async def behind(event, services):
    note("turn_end", event.response)
"""


@pytest.mark.parametrize("vetoed", [False, True], ids=["excerpts", "vetoed"])
@pytest.mark.parametrize("reason", ["model_switch", "resume"])
async def test_a_full_context_is_shortened_without_a_model_unless_a_hook_ends_the_turn(
    tmp_path: Path, reason: str, vetoed: bool
) -> None:
    hooks = tmp_path / "state" / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    hooks.parent.chmod(0o700)
    (hooks / "own.py").write_text(HOOK)
    async with desk(tmp_path, env={}, config=SMALL) as it:
        await it.filled()
        if vetoed:
            (hooks / "veto").touch()
        if reason == "resume":
            it.server.write_config(
                tmp_path, {"models": {"openai/gpt-test": {"context_window": 10_000}}}
            )
        async with agent_in_memory(
            home=tmp_path, env=it.env, capabilities=ZED_BETA
        ) as other:
            agent = it.agent if reason == "model_switch" else other
            if reason == "resume":
                await agent.resume(it.session, tmp_path)
            else:
                await agent.set_config_option(it.session, "model", "openai/small-test")
            it.answers = [Reply("And now this.", usage=Usage(5_000, 5))]
            if vetoed:
                with pytest.raises(
                    AgentError,
                    match=r"A hook did not allow the compaction\. Not on a Friday\.",
                ):
                    await agent.prompt(it.session, "And now?")
            else:
                assert await agent.prompt(it.session, "And now?") == {
                    "stopReason": "end_turn"
                }
                assert whole(it) == ["And now?"]
            assert [shown.text for shown in shown_compactions(agent)] == (
                [] if vetoed else [EXCERPTS]
            )
        told = (hooks / "heard").read_text().splitlines()[1:]
        assert told == [
            "before overflow",
            *([] if vetoed else ["after overflow", "turn_end And now this."]),
        ]


TOO_LONG = {
    "error": {
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
        "message": "too long",
    }
}
REFUSED = Reply(http_status=400, body=TOO_LONG)


@pytest.mark.parametrize("how", ["nearly full", "refused"])
async def test_a_full_window_uses_excerpts_and_bills_the_dropped_summary(
    tmp_path: Path, how: str
) -> None:
    summary, _ = held()

    def answer(body: Mapping[str, Any]) -> Reply:
        if is_summary_request(body):
            return Reply(
                tool_calls=[ToolCall("read", {"path": "a.txt"})], usage=Usage(500, 50)
            )
        return summary if "No tools may run now." in str(body) else it.answers.pop(0)

    async with desk(tmp_path, script=answer) as it:
        await it.filled()
        await it.prompt(
            "Two?",
            Reply(
                "Second answer.",
                usage=Usage(PREPARE if how == "refused" else OUT_OF_ROOM, 5),
            ),
        )
        await it.server.wait_held()
        await it.prompt(
            "Three?", *([REFUSED] if how == "refused" else []), Reply("Third answer.")
        )
        await it.server.wait_aborted()
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses, compaction.text) == (
            ["in_progress", "completed"],
            EXCERPTS,
        )
        assert it.logged().count("summary_dropped") == 1
        assert it.asked == 1
        assert "<recorded_excerpts>" in said(it.last[0])
        assert said(it.last[-1]).endswith("Three?")
