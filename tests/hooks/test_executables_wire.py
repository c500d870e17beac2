"""Programs as hooks of a real agent: what they answer is done."""

from __future__ import annotations

from pathlib import Path

from support.models import Reply, ToolCall
from support.processes import processes
from support.stage import results, stage

STUCK = "sleep 600 & echo $! > child; wait"


async def test_a_hook_that_blocks_when_it_fails_refuses_the_call_and_leaves_no_process(tmp_path: Path) -> None:
    config = {"hooks": {"PreToolUse": [{"command": STUCK, "name": "stuck", "timeout": 2, "on_error": "block"}]}}
    replies = [Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})]), Reply("I cannot.")]
    async with stage(tmp_path, *replies, config=config, dialect="anthropic") as it:
        await it.prompt("Go")
        [refused] = results(it.server.calls[1].body)
        assert refused.is_error
        assert "A hook refused this call. The hook stuck failed. It did not answer within 2 seconds." in refused.text
        child = (it.folder / "child").read_text().strip()
        assert child not in {str(process.pid) for process in processes()}
