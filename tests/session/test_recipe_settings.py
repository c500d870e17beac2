"""A recipe's own model and mode: for its run, and not a moment longer."""

from __future__ import annotations

from pathlib import Path

import anyio

from support.models import Reply, ToolCall
from support.stage import Stage, results, stage

WRITE = ToolCall("write", {"path": "b.txt", "content": "1"})


def recipe(**keys: str) -> str:
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in keys.items()) + "---\nDo it.\n"


def user_recipes(tmp_path: Path, **recipes: str) -> None:
    folder = tmp_path / "home" / "state" / "recipes"
    folder.mkdir(parents=True, mode=0o700)
    for name, text in recipes.items():
        (folder / f"{name}.md").write_text(text)


def modes(it: Stage, since: int) -> list[str]:
    return [update["currentModeId"] for update in it.agent.updates(kind="current_mode_update", since=since)]


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
