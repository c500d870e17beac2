"""What hooks tell the user, and what they want where it cannot be: as an editor shows it, and as the model reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.editors import ZED, ZED_BETA
from support.models import Reply, ToolCall
from support.stage import conversation, results, stage


def saying(**answer: Any) -> dict[str, Any]:
    """A hook that answers this."""
    return {"command": ["echo", json.dumps(answer)]}


READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])


async def test_what_a_hook_wants_in_the_wrong_place_is_told_once_and_the_rest_of_it_is_done(tmp_path: Path) -> None:
    swap = saying(action="replace", replace_messages=[{"role": "user", "content": "x"}], context="Mind the gap.")
    hooks = {
        "SessionStart": [{"command": "echo no start >&2; exit 2", "name": "grumpy"}, {"command": "echo I am second"}],
        "PreToolUse": [{**swap, "name": "swapper"}],
        "PostToolUse": [saying(context="x" * 70_000)],
    }
    async with stage(tmp_path, READ, READ, Reply("Done."), config={"hooks": hooks}, editor=ZED_BETA) as it:
        await it.prompt("Go")
        told = [update["title"] for update in it.agent.updates(kind="notice")]
        assert told[0] == "The hook grumpy at session_start: no start"
        [text] = told[1:]
        assert "The hook swapper (" in text
        assert "answered `action: replace` at before_tool_call, where only these are possible:" in text
        assert "I am second" in "\n".join(text for _, text in conversation(it.server.calls[0].body))
        [result] = results(it.server.calls[1].body)
        assert "\nMind the gap." in result.text
        assert "xx\n[4,464 more characters of this hook were left out]\n" in result.text
        assert len(result.text) < 67_000


async def test_a_hook_is_told_of_the_recipe_that_runs_and_of_none_once_it_is_over(tmp_path: Path) -> None:
    names = ("user_message_send", "before_compaction", "turn_end", "after_compaction", "SessionStart", "SessionEnd")
    hooks = {name: [{"command": "cat >> told.jsonl; echo >> told.jsonl"}] for name in names}
    replies = [Reply("Explained. " * 600), Reply("Done."), Reply("All about carts.")]
    async with stage(tmp_path, *replies, config={"hooks": hooks}) as it:
        await it.prompt("/explain a.txt")
        await it.prompt("Go on")
        await it.prompt("/compact")
        await it.agent.request("session/close", {"sessionId": it.session})
        told = [json.loads(line) for line in (it.folder / "told.jsonl").read_text().splitlines() if line]
        assert [(each["event"], each["invoked_by"], each["turn_number"]) for each in told] == [
            ("session_start", "", 1),
            ("user_message_send", "explain", 1),
            ("turn_end", "explain", 1),
            ("user_message_send", "", 1),
            ("turn_end", "", 1),
            ("before_compaction", "compact", 1),
            ("turn_end", "compact", 1),
            ("after_compaction", "compact", 1),
            ("session_start", "compact", 1),
            ("session_end", "", 1),
        ]


async def test_what_a_hook_tells_is_shown_though_the_turn_is_cancelled_while_the_next_one_takes_its_time(
    tmp_path: Path,
) -> None:
    slow = {"command": "sleep 30", "timeout": 60}
    async with stage(tmp_path, READ, config={"hooks": {"PreToolUse": [saying(systemMessage="NO LINTER"), slow]}}) as it:
        turn = await it.agent.start_prompt(it.session, "Go")
        await it.agent.wait_update("agent_message_chunk")
        assert it.agent.text().count("NO LINTER") == 1
        await it.agent.notify("session/cancel", {"sessionId": it.session})
        assert await turn.result() == {"stopReason": "cancelled"}
        assert it.agent.text().count("NO LINTER") == 1


async def test_what_is_to_be_told_outside_of_a_turn_is_shown_with_the_next_prompt_of_any_kind(tmp_path: Path) -> None:
    async with stage(tmp_path, editor=ZED) as it:
        recipes = it.home / "state" / "recipes"
        recipes.mkdir(parents=True)
        (recipes / "wrong.md").write_text("---\nmodle: x\n---\nHi.\n")
        session = await it.agent.new_session(it.folder)
        await it.agent.wait_update("available_commands_update", session)
        assert it.agent.text() == ""
        await it.agent.prompt(session, "/help")
        assert it.agent.text().count("wrong.md") == 1
        await it.agent.prompt(session, "/help")
        assert it.agent.text().count("wrong.md") == 1


async def test_a_session_that_is_opened_in_another_folder_has_its_hooks_run_there(tmp_path: Path) -> None:
    config = {"hooks": {"Stop": [{"command": 'cp /dev/stdin told.json; pwd > "$CLAUDE_PROJECT_DIR/place"'}]}}
    async with stage(tmp_path, Reply("One."), Reply("Two."), config=config) as it:
        await it.prompt("Go")
        it.folder.rename(tmp_path / "moved")
        async with it.restarted() as later:
            await later.agent.load(it.session, tmp_path / "moved")
            await later.prompt("Go on")
            told = json.loads((tmp_path / "moved" / "told.json").read_text())
            assert (tmp_path / "moved" / "place").read_text() == f"{tmp_path / 'moved'}\n"
            assert told["cwd"] == str(tmp_path / "moved")
