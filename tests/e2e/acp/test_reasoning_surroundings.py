"""Changes of instructions, the day, directories and tools are told behind the
conversation, and void no reasoning.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from acp_agent.session import mcp
from support.mcp import mcp_program, ready, says, tool
from support.models import DialectName, Reply, ToolCall
from support.reasoning import Thinking, another_day, both_providers, strict, thinking
from support.stage import FILES

AGENTS = {**FILES, "AGENTS.md": "Count in whole cents."}
EDITED = "Count in tenths of a cent."


def all_kept(it: Thinking) -> bool:
    return it.kept() == len(it.turns) - 1


@both_providers
@pytest.mark.parametrize("account", ["new", "old"])
async def test_an_edited_agents_file_is_told_with_the_next_prompt_and_voids_no_reasoning(
    tmp_path: Path, dialect: DialectName, account: str
) -> None:
    async with thinking(
        tmp_path, dialect, files=AGENTS, binding=strict(account=account)
    ) as it:
        await it.talk()
        (it.stage.folder / "AGENTS.md").write_text(EDITED)
        assert not it.last.mentions(EDITED)
        await it.loop(calls=1)
        told = [call.mentions(EDITED) for call in it.turns]
        assert told == [False] * 6 + [True] * 2
        (it.stage.folder / "AGENTS.md").unlink()
        await it.loop(calls=1)
        assert it.last.mentions("its instructions no longer apply")
        assert all_kept(it)


@both_providers
async def test_an_agents_file_that_is_edited_before_a_load_is_told_after_it(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect, files=AGENTS) as it:
        await it.talk()
        (it.stage.folder / "AGENTS.md").write_text(EDITED)
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert later.last.mentions(EDITED)
            assert all_kept(later)


@both_providers
@pytest.mark.parametrize("account", ["new", "old"])
async def test_a_session_is_loaded_on_the_same_day_and_sends_all_its_reasoning(
    tmp_path: Path, dialect: DialectName, account: str
) -> None:
    async with thinking(tmp_path, dialect, binding=strict(account=account)) as it:
        await it.talk()
        async with it.restarted() as later:
            await later.loop(calls=1)
            assert all_kept(later)


@both_providers
async def test_a_session_is_loaded_on_another_day_and_tells_the_date_behind_its_reasoning(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect) as it:
        await it.talk()
        with another_day() as day:
            async with it.restarted() as later:
                await later.loop(calls=1)
                assert later.last.mentions(f"Date: {day}")
                assert all_kept(later)
        assert it.server.cached[-2].share > 0.8


@both_providers
async def test_a_session_is_loaded_with_other_directories_and_tells_them_behind_its_reasoning(
    tmp_path: Path, dialect: DialectName
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "AGENTS.md").write_text("Never call it.")
    async with thinking(tmp_path, dialect) as it:
        await it.talk()
        async with it.restarted(additionalDirectories=[str(library)]) as later:
            await later.loop(calls=1)
            for words in (f"Additional directory: {library}", "Never call it."):
                assert later.last.mentions(words)
            assert all_kept(later)
        async with it.restarted() as latest:
            await latest.loop(calls=1)
            assert latest.last.mentions("are no longer part of the session")
            assert all_kept(latest)


@both_providers
async def test_tools_that_come_late_are_appended_and_run(
    tmp_path: Path, dialect: DialectName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "PATIENCE_SECONDS", 0)
    server = mcp_program(
        tmp_path,
        "files",
        tools=[tool("look")],
        results={"look": says("Here.")},
        slow=True,
    )
    async with thinking(
        tmp_path, dialect, mcp=[server.entry], mode="full-access"
    ) as it:
        await it.talk()
        await server.go()
        await ready(it.stage, "files")
        it.model.first = [Reply("I look.", tool_calls=[ToolCall("mcp__files__look")])]
        late = len(it.server.calls)
        await it.say()
        assert server.calls() == [{"name": "look", "arguments": {}}]
        assert it.server.cached[late].share > 0.8
        assert [call.mentions("Does look.") for call in it.turns[-3:]] == [
            False,
            True,
            True,
        ]
        await it.say()
        assert all_kept(it)


@both_providers
async def test_a_tool_that_changes_is_defined_again_and_one_that_goes_answers_that_it_is_not_available(
    tmp_path: Path, dialect: DialectName
) -> None:
    newer = {
        "tools": [{**tool("look"), "description": "Does look twice."}, tool("end")]
    }
    server = mcp_program(
        tmp_path,
        "files",
        tools=[tool("look"), tool("end")],
        results={
            "look": {**says("Here."), "then": newer},
            "end": {**says("Gone."), "then": {"tools": [tool("end")]}},
        },
    )
    async with thinking(
        tmp_path, dialect, mcp=[server.entry], mode="full-access"
    ) as it:
        await ready(it.stage, "files")
        await it.talk(1)
        it.model.first = [Reply("I look.", tool_calls=[ToolCall("mcp__files__look")])]
        await it.say()
        await server.noted("tools/list", 2)
        await it.talk(2)
        assert it.last.mentions("Does look twice.")
        assert it.last.mentions("Does look.")
        it.model.first = [Reply("I end.", tool_calls=[ToolCall("mcp__files__end")])]
        await it.say()
        await server.noted("tools/list", 3)
        await it.talk(1)
        it.model.first = [Reply("I look.", tool_calls=[ToolCall("mcp__files__look")])]
        await it.say()
        assert it.last.mentions("is no longer available")
        assert it.last.mentions("Does look twice.")
        assert all_kept(it)


@both_providers
async def test_a_server_that_is_not_there_after_a_load_leaves_its_tools_in_the_request(
    tmp_path: Path, dialect: DialectName
) -> None:
    server = mcp_program(
        tmp_path, "files", tools=[tool("look")], results={"look": says("Here.")}
    )
    async with thinking(
        tmp_path, dialect, mcp=[server.entry], mode="full-access"
    ) as it:
        await ready(it.stage, "files")
        await it.talk()
        async with it.restarted() as later:
            later.model.first = [
                Reply("I look.", tool_calls=[ToolCall("mcp__files__look")])
            ]
            await later.say()
            assert later.last.mentions("is no longer available")
            await later.say()
            assert all_kept(later)
