"""With no hooks, everything is as if there were no dispatcher at all."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from support.client import ROOT
from support.dialogues import asks_for_summary, texts
from support.editors import ZED_BETA
from support.models import Reply, ToolCall
from support.stage import stage

INSTEAD = '''
"""Puts other modules in the place of those that ask hooks, and leaves out those that only hooks need: this is the agent
without a dispatcher."""
import importlib.util, sys

INSTEAD = {{"acp_agent.session.hooking": {hooking!r}, "acp_agent.session.going_on": {going_on!r}}}
LEFT_OUT = ("dispatcher", "discovery", "executables", "payload", "answers", "python_hooks", "plugins", "declarative")

class Instead:
    def find_spec(self, name, path=None, target=None):
        if name in INSTEAD:
            return importlib.util.spec_from_file_location(name, INSTEAD[name])
        if name.removeprefix("acp_agent.hooks.") in LEFT_OUT:
            raise AssertionError(name + " is no part of this agent")

sys.meta_path.insert(0, Instead())
'''
NO_HOOKS = """
from contextlib import nullcontext
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

    def running(self, run): return nullcontext()
    def take_compaction(self): return None
    async def usage(self): return TokenUsage()
    async def added_to(self, run, prompt): return ()
    async def summary_written(self, run, summary): return Outcome(action=replace(run.swap, summary=summary))

def load_modules(): pass
"""
NO_GOING_ON = """
class GoingOn:
    def __init__(self, *values, **named): pass
    async def after(self, response): return False
"""
IDS = re.compile(r"\b(?:msg|call|sess|cmp|toolu|fc|resp|rs|prep|chatcmpl)_\w+")
TIMES = re.compile(
    r'(?<="updatedAt":")[^"]+|(?<="seconds":)[\d.e-]+|(?<="waited":)[\d.e-]+|(?<= · )(under )?[\d.]+ s(?= · )'
)
LONG = "The cart adds prices. " * 900
"""About 5,000 tokens."""


class Plain:
    """Texts of one run as every other run has them too: without its folder and its times, and with its ids numbered as
    they come. Everything else that is counted stays as it is."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._ids: dict[str, str] = {}

    def __call__(self, texts: list[str]) -> list[str]:
        return [self._plain(text) for text in texts]

    def _plain(self, text: str) -> str:
        text = TIMES.sub("0", text.replace(self._root, "<root>"))
        return IDS.sub(lambda id: self._ids.setdefault(id[0], f"<id {len(self._ids)}>"), text)


def answer(body: Mapping[str, Any]) -> Reply:
    if asks_for_summary(body):
        return Reply("# Goal and requirements\nA cart that adds prices.")
    results = len(texts(body, "result"))
    if texts(body)[-1].startswith("Change it") and results < 2:
        return Reply(
            "I look.", tool_calls=[ToolCall("read", {"path": "a.txt"}), ToolCall("shell", {"command": "true"})]
        )
    if texts(body)[-1].startswith("Change it") and results == 2:
        edit = {"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]}
        return Reply(tool_calls=[ToolCall("edit", edit)])
    return Reply(LONG)


async def session(root: Path, env: Mapping[str, str]) -> dict[str, list[str]]:
    """A session with tools, permissions, a recipe and compactions by hand, at the threshold and after a refusal: every
    line of the agent's, every request, and every event of its log."""
    recipes = root / "home" / "state" / "recipes"
    recipes.mkdir(parents=True, mode=0o700)
    (recipes / "explain-it.md").write_text("Explain it: {{ instructions }}")
    config = {"compaction": {"prepare": "off"}}
    env = {**env, "ACP_AGENT_CONTEXT_WINDOW": "40000"}
    async with stage(root, script=answer, editor=ZED_BETA, config=config, env=env) as it:
        await it.prompt("Change it")
        await it.prompt("/compact keep the API")
        for number in range(6):
            await it.prompt(f"Question {number}?")
        await it.prompt("/explain-it in a line")
        it.server.max_prompt_tokens = 9_000
        await it.prompt("Go on")
        said = [line.raw.decode() for line in it.agent.lines]
        asked = [json.dumps(call.body) for call in it.server.calls]
    with closing(sqlite3.connect(root / "home" / "state" / "sessions.db")) as database:
        logged = [data for (data,) in database.execute("SELECT data FROM events ORDER BY seq")]
    plain = Plain(root)
    return {"said": plain(said), "asked": plain(asked), "logged": plain(logged)}


async def test_without_hooks_every_line_request_and_event_is_as_without_a_dispatcher(tmp_path: Path) -> None:
    patch = tmp_path / "patch"
    patch.mkdir()
    used = tmp_path / "used"
    hooking, going_on = patch / "hooking.py", patch / "going_on.py"
    hooking.write_text(NO_HOOKS.format(used=str(used)))
    going_on.write_text(NO_GOING_ON)
    (patch / "sitecustomize.py").write_text(INSTEAD.format(hooking=str(hooking), going_on=str(going_on)))
    without = await session(tmp_path / "one", {"PYTHONPATH": f"{patch}{os.pathsep}{ROOT}"})
    assert used.exists()
    found = await session(tmp_path / "two", {"PYTHONPATH": str(ROOT)})
    for what in ("asked", "logged", "said"):
        assert found[what] == without[what]
    swaps = [event for event in map(json.loads, found["logged"]) if event["kind"] == "context_swapped"]
    assert [swap["trigger"] for swap in swaps] == ["manual", "threshold", "overflow"]
    assert len(found["said"]) > 60
