"""The slash commands that a client offers, and `/help`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acp_agent.session.commands import BUILT_IN
from support.memory import stage

USAGE = "---\ndescription: Use it\narguments:\n  depth: {description: how deep, default: '2'}\n---\nUse it.\n"


async def test_commands_are_offered_and_listed_by_help_and_recipes_cannot_replace_them(
    tmp_path: Path,
) -> None:
    recipes = {
        f".acp-agent/recipes/{command.name}.md": "Mine.\n" for command in BUILT_IN
    }
    async with stage(
        tmp_path, files={**recipes, ".acp-agent/recipes/use/it.md": USAGE}
    ) as it:
        update = it.agent.updates(kind="available_commands_update")[-1]
        offered: dict[str, Mapping[str, Any]] = {
            offer["name"]: offer for offer in update["availableCommands"]
        }
        assert list(offered)[-7:] == [
            "context",
            "export",
            "help",
            "model",
            "pin",
            "undo",
            "unpin",
        ]
        hints = {
            name: (offered[name].get("input") or {}).get("hint")
            for name in ("export", "model", "undo")
        }
        assert hints == {"export": "[path]", "model": "[provider/model]", "undo": None}
        await it.prompt("/help")
        lines = it.agent.text().splitlines()
    assert "- `/use:it [depth=…] [instructions]`: Use it (the project's)" in lines
    assert any(line.startswith("- `/commit [instructions]`: ") for line in lines)
    for command in BUILT_IN:
        assert f"- `/{command.name} {command.hint or ''}".rstrip() in "\n".join(lines)
