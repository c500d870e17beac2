"""What a request costs besides the conversation itself, by the server's own count."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.models import DialectName
from support.reasoning import both_providers, compaction, thinking

SIZE = 6_000


@both_providers
async def test_the_system_prompt_and_the_tools_are_short(
    tmp_path: Path, dialect: DialectName
) -> None:
    async with thinking(tmp_path, dialect) as it:
        await it.talk(1)
        assert it.server.cached[0].fresh < 1_800


@both_providers
async def test_reasoning_that_stays_after_a_compaction_leaves_less_room_for_excerpts(
    tmp_path: Path, dialect: DialectName, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Providers count more for reasoning than what is sent of it.
    monkeypatch.setattr("support.binding.pieces.REASONING_CHARACTERS", 1_600)
    rows = "\n".join(f"row_{number} holds {number * 7919}" for number in range(1_500))
    config = compaction(strategy="native", size=SIZE)
    async with thinking(tmp_path, dialect, config=config, files={"a.txt": rows}) as it:
        it.model.says = "Short."
        await it.talk(1)
        (it.stage.folder / "a.txt").write_text("Nothing.\n")
        await it.talk(4)
        await it.say("/compact")
        await it.say("And now?")
        assert it.kept() >= 6
        assert it.server.cached[-1].fresh <= SIZE
