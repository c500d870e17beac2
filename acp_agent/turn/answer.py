"""Streaming one answer of the model: shown as it comes, checkpointed in the log, appended once when it is whole."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace

import anyio

from acp_agent.conversation.events import AssistantAnswered, PartialAnswer
from acp_agent.conversation.messages import AssistantMessage, AssistantPart, ToolCall, new_id
from acp_agent.errors import ModelStreamError, StorageError
from acp_agent.llm.provider import Answered, ModelRequest, Retrying, TextDelta, ThinkingDelta
from acp_agent.turn.host import TurnHost
from acp_agent.turn.updates import AgentSaid, AgentThought, Notice

CHECKPOINT_SECONDS = 0.25
"""How much of an answer, in time, a killed agent may forget."""
CLOSE_SECONDS = 2.0
"""Bound on what is still written to the log after a cancel."""


@dataclass(slots=True)
class _Unsaved:
    """What streamed since the last checkpoint."""

    message_id: str
    text: str = ""
    thinking: str = ""

    def take(self) -> PartialAnswer:
        event = PartialAnswer(self.message_id, self.text, self.thinking)
        self.text = self.thinking = ""
        return event


async def stream_answer(host: TurnHost, request: ModelRequest) -> AssistantMessage:
    """Ask the model once and append its answer to the log.

    However this ends, everything that the user has seen of the answer is in the log.

    :returns: the answer as appended; its calls have ids of ours, and no calls where it was cut off.
    :raises ModelError: see `Provider.stream`.
    """
    message_id = new_id("msg")
    unsaved = _Unsaved(message_id)
    try:
        answered = await _show(host, request, unsaved)
    except BaseException:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            if unsaved.text or unsaved.thinking:
                await host.append(unsaved.take())
        raise
    message = AssistantMessage(
        message_id, _own_parts(answered), host.context.model, answered.stop_reason, answered.usage
    )
    await host.append(AssistantAnswered(message))
    return message


async def _show(host: TurnHost, request: ModelRequest, unsaved: _Unsaved) -> Answered:
    waiting = anyio.Event()
    answered: Answered | None = None

    # A failure in here is passed on by itself, not in the group that the task group would make of it.
    failure: Exception | None = None

    async def checkpoint() -> None:
        nonlocal waiting, failure
        try:
            while True:
                await waiting.wait()
                await anyio.sleep(CHECKPOINT_SECONDS)
                waiting = anyio.Event()
                await host.append(unsaved.take())
        except StorageError as error:
            failure = error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(checkpoint)
        try:
            async with aclosing(host.call_model(request)) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        unsaved.text += event.text
                        waiting.set()
                        await host.show(AgentSaid(unsaved.message_id, event.text))
                    elif isinstance(event, ThinkingDelta):
                        unsaved.thinking += event.text
                        waiting.set()
                        await host.show(AgentThought(unsaved.message_id, event.text))
                    elif isinstance(event, Retrying):
                        await host.show(Notice("warning", f"{event.reason}. Trying again in {event.delay:.1f} s."))
                    else:
                        answered = event
        except Exception as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if answered is None:
        raise ModelStreamError("The model's answer ended without an end. What arrived is kept; prompt again to go on.")
    return answered


def _own_parts(answered: Answered) -> tuple[AssistantPart, ...]:
    """The parts with ids of ours; without calls where the answer was cut off, since the last of them may be broken."""
    cut_off = answered.stop_reason in ("max_tokens", "context_overflow", "refusal")
    return tuple(
        replace(part, id=new_id("call")) if isinstance(part, ToolCall) else part
        for part in answered.parts
        if not (cut_off and isinstance(part, ToolCall))
    )
