"""A hook can replace the conversation with its own messages, or show a summary."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.background import LONG, SUMMARY
from support.compactions import shown_compactions
from support.memory import desk
from support.models import Reply

REPLACE = """#!{python}
import json, sys
if sys.argv[1] == "hook":
    print("agent_stop")
elif "Replace" in str(json.load(sys.stdin)["messages"][-2]):
    print(json.dumps({{"action": "replace", "replace_messages": [
        {{"role": "user", "content": "A cart adds prices."}},
        {{"role": "assistant", "content": [{{"type": "tool_use", "id": "t1", "name": "read", "input": {{}}}}]}},
        {{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "t1", "content": "one"}}]}},
        {{"role": "assistant", "content": "It is read."}}]}}))
"""
SUMMARY_ASKED = """#!{python}
import json, sys
if sys.argv[1] == "hook":
    print("agent_stop")
elif "sum up" in str(json.load(sys.stdin)["messages"][-2]):
    print(json.dumps({{"action": "summary", "instructions": "Mind the prices."}}))
"""


def with_program(home: Path, text: str) -> None:
    folder = home / "state" / "hooks"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "stop").write_text(text.format(python=sys.executable))
    (folder / "stop").chmod(0o755)


async def test_a_hook_s_messages_replace_the_conversation_and_undo_restores_it(
    tmp_path: Path,
) -> None:
    with_program(tmp_path, REPLACE)
    async with desk(tmp_path) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("Replace it.", Reply("Done."))
        [shown] = shown_compactions(it.agent)
        assert "replaced the conversation with 4 messages of its own" in shown.text
        await it.prompt("Two?", Reply("Second."))
        roles = [message["role"] for message in it.last]
        assert roles == ["user", "assistant", "user", "assistant", "user"]
        assert LONG not in json.dumps(it.last)
        assert "It is read." in json.dumps(it.last)
        # Nothing was lost: `/compact undo` restores the conversation.
        await it.prompt("/compact undo")
        await it.prompt("Three?", Reply("Third."))
        said = json.dumps(it.last)
        assert LONG in said
        assert "It is read." not in said
        assert [word in said for word in ("Replace it.", "Two?", "Second.")] == [
            True,
            True,
            True,
        ]


async def test_a_summary_that_a_hook_requests_is_shown_without_compacting(
    tmp_path: Path,
) -> None:
    with_program(tmp_path, SUMMARY_ASKED)
    veto = {"hooks": {"PreCompact": [{"command": "touch asked; exit 2"}]}}
    async with desk(tmp_path, Reply(SUMMARY), config=veto) as it:
        await it.prompt("One?", Reply(LONG))
        await it.prompt("Now sum up", Reply("I will."))
        assert SUMMARY in it.agent.text()
        assert (it.asked, shown_compactions(it.agent)) == (1, [])
        # Nothing is compacted, so no hook runs before a compaction.
        assert not (tmp_path / "asked").exists()
        assert any(call.mentions("Mind the prices.") for call in it.server.calls)
        await it.prompt("Two?", Reply("Second."))
        assert LONG in json.dumps(it.last)
