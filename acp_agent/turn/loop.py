"""`run_turn`: model, tools, model, until the model has answered, a limit is reached or the user cancels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from acp_agent.conversation.events import TurnRefused
from acp_agent.conversation.messages import AssistantMessage
from acp_agent.tools.registry import ToolRegistry
from acp_agent.turn.answer import stream_answer
from acp_agent.turn.calls import run_calls
from acp_agent.turn.host import TurnHost, TurnLimits

TurnStop: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended, and its last answer, where it got one."""

    stop_reason: TurnStop
    answer: AssistantMessage | None = None


async def run_turn(host: TurnHost, tools: ToolRegistry, limits: TurnLimits) -> TurnResult:
    """Run one turn whose prompt is already in the log.

    The caller closes the log where this raises or is cancelled (see `closing_events`).

    :raises ModelError: the model could not be asked, or its answer broke off.
    """
    spent_before = host.context.cost
    for _ in range(limits.max_requests):
        answer = await stream_answer(host, await host.next_request())
        if answer.stop_reason == "refusal":
            turn_from = host.context.turn_from
            if turn_from is not None:
                await host.append(TurnRefused(turn_from))
                await host.show_usage()
            return TurnResult("refusal", answer)
        await host.show_usage()
        if answer.stop_reason in ("max_tokens", "context_overflow"):
            return TurnResult("max_tokens", answer)
        if answer.tool_calls:
            if await run_calls(host, tools, answer.tool_calls, limits) == "cancelled":
                return TurnResult("cancelled", answer)
        elif answer.stop_reason != "pause_turn":
            return TurnResult("end_turn", answer)
        if limits.max_cost is not None and host.context.cost - spent_before >= limits.max_cost:
            break
    return TurnResult("max_turn_requests")
