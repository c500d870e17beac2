"""Hooks of a real agent that fail: what that means, and who is told of it."""

from __future__ import annotations

from pathlib import Path

from support.editors import ZED_BETA
from support.models import Reply
from support.plugins import install
from support.stage import conversation, stage

BROKEN = """\
from acp_agent.hooks import hook

@hook("session_start")
def one(event, services):
    raise ValueError("ONE")

@hook("agent_stop", on_error="block")
def two(event, services):
    raise ValueError("TWO")
"""
TESTS = """grep -q 'stop_hook_active": true' || echo '{"decision": "block", "reason": "Run the tests."}'"""


async def test_a_hook_that_first_fails_at_a_later_answer_keeps_the_agent_going_once_for_each_prompt(
    tmp_path: Path,
) -> None:
    lint = {"command": "exit 1", "name": "lint", "on_error": "block"}
    config = {"hooks": {"Stop": [{"command": TESTS, "name": "tests"}, lint]}}
    package = install(tmp_path / "packages", "failing", BROKEN, "acp_agent.hooks", "failing")
    replies = [Reply(f"Answer {number}.") for number in range(8)]
    async with stage(tmp_path, *replies, config=config, env=package, editor=ZED_BETA) as it:
        await it.prompt("Go")
        said = [text for role, text in conversation(it.server.calls[-1].body) if role == "user"]
        reasons = ("Run the tests.", "The hook lint failed.", "The hook two failed.")
        assert [sum(reason in text for text in said) for reason in reasons] == [1, 1, 1]
        assert len(it.server.calls) == 4
        await it.prompt("Go on")
        assert len(it.server.calls) == 8
        # However many hooks stand in one place, the user is told of each of them.
        notices = [update["title"] for update in it.agent.updates(kind="notice")]
        assert [sum(f"The hook {name} (" in text for text in notices) for name in ("one", "two", "lint")] == [1, 1, 1]
        assert len(notices) == 3
