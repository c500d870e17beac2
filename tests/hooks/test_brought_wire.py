"""What people bring from Claude Code, to a real agent: its settings, as JSON, and what is wrong with some of them."""

from __future__ import annotations

import json
from pathlib import Path

from support.models import Reply, ToolCall
from support.stage import stage

SETTINGS = {
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [
                    {"type": "prompt", "prompt": "Is this harmless?"},
                    {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/guard.sh', "timeout": 20},
                ],
            }
        ],
        "Stop": [{"command": "true", "timeout": "soon"}],
        "Notification": [{"hooks": [{"type": "command", "command": "notify-send Claude"}]}],
        "SubagentStop": [{"hooks": [{"type": "command", "command": "touch stopped"}]}],
    }
}
GUARD = "#!/bin/sh\nif grep -q 'rm -rf'; then echo 'Never delete.' >&2; exit 2; fi\n"


async def test_settings_of_claude_code_guard_a_session_and_what_is_no_use_here_is_told_once(tmp_path: Path) -> None:
    guard = tmp_path / "project" / "guard.sh"
    guard.parent.mkdir()
    guard.write_text(GUARD)
    guard.chmod(0o755)
    lost = tmp_path / "home" / "state" / "hooks" / "lost.sh"
    lost.parent.mkdir(parents=True)
    lost.write_text("#!/bin/sh\necho Stop\n")
    replies = [Reply(tool_calls=[ToolCall("shell", {"command": "rm -rf x"})]), Reply("I will not."), Reply("Yes.")]
    async with stage(tmp_path, *replies, config=SETTINGS) as it:
        assert await it.prompt("Go") == {"stopReason": "end_turn"}
        assert await it.prompt("And now?") == {"stopReason": "end_turn"}
        assert it.server.calls[1].mentions("A hook refused this call. Never delete.")
        notices = json.dumps(it.agent.updates())
        file = it.home / "state" / "config.yaml"
        lines = file.read_text().splitlines()
        prompt, stop = (1 + next(i for i, line in enumerate(lines) if word in line) for word in ("harmless", "soon"))
        for told in (
            f"{file}:{prompt - 2}: hooks.PreToolUse.0.hooks.0: its `type` is none that is run here",
            f"{file}:{stop}: hooks.Stop.0.timeout: should be a valid number",
            f"A hook was left out. {lost}: not executable: chmod +x {lost}",
            "hooks: Notification and SubagentStop: there are no such events here",
        ):
            assert notices.count(told) == 1
