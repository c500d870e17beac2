"""Several hooks of a real agent, of every origin: their order, and what comes of their answers together."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from support.compactions import shown_compactions
from support.dialogues import texts
from support.models import Reply, ToolCall
from support.stage import stage

SIGN = f"""#!{sys.executable}
import json, os, sys
name = sys.argv[1] if len(sys.argv) > 1 else ""
if name == "hook":
    print("after_tool_call")
    sys.exit()
told = json.load(sys.stdin)
name = os.path.basename(sys.argv[0]) if name == "run" else name
print(json.dumps({{"tool_output": told["tool_output"].strip() + " " + name}}))
"""
RECIPE = """\
---
hooks:
  after_tool_call:
    handlers:
    - handler: validate_tool_output
      params: {tool: read, pattern: config.yaml 1-user 2-user project.yaml 0-project$}
    - handler: validate_tool_output
      params: {tool: read, pattern: the end}
---
Read it.
"""
NOISY = {"command": "yes | head -c 3000000", "name": "noisy", "matcher": "LS", "on_error": "block"}


def stop(answer: dict[str, object], name: str) -> dict[str, object]:
    """A command that answers at the first stop of a prompt alone."""
    return {"command": f"grep -q '\"stop_hook_active\": true' || echo '{json.dumps(answer)}'", "name": name}


def precompact(summary: str) -> dict[str, object]:
    return {"command": ["echo", json.dumps({"summary": summary})], "name": f"writes {summary}"}


async def test_hooks_of_all_origins_are_asked_in_order_and_each_sees_what_the_last_one_made(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    user, project = tmp_path / "home" / "state" / "hooks", tmp_path / "project" / ".acp-agent" / "hooks"
    for path in (sign, user / "2-user", user / "1-user", project / "0-project"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SIGN)
        path.chmod(0o755)
    os.mkfifo(tmp_path / "meet")
    config = {
        "hooks": {
            "PostToolUse": [{"command": [str(sign), "config.yaml"], "matcher": "Read"}],
            "PreToolUse": [NOISY],
            "Stop": [
                stop({"action": "continue", "messages": ["Go on."]}, "first"),
                stop({"action": "compact"}, "late"),
            ],
            "PreCompact": [precompact(" "), precompact("one"), precompact("two")],
            # Each waits for the other; asked one after the other, neither would ever end.
            "after_compaction": [{"command": "echo here > ../meet"}, {"command": "cat ../meet > ../met"}],
        }
    }
    brought = {"hooks": {"after_tool_call": [{"command": [str(sign), "project.yaml"], "matcher": "read"}]}}
    files = {
        "a.txt": "one\n",
        ".acp-agent/recipes/look.md": RECIPE,
        ".acp-agent/config.yaml": json.dumps(brought),
    }
    calls = [ToolCall("read", {"path": "a.txt"}), ToolCall("list", {})]
    replies = [Reply("I look.", tool_calls=calls), Reply("Adds prices. " * 600), Reply("That is all.")]
    async with stage(tmp_path, *replies, config=config, files=files, trusted=True) as it:
        assert await it.prompt("/look") == {"stopReason": "end_turn"}
        read, listed = texts(it.server.calls[1].body, "result")
        output, objection = read.split("\n", 1)
        assert output.endswith("one config.yaml 1-user 2-user project.yaml 0-project")
        assert "nothing in it matches the pattern the end" in objection
        assert "pattern config" not in objection
        assert "A hook refused this call." in listed
        assert "It printed more than 1024 KiB on stdout, and was ended." in listed
        # The first action holds.
        assert it.server.calls[2].mentions("Go on.")
        assert not shown_compactions(it.agent)

        # The first summary that is not blank holds, and those who are told of it are told at once.
        await it.prompt("/compact")
        assert shown_compactions(it.agent)[0].text == "one"
        assert len(it.server.calls) == 3
        assert (tmp_path / "met").read_text() == "here\n"
        log = "".join(path.read_text() for path in (it.home / "state").rglob("*.log"))
        assert "action of the hook late is not used: a hook before it wanted another" in log
        assert "summary of the hook writes two is not used: a hook before it wanted another" in log
