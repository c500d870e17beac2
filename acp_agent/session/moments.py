"""What every event of a session says of the moment at which it happens. Knows no hook."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.compaction.estimate import used_tokens
from acp_agent.errors import AgentError
from acp_agent.hooks.events import Moment, TokenUsage

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost


async def moment(
    host: SessionHost, transcript: Callable[[], Awaitable[str]], *, turn_number: int, invoked_by: str
) -> Moment:
    """The session as it is now.

    :param transcript: writes it down, and says in which file.
    :param turn_number: which answer without tool calls it is within one prompt, from 1.
    :param invoked_by: the recipe that runs; empty where none does.
    """
    context = host.context
    last = context.usage
    usage = TokenUsage(
        input_tokens=last.prompt_tokens if last else 0,
        output_tokens=last.output_tokens if last else 0,
        current_context_window=context.baseline or used_tokens(context, host.requests.prefix_tokens()),
    )
    try:
        active = await host.models.active(host.model)
        usage = replace(usage, max_context_window=active.budget.window)
    except AgentError:
        pass  # without a model there is no window; the prompt that needs one says what to set
    return Moment(
        session_id=host.session_id,
        cwd=host.cwd,
        transcript=transcript,
        mode=host.mode,
        turn_number=turn_number,
        invoked_by=invoked_by,
        usage=usage,
        messages=context.messages,
    )
