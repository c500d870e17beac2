"""The mode of a session holds in the directories that it was chosen for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.called import call_command
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage


def write(number: int) -> list[Reply]:
    return [
        Reply(
            tool_calls=[ToolCall("write", {"path": f"{number}.txt", "content": "x"})]
        ),
        Reply("Done."),
    ]


def mode_in(opened: dict[str, Any]) -> str:
    """Return the mode that a session's menus show; both of them show the same."""
    [option] = [each for each in opened["configOptions"] if each["id"] == "mode"]
    assert option["currentValue"] == opened["modes"]["currentModeId"]
    return option["currentValue"]


async def reopened(it: Stage, way: str, other: Path) -> dict[str, Any]:
    """Open the stage's session again."""
    match way:
        case "resumed in another directory":
            return await it.agent.resume(it.session, other)
        case "loaded in another directory":
            return await it.agent.load(it.session, other)
        case "opened with another directory":
            return await it.agent.resume(
                it.session, it.folder, additionalDirectories=[str(other)]
            )
        case "opened elsewhere with its own directory":
            return await it.agent.resume(
                it.session, other, additionalDirectories=[str(it.folder)]
            )
        case "moved":
            it.folder.rename(it.folder.with_name("moved"))
            return await it.agent.load(it.session, it.folder.with_name("moved"))
        case "moved by command":
            moved = await call_command(
                it.home, "sessions", "move", it.session, cwd=other
            )
            assert "so the session is now in ask mode." in moved.out
            return await it.agent.load(it.session, other)
        case _:
            params = {"sessionId": it.session, "cwd": str(other), "mcpServers": []}
            return await it.agent.request("session/fork", params)


WAYS = (
    "resumed in another directory",
    "loaded in another directory",
    "opened with another directory",
    "opened elsewhere with its own directory",
    "moved",
    "moved by command",
    "forked into another directory",
)


@pytest.mark.parametrize("way", WAYS)
async def test_a_mode_that_asks_less_does_not_hold_in_directories_that_it_was_not_chosen_for(
    tmp_path: Path, way: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with stage(tmp_path, Reply("Hello."), *write(1)) as it:
        await it.agent.set_mode(it.session, "full-access")
        await it.prompt("Hi")
        async with it.restarted() as later:
            opened = await reopened(later, way, other)
            assert mode_in(opened) == "ask"
            await later.agent.prompt(opened.get("sessionId", it.session), "Write it")
            assert len(later.agent.desk.permissions) == 1
            told = later.agent.text()
    if "fork" not in way and "command" not in way:
        assert told.count("This session was in full-access mode.") == 1
        assert "so the session is now in ask mode." in told


@pytest.mark.parametrize(
    ("stored", "default", "there"),
    [("plan", "ask", "plan"), ("ask", "full-access", "ask")],
)
async def test_a_stricter_mode_holds_everywhere(
    tmp_path: Path, stored: str, default: str, there: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with stage(tmp_path, Reply("Hello."), config={"mode": default}) as it:
        await it.agent.set_mode(it.session, stored)
        await it.prompt("Hi")
        async with it.restarted() as later:
            assert mode_in(await later.agent.resume(it.session, other)) == there


async def test_the_mode_of_a_new_session_in_the_other_directory_is_the_freest_there(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    (other / ".acp-agent").mkdir(parents=True)
    (other / ".acp-agent" / "config.yaml").write_text("mode: plan\n")
    async with stage(tmp_path, Reply("Hello."), config={"mode": "accept-edits"}) as it:
        await it.agent.set_mode(it.session, "full-access")
        await it.prompt("Hi")
        async with it.restarted() as later:
            assert mode_in(await later.agent.resume(it.session, other)) == "plan"
            assert (
                mode_in(await later.agent.resume(it.session, tmp_path))
                == "accept-edits"
            )


async def test_a_session_keeps_the_mode_that_was_chosen_in_its_own_directory_and_no_other(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with stage(tmp_path, Reply("Hello."), *write(1), *write(2)) as it:
        await it.agent.set_mode(it.session, "accept-edits")
        await it.prompt("Hi")
        async with it.restarted() as later:
            await later.agent.resume(it.session, other)
            await later.agent.set_mode(it.session, "full-access")
            await later.prompt("Write it")
            assert not later.agent.desk.permissions
            assert mode_in(await later.agent.resume(it.session, other)) == "ask"
            since = len(later.agent.lines)
            assert (
                mode_in(await later.agent.resume(it.session, it.folder))
                == "accept-edits"
            )
            await later.prompt("Write more")
            assert not later.agent.desk.permissions
            assert "mode" not in later.agent.text(since=since)
