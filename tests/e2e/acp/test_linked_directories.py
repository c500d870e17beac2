"""Sessions of a directory that is also reachable through a symbolic link: both paths
find them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.called import call_command
from support.memory import stage
from support.models import Reply, ToolCall, model_server
from support.repo import make_git_directory
from support.stage import Stage


def linked(tmp_path: Path) -> tuple[Path, Path]:
    """Return the real path of a directory, and its path through a link."""
    real = tmp_path / "real" / "p"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    return real, tmp_path / "link" / "p"


async def listed(it: Stage, cwd: str) -> list[tuple[str, str]]:
    rows = (await it.agent.request("session/list", {"cwd": cwd}))["sessions"]
    return [(row["sessionId"], row["cwd"]) for row in rows]


async def test_a_session_is_listed_from_both_sides_with_its_directory_as_it_was_given(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, *(Reply("Yes."),) * 3) as it:
        real, link = linked(tmp_path)
        (tmp_path / "real" / "p2").mkdir()
        of_link = await it.agent.new_session(link)
        of_real = await it.agent.new_session(real)
        other = await it.agent.new_session(tmp_path / "real" / "p2")
        for session in (of_link, of_real, other):
            await it.agent.prompt(session, "Hello", 30)
        both = {(of_link, str(link)), (of_real, str(real))}
        for cwd in (
            real,
            link,
            f"{real}/",
            f"{tmp_path}/real/../real/p",
            f"{tmp_path}/link/../link/p",
        ):
            assert set(await listed(it, str(cwd))) == both
        assert await listed(it, str(tmp_path / "link" / "p2")) == [
            (other, str(tmp_path / "real" / "p2"))
        ]
        assert await listed(it, str(tmp_path / "gone" / "p")) == []
        assert await listed(it, "/a\0b") == []


async def test_pages_of_a_linked_directory_have_each_session_once(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, *(Reply("Yes."),) * 60) as it:
        real, link = linked(tmp_path)
        made = {await it.agent.new_session(cwd) for cwd in (real, link) * 30}
        for session in made:
            await it.agent.prompt(session, "Hello", 30)
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await it.agent.request("session/list", {"cwd": str(link), **cursor})
            seen += [row["sessionId"] for row in page["sessions"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert len(seen) == len(made) == 60
        assert set(seen) == made


@pytest.mark.parametrize("side", ["link", "below", "real"])
async def test_follow_finds_the_session_of_the_other_side(
    tmp_path: Path, side: str
) -> None:
    async with stage(tmp_path, Reply("One.")) as it:
        real, link = linked(tmp_path)
        session = await it.agent.new_session(real if side == "link" else link)
        await it.agent.prompt(session, "One?", 30)
    (real / "sub").mkdir()
    make_git_directory(real)
    cwd = {"link": link, "below": real / "sub", "real": real}[side]
    async with model_server([Reply("Two.")], "openai") as server:
        env = {**server.env(), "PWD": str(cwd)}
        ran = await call_command(it.home, "run", "--follow", "Two?", env=env, cwd=cwd)
    assert (ran.code, ran.out) == (0, "Two.\n")
    assert session in ran.err


async def test_what_is_allowed_for_good_counts_on_both_sides(tmp_path: Path) -> None:
    calls = [
        ToolCall("write", {"path": name, "content": "x"}) for name in ("a.txt", "b.txt")
    ]
    replies = [
        Reply(tool_calls=calls[:1]),
        Reply("Done."),
        Reply(tool_calls=calls[1:]),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies) as it:
        real, link = linked(tmp_path)
        it.agent.permission_answer = "allow_always"
        await it.agent.prompt(await it.agent.new_session(link), "Write", 30)
        await it.agent.prompt(await it.agent.new_session(real), "Write", 30)
        assert len(it.agent.desk.permissions) == 1
