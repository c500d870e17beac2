"""Recipe files as an editor sees them: nested folders, Claude Code's commands, and
files that change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acp_agent.session.slash import offer
from support.compactions import asked_last
from support.editors import ZED_BETA
from support.memory import stage
from support.models import Reply
from support.questions import answers
from support.replies import ToolCall
from support.stage import PATIENCE, Stage, results

PR = "---\ndescription: Open a pull request\narguments:\n  base: {required: true}\n---\nOpen it against {{ base }}.\n"
FIX = """\
---
description: Fix an issue
argument-hint: [issue] [priority]
allowed-tools: Bash(echo fix:*), Edit, WebFetch, mcp__x__y
model: opus
zebra: 1
---
Fix #$1 with ${{ secrets }} at $2. Look at !`echo fix now` and @a.txt.
"""


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text)


def offered(update: Mapping[str, Any]) -> dict[str, str]:
    """Return the hints of the offered commands, by name."""
    return {
        command["name"]: (command.get("input") or {}).get("hint", "")
        for command in update["availableCommands"]
    }


async def offers(it: Stage, since: int) -> dict[str, str]:
    """Return the next list of commands."""
    line = await it.agent.wait_for(
        lambda line: (
            line.update_kind == "available_commands_update"
            and line in it.agent.lines[since:]
        ),
        PATIENCE,
    )
    return offered(line.update)


async def test_a_recipe_in_a_folder_is_offered_as_one_word_and_accepted_in_both_forms(
    tmp_path: Path,
) -> None:
    files = {
        ".acp-agent/recipes/github/pr.md": PR,
        ".acp-agent/recipes/github/Bad/x.md": "x",
    }
    async with stage(
        tmp_path,
        Reply("One."),
        Reply("Two."),
        Reply("Three."),
        files=files,
        editor=ZED_BETA,
        trusted=True,
    ) as it:
        [update] = it.agent.updates(kind="available_commands_update")
        assert offered(update)["github:pr"] == "base=… [instructions]"
        notice = await it.update("notice")
        assert (
            "a recipe's file and its folders are named with lower-case letters"
            in str(notice)
        )
        await it.prompt("/github:pr base=main")
        await it.prompt("/github/pr base=dev")
        await it.prompt("/github/other base=dev")
        assert [asked_last(call.body) for call in it.server.calls] == [
            "Open it against main.",
            "Open it against dev.",
            "/github/other base=dev",
        ]
        answers(it, {"action": "decline"})
        await it.prompt("/github:pr")
        assert it.agent.text().endswith(
            "`/github:pr` was not run: it needs `base`. Send it like this: `/github:pr base=…`."
        )


async def test_claude_code_commands_work_and_the_agents_own_recipes_come_first(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    write(
        home / ".claude" / "commands",
        {"Team/Fix It.md": FIX, "own.md": "Claude's.", "compact.md": "No hook."},
    )
    write(home / "state" / "recipes", {"own.md": "Ours."})
    files = {
        ".claude/commands/team/fix-it.md": FIX.replace("Fix #", "Mend #"),
        ".claude/commands/pin.md": "Mine.",
        ".claude/commands/empty.md": "---\n---\n",
        "a.txt": "one\n",
    }
    calls = [
        ToolCall("shell", {"command": "echo fix it"}),
        ToolCall("shell", {"command": "echo no"}),
    ]
    calls += [
        ToolCall("read", {"path": "a.txt"}),
        ToolCall("write", {"path": "b.txt", "content": ""}),
    ]
    replies = [Reply(tool_calls=calls), Reply("Done."), Reply("Ours.")]
    async with stage(
        tmp_path,
        *replies,
        files=files,
        editor=ZED_BETA,
        mode="full-access",
        trusted=True,
        dialect="anthropic",
    ) as it:
        [update] = it.agent.updates(kind="available_commands_update")
        assert offered(update)["team:fix-it"] == "[issue] [priority]"
        assert {"compact", "own", "team:fix-it", "pin"} <= offered(update).keys()
        assert "empty" not in offered(update)
        assert not it.agent.updates(kind="notice")
        await it.prompt("/team:fix-it 7 '{{ $1 }}'")
        assert asked_last(it.server.calls[0].body) == (
            "Mend #7 with ${{ secrets }} at {{ $1 }}. Look at fix now and @a.txt."
        )
        assert [result.is_error for result in results(it.server.calls[1].body)] == [
            False,
            True,
            False,
            True,
        ]
        await it.prompt("/own")
        assert asked_last(it.server.calls[2].body) == "Ours."


async def test_a_changed_recipe_file_is_offered_again_without_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offer, "WATCH_SECONDS", 0.05)
    folder = tmp_path / "project" / ".acp-agent" / "recipes"
    async with stage(tmp_path, Reply("One."), Reply("Two."), editor=ZED_BETA) as it:
        start = len(it.agent.lines)
        write(folder, {"late.md": "Late: {{ instructions }}"})
        assert "late" in await offers(it, start)

        write(
            folder,
            {
                "late.md": "Later: {{ instructions }}",
                "team/new.md": "New.",
                "bad.md": "---\nzebra: 1\n---\nx",
            },
        )
        start = len(it.agent.lines)
        await it.prompt("/late one")
        assert asked_last(it.server.calls[0].body) == "Later: one"
        assert "team:new" in await offers(it, start)
        notices = [str(notice) for notice in it.agent.updates(kind="notice")]
        assert [("bad.md" in notice, "zebra" in notice) for notice in notices] == [
            (True, True)
        ]

        start = len(it.agent.lines)
        (folder / "late.md").unlink()
        assert "late" not in await offers(it, start)
        await it.prompt("/late one")
        assert asked_last(it.server.calls[1].body) == "/late one"
        assert len(it.agent.updates(kind="notice")) == 1
