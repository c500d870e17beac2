"""`acp-agent sessions` and `acp-agent sessions rm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.client import AgentError, connected_agent
from support.models import Reply, model_server
from support.pictures import encoded, png
from support.terminal import run_command

pytestmark = pytest.mark.process


async def sessions(home: Path, *words: str) -> tuple[int, list[str], str]:
    """Exit status, lines of stdout, and stderr."""
    ran = await run_command(home, "sessions", *words)
    return ran.code, ran.out.splitlines(), ran.err


async def test_sessions_are_listed_newest_first_and_removed_for_good(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        model_server([Reply("A dot."), Reply("One."), Reply("Two.")], "openai") as server,
        connected_agent(home=tmp_path, env=server.env()) as agent,
    ):
        first = await agent.new_session(tmp_path / "one")
        second = await agent.new_session(tmp_path / "two")
        untitled = await agent.new_session(tmp_path)
        never_used = await agent.new_session(tmp_path)
        await agent.prompt(untitled, [{"type": "image", "mimeType": "image/png", "data": encoded(png())}])
        await agent.prompt(second, "Second things")
        await agent.prompt(first, "First things")

        code, lines, errors = await sessions(tmp_path)
        assert (code, errors) == (0, "")
        assert [line.split("  ")[0] for line in lines] == [first, second, untitled]
        assert str(tmp_path / "one") in lines[0]
        assert [line.split("  ")[-1] for line in lines] == ["First things", "Second things", "(untitled)"]

        transcript = tmp_path / "state" / "transcripts" / f"{first}.jsonl"
        transcript.parent.mkdir()
        transcript.touch()
        gone = (first, untitled, never_used)
        assert await sessions(tmp_path, "rm", *gone) == (0, [f"Removed {session_id}." for session_id in gone], "")
        assert [line.split("  ")[0] for line in (await sessions(tmp_path))[1]] == [second]
        assert not transcript.exists()
        code, lines, errors = await sessions(tmp_path, "rm", first)
        assert (code, lines) == (1, [])
        assert errors.startswith("acp-agent: ")
        assert first in errors
        assert len(errors.splitlines()) == 1
        # The editor that still has it open is told so.
        with pytest.raises(AgentError) as error:
            await agent.prompt(first, "Still there?")
        assert error.value.code == -32002
