"""Streaming one answer of the model: saved and shown as it comes, appended once more when it is whole."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import groupby

import anyio

from acp_agent.conversation.events import AssistantAnswered, PartialAnswer
from acp_agent.conversation.messages import AssistantMessage, AssistantPart, ToolCall, new_id
from acp_agent.errors import ModelStreamError
from acp_agent.llm.provider import Answered, ModelRequest, Retrying, TextDelta, ThinkingDelta
from acp_agent.turn.host import TurnHost
from acp_agent.turn.updates import AgentSaid, AgentThought, Notice

GATHER_SECONDS = 0.03
"""How long what streams is gathered behind something that was shown, so that it is saved and shown together."""
MAX_GATHERED = 65_536
"""Characters that may wait to be shown; the model is read no further while an editor takes no more."""


@dataclass(slots=True)
class _Streamed:
    """What streamed, on its way into the log and from there to the user."""

    host: TurnHost
    message_id: str
    arrived: anyio.Event = field(default_factory=anyio.Event)
    _deltas: list[TextDelta | ThinkingDelta] = field(default_factory=list[TextDelta | ThinkingDelta])
    _size: int = 0
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def add(self, delta: TextDelta | ThinkingDelta) -> None:
        """Take one in; waits where too much is on its way."""
        self._deltas.append(delta)
        self._size += len(delta.text)
        self.arrived.set()
        if self._size >= MAX_GATHERED:
            await self.flush()

    async def flush(self) -> None:
        """Save what has come, then show it: nothing is on the screen that a kill could lose. Not to be cancelled in
        between, or it were saved and never seen."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                deltas, self._deltas, self._size = self._deltas, [], 0
                if not deltas:
                    return
                text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
                thinking = "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta))
                await self.host.append(PartialAnswer(self.message_id, text, thinking))
                for kind, neighbours in groupby(deltas, type):
                    joined = "".join(delta.text for delta in neighbours)
                    update = AgentSaid if kind is TextDelta else AgentThought
                    await self.host.show(update(self.message_id, joined))


async def stream_answer(host: TurnHost, request: ModelRequest) -> AssistantMessage:
    """Ask the model once and append its answer to the log.

    However this ends, everything that streamed is in the log, and the user has seen it.

    :returns: the answer as appended; its calls have ids of ours, and no calls where it was cut off.
    :raises ModelError: see `Provider.stream`.
    """
    message_id = new_id("msg")
    streamed = _Streamed(host, message_id)
    try:
        answered = await _stream(host, request, streamed)
    finally:
        await streamed.flush()
    message = AssistantMessage(message_id, _own_parts(answered), host.asked_model, answered.stop_reason, answered.usage)
    await host.append(AssistantAnswered(message))
    return message


async def _stream(host: TurnHost, request: ModelRequest, streamed: _Streamed) -> Answered:
    answered: Answered | None = None

    # A failure in here is passed on by itself, not in the group that the task group would make of it.
    failure: Exception | None = None

    async def show() -> None:
        nonlocal failure
        try:
            while True:
                await streamed.arrived.wait()
                streamed.arrived = anyio.Event()
                await streamed.flush()
                await anyio.sleep(GATHER_SECONDS)
        except Exception as error:
            failure = error
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(show)
        try:
            async with aclosing(host.call_model(request)) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta | ThinkingDelta):
                        await streamed.add(event)
                    elif isinstance(event, Retrying):
                        await host.show(Notice("warning", f"{event.reason}. Trying again in {event.delay:.1f} s."))
                    elif isinstance(event, Answered):
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
