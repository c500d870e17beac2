"""Sessions whose directory was moved or deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest

from support.called import call_command
from support.editors import BARE, ZED_BETA, Editor
from support.memory import stage
from support.models import Reply, ToolCall, model_server
from support.stage import Stage, conversation, results
from support.terminal import at_a_terminal

WRITE = ToolCall("write", {"path": "src/new.txt", "content": "new\n"})


async def moved(it: Stage) -> tuple[Path, Path]:
    """Run a turn, then move the project's folder; return its old and its new path."""
    await it.prompt("One?")
    await it.agent.request("session/close", {"sessionId": it.session})
    new = it.folder.with_name("elsewhere")
    it.folder.rename(new)
    return it.folder, new


async def test_a_session_whose_directory_is_gone_is_not_opened_and_how_to_move_it_is_said(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("One.")) as it:
        old, new = await moved(it)
    async with model_server(
        [Reply(tool_calls=[WRITE]), Reply("Done.")], "openai"
    ) as server:
        words = ["run", "-c", it.session, "--mode", "full-access", "Write it"]
        ran = await call_command(it.home, *words, env=server.env(), cwd=new)
        assert (ran.code, ran.out, server.calls) == (1, "", [])
        assert (
            f"The directory of session {it.session}, {old}, no longer exists, so nothing was done."
            in ran.err
        )
        assert (
            f"run `acp-agent sessions move {it.session}` in its new place." in ran.err
        )
        followed = await call_command(
            it.home, "run", "--follow", "Write it", env=server.env(), cwd=new
        )
        assert (
            f"{old}, which no longer exists, was moved here: `acp-agent sessions move {it.session}`"
            in (followed.err)
        )
        assert not old.exists()

        done = await call_command(it.home, "sessions", "move", it.session[:12], cwd=new)
        assert (done.code, done.out) == (0, f"{it.session} now belongs to {new}.\n")
        ran = await call_command(
            it.home,
            "run",
            "--follow",
            "--mode",
            "full-access",
            "Write",
            env=server.env(),
            cwd=new,
        )
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert (new / "src" / "new.txt").read_text() == "new\n"
    assert f"Working directory: {new}" in str(server.calls[0].body)
    assert not old.exists()


@pytest.mark.process
async def test_at_a_terminal_the_move_is_offered(tmp_path: Path) -> None:
    async with stage(tmp_path, Reply("One.")) as it:
        old, new = await moved(it)
    async with model_server([Reply("Two.")], "openai") as server:
        words = ["run", "-c", it.session, "Two?"]
        for answer, code in (("n\n", 1), ("y\n", 0)):
            async with at_a_terminal(
                it.home, *words, env=server.env(), cwd=new
            ) as person:
                with anyio.fail_after(40):
                    await person.until("[y]es, [n]o:")
                    assert f"Move the session to {new}?" in person.shown
                    assert not server.calls
                    person.type(answer)
                    assert await person.ended() == code
        assert "Two." in person.shown
    listed = await call_command(it.home, "sessions")
    assert str(new) in listed.out
    assert not old.exists()


async def test_additional_directories_within_the_moved_one_move_with_it(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("One.")) as it:
        within = it.folder / "lib"
        beside = tmp_path / "beside"
        within.mkdir()
        beside.mkdir()
        session = await it.agent.new_session(
            it.folder, additionalDirectories=[str(within), str(beside)]
        )
        await it.agent.prompt(session, "One?", 30)
        await it.agent.request("session/close", {"sessionId": session})
        new = it.folder.rename(it.folder.with_name("elsewhere"))
        assert (
            await call_command(it.home, "sessions", "move", session, str(new))
        ).code == 0
        rows = (await it.agent.request("session/list", {"cwd": str(new)}))["sessions"]
        assert [row["additionalDirectories"] for row in rows] == [
            [str(new / "lib"), str(beside)]
        ]
        refused = await call_command(
            it.home, "sessions", "move", session, str(tmp_path / "nowhere")
        )
        assert refused.code == 1
        assert "is not a directory. Nothing was moved." in refused.err


async def test_an_editor_that_opens_a_moved_session_in_its_new_place_finds_it_there(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply("One."), Reply(tool_calls=[WRITE]), Reply("Done.")
    ) as it:
        old, new = await moved(it)
        await it.agent.load(it.session, new)
        await it.agent.set_mode(it.session, "accept-edits")
        await it.prompt("Write it")
        assert (new / "src" / "new.txt").exists()
        assert not old.exists()
        rows = (await it.agent.request("session/list", {"cwd": str(new)}))["sessions"]
        assert [row["sessionId"] for row in rows] == [it.session]
        assert f"Working directory: {new}" in str(conversation(it.server.calls[1].body))


async def test_a_session_that_is_opened_in_another_directory_beside_its_own_stays_listed_at_its_own(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("One.")) as it:
        await it.prompt("One?")
        (tmp_path / "other").mkdir()
        await it.agent.load(it.session, tmp_path / "other")
        assert (
            await it.agent.request("session/list", {"cwd": str(tmp_path / "other")})
        )["sessions"] == []


@pytest.mark.parametrize("editor", [ZED_BETA, BARE], ids=["editor", "disk"])
@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
async def test_in_a_directory_that_is_gone_nothing_is_made_anew_and_the_user_is_told(
    tmp_path: Path, editor: Editor, when: str
) -> None:
    calls = [
        WRITE,
        ToolCall(
            "edit", {"path": "a.txt", "edits": [{"old_text": "one", "new_text": "1"}]}
        ),
        ToolCall("shell", {"command": "echo x > made.txt"}),
        ToolCall("read", {"path": "a.txt"}),
    ]
    async with stage(
        tmp_path, Reply("One."), Reply(tool_calls=calls), Reply("Done."), editor=editor
    ) as it:
        await it.agent.set_mode(it.session, "full-access")
        await it.prompt("One?")
        shutil.rmtree(it.folder)
        if when == "before it is opened":
            await it.agent.load(it.session, it.folder)
        await it.prompt("Write it")
        assert not it.folder.exists()
        answers = [result.text for result in results(it.server.calls[2].body)]
        for answer in answers[:3]:
            assert (
                f"The session's directory {it.folder} does not exist: it was moved or deleted."
                in answer
            )
        assert "does not exist" in answers[3]
        if when == "before it is opened":
            assert (
                f"sessions move {it.session}"
                in b"".join(line.raw for line in it.agent.lines).decode()
            )
