"""What a command plants for other programs, over the wire: what the model and the user
are told, and ordinary work.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from support.editors import AVANTE, ZED, Editor
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results

pytestmark = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")


def asked(it: Stage) -> list[str]:
    return [str(params["toolCall"]["title"]) for params in it.agent.desk.permissions]


def told(it: Stage) -> str:
    return results(it.server.calls[-1].body)[-1].text


def shell(command: str, **more: object) -> Reply:
    return Reply(tool_calls=[ToolCall("shell", {"command": command, **more})])


@pytest.mark.parametrize("editor", [AVANTE, ZED], ids=["no terminal", "terminal"])
async def test_what_a_command_plants_for_another_program_is_renamed_and_comes_back_only_where_the_user_allows_it(
    tmp_path: Path, editor: Editor
) -> None:
    replies = [
        shell("mkdir .cursor && echo '{}' > .cursor/mcp.json && echo done > made.txt"),
        shell("mv .cursor.blocked .cursor", outside=True),
        Reply("Done."),
    ]
    async with stage(
        tmp_path, *replies, config={"mode": "accept-edits"}, editor=editor
    ) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert asked(it) == ["mv .cursor.blocked .cursor (outside of the sandbox)"]
        first = results(it.server.calls[1].body)[-1].text
        assert ".cursor → .cursor.blocked" in first
        assert "exit status: 0" in first
        assert not (it.folder / ".cursor").exists()
        assert (it.folder / ".cursor.blocked" / "mcp.json").read_text() == "{}\n"
        assert (it.folder / "made.txt").exists()


@pytest.mark.parametrize(
    "name",
    [
        ".cursor/mcp.json",
        ".mcp.json",
        "sub/.devcontainer/devcontainer.json",
        "GEMINI.md",
    ],
)
async def test_an_edit_of_what_another_program_runs_or_obeys_is_asked_for_in_accept_edits(
    tmp_path: Path, name: str
) -> None:
    replies = [
        Reply(tool_calls=[ToolCall("write", {"path": name, "content": "{}"})]),
        Reply("Done."),
    ]
    async with stage(tmp_path, *replies, config={"mode": "accept-edits"}) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt()
        assert len(asked(it)) == 1
        assert not (it.folder / name).exists()


@pytest.mark.process
@pytest.mark.parametrize("program", ["git", "hg"])
async def test_changes_are_committed_beside_guarded_files_without_a_question(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    lines = {
        "git": (
            "git init -q",
            "git add . && git commit -qm one && git checkout -qb two",
            "git stash -u; git log",
        ),
        "hg": ("hg init", "hg add -q && hg commit -m one && hg branch two", "hg log"),
    }[program]
    files = {
        "a.txt": "one\n",
        ".cursor/rules/a.md": "x",
        ".pre-commit-config.yaml": "repos: []\n",
        ".mcp.json": "{}",
    }
    config = {"mode": "accept-edits"}
    replies = [shell(line) for line in lines[1:]]
    async with stage(
        tmp_path, *replies, Reply("Done."), files=files, config=config, editor=AVANTE
    ) as it:
        for name in (
            "GIT_AUTHOR_NAME",
            "GIT_AUTHOR_EMAIL",
            "GIT_COMMITTER_NAME",
            "GIT_COMMITTER_EMAIL",
            "HGUSER",
        ):
            monkeypatch.setenv(name, "n")
        subprocess.run(lines[0].split(), cwd=it.folder, check=True)
        await it.prompt()
        assert asked(it) == []
        assert "one" in told(it)
        assert not list(it.folder.glob("*.blocked"))
