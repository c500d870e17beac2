"""Rules: what "Always allow" leaves behind for the sessions that come, and how it is
taken back.
"""

from __future__ import annotations

from pathlib import Path

from support.called import call_command
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage
from support.terminal import Ran

WITHOUT_SANDBOX = {"sandbox": {"commands": "off"}}
ECHO = [Reply(tool_calls=[ToolCall("shell", {"command": "echo 1"})]), Reply("Done.")]


def asked(it: Stage) -> int:
    return len(it.agent.desk.permissions)


async def permissions(it: Stage, *words: str) -> Ran:
    return await call_command(it.home, "permissions", *words)


async def test_always_holds_in_every_session_of_the_project_and_in_no_other_until_it_is_revoked(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with stage(tmp_path, *ECHO * 6, config=WITHOUT_SANDBOX) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        assert asked(it) == 1
        it.agent.permission_answer = "allow_once"
        await it.agent.prompt(
            await it.agent.new_session(it.folder), "In another session"
        )
        assert asked(it) == 1
        await it.agent.prompt(await it.agent.new_session(other), "In another project")
        assert asked(it) == 2
        async with it.restarted() as later:
            await later.agent.prompt(
                await later.agent.new_session(it.folder), "After a restart"
            )
            assert asked(later) == 0
        listed = await permissions(it)
        [project, rule] = listed.out.splitlines()
        assert (listed.code, project, rule.split("  ")[-1]) == (
            0,
            str(it.folder),
            "shell: echo 1",
        )
        revoked = await permissions(
            it, "revoke", "shell: echo 1", "--project", str(it.folder)
        )
        assert (revoked.code, revoked.out) == (0, "Revoked: shell: echo 1\n")
        await it.prompt("In the session that it was allowed in")
        assert asked(it) == 3
        assert (await permissions(it)).out == "There are no permanent permissions.\n"


async def test_where_always_is_remembered_so_it_holds_for_its_session_alone(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path,
        *ECHO * 3,
        config={**WITHOUT_SANDBOX, "remember_permissions": "session"},
    ) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        async with it.restarted() as later:
            await later.agent.resume(it.session, it.folder)
            await later.prompt("After a restart")
            assert asked(later) == 0
        await it.agent.prompt(
            await it.agent.new_session(it.folder), "In another session"
        )
        assert asked(it) == 2


async def test_what_a_session_was_allowed_holds_in_no_other_directory_that_it_is_opened_in(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    third = tmp_path / "third"
    other.mkdir()
    third.mkdir()
    replies = [
        reply
        for number in range(6)
        for reply in (
            Reply(
                tool_calls=[
                    ToolCall("write", {"path": f"{number}.txt", "content": "x"})
                ]
            ),
            Reply("Done."),
        )
    ]
    settings = {**WITHOUT_SANDBOX, "remember_permissions": "session"}
    async with stage(tmp_path, *replies, config=settings) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        assert asked(it) == 1
        async with it.restarted() as later:
            later.agent.permission_answer = "allow_always"
            await later.agent.resume(it.session, other)
            await later.prompt("In another directory")
            assert asked(later) == 1
            await later.prompt("Once more, where it was allowed since")
            assert asked(later) == 1
        async with it.restarted() as home:
            await home.agent.resume(it.session, it.folder)
            await home.prompt("In its own directory again")
            assert asked(home) == 0
        async with it.restarted() as more:
            await more.agent.resume(
                it.session, it.folder, additionalDirectories=[str(third)]
            )
            await more.prompt("With another directory")
            assert asked(more) == 1


async def test_always_allows_the_very_command_line_and_no_other(tmp_path: Path) -> None:
    lines = {
        "git log -1": True,
        "git log": True,
        "git log -1 ": False,
        "git  log -1": True,
        "git log -1; ls": True,
    }
    calls = [Reply(tool_calls=[ToolCall("shell", {"command": line})]) for line in lines]
    async with stage(tmp_path, *calls, Reply("Done."), config=WITHOUT_SANDBOX) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        ids = {params["toolCall"]["toolCallId"] for params in it.agent.desk.permissions}
        asked_for = {
            call["rawInput"]["command"]: call["toolCallId"] in ids
            for call in it.calls()
        }
        assert asked_for == lines


async def test_what_is_asked_and_listed_holds_no_marks_that_turn_it_around(
    tmp_path: Path,
) -> None:
    call = ToolCall("shell", {"command": "echo \u202e1; echo \u20662"})
    outside = ToolCall("write", {"path": str(tmp_path / "o\u202edd"), "content": "x"})
    async with stage(
        tmp_path,
        Reply(tool_calls=[call, outside]),
        Reply("Done."),
        config=WITHOUT_SANDBOX,
    ) as it:
        it.agent.permission_answer = "allow_always"
        await it.prompt()
        assert asked(it) == 2
        said = [
            words
            for asking in it.agent.desk.permissions
            for words in (
                asking["toolCall"]["title"],
                *(option["name"] for option in asking["options"]),
            )
        ]
        said += (await permissions(it)).out.splitlines()
        assert sum("\ufffd" in words for words in said) >= 5
        assert not [words for words in said if "\u202e" in words or "\u2066" in words]
        [rule, *_] = [
            line.split("  ")[-1]
            for line in said
            if "shell: " in line and line.startswith("  ")
        ]
        assert (
            await permissions(it, "revoke", rule, "--project", str(it.folder))
        ).code == 0
