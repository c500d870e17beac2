"""Additional directories: what a session may do in them, and which it has after it was opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.client import AgentError
from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import Stage, results


async def listed(it: Stage) -> list[Any]:
    """The additional directories of each session of the folder, as the list has them."""
    found = await it.agent.request("session/list", {"cwd": str(it.folder)})
    return [row.get("additionalDirectories") for row in found["sessions"]]


async def test_tools_and_instructions_reach_an_additional_directory_as_the_working_directory(tmp_path: Path) -> None:
    lib, docs = tmp_path / "lib", tmp_path / "docs"
    lib.mkdir()
    docs.mkdir()
    (lib / "AGENTS.md").write_text("Write in iambs.")
    (lib / "cart.py").write_text("total = 1\n")
    work = [
        ToolCall("read", {"path": str(lib / "cart.py")}),
        ToolCall("edit", {"path": str(lib / "cart.py"), "edits": [{"old_text": "1", "new_text": "2"}]}),
        ToolCall("write", {"path": str(docs / "new.md"), "content": "New.\n"}),
    ]
    outside = ToolCall("read", {"path": str(tmp_path / "home" / "other.txt")})
    async with stage(tmp_path, Reply(tool_calls=[*work, outside]), Reply("Done.")) as it:
        (tmp_path / "home" / "other.txt").write_text("mine")
        session = await it.agent.new_session(it.folder, additionalDirectories=[str(lib), str(docs)])
        await it.agent.set_mode(session, "accept-edits")
        link = {"type": "resource_link", "uri": (lib / "cart.py").as_uri(), "name": "cart.py"}
        await it.agent.prompt(session, [{"type": "text", "text": "Work on "}, link], 30)
        request = str(it.server.calls[0].body)
        for told in ("Write in iambs.", f"Additional directory: {lib}", f"Additional directory: {docs}", "cart.py"):
            assert told in request
        assert (lib / "cart.py").read_text() == "total = 2\n"
        assert (docs / "new.md").read_text() == "New.\n"
        # What lies in none of them is asked for.
        assert [each["toolCall"]["title"] for each in it.agent.desk.permissions] == [it.calls()[-1]["title"]]
        assert len(results(it.server.calls[1].body)) == 4


async def test_the_list_has_the_directories_of_the_last_opening_and_none_come_back_by_themselves(
    tmp_path: Path,
) -> None:
    lib, docs = tmp_path / "lib", tmp_path / "docs"
    lib.mkdir()
    docs.mkdir()
    async with stage(tmp_path, *[Reply("Yes.")] * 2) as it:
        await it.agent.request("session/delete", {"sessionId": it.session})
        session = await it.agent.new_session(it.folder, additionalDirectories=[str(lib), str(docs)])
        assert await listed(it) == [[str(lib), str(docs)]]
        await it.agent.load(session, it.folder, additionalDirectories=[str(docs)])
        assert await listed(it) == [[str(docs)]]
        await it.agent.prompt(session, "Go", 30)
        await it.agent.resume(session, it.folder)
        assert await listed(it) == [None]
        await it.agent.prompt(session, "Go", 30)
        first, second = (str(call.body) for call in it.server.calls)
        assert f"Additional directory: {docs}" in first
        assert str(lib) not in first
        assert "Additional directory" not in second
        # Who opens it again is not kept out by a directory that is gone by now.
        docs.rmdir()
        await it.agent.resume(session, it.folder, additionalDirectories=[str(docs)])
        async with it.restarted() as later:
            assert await listed(later) == [[str(docs)]]


@pytest.mark.parametrize("wrong", ["lib", "./lib", "", "/no/such/directory", "\0"])
async def test_a_directory_that_is_not_absolute_or_not_there_opens_no_session(tmp_path: Path, wrong: str) -> None:
    async with stage(tmp_path) as it:
        with pytest.raises(AgentError, match="additionalDirectories") as error:
            await it.agent.new_session(it.folder, additionalDirectories=[str(tmp_path), wrong])
        assert error.value.code == -32602
