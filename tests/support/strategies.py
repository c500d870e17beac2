"""A history that is compacted in an agent, by the strategy that is chosen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.memory import stage
from support.models import MODELS, Reply, ToolCall
from support.stage import Stage

MODEL = f"anthropic/{MODELS['anthropic']}"
WINDOW = 20_000
FILES = {"old.txt": "An old line of the shop.\n" * 800, "new.txt": "A new line of the shop.\n" * 60}
READS = [Reply(tool_calls=[ToolCall("read", {"path": name})]) for name in FILES]
"""Two files of 5,000 and 400 tokens; by hand, the tail holds 500."""
HISTORY = [READS[0], Reply("Read the old one."), READS[1], Reply("Read the new one.")]
RECIPE = """\
---
name: compact
allowed_tools: []
hooks:
  turn_end: {{handler: swap_context, once: true}}
compaction:
  strategy: {}
---
Write the summary, said the user's own recipe.
"""


def config(**compaction: Any) -> dict[str, Any]:
    """The user's file; nothing is prepared in the background."""
    return {"compaction": {"prepare": False, **compaction}}


def put(tmp_path: Path, recipe: str) -> Path:
    state = tmp_path / "home" / "state"
    (state / "recipes").mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    (state / "recipes" / "compact.md").write_text(recipe)
    return state / "recipes" / "compact.md"


@asynccontextmanager
async def compacted(
    tmp_path: Path, settings: Mapping[str, Any], *more: Reply, recipe: str = "", env: Mapping[str, str | None] = {}
) -> AsyncIterator[Stage]:
    """Open a session that has read two files and was then compacted by hand."""
    if recipe:
        put(tmp_path, recipe)
    window = {"ACP_AGENT_CONTEXT_WINDOW": str(WINDOW), **env}
    options: dict[str, Any] = {"config": settings, "env": window, "dialect": "anthropic"}
    async with stage(tmp_path, *HISTORY, *more, files=FILES, **options) as it:
        await it.prompt("Read the old file")
        await it.prompt("Read the new file")
        await it.prompt("/compact")
        yield it
