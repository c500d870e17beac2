"""With no hooks, everything is as if there were no dispatcher at all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from support.client import ROOT
from support.models import Reply, ToolCall
from support.stage import stage

INSTEAD = '''
"""Puts another module in the place of the one that asks hooks: this is the agent without a dispatcher."""
import importlib.util, sys

class Instead:
    def find_spec(self, name, path=None, target=None):
        if name == "acp_agent.session.hooking":
            return importlib.util.spec_from_file_location(name, {module!r})

sys.meta_path.insert(0, Instead())
'''
NO_HOOKS = """
from dataclasses import replace
from acp_agent.hooks.events import TokenUsage
from acp_agent.hooks.outcomes import NOTHING, Outcome

class SessionHooks:
    def __init__(self, host, services):
        open({used!r}, "w").close()

    def __getattr__(self, name):
        async def nothing(*values, **named):
            return NOTHING
        return nothing

    def begin_run(self, run): pass
    def take_compaction(self): return None
    async def usage(self): return TokenUsage()
    async def summary_written(self, run, summary): return Outcome(action=replace(run.swap, summary=summary))
"""
IDS = re.compile(r"\b(msg|call|sess|cmp|toolu)_\w+")
NUMBERS = re.compile(r"\d+(\.\d+)?")
REPLIES = [
    Reply("I will look.", tool_calls=[ToolCall("read", {"path": "a.txt"}), ToolCall("shell", {"command": "true"})]),
    Reply(tool_calls=[ToolCall("edit", {"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]})]),
    Reply("It is done."),
    Reply("# Goal\nA list of numbers."),
    Reply("Explained."),
]


async def session(root: Path, env: Mapping[str, str]) -> list[str]:
    """A session with tools, permissions, a recipe and a compaction: every line of the agent's and every request."""
    recipes = root / "home" / "state" / "recipes"
    recipes.mkdir(parents=True, mode=0o700)
    (recipes / "explain-it.md").write_text("Explain it: {{ instructions }}")
    async with stage(root, *REPLIES, env=env) as it:
        await it.prompt("Change it")
        await it.prompt("/compact")
        await it.prompt("/explain-it in a line")
        # Which of the agent's requests and notifications come when, and all that is in them but ids and numbers.
        said = [line.raw.decode() for line in it.agent.lines]
        asked = [json.dumps(call.body) for call in it.server.calls]
        return [plain(text, root) for text in (*said, *asked)]


def plain(text: str, root: Path) -> str:
    return NUMBERS.sub("0", IDS.sub(r"\1", text.replace(str(root), "<root>")))


async def test_without_hooks_every_line_and_every_request_is_as_without_a_dispatcher(tmp_path: Path) -> None:
    patch = tmp_path / "patch"
    patch.mkdir()
    used = tmp_path / "used"
    (patch / "hooking.py").write_text(NO_HOOKS.format(used=str(used)))
    (patch / "sitecustomize.py").write_text(INSTEAD.format(module=str(patch / "hooking.py")))
    without = await session(tmp_path / "one", {"PYTHONPATH": f"{patch}{os.pathsep}{ROOT}"})
    assert used.exists()
    assert await session(tmp_path / "two", {"PYTHONPATH": str(ROOT)}) == without
    assert len(without) > 30
