"""What a command has planted is told to the user, however the command came to run, and
to the model where it reads.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.processes import environment_without
from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.sandbox import Sandbox
from support.editors import ZED_BETA
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results, trust

pytestmark = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
PLANT = "mkdir .cursor; echo {} > .cursor/mcp.json"
WORDS = "These paths appeared while a command ran, and the agent renamed them: .cursor → .cursor.blocked."


def told(it: Stage) -> list[str]:
    return [str(update) for update in it.agent.updates(kind="notice")]


async def test_the_user_and_the_model_are_told_of_what_the_model_s_command_planted(
    tmp_path: Path,
) -> None:
    replies = [
        Reply(tool_calls=[ToolCall("shell", {"command": PLANT})]),
        Reply("Done."),
    ]
    async with stage(
        tmp_path, *replies, config={"mode": "accept-edits"}, editor=ZED_BETA
    ) as it:
        await it.prompt()
        [notice] = [text for text in told(it) if WORDS in text]
        assert "mv .cursor.blocked .cursor" in notice
        result = results(it.server.calls[1].body)[-1].text
        assert "Do not commit the new name" in result
        assert "`mv .cursor.blocked .cursor`" in result


async def test_they_are_told_of_what_a_command_of_a_recipe_s_text_planted(
    tmp_path: Path,
) -> None:
    recipe = (
        '---\nallowed_commands: [bash *]\n---\nLook: {{ shell("bash", "-c", "'
        + PLANT
        + '") }}\n'
    )
    async with stage(
        tmp_path, Reply("Done."), config={"mode": "accept-edits"}, editor=ZED_BETA
    ) as it:
        (it.home / "state" / "recipes").mkdir(exist_ok=True)
        (it.home / "state" / "recipes" / "look.md").write_text(recipe)
        await it.prompt("/look")
        assert [text for text in told(it) if WORDS in text]
        assert ".cursor → .cursor.blocked" in str(it.server.calls[0].body)


@pytest.mark.process
async def test_the_user_is_told_of_what_a_hook_of_a_project_planted(
    tmp_path: Path,
) -> None:
    files = {
        ".acp-agent/config.yaml": f"hooks: {{session_start: [{{command: '{PLANT}'}}]}}\n"
    }
    async with stage(
        tmp_path,
        Reply("Done."),
        files=files,
        trusted=True,
        allow=trust,
        editor=ZED_BETA,
    ) as it:
        await it.prompt()
        assert [text for text in told(it) if WORDS in text]
        assert not (it.folder / ".cursor").exists()


@pytest.mark.process
async def test_the_user_is_told_of_what_git_checked_out_by_a_command(
    tmp_path: Path,
) -> None:
    replies = [
        Reply(
            tool_calls=[
                ToolCall(
                    "shell", {"command": "git checkout -q feat && git status --short"}
                )
            ]
        )
    ]
    async with stage(
        tmp_path,
        *replies,
        Reply("Done."),
        config={"mode": "accept-edits"},
        editor=ZED_BETA,
    ) as it:
        line = f"{PLANT}; git init -qb feat; git add .; git -c user.name=n -c user.email=n@x commit -qm x"
        line += "; git rm -rqf .cursor; git checkout -q --orphan x"
        subprocess.run(["bash", "-c", line], cwd=it.folder, check=True)
        await it.prompt()
        assert (it.folder / ".cursor" / "mcp.json").exists(), results(
            it.server.calls[1].body
        )
        assert [
            text
            for text in told(it)
            if f"checked out {it.folder}/.cursor from a commit" in text
        ]


@pytest.mark.process
async def test_what_a_command_of_a_killed_agent_planted_is_renamed_when_a_session_starts(
    tmp_path: Path,
) -> None:
    folder = tmp_path.resolve() / "elsewhere"
    home = tmp_path.resolve() / "another-home"
    folder.mkdir()
    with Sandbox((folder,), (home,)).wrap(("true",), folder, network=False) as (
        _,
        words,
    ):
        [record] = (home / "running").iterdir()
        kept = record.read_bytes()
        subprocess.run(words, env=environment_without(()), check=True)
    subprocess.run(["bash", "-c", PLANT], cwd=folder, check=True)
    async with stage(
        tmp_path, Reply("Done."), editor=ZED_BETA, config={"mode": "full-access"}
    ) as it:
        (it.home / "state" / "running").mkdir(exist_ok=True)
        (it.home / "state" / "running" / "left.json").write_bytes(kept)
        await it.agent.request("session/new", {"cwd": str(it.folder), "mcpServers": []})
        await it.prompt()
        assert (folder / ".cursor.blocked").exists()
        assert not (folder / ".cursor").exists()
