"""The home that version 0.1.0 has written: every later one opens, lists, replays, prompts, compacts and undoes it.

What is in it stands in `home/README.md`. Nothing of acp_agent is imported, and nothing is said of the words around what
the user has said, nor of those of a receipt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.kept import FOLDER, KEPT, STORE, Kept, by_name, opened, shown
from support.replies import Reply, ToolCall
from support.terminal import run_command

SESSIONS = [session for session in KEPT if session.name != "deleted"]
SUMMARY = "## Goal and requirements\nThe contract holds."
LONG = "\n".join(f"Row {row} of a long answer that was given later." for row in range(200))

each_session = pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)


def compactions(updates: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [update for update in updates if update["sessionUpdate"] == "compaction_update"]


def names(updates: list[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """What the updates are about."""
    return [
        tuple(str(update.get(key)) for key in ("sessionUpdate", "messageId", "toolCallId", "compactionId"))
        for update in updates
    ]


@each_session
async def test_a_session_is_replayed_as_it_was_goes_on_with_what_was_said_and_what_was_compacted_is_brought_back(
    tmp_path: Path, session: Kept
) -> None:
    async with opened(tmp_path, session) as it:
        assert shown(await it.load()) == session.replay()
        request = await it.ask("What next?")
        for words in session.words:
            assert request.mentions(words), words
        for words in session.absent:
            assert not request.mentions(words), words
        assert it.agent.text().endswith("An answer.")
        if not (session.force and session.old):
            return
        assert not request.mentions(session.old)
        assert request.mentions(session.new)
        for _ in range(session.force):
            await it.command("/compact undo")
        request = await it.ask("And without it?")
        assert request.mentions(session.old)
        assert not (session.new and request.mentions(session.new))
        for words in ("What next?", *session.pins):
            assert request.mentions(words), words


@each_session
async def test_a_session_is_compacted_and_that_is_undone(tmp_path: Path, session: Kept) -> None:
    async with opened(tmp_path, session) as it:
        before = await it.load()
        assert (await it.ask("What next?", LONG)).mentions("What next?")
        made = compactions(await it.command("/compact", SUMMARY))
        assert (made[0]["status"], made[-1]["status"]) == ("in_progress", "completed")
        assert made[-1]["summary"][0]["text"] == SUMMARY
        request = await it.ask("Does it hold?")
        assert request.mentions("The contract holds.")
        for words in session.pins:
            assert request.mentions(words), words
        await it.command("/compact undo")
        request = await it.ask("And without it?")
        assert not request.mentions("The contract holds.")
        for words in ("What next?", "Row 100 of a long answer", "Does it hold?", *session.words):
            assert request.mentions(words), words
        # What was replayed before comes first, also now.
        assert names(await it.load())[: len(before)] == names(before)


async def test_all_sessions_are_listed_as_they_were(tmp_path: Path) -> None:
    async with opened(tmp_path, SESSIONS[0]) as it:

        async def listed(**params: Any) -> dict[str, Any]:
            return {
                row["sessionId"]: (row["title"], row["cwd"])
                for row in (await it.agent.request("session/list", params))["sessions"]
            }

        stored = [session for session in KEPT if session.store == STORE]
        expected = {
            kind: {session.id: (session.title, "/home/user/project") for session in stored if session.listed == kind}
            for kind in ("always", "archived")
        }
        assert await listed() == expected["always"]
        assert await listed(cwd="/home/user/project") == expected["always"]
        assert await listed(archived="only") == expected["archived"]
        deleted = by_name("deleted")
        with pytest.raises(AgentError) as error:
            await it.agent.load(deleted.id, it.folder)
        assert error.value.code == -32002


async def test_sessions_of_the_home_are_forked_renamed_and_deleted(tmp_path: Path) -> None:
    session = by_name("native-anthropic")
    async with opened(tmp_path, session) as it:
        params = {"sessionId": session.id, "cwd": str(it.folder), "mcpServers": []}
        made = (await it.agent.request("session/fork", params, 20))["sessionId"]
        await it.agent.request("session/set_title", {"sessionId": made, "title": "By hand"})
        assert await it.agent.request("session/delete", {"sessionId": session.id}) == {}
        it.session = Kept("fork", made)
        request = await it.ask("What next?")
        assert request.mentions(session.new)
        for words in session.words:
            assert request.mentions(words), words


# --- the rest of the home: settings, recipes, hooks, what was allowed ---


async def test_the_whole_home_with_every_key_and_every_kind_of_hook_is_used(tmp_path: Path) -> None:
    async with opened(tmp_path, Kept("new", "", dialect="anthropic"), whole=True) as it:
        id = await it.agent.new_session(it.folder)
        it.session = Kept("new", id, dialect="anthropic")
        update = await it.agent.wait_update("available_commands_update", id, timeout=30)
        offered = {command["name"] for command in update["availableCommands"]}
        assert {"every-key", "every-compaction-key", "tour", "fix-issue", "compact"} <= offered
        request = await it.ask("What is in the cart?")
        # Whoever is a hook was asked, those of the trusted project too, and nobody was asked whether it is trusted.
        told = set((it.folder / "told.txt").read_text().splitlines())
        assert {
            "config session_start",
            "config SessionStart",
            "config user_message_send",
            "config UserPromptSubmit",
            "program run",
            "project config",
            "project program",
        } <= told
        assert "off" not in told
        for words in ("The hook in Python was asked.", "The rule was asked.", "The project's rule was asked."):
            assert request.mentions(words), words
        assert request.mentions("Answer briefly.")
        request = await it.ask("/every-key place=shop look around", '["Answered."]', "3 wide at shop.")
        assert request.mentions("said by the shell")
        await it.ask("/tour depth=3 the cart", sent="Show how this works, 3 deep: the cart")
        assert it.agent.desk.permissions == []
        assert [line.method for line in it.agent.lines if line.kind == "request"] == []


@pytest.mark.parametrize("name", ["summary", "native-anthropic", "mask", "work"])
async def test_sessions_go_on_in_the_whole_home(tmp_path: Path, name: str) -> None:
    session = by_name(name)
    async with opened(tmp_path, session, whole=True) as it:
        assert shown(await it.load()) == session.replay()
        request = await it.ask("What next?", LONG)
        for words in session.words:
            assert request.mentions(words), words
        await it.command("/compact", SUMMARY)
        await it.command("/compact undo")
        assert (await it.ask("And without it?")).mentions("Row 100 of a long answer")


@pytest.mark.process
async def test_what_was_allowed_for_good_is_not_asked_again(tmp_path: Path) -> None:
    async with opened(tmp_path, by_name("work"), whole=True) as it:
        await it.load()
        ran = await run_command(it.home, "permissions")
        assert (ran.code, [words in ran.out for words in ("edit", "shell: git log")]) == (0, [True, True])
        it.agent.permission_answer = "cancelled"
        it.first = [Reply(tool_calls=[ToolCall("write", {"path": "allowed.txt", "content": "allowed\n"})])]
        await it.ask("Write it.")
        assert (it.folder / "allowed.txt").read_text() == "allowed\n"
        it.first = [Reply(tool_calls=[ToolCall("shell", {"command": "touch refused.txt"})])]
        assert await it.agent.prompt(it.session.id, "Run it.", 30) == {"stopReason": "cancelled"}
        assert not (it.folder / "refused.txt").exists()


# --- the folder itself ---


def test_the_home_holds_nothing_of_the_machine_that_wrote_it() -> None:
    here = [str(Path(__file__).parents[2]).encode(), b"/root/", b"/tmp/", b"test-key"]
    for file in sorted(FOLDER.rglob("*")):
        found = [words for words in here if file.is_file() and words in file.read_bytes()]
        assert found == [], file


def test_every_replay_is_that_of_a_session() -> None:
    assert {file.stem for file in (FOLDER / "replay").iterdir()} == {session.name for session in SESSIONS}
    assert json.loads((FOLDER / "sessions.json").read_text("utf-8"))
