"""Commands that the model runs in the sandbox, and what came of them."""

from __future__ import annotations

from support.replies import Reply, ToolCall
from support.stage import Stage
from support.stage import results as read


def shell(*commands: str, **arguments: object) -> list[Reply]:
    """An answer for each command, and the end of the turn."""
    calls = [
        Reply(tool_calls=[ToolCall("shell", {"command": command, **arguments})])
        for command in commands
    ]
    return [*calls, Reply("Done.")]


def asked(it: Stage) -> list[str]:
    """The titles of what the user was asked about."""
    return [str(params["toolCall"]["title"]) for params in it.agent.desk.permissions]


def results(it: Stage) -> list[str]:
    """What the model read of each call."""
    return [result.text for result in read(it.server.calls[-1].body)]
