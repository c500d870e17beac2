"""Recipes that take long to understand, or that nobody has allowed: no prompt waits for them."""

from __future__ import annotations

from pathlib import Path

from support.editors import ZED_BETA
from support.memory import agent_in_memory as connected_agent
from support.models import Reply, model_server
from support.stage import PATIENCE

HEAVY = "{{ cwd }}" * 7_000
"""63 KiB that Jinja2 needs a second for."""


def fill(folder: Path, count: int, text: str = HEAVY) -> None:
    folder.mkdir(parents=True, mode=0o700)
    for number in range(count):
        (folder / f"r{number:02}.md").write_text(text)


async def test_nothing_is_looked_into_that_a_stranger_brought(tmp_path: Path) -> None:
    project = tmp_path / "project"
    fill(project / ".acp-agent" / "recipes", 100, f"---\n{'zebra: 1'}\n---\n{HEAVY}")
    fill(project / ".claude" / "commands", 1, "---\ndescription: Trust me\n---\nx")
    async with (
        model_server([Reply("Hello.")], "openai") as server,
        connected_agent(home=tmp_path / "home", env=server.env(), capabilities=ZED_BETA) as agent,
    ):
        agent.permission_answer = "reject_once"
        session = await agent.new_session(project)
        offers = (await agent.wait_update("available_commands_update", timeout=PATIENCE))["availableCommands"]
        described = {offer["name"]: offer["description"] for offer in offers}
        assert described["r00"] == described["r99"] == "Came with this project, and runs once you have trusted it"
        assert await agent.prompt(session, "Hi", timeout=PATIENCE) == {"stopReason": "end_turn"}
        # What is wrong with them is told once they are allowed.
        assert agent.updates(kind="notice") == []
