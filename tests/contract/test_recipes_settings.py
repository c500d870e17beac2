"""A recipe's own model and mode: for its run, and not a moment longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from support.client import AgentError
from support.models import Reply, ToolCall
from support.stage import Stage, results, stage

HAIKU = "anthropic/claude-haiku-4-5"
WRITE = ToolCall("write", {"path": "b.txt", "content": "1"})


def recipe(**keys: str) -> str:
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in keys.items()) + "---\nDo it.\n"


def user_recipes(tmp_path: Path, **recipes: str) -> None:
    folder = tmp_path / "home" / "state" / "recipes"
    folder.mkdir(parents=True, mode=0o700)
    for name, text in recipes.items():
        (folder / f"{name}.md").write_text(text)


def models(it: Stage) -> list[str]:
    return [call.body["model"] for call in it.server.calls]


def shown(it: Stage, option: str, since: int) -> list[str]:
    """What the menu of an option was set to."""
    updates = it.agent.updates(kind="config_option_update", since=since)
    return [chosen(update["configOptions"], option) for update in updates]


def chosen(options: list[dict[str, Any]], name: str) -> str:
    return next(option["currentValue"] for option in options if option["id"] == name)


def asked(it: Stage) -> int:
    return len([line for line in it.agent.lines if line.method == "session/request_permission"])


def modes(it: Stage, since: int) -> list[str]:
    return [update["currentModeId"] for update in it.agent.updates(kind="current_mode_update", since=since)]


async def test_a_recipe_s_model_and_mode_hold_for_its_run_and_the_session_s_own_are_back_afterwards(
    tmp_path: Path,
) -> None:
    user_recipes(tmp_path, go=recipe(model=HAIKU, mode="accept-edits", version="1.2"))
    replies = [Reply("One."), Reply(tool_calls=[WRITE]), Reply("Done."), Reply(tool_calls=[WRITE]), Reply("Three.")]
    async with stage(tmp_path, *replies, dialect="anthropic") as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt("One?")
        begun = len(it.agent.lines)
        assert await it.prompt("/go") == {"stopReason": "end_turn"}
        assert asked(it) == 0
        assert (it.folder / "b.txt").read_text() == "1"
        assert modes(it, begun) == ["accept-edits", "ask"]
        assert shown(it, "mode", begun) == ["accept-edits", "ask"]
        first, second = shown(it, "model", begun)
        assert (first, second != HAIKU) == (HAIKU, True)
        await it.prompt("Three?")
        assert asked(it) == 1
        own, *run, last, _ = models(it)
        assert run == ["claude-haiku-4-5"] * 2
        assert last == own != run[0]


async def test_a_run_that_is_cancelled_or_fails_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    user_recipes(tmp_path, go=recipe(model=HAIKU, mode="full-access"))
    replies = [Reply("On and", hang=True), Reply(http_status=400), Reply("Three.")]
    async with stage(tmp_path, *replies, dialect="anthropic") as it:
        begun = len(it.agent.lines)
        turn = await it.agent.start_prompt(it.session, "/go")
        await it.held()
        await it.agent.cancel(it.session)
        assert await turn.result() == {"stopReason": "cancelled"}
        assert modes(it, begun) == ["full-access", "ask"]
        begun = len(it.agent.lines)
        with pytest.raises(AgentError):
            await it.prompt("/go")
        assert modes(it, begun) == ["full-access", "ask"]
        await it.prompt("Three?")
        assert models(it)[-1] != "claude-haiku-4-5"


async def test_a_project_s_recipe_makes_the_mode_stricter_and_never_freer(tmp_path: Path) -> None:
    files = {
        ".acp-agent/recipes/free.md": recipe(mode="full-access"),
        ".acp-agent/recipes/look.md": recipe(mode="plan"),
    }
    replies = [Reply(tool_calls=[WRITE]), Reply("No."), Reply(tool_calls=[WRITE]), Reply("No.")]
    async with stage(tmp_path, *replies, files=files, mode="accept-edits", trusted=True) as it:
        begun = len(it.agent.lines)
        await it.prompt("/look")
        assert modes(it, begun) == ["plan", "accept-edits"]
        assert "plan mode" in results(it.server.calls[1].body)[0].text
        begun = len(it.agent.lines)
        await it.prompt("/free")
        assert modes(it, begun) == []
        assert asked(it) == 0
        assert (it.folder / "b.txt").exists()


async def test_what_the_user_chooses_in_a_run_holds_from_then_on(tmp_path: Path) -> None:
    user_recipes(tmp_path, go=recipe(mode="full-access"))
    hold = anyio.Event()
    async with stage(tmp_path, Reply("Wait.", tool_calls=[WRITE], hold=hold), Reply("Done.")) as it:
        turn = await it.agent.start_prompt(it.session, "/go")
        await it.held()
        begun = len(it.agent.lines)
        await it.agent.set_mode(it.session, "plan")
        hold.set()
        assert await turn.result() == {"stopReason": "end_turn"}
        assert "plan mode" in results(it.server.calls[1].body)[0].text
        assert modes(it, begun) == ["plan"]
