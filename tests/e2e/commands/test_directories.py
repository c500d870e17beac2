"""Sibling folders: `--add-dir`, and `additional_directories` in the configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acp_agent.config import load_settings
from support.called import call_command
from support.memory import stage
from support.models import Reply, ToolCall, model_server

EDIT = ToolCall("write", {"path": "../shared/new.txt", "content": "new\n"})


def siblings(tmp_path: Path, config: str = "") -> Path:
    """A project with a folder next to it."""
    (tmp_path / "state").mkdir(exist_ok=True)
    (tmp_path / "state" / "config.yaml").write_text(config)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "AGENTS.md").write_text("Shared things are blue.\n")
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("", ("--add-dir", "../shared")),
        ("", ("--add-dir", "{tmp}/shared")),
        ("additional_directories: [../shared, ../gone, ~nobody/x]\n", ()),
        ("additional_directories: ['{tmp}/shared']\n", ()),
    ],
)
async def test_a_session_works_in_a_sibling_folder_too(
    tmp_path: Path, config: str, words: tuple[str, ...]
) -> None:
    shop = siblings(tmp_path, config.format(tmp=tmp_path))
    given = [word.format(tmp=tmp_path) for word in words]
    async with model_server(
        [Reply(tool_calls=[EDIT]), Reply("Done.")], "openai"
    ) as server:
        ran = await call_command(
            tmp_path,
            "run",
            "--mode",
            "accept-edits",
            *given,
            "Write it.",
            env=server.env(),
            cwd=shop,
        )
        assert ran.code == 0
        assert "Shared things are blue." in json.dumps(server.calls[0].body)
    assert (tmp_path / "shared" / "new.txt").read_text() == "new\n"


async def test_the_session_keeps_what_was_added_to_it_and_not_what_only_the_configuration_added(
    tmp_path: Path,
) -> None:
    shop = siblings(tmp_path, "additional_directories: [../other]\n")
    (tmp_path / "other").mkdir()
    async with model_server([Reply("One."), Reply("Two.")], "openai") as server:
        await call_command(
            tmp_path,
            "run",
            "--add-dir",
            "../shared",
            "One?",
            env=server.env(),
            cwd=shop,
        )
        await call_command(
            tmp_path, "run", "--follow", "Two?", env=server.env(), cwd=shop
        )
    [shown] = json.loads((await call_command(tmp_path, "sessions", "--json")).out)
    assert shown["additionalDirectories"] == [str(tmp_path / "shared")]


async def test_a_project_cannot_add_directories(tmp_path: Path) -> None:
    shop = siblings(tmp_path)
    (shop / ".acp-agent").mkdir()
    (shop / ".acp-agent" / "config.yaml").write_text(
        "additional_directories: [../shared]\n"
    )
    async with model_server(
        [Reply(tool_calls=[EDIT]), Reply("Done.")], "openai"
    ) as server:
        await call_command(
            tmp_path,
            "run",
            "--mode",
            "accept-edits",
            "Write it.",
            env=server.env(),
            cwd=shop,
        )
    assert not (tmp_path / "shared" / "new.txt").exists()
    [notice] = load_settings({"ACP_AGENT_HOME": str(tmp_path / "state")}, shop).notices
    assert "additional_directories: cannot be set by a project" in notice


async def test_a_directory_that_is_not_there_is_an_error_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    async with model_server([], "openai") as server:
        ran = await call_command(
            tmp_path, "run", "--add-dir", "gone", "Hi.", env=server.env()
        )
    assert (ran.code, ran.err) == (
        1,
        "acp-agent: --add-dir gone: there is no such directory. Nothing was sent.\n",
    )


async def test_an_editors_session_works_in_the_configured_folders_too(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply(tool_calls=[EDIT]), Reply("Done.")) as it:
        shared = it.folder.parent / "shared"
        shared.mkdir()
        (it.home / "state").mkdir(exist_ok=True)
        (it.home / "state" / "config.yaml").write_text(
            "additional_directories: [../shared]\nmode: accept-edits\n"
        )
        session = await it.agent.new_session(it.folder)
        assert await it.agent.prompt(session, "Write it.", 30) == {
            "stopReason": "end_turn"
        }
        assert (shared / "new.txt").read_text() == "new\n"
