"""An editor's user in front of forms.

asked = answers(it, accepted(answer_1="Mend"), {"action": "decline"})    # one after the
other await it.prompt() assert asked[0]["message"] == "Which way?"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.lines import Line
from support.stage import PATIENCE, Stage


def answers(it: Stage, *given: Any) -> list[Mapping[str, Any]]:
    """Answer the agent's forms with these, one after the other; the params of those
    that came.
    """
    asked: list[Mapping[str, Any]] = []
    rest = iter(given)

    async def answer(params: Mapping[str, Any]) -> Any:
        asked.append(params)
        return next(rest)

    it.agent.handlers["elicitation/create"] = answer
    return asked


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def question(it: Stage, begun: int = 0) -> Line:
    """Wait for a form among the lines from this one on."""
    return await it.agent.wait_for(
        lambda line: line.method == "elicitation/create", PATIENCE, since=begun
    )
