"""What a request costs besides the conversation itself, by the server's own count."""

from __future__ import annotations

from pathlib import Path

from support.models import DialectName
from support.reasoning import both_providers, thinking


@both_providers
async def test_the_system_prompt_and_the_tools_are_short(tmp_path: Path, dialect: DialectName) -> None:
    async with thinking(tmp_path, dialect) as it:
        await it.talk(1)
        assert it.server.cached[0].fresh < 1_800
