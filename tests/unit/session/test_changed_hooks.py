"""A trusted project's hooks that change while a session is open."""

from __future__ import annotations

from pathlib import Path

from support.editors import ZED_BETA
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import Stage, results

READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])
CONFIG = ".acp-agent/config.yaml"
GUARD = "hooks:\n  PreToolUse:\n    - {command: 'exit 2', timeout: 5}\n"
WRONG = GUARD.replace("timeout", "timeuot")


def notices(it: Stage) -> list[str]:
    return [str(update["title"]) for update in it.agent.updates(kind="notice")]


async def test_each_time_a_hook_becomes_invalid_the_user_is_told(
    tmp_path: Path,
) -> None:
    files = {"a.txt": "one", CONFIG: GUARD}
    replies = [READ, Reply("Done.")] * 5
    async with stage(
        tmp_path, *replies, files=files, editor=ZED_BETA, trusted=True
    ) as it:

        async def read(config: str) -> str:
            (it.folder / CONFIG).write_text(config)
            await it.prompt("Go")
            return results(it.server.calls[-1].body)[0].text

        assert await read(GUARD) == "A hook refused this call."
        left_out = f"A hook was left out. {it.folder / CONFIG}:3: hooks.PreToolUse.0.timeuot: unknown key"
        for times, config in ((1, WRONG), (1, WRONG), (1, GUARD), (2, WRONG)):
            read_now = await read(config)
            assert (read_now == "A hook refused this call.") == (config == GUARD)
            assert [text.startswith(left_out) for text in notices(it)] == [True] * times
        assert it.agent.desk.permissions == []
        log = (it.home / "state" / "logs" / "acp-agent.log").read_text()
        assert log.count(f"hook left out: {it.folder / CONFIG}:3: ") == 2
