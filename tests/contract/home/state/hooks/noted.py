"""A hook in Python that leaves a word, and adds one for the model."""

from __future__ import annotations

from pathlib import Path

from acp_agent.hooks import BeforeToolCall, Outcome, Services, UserMessageSend, hook


@hook("user_message_send", time_limit=20)
async def added(event: UserMessageSend, services: Services) -> Outcome | None:
    services.log.info("a prompt of %d characters", len(event.prompt))
    return Outcome(context=("The hook in Python was asked.",))


@hook("PreToolUse", matcher="read", on_error="block")
def noted(event: BeforeToolCall, services: Services) -> Outcome | None:
    with (Path(event.at.cwd) / "told.txt").open("a") as file:
        print("python", event.tool, file=file)
    return None
