"""A hook that vetoes every compaction: the reason that it gets, and when its veto ends
a turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.background import LONG, OUT_OF_ROOM, THRESHOLD
from support.client import AgentError
from support.editors import ZED_BETA
from support.memory import stage
from support.models import Reply, Usage

VETO = [{"command": "(cat; echo) >> ../events.jsonl; echo Not on Fridays. >&2; exit 2"}]
CONFIG = {
    "hooks": {"before_compaction": VETO},
    "compaction": {"prepare": False},
    "models": {"openai/small": {"context_window": 20_000}},
}
FULL = 18_000
FIRST = f"One? {'What is in the cart? ' * 300}"
"""So long that the first counts are believed, which are to be less than eight times
what is expected.
"""
CASES = {
    "over the threshold": (THRESHOLD, "Two?", "", "threshold"),
    "nearly full": (OUT_OF_ROOM, "Two?", "", "threshold"),
    "full": (FULL, "Two?", "", "overflow"),
    "a first prompt over the threshold, of which nothing can be compacted": (
        0,
        "word " * 10_500,
        "",
        "",
    ),
    "a first prompt that does not fit": (0, "word " * 20_000, "", "overflow"),
    "too long after loading": (FULL, "Two?", "load", "overflow"),
    "too long for a smaller model": (FULL, "Two?", "model", "overflow"),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_veto_ends_a_turn_only_if_the_request_does_not_fit(
    tmp_path: Path, case: str
) -> None:
    used, prompt, then, reason = CASES[case]

    def reply(body: Mapping[str, Any]) -> Reply:
        return (
            Reply(LONG, usage=Usage(used - 400, 400))
            if "One?" in str(body)
            else Reply("Yes.")
        )

    env = {} if then == "model" else {"ACP_AGENT_CONTEXT_WINDOW": "20000"}
    async with stage(
        tmp_path, script=reply, config=CONFIG, editor=ZED_BETA, env=env
    ) as it:
        if used:
            await it.prompt(FIRST)
        if then == "load":
            await it.agent.request("session/close", {"sessionId": it.session})
            await it.agent.load(it.session, it.folder)
        elif then == "model":
            await it.agent.set_config_option(it.session, "model", "openai/small")
        if reason == "overflow":
            with pytest.raises(
                AgentError,
                match=r"A hook did not allow the compaction\. Not on Fridays\.",
            ):
                await it.prompt(prompt)
        else:
            assert await it.prompt(prompt) == {"stopReason": "end_turn"}
        file = tmp_path / "events.jsonl"
        reasons = (
            [
                json.loads(line)["compaction_reason"]
                for line in file.read_text().splitlines()
            ]
            if reason
            else []
        )
        assert (reasons, file.exists()) == ([reason] if reason else [], bool(reason))
