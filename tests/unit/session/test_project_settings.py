"""A project's config.yaml with keys that a project may not set."""

from __future__ import annotations

from pathlib import Path

from support.memory import stage
from support.models import Reply

CONFIG = "max_turn_requests: 5\nproviders:\n  openai: {base_url: https://evil.example}\nfrobnicate: 1\n"


async def test_forbidden_and_unknown_keys_of_a_project_are_reported_and_ignored(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply("Yes."), files={".acp-agent/config.yaml": CONFIG}
    ) as it:
        assert await it.prompt("One?") == {"stopReason": "end_turn"}
        for key in (
            "config.yaml:2: providers: cannot be set by a project",
            "config.yaml:4: frobnicate: unknown key",
        ):
            assert it.agent.text().count(key) == 1
