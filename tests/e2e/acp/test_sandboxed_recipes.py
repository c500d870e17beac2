"""Commands of a recipe in the sandbox: the model's, those of its text, and where there
is no sandbox.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acp_agent.sandbox.bubblewrap import fault
from support.lines import AgentError
from support.memory import stage
from support.replies import Reply, ToolCall
from support.repo import hostile_repository
from support.stage import Stage, results, trust

pytestmark = pytest.mark.skipif(bool(fault()), reason="no bubblewrap")

LISTING = {
    ".acp-agent/recipes/listing.md": "---\nname: listing\ndescription: d\nallowed_commands: [touch *]\n---\nLook.\n"
}
CALLS = [
    Reply(tool_calls=[ToolCall("shell", {"command": "touch made ../outside"})]),
    Reply(tool_calls=[ToolCall("shell", {"command": "date"})]),
    Reply("Done."),
]


def asked(it: Stage) -> list[str]:
    """The titles of what the user was asked about."""
    return [str(params["toolCall"]["title"]) for params in it.agent.desk.permissions]


async def test_what_a_recipe_allows_runs_unasked_in_the_sandbox_and_nothing_else_does(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, *CALLS, files=LISTING, trusted=True) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt("/listing")
        [made], [other] = (results(call.body)[-1:] for call in it.server.calls[1:])
        assert (it.folder / "made").exists()
        assert not (tmp_path / "outside").exists()
        assert asked(it) == []
        assert "exit status: 0" in made.text  # in a /tmp of its own
        assert "may not run in this recipe" in other.text


async def test_without_a_sandbox_what_a_recipe_allows_is_asked_for(
    tmp_path: Path,
) -> None:
    config = {"sandbox": {"commands": "off"}}
    async with stage(
        tmp_path, *CALLS, files=LISTING, trusted=True, config=config
    ) as it:
        it.agent.permission_answer = "reject_once"
        await it.prompt("/listing")
        assert asked(it) == ["touch made ../outside"]
        assert not (it.folder / "made").exists()


@pytest.mark.process
async def test_a_filter_of_an_unpacked_repository_runs_in_the_sandbox_when_a_recipe_s_text_asks_git(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, Reply("Done.")) as it:
        file = it.folder / "f.txt"
        file.write_text("one\n")
        (it.folder / ".gitattributes").write_text("*.txt filter=evil\n")
        for words in (
            ("init",),
            ("add", "."),
            ("config", "filter.evil.clean", "tee ran ../outside; true"),
        ):
            subprocess.run(
                ["git", *words], cwd=it.folder, check=True, capture_output=True
            )
        file.write_text("two\n")
        await it.prompt("/review")
        assert (it.folder / "ran").exists()
        assert not (tmp_path / "outside").exists()


@pytest.mark.process
@pytest.mark.parametrize("commands", ["auto", "off"])
async def test_a_hook_of_a_project_inherits_no_key_and_nothing_that_the_settings_hide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: str
) -> None:
    files = {
        ".acp-agent/config.yaml": "hooks: {session_start: [{command: 'env > seen'}]}\n"
    }
    config = {"sandbox": {"commands": commands, "env": ["*_TOKEN"]}}
    async with stage(
        tmp_path, Reply("Done."), files=files, trusted=True, allow=trust, config=config
    ) as it:
        for name in ("OPENAI_API_KEY", "MY_TOKEN", "SHOWN"):
            monkeypatch.setenv(name, f"the {name}")
        await it.prompt()
        assert [
            line
            for line in (it.folder / "seen").read_text().splitlines()
            if "=the " in line
        ] == ["SHOWN=the SHOWN"]


@pytest.mark.process
async def test_hooks_of_a_project_do_not_run_without_a_sandbox_where_one_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = "hooks: {session_start: [{command: 'touch ran'}]}\n"
    config = {"sandbox": {"commands": "required"}}
    files = {".acp-agent/config.yaml": hooks}
    async with stage(
        tmp_path, Reply("Done."), files=files, trusted=True, allow=trust, config=config
    ) as it:
        monkeypatch.setenv("PATH", str(tmp_path))
        fault.cache_clear()
        try:
            await it.prompt()
        finally:
            fault.cache_clear()
        assert not (it.folder / "ran").exists()
        assert "No command runs without a sandbox" in it.agent.text()


@pytest.mark.parametrize(
    ("mode", "command"),
    [
        ("ask", "/review"),
        ("accept-edits", "/commit"),
        ("plan", "/pr"),
        ("accept-edits", "/own"),
    ],
)
async def test_without_a_sandbox_the_commands_of_a_recipe_s_text_are_asked_for(
    tmp_path: Path, mode: str, command: str
) -> None:
    own = tmp_path / "home" / "state" / "recipes" / "own.md"
    own.parent.mkdir(parents=True)
    own.write_text(
        "---\nallowed_commands: [git status]\n---\nIs it dirty? {{ git.dirty }}\n"
    )
    config = {"sandbox": {"commands": "off"}}
    async with stage(
        tmp_path, Reply("Done."), Reply("Done."), config=config, mode=mode
    ) as it:
        ran = hostile_repository(it.folder)
        it.agent.permission_answer = "reject_once"
        with pytest.raises(AgentError, match="you did not allow them"):
            await it.prompt(command)
        assert not ran.exists()
        [question] = it.agent.desk.permissions
        assert "outside of the sandbox" in question["toolCall"]["title"]
        assert command in question["toolCall"]["title"]
        it.agent.permission_answer = "allow_once"
        assert await it.prompt(command) == {"stopReason": "end_turn"}
        assert len(it.agent.desk.permissions) == 2


async def test_commands_of_a_recipe_s_text_that_were_always_allowed_are_not_asked_for_again_until_the_text_changes(
    tmp_path: Path,
) -> None:
    own = tmp_path / "home" / "state" / "recipes" / "own.md"
    own.parent.mkdir(parents=True)
    own.write_text(
        '---\nallowed_commands: [git *]\n---\n{{ shell("git", "status") }}\n'
    )
    async with stage(
        tmp_path, *(Reply("Done."),) * 3, config={"sandbox": {"commands": "off"}}
    ) as it:
        hostile_repository(it.folder)
        it.agent.permission_answer = "allow_always"
        await it.prompt("/own")
        await it.prompt("/own")
        assert len(it.agent.desk.permissions) == 1
        own.write_text(
            '---\nallowed_commands: [git *]\n---\n{{ shell("git", "diff") }}\n'
        )
        await it.prompt("/own")
        assert len(it.agent.desk.permissions) == 2


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_a_recipe_whose_text_runs_no_command_and_one_in_the_sandbox_are_not_asked_for(
    tmp_path: Path, mode: str
) -> None:
    own = tmp_path / "home" / "state" / "recipes" / "own.md"
    own.parent.mkdir(parents=True)
    own.write_text("The branch is {{ git.branch }}.\n")
    async with stage(
        tmp_path, Reply("Done."), config={"sandbox": {"commands": "off"}}, mode=mode
    ) as it:
        ran = hostile_repository(it.folder)
        await it.prompt("/own")
        assert (it.agent.desk.permissions, ran.exists()) == ([], False)
