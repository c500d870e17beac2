"""Programs as hooks of a real agent: what they answer is done."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from support.client import AgentProcess
from support.compactions import shown_compactions
from support.models import Reply, ToolCall
from support.stage import conversation, results, stage

GUARD = f'''#!{sys.executable}
"""A guard as one writes it for Claude Code."""
import json, sys
told = json.load(sys.stdin)
command = told["tool_input"].get("command", "")
def answer(**keys):
    print(json.dumps({{"hookSpecificOutput": {{"hookEventName": "PreToolUse", **keys}}}}))
if told["tool_name"] != "Bash":
    sys.exit(0)
if "rm -rf" in command:
    print("Never delete.", file=sys.stderr)
    sys.exit(2)
if command == "pwd":
    answer(permissionDecision="deny", permissionDecisionReason="You know where you are.")
elif command.startswith("echo"):
    answer(permissionDecision="allow", updatedInput={{"command": command + " twice"}})
elif command == "true":
    answer(permissionDecision="ask", additionalContext="It is Monday.")
'''
CHECK = f"""#!{sys.executable}
import json, sys
if sys.argv[1] == "hook":
    print("Stop, after_tool_call")
    sys.exit()
told = json.load(sys.stdin)
with open("told.jsonl", "a") as file:
    file.write(json.dumps(told) + "\\n")
if told["event"] == "after_tool_call":
    if told["tool_name"] == "Bash":
        print(json.dumps({{"tool_output": told["tool_response"]["stdout"].upper() + "!", "systemMessage": "Louder."}}))
elif not told["stop_hook_active"]:
    print(json.dumps({{"action": "continue", "follow_up_messages": ["Now run the linter."]}}))
"""


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def permissions(agent: AgentProcess) -> list[str]:
    return [
        str(line.params["toolCall"]["toolCallId"])
        for line in agent.lines
        if line.params and line.method == "session/request_permission"
    ]


async def test_hooks_written_for_claude_code_guard_change_and_judge_calls(tmp_path: Path) -> None:
    guard = executable(tmp_path / "guard.py", GUARD)
    executable(tmp_path / "home" / "state" / "hooks" / "check", CHECK)
    config = {"hooks": {"PreToolUse": [{"command": f"'{guard}'", "matcher": "Bash"}]}}
    shell = [ToolCall("shell", {"command": command}) for command in ("rm -rf x", "pwd", "echo one", "true")]
    replies = [
        Reply(tool_calls=[ToolCall("read", {"path": "a.txt"}), *shell]),
        Reply("Done."),
        Reply("Linted."),
    ]
    async with stage(tmp_path, *replies, config=config, dialect="anthropic") as it:
        assert await it.prompt("Go") == {"stopReason": "end_turn"}
        read, remove, pwd, echo, true = results(it.server.calls[1].body)
        assert ("two" in read.text, read.is_error) == (True, False)
        assert (remove.text, remove.is_error) == ("A hook refused this call. Never delete.", True)
        assert pwd.text == "A hook refused this call. You know where you are."
        assert echo.text.startswith("ONE TWICE\n!\n")
        assert "\nIt is Monday." in true.text
        asked = permissions(it.agent)
        told = [json.loads(line) for line in (it.folder / "told.jsonl").read_text().splitlines()]
        assert len(asked) == 1
        assert conversation(it.server.calls[2].body)[-1] == ("user", "Now run the linter.")
        stops = [(line["hook_event_name"], line["stop_hook_active"]) for line in told if line["event"] == "agent_stop"]
        assert stops == [("Stop", False), ("Stop", True)]
        transcript = Path(told[-1]["transcript_path"])
        assert "Now run the linter." in transcript.read_text()
        answers = [line for line in map(json.loads, transcript.read_text().splitlines()) if line["type"] == "assistant"]
        assert {line["message"]["model"] for line in answers} == {it.server.calls[0].body["model"]}
        assert told[-1]["messages"][-1] == {"role": "assistant", "content": "Linted."}
        await it.agent.request("session/delete", {"sessionId": it.session})
        assert not transcript.exists()


TALK = f"""#!{sys.executable}
import json, sys
told = json.load(sys.stdin)
match told["hook_event_name"]:
    case "SessionStart":
        print("The house rule is: no tabs. Source: " + told["source"])
    case "UserPromptSubmit" if "secret" in told["prompt"]:
        print(json.dumps({{"decision": "block", "reason": "That is a secret."}}))
    case "UserPromptSubmit" if "stop" in told["prompt"]:
        print(json.dumps({{"continue": False, "stopReason": "Enough for today."}}))
    case "UserPromptSubmit":
        print(json.dumps({{"message": told["prompt"] + " Be brief.", "systemMessage": "Made brief."}}))
"""


async def test_what_hooks_say_of_sessions_and_prompts_reaches_the_model_and_the_user(tmp_path: Path) -> None:
    talk = str(executable(tmp_path / "talk.py", TALK))
    broken: dict[str, Any] = {"command": "echo gone >&2; exit 3", "name": "broken", "on_error": "allow"}
    config = {
        "hooks": {
            "session_start": [{"command": [talk], "matcher": "startup"}],
            "UserPromptSubmit": [broken, {"command": [talk]}],
        }
    }
    async with stage(tmp_path, Reply("Short."), config=config) as it:
        await it.prompt("Explain.")
        sent = "\n".join(text for _, text in conversation(it.server.calls[0].body))
        assert "The house rule is: no tabs. Source: new" in sent
        assert "Explain. Be brief." in sent
        assert await it.prompt("My secret is 7.") == {"stopReason": "end_turn"}
        assert await it.prompt("Please stop.") == {"stopReason": "end_turn"}
        assert len(it.server.calls) == 1
        shown = it.agent.text()
        assert "That is a secret." in shown
        assert "Enough for today." in shown
        notices = json.dumps(it.agent.updates())
        assert "Made brief." in notices
        assert notices.count("It ended with status 3. It said: gone") == 1


async def test_a_program_writes_the_summary_of_a_compaction_and_another_is_told_of_it(tmp_path: Path) -> None:
    summary = json.dumps({"hookSpecificOutput": {"hookEventName": "PreCompact", "summary": "All about carts."}})
    config = {
        "hooks": {
            "PreCompact": [
                {"command": "exit 2", "matcher": "auto"},
                {"command": ["echo", summary], "matcher": "manual"},
            ],
            "after_compaction": [{"command": "cat > told.json"}],
            "SessionStart": [{"command": "echo Carts come first.", "matcher": "compact"}],
        }
    }
    async with stage(tmp_path, Reply("Adds prices. " * 600), Reply("Yes."), config=config) as it:
        await it.prompt("What is this?")
        await it.prompt("/compact keep the API")
        [compaction] = shown_compactions(it.agent)
        assert compaction.statuses[-1] == "completed"
        told = json.loads((it.folder / "told.json").read_text())
        assert (told["summary"], told["trigger"]) == ("All about carts.", "manual")
        assert told["input_tokens"] > 0
        await it.prompt("And now?")
        assert len(it.server.calls) == 2
        assert it.server.calls[1].mentions("All about carts.")
        assert it.server.calls[1].mentions("Carts come first.")


async def test_a_program_asks_for_a_compaction_when_the_agent_stops(tmp_path: Path) -> None:
    compact = "grep -q 'compact now' && echo '{\"action\": \"compact\"}'; true"
    replies = [Reply("Adds prices. " * 600), Reply("I compact now."), Reply("All about carts.")]
    async with stage(tmp_path, *replies, config={"hooks": {"Stop": [{"command": compact}]}}) as it:
        await it.prompt("What is this?")
        assert not shown_compactions(it.agent)
        assert await it.prompt("Go on.") == {"stopReason": "end_turn"}
        [compaction] = shown_compactions(it.agent)
        assert (compaction.statuses[-1], compaction.text) == ("completed", "All about carts.")
        assert len(it.server.calls) == 3
