"""The root of a session's project, which decides on its hooks, settings and
instructions, stays what it was.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from support.editors import AVANTE
from support.memory import stage
from support.models import Reply, ToolCall
from support.stage import Stage, results, trust

pytestmark = pytest.mark.process

GUARD = """
hooks: {PreToolUse: [{matcher: read, command: 'exit 2', on_error: block}]}
sandbox: {read_deny: [vault]}
"""
READ = Reply(tool_calls=[ToolCall("read", {"path": "a.txt"})])
OUTER = "Rules of the whole project."


def shell(command: str) -> Reply:
    return Reply(tool_calls=[ToolCall("shell", {"command": command})])


@asynccontextmanager
async def guarded(
    tmp_path: Path, *replies: Reply
) -> AsyncGenerator[tuple[Stage, Path]]:
    """A project with a guard, a denied file and instructions at its root, and a folder
    in it to work in.
    """
    files = {
        ".acp-agent/config.yaml": GUARD,
        "AGENTS.md": OUTER,
        "sub/a.txt": "one",
        "sub/vault/key": "hunter2",
        "sub/deep/b.txt": "two",
    }

    def allow(home: Path, folder: Path) -> None:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        trust(home, folder)

    config = {"mode": "accept-edits"}
    async with stage(
        tmp_path,
        *replies,
        files=files,
        trusted=True,
        allow=allow,
        config=config,
        editor=AVANTE,
    ) as it:
        yield it, it.folder / "sub"


async def holds(it: Stage, session: str) -> dict[str, bool]:
    """Return which guards hold in a session that reads a file, and a denied one in the
    sandbox.
    """
    await it.agent.prompt(session, "Read it", 30)
    read, cat = (results(call.body)[0].text for call in it.server.calls[-2:])
    prompt = str(it.server.calls[-1].body)
    return {
        "hook": "A hook refused" in read,
        "read_deny": "No such file" in cat,
        "AGENTS.md": OUTER in prompt,
    }


HOLDING = {"hook": True, "read_deny": True, "AGENTS.md": True}
LOOK = [READ, shell("cat vault/key"), Reply("Done.")]
ATTACKS = {
    "an empty folder": "mkdir .git",
    "a placeholder": "mkdir .git; chmod +t .git",
    "a file that names nothing": "echo gitdir: nowhere > .git",
    "a repository": "git init -q",
    "the outer repository's directory": "cp -r ../.git .git",
    "a repository of Mercurial": "mkdir -p .hg/store",
}


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_command_moves_the_root_of_a_session(
    tmp_path: Path, attack: str
) -> None:
    async with guarded(
        tmp_path, shell(ATTACKS[attack]), Reply("Done."), *LOOK, *LOOK, *LOOK
    ) as (it, sub):
        session = await it.agent.new_session(sub)
        await it.agent.prompt(session, "Attack", 30)
        assert "exit status: 0" in results(it.server.calls[-1].body)[0].text
        assert await holds(it, session) == HOLDING
        await it.agent.load(session, sub)
        assert await holds(it, session) == HOLDING
        assert await holds(it, await it.agent.new_session(sub)) == HOLDING


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
async def test_placeholders_that_a_killed_agent_has_left_hide_no_guard(
    tmp_path: Path,
) -> None:
    async with guarded(tmp_path, *LOOK) as (it, sub):
        for name in (".git", ".acp-agent", ".claude"):
            (sub / name).mkdir()
            (sub / name).chmod(0o1755)
        assert await holds(it, await it.agent.new_session(sub)) == HOLDING


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
async def test_settings_that_a_command_made_further_down_hide_no_guard_before_the_user_trusts_them(
    tmp_path: Path,
) -> None:
    made = "mkdir -p sub/.acp-agent && echo 'hooks: {}' > sub/.acp-agent/config.yaml && git init -q sub"
    async with guarded(tmp_path, shell(made), Reply("Done."), *LOOK, *LOOK) as (
        it,
        sub,
    ):
        await it.prompt()
        told = it.agent.text()
        assert f"`acp-agent trust {sub}`" in told
        assert "A command created the folder .acp-agent in" in told
        assert "A command created a git repository in" in told
        assert await holds(it, await it.agent.new_session(sub)) == HOLDING
        trust(it.home, sub)
        now = await holds(it, await it.agent.new_session(sub))
        assert now == {"hook": False, "read_deny": False, "AGENTS.md": False}


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
async def test_what_a_repository_that_a_command_made_would_run_is_told_before_the_turn_ends(
    tmp_path: Path,
) -> None:
    made = "git init -q new && git -C new config core.sshCommand ./evil"
    async with guarded(tmp_path, shell(made), Reply("Done.")) as (it, _):
        await it.prompt()
        told = it.agent.text()
        assert "so that git does not run the programs that they name" in told
        assert "sshCommand = ./evil" in told
        assert "sshCommand" not in subprocess.check_output(
            ["git", "-C", str(it.folder / "new"), "config", "--list"], text=True
        )
