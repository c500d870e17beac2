"""Additional directories: what a session may do in them, and which it has after it was
opened again.
"""

from __future__ import annotations

from pathlib import Path

from support.memory import stage
from support.replies import Reply, ToolCall
from support.stage import results


async def test_tools_and_instructions_reach_an_additional_directory_as_the_working_directory(
    tmp_path: Path,
) -> None:
    lib = tmp_path / "lib"
    docs = tmp_path / "docs"
    lib.mkdir()
    docs.mkdir()
    (lib / "AGENTS.md").write_text("Write in iambs.")
    (lib / "cart.py").write_text("total = 1\n")
    work = [
        ToolCall("read", {"path": str(lib / "cart.py")}),
        ToolCall(
            "edit",
            {
                "path": str(lib / "cart.py"),
                "edits": [{"old_text": "1", "new_text": "2"}],
            },
        ),
        ToolCall("write", {"path": str(docs / "new.md"), "content": "New.\n"}),
    ]
    outside = ToolCall("read", {"path": str(tmp_path / "home" / "other.txt")})
    async with stage(
        tmp_path, Reply(tool_calls=[*work, outside]), Reply("Done.")
    ) as it:
        (tmp_path / "home" / "other.txt").write_text("mine")
        session = await it.agent.new_session(
            it.folder, additionalDirectories=[str(lib), str(docs)]
        )
        await it.agent.set_mode(session, "accept-edits")
        link = {
            "type": "resource_link",
            "uri": (lib / "cart.py").as_uri(),
            "name": "cart.py",
        }
        await it.agent.prompt(session, [{"type": "text", "text": "Work on "}, link], 30)
        request = str(it.server.calls[0].body)
        for told in (
            "Write in iambs.",
            f"Additional directory: {lib}",
            f"Additional directory: {docs}",
            "cart.py",
        ):
            assert told in request
        assert (lib / "cart.py").read_text() == "total = 2\n"
        assert (docs / "new.md").read_text() == "New.\n"
        # What lies in none of them is asked for.
        assert [each["toolCall"]["title"] for each in it.agent.desk.permissions] == [
            it.calls()[-1]["title"]
        ]
        assert len(results(it.server.calls[1].body)) == 4
