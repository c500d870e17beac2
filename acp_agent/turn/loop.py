"""`run_turn`: model, tools, model, until the model has answered, a limit is reached or the user cancels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from acp_agent.conversation.events import AssistantAnswered, ContinuationAsked
from acp_agent.conversation.messages import AssistantMessage, Text, new_id
from acp_agent.errors import AgentError, CompactionError, CompactionVetoedError, ContextOverflowError, sentence
from acp_agent.frozen import frozen
from acp_agent.tools.registry import ToolRegistry
from acp_agent.turn.answer import stream_answer
from acp_agent.turn.calls import Stopped, run_calls
from acp_agent.turn.host import TurnHost, TurnLimits

_CUT_OFF = "Your last answer was cut off because the context window was full."
_EXACTLY = "Go on exactly where the answer stopped, and do not repeat what it says."
GO_ON = f"{_CUT_OFF} The earlier part of the conversation has been compacted. {_EXACTLY}"
GO_ON_IN_THE_SAME = f"{_CUT_OFF} {_EXACTLY}"

MADE_SHORT = (
    "It was made short in this turn already, and is still too large; what may help is a new session, or a model that "
    "takes more."
)

TurnStop: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


@frozen
class TurnResult:
    """How a turn ended, and its last answer, where it got one.

    :ivar requests: model calls that it took.
    :ivar stopped: why a hook ended it; None where none did.
    """

    stop_reason: TurnStop
    answer: AssistantMessage | None = None
    requests: int = 0
    stopped: str | None = None


async def run_turn(
    host: TurnHost, tools: ToolRegistry, limits: TurnLimits, join: Callable[[], Awaitable[str | None]]
) -> TurnResult:
    """Run one turn whose prompt is already in the log.

    The caller closes the log where this raises or is cancelled (see `closing_events`).

    :param join: has what the user said meanwhile join the turn, and says why a hook has ended it; called before every
        step but the first.
    :raises ModelError: the model could not be asked, or its answer broke off.
    """
    spent_before = host.context.cost
    made_room, veto = False, ""
    for requests in range(1, limits.max_requests + 1):
        stopped = await join() if requests > 1 else None
        if stopped is not None:
            return TurnResult("end_turn", requests=requests - 1, stopped=stopped)
        request = await host.next_request()
        try:
            answer = await stream_answer(host, request)
        except ContextOverflowError as error:
            if await host.heed(error):
                continue
            if made_room or veto:
                raise ContextOverflowError(
                    f"{sentence(error)} {veto or MADE_SHORT}",
                    partial=error.partial,
                    limit=error.limit,
                    maximum=error.maximum,
                    prompt=error.prompt,
                ) from error
            partial = await _keep_partial(host)
            try:
                made_room = await _make_room(host, error)
            except CompactionVetoedError as vetoed:
                # The hook may have made room in another way, or there may be room by now: it is tried once more.
                veto = str(vetoed)
            if partial:
                await _ask_to_go_on(host, compacted=not veto)
            continue
        if answer.stop_reason == "refusal":
            turn_from = host.context.turn_from
            if turn_from is not None:
                await host.leave_out(turn_from)
            return TurnResult("refusal", answer)
        await host.show_usage()
        if answer.stop_reason in ("max_tokens", "context_overflow"):
            if made_room or not await host.out_of_room(answer):
                return TurnResult("max_tokens", answer)
            try:
                made_room = await host.make_room("tokens" if answer.stop_reason == "context_overflow" else None)
            except CompactionError:
                if answer.stop_reason == "context_overflow":
                    raise
                # Nothing can give way to more of the answer: it ended at its limit, then.
                return TurnResult("max_tokens", answer)
            if answer.text.strip():
                await _ask_to_go_on(host)
            continue
        if answer.tool_calls:
            ending = await run_calls(host, tools, answer.tool_calls, limits)
            if isinstance(ending, Stopped):
                return TurnResult("end_turn", answer, requests, ending.reason)
            if ending == "cancelled":
                return TurnResult("cancelled", answer)
        elif answer.stop_reason != "pause_turn":
            return TurnResult("end_turn", answer, requests)
        if limits.max_cost is not None and host.context.cost - spent_before >= limits.max_cost:
            break
    return TurnResult("max_turn_requests")


async def _keep_partial(host: TurnHost) -> bool:
    """Keep what the user has seen of an answer that broke off for want of room.

    :returns: whether there was any.
    """
    partial = host.context.partial
    if partial is None or not partial.text.strip():
        return False
    message = AssistantMessage(partial.message_id, (Text(partial.text),), host.asked_model, "context_overflow")
    await host.append(AssistantAnswered(message))
    return True


async def _ask_to_go_on(host: TurnHost, *, compacted: bool = True) -> None:
    await host.append(ContinuationAsked(new_id("msg"), GO_ON if compacted else GO_ON_IN_THE_SAME))


async def _make_room(host: TurnHost, error: ContextOverflowError) -> bool:
    try:
        return await host.make_room(error.limit, error)
    except CompactionVetoedError:
        raise
    except AgentError as failed:
        raise ContextOverflowError(f"{sentence(error)} {failed}", partial=error.partial, limit=error.limit) from failed
