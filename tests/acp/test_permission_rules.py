"""Rules: what "Always allow" leaves behind for the sessions that come, and how it is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.config.permission_rules import RULES_FILE
from support.replies import Reply, ToolCall
from support.stage import Stage, stage
from support.terminal import Ran, run_command

ECHO = [Reply(tool_calls=[ToolCall("shell", {"command": "echo 1"})]), Reply("Done.")]
EDIT = [Reply(tool_calls=[ToolCall("write", {"path": "b.txt", "content": "b\n"})]), Reply("Done.")]


def asked(it: Stage) -> int:
    return len(it.agent.desk.permissions)


async def permissions(it: Stage, *words: str) -> Ran:
    return await run_command(it.home, "permissions", *words)


async def test_always_holds_in_every_session_of_the_project_and_in_no_other_until_it_is_revoked(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with stage(tmp_path, *ECHO * 6) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        assert asked(it) == 1
        it.agent.permission_answer = "allow_once"
        await it.agent.prompt(await it.agent.new_session(it.folder), "In another session")
        assert asked(it) == 1
        await it.agent.prompt(await it.agent.new_session(other), "In another project")
        assert asked(it) == 2
        async with it.restarted() as later:
            await later.agent.prompt(await later.agent.new_session(it.folder), "After a restart")
            assert asked(later) == 0
        listed = await permissions(it)
        [project, rule] = listed.out.splitlines()
        assert (listed.code, project, rule.split("  ")[-1]) == (0, str(it.folder), "shell: echo")
        revoked = await permissions(it, "revoke", "shell: echo", "--project", str(it.folder))
        assert (revoked.code, revoked.out) == (0, "Asked for again: shell: echo\n")
        await it.prompt("In the session that it was allowed in")
        assert asked(it) == 3
        assert (await permissions(it)).out == "Nothing is allowed without asking.\n"


async def test_a_project_is_the_same_by_whatever_link_an_editor_has_opened_it(tmp_path: Path) -> None:
    link = tmp_path / "link"
    async with stage(tmp_path, *ECHO * 2) as it:
        link.symlink_to(it.folder)
        it.agent.permission_answer = "allow_always"
        await it.agent.prompt(await it.agent.new_session(link), "By the link")
        await it.prompt("By its path")
        assert asked(it) == 1
        revoked = await permissions(it, "revoke", "--project", str(link))
        assert (revoked.code, revoked.out) == (0, "Asked for again: shell: echo\n")


async def test_always_allows_more_than_the_line_only_of_commands_that_are_known_to_hand_nothing_on(
    tmp_path: Path,
) -> None:
    lines = {
        "git log -1": True,
        "git log --oneline": False,
        "git log --output=made": True,
        "git branch made": True,
        "php -v": True,
        "php --define auto_prepend_file=x y.php": True,
        "yarn --version": True,
        "yarn --version ": False,
        "yarn node -e 1": True,
        "kubectl version --client": True,
        "kubectl create job x --image=busybox --dry-run=client -- sh -c id": True,
    }
    calls = [Reply(tool_calls=[ToolCall("shell", {"command": line})]) for line in lines]
    async with stage(tmp_path, *calls, Reply("Done.")) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        ids = {params["toolCall"]["toolCallId"] for params in it.agent.desk.permissions}
        asked_for = {call["rawInput"]["command"]: call["toolCallId"] in ids for call in it.calls()}
        assert asked_for == lines


async def test_what_a_mode_forbids_no_rule_allows(tmp_path: Path) -> None:
    async with stage(tmp_path, *EDIT * 2) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        await it.agent.set_mode(it.session, "plan")
        await it.prompt()
        assert [call["status"] for call in it.calls()] == ["completed", "failed"]


async def test_rules_that_cannot_be_read_allow_nothing_and_always_holds_for_the_session(tmp_path: Path) -> None:
    async with stage(tmp_path, *ECHO * 2) as it:
        (it.home / "state" / RULES_FILE).write_text("{")
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        await it.prompt()
        assert asked(it) == 1
        told = [update for update in it.agent.updates(kind="agent_message_chunk") if RULES_FILE in str(update)]
        assert len(told) == 1
        assert "remove the file, and allow anew" in str(told)
        assert (it.home / "state" / RULES_FILE).read_text() == "{"
        listed = await permissions(it)
        assert (listed.code, listed.out) == (1, "")
        assert RULES_FILE in listed.err


@pytest.mark.parametrize("rules", [["shell: rm"], []])
async def test_what_is_not_there_cannot_be_revoked(tmp_path: Path, rules: list[str]) -> None:
    ran = await run_command(tmp_path, "permissions", "revoke", *rules)
    what = "no rule 'shell: rm'" if rules else "no rules"
    assert (ran.code, ran.out) == (1, "")
    assert f"{tmp_path} has {what}. `acp-agent permissions` lists" in ran.err


async def test_what_is_asked_and_listed_holds_no_marks_that_turn_it_around(tmp_path: Path) -> None:
    call = ToolCall("shell", {"command": "echo \u202e1; echo \u20662"})
    outside = ToolCall("write", {"path": str(tmp_path / "o\u202edd"), "content": "x"})
    async with stage(tmp_path, Reply(tool_calls=[call, outside]), Reply("Done.")) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        assert asked(it) == 2
        said = [
            words
            for asking in it.agent.desk.permissions
            for words in (asking["toolCall"]["title"], *(option["name"] for option in asking["options"]))
        ]
        said += (await permissions(it)).out.splitlines()
        assert sum("\ufffd" in words for words in said) >= 5
        assert not [words for words in said if "\u202e" in words or "\u2066" in words]
        [rule, *_] = [line.split("  ")[-1] for line in said if "shell: " in line and line.startswith("  ")]
        assert (await permissions(it, "revoke", rule, "--project", str(it.folder))).code == 0
