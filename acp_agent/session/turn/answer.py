"""`AnswerStream`: calls one session's model, and saves and shows its answer while it
streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias, cast

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream

from acp_agent.accumulator import Accumulator
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AssistantAnswered,
    Event,
    FeatureRefused,
    ImagesRefused,
    PartialAnswer,
    ReasoningWithheld,
    ToolsRefused,
)
from acp_agent.conversation.messages import (
    AssistantMessage,
    AssistantPart,
    Entry,
    Text,
    ToolCall,
    new_id,
)
from acp_agent.conversation.surroundings import Feature
from acp_agent.conversation.updates import AgentSaid, AgentThought, Notice, Show
from acp_agent.errors import ContextOverflowError, ModelStreamError
from acp_agent.frozen import frozen
from acp_agent.llm.provider import (
    Adaptation,
    Answered,
    AskedAgain,
    Cause,
    ImagesLeftOut,
    ModelRequest,
    ReasoningRefused,
    Refused,
    RefusedTools,
    Remembered,
    Retrying,
    TextDelta,
    ThinkingDelta,
    Withheld,
)
from acp_agent.llm.remembered import keep_images
from acp_agent.session.attachments import images_in
from acp_agent.session.log import SessionLog
from acp_agent.session.models.models import ActiveModel
from acp_agent.session.models.readings import judge
from acp_agent.session.models.requests import Requests
from acp_agent.session.notices import Notices
from acp_agent.tools.text import counted, one_line

GATHER_SECONDS = 0.03
"""How long deltas are gathered after something was shown, so that they are saved and
shown together.
"""
MAX_WAITING = 2_048
"""How many deltas may wait to be shown. Beyond that, reading from the model pauses
until the editor has caught up.
"""

Delta: TypeAlias = TextDelta | ThinkingDelta
_CAUSES: dict[Cause, str] = {
    "surroundings": "the system prompt or the tools have changed since then",
    "conversation": "the conversation before it has changed",
    "unknown": "an earlier version of the agent did not record what it belongs to",
}
_REFUSED = "the provider no longer accepts it"
_NO_LEVEL = (
    "{model} does not accept the chosen thinking level. It uses its provider's default."
)
_REFUSED_TEXTS: dict[Feature, str] = {
    "functions": (
        "{model} does not support tools, according to its provider, so it cannot read or change files or run commands."
        " It answers from the conversation alone. Choose another model to use tools. A local server may need"
        " its option for tools (`--jinja` for llama.cpp, `--enable-auto-tool-choice` for vLLM)."
    ),
    "reasoning_effort": _NO_LEVEL,
    "reasoning": _NO_LEVEL,
    "thinking": _NO_LEVEL,
}
"""Notices for refused features that the user would miss."""
_OTHER_LEVEL = (
    "{model} accepts other thinking levels ({takes}). The nearest one is used."
)
_LEVELS: tuple[Feature, ...] = ("reasoning_effort", "reasoning", "thinking")
_NO_IMAGES = "{model} does not accept images, according to its provider. They are left out of requests."


@frozen
class Reply:
    """A complete answer that is not logged yet.

    :ivar message: the answer. Its calls have our own ids; an answer that was cut off
        has no calls.
    :ivar asked: the context of the request.
    :ivar explanation: the provider's explanation if it refused and gave one; else
        empty.
    """

    message: AssistantMessage
    asked: Context
    explanation: str = ""


@dataclass(eq=False, slots=True)
class AnswerStream:
    """Streams the answers of one session's model into its log and to its client."""

    _requests: Requests
    _log: SessionLog
    _notices: Notices
    _show: Show
    _call_ids: Accumulator[Entry, set[str]] = field(
        default_factory=lambda: Accumulator(set[str](), _with_call_ids)
    )

    async def ask(
        self, active: ActiveModel, on_answer: Callable[[], None] = lambda: None
    ) -> Reply:
        """Call the model once, and show its answer while it arrives.

        However this ends, all text that has streamed is in the log, and the user has
        seen it. Call `log` to log the answer itself.

        :param on_answer: called whenever a part of the answer arrives.
        :raises ModelError: see `Provider.stream`.
        """
        # The last answer may have been cut off before its flush.
        await self._notices.flush()
        await self._tell_left_out_tools(active)
        request = self._requests.request(active)
        asked = self._requests.context
        await self._tell_left_out_images(active, request)
        message_id = new_id("msg")
        whole = await active.resolved(request)
        self._notices.streaming = True
        try:
            answered = await self._streamed(
                active, request, whole, message_id, on_answer
            )
        except ExceptionGroup as failures:
            self._notices.streaming = False
            error = _first(failures)
            said = self._log.context.partial
            if not isinstance(error, ContextOverflowError):
                raise error from None
            if said is None or not said.text.strip():
                raise error from None
            # The window was full in the middle of the answer.
            message = AssistantMessage(
                message_id, (Text(said.text),), active.name, "context_overflow"
            )
            return Reply(message, asked)
        await self._note_withheld(answered.withheld)
        reading = await judge(self._requests, active, answered, asked)
        if reading.notice:
            await self._notices.tell_once(
                reading.notice, topic=f"requests that {active.name} cuts"
            )
        message = AssistantMessage(
            message_id,
            _own_parts(answered, self._call_ids.over(asked.entries)),
            active.name,
            answered.stop_reason,
            answered.usage,
            doubtful=reading.doubtful,
            estimated=answered.estimated,
        )
        return Reply(message, asked, answered.explanation)

    async def log(self, active: ActiveModel, reply: Reply, *ending: Event) -> None:
        """Append an answer to the log, learn from it, and show the notices that had to
        wait for its end.

        :param ending: events to append in the same transaction, so that a cancel that
            arrives while the answer is being shown cannot come between.
        """
        await self._log.append(AssistantAnswered(reply.message), *ending)
        self._requests.learn_answer(active, reply.message, reply.asked)
        self._notices.streaming = False
        await self._notices.flush()

    async def _streamed(
        self,
        active: ActiveModel,
        request: ModelRequest,
        whole: ModelRequest,
        message_id: str,
        on_answer: Callable[[], None],
    ) -> Answered:
        """Send a request, and save and show its answer while it arrives.

        :param whole: the request with the contents of its attachments.
        :raises ExceptionGroup: if the request failed; see `Provider.stream`. The group
            contains one failure.
        :raises ModelStreamError: if the provider closed the stream too early.
        """
        answered: Answered | None = None
        ended = anyio.Event()
        send, receive = anyio.create_memory_object_stream[Delta](MAX_WAITING)
        stream = active.provider.stream(whole)
        async with receive, anyio.create_task_group() as tasks, send, aclosing(stream):
            tasks.start_soon(self._save_and_show, message_id, receive, ended)
            try:
                async for event in stream:
                    match event:
                        case TextDelta() | ThinkingDelta():
                            on_answer()
                            try:
                                # `send` yields to other tasks, which takes 10 µs.
                                send.send_nowait(event)
                            except anyio.WouldBlock:
                                await send.send(event)
                        case Answered():
                            on_answer()
                            answered = event
                        case _:
                            await self._adapt(active, event, request)
            finally:
                ended.set()  # save the rest at once, even after a cancel
        if answered is None:
            raise ModelStreamError(
                "The provider closed the stream before the answer was complete. The received part is kept. Prompt "
                "again to continue."
            )
        return answered

    async def _adapt(
        self,
        active: ActiveModel,
        event: Adaptation,
        request: ModelRequest,
    ) -> None:
        """Log a change of the request before it is sent again, and tell the user."""
        match event:
            case Retrying():
                text = f"{event.reason}. Trying again in {event.delay:.1f} s."
                await self._show(Notice("warning", text))
            case AskedAgain():
                pass
            case Refused():
                await self._note_refused(active, event)
            case ImagesLeftOut():
                images = images_in(request, event.first)
                await self._leave_images_out(active, images)
            case ReasoningRefused():
                await self._withhold(event)
            case RefusedTools():
                await self._leave_tools_out(active, event.tools)
            case Remembered():
                await self._tell_remembered(active, event, request)

    async def _note_refused(self, active: ActiveModel, refused: Refused) -> None:
        """Stop sending a request feature that the provider refused, and tell the user
        about the loss.
        """
        await self._log.append(
            FeatureRefused(active.name, refused.feature, refused.takes)
        )
        text = _REFUSED_TEXTS.get(refused.feature)
        if text is not None and refused.takes:
            text = _OTHER_LEVEL
        if text is not None:
            takes = ", ".join(refused.takes.split())
            await self._notices.tell_once(text.format(model=active.name, takes=takes))

    async def _leave_images_out(
        self, active: ActiveModel, images: tuple[str, ...]
    ) -> None:
        """Stop sending images to a model whose provider refused a request because of
        one of them, and tell the user.

        :param images: SHA-256 digests of the images' bytes.
        """
        await self._log.append(ImagesRefused(active.name, images))
        await to_thread.run_sync(keep_images, images, active.learned)
        left_out = counted(len(images), "image")
        await self._notices.tell(
            f"{active.name} refused the request because of an image. The session continues without {left_out}."
        )

    async def _leave_tools_out(
        self, active: ActiveModel, tools: tuple[str, ...]
    ) -> None:
        """Stop offering a model the tools that its provider refused, and tell the user."""
        await self._log.append(ToolsRefused(active.name, tools))
        await self._tell_left_out_tools(active)

    async def _tell_left_out_tools(
        self, active: ActiveModel, remembered: Iterable[str] = ()
    ) -> None:
        tools = sorted(
            self._requests.context.tools_refused_by(active.name).union(remembered)
        )
        if tools:
            names = one_line(", ".join(tools), 500)
            await self._notices.tell_once(
                f"{active.name} refused {counted(len(tools), 'tool')}. The session continues without: {names}."
            )

    async def _tell_left_out_images(
        self, active: ActiveModel, request: ModelRequest
    ) -> None:
        """Tell the user about images that are left out because they were refused in
        another session.
        """
        remembered = request.refused_images - self._requests.context.images_refused_by(
            active.name
        )
        if not remembered:
            return
        shown = set(images_in(replace(request, refused_images=frozenset()), 0))
        if left_out := len(remembered & shown):
            await self._notices.tell_once(
                f"{active.name} refused {counted(left_out, 'image')} of this conversation in another session. Requests"
                " leave them out."
            )

    async def _tell_remembered(
        self, active: ActiveModel, known: Remembered, request: ModelRequest
    ) -> None:
        """Tell the user which features requests omit because of earlier refusals, if
        the user would miss them.
        """
        features: list[Feature] = [
            feature
            for feature in _LEVELS
            if request.thought_level and feature in known.refused
        ]
        if request.tools and "functions" in known.refused:
            features.append("functions")
        for feature in features:
            await self._notices.tell_once(
                _REFUSED_TEXTS[feature].format(model=active.name)
            )
        for feature in _LEVELS:
            if request.thought_level and feature in known.takes:
                takes = ", ".join(known.takes[feature].split())
                await self._notices.tell_once(
                    _OTHER_LEVEL.format(model=active.name, takes=takes)
                )
        if known.images:
            await self._notices.tell_once(_NO_IMAGES.format(model=active.name))
        if known.tools:
            await self._tell_left_out_tools(active, known.tools)

    async def _withhold(self, refused: ReasoningRefused) -> None:
        """Stop sending reasoning that the provider refused, and tell the user."""
        await self._log.append(
            ReasoningWithheld(
                refused.messages, f"{_REFUSED}: {refused.said}", refused.pieces
            )
        )
        await self._notices.tell(_left_out(len(refused.pieces), _REFUSED))

    async def _note_withheld(self, withheld: tuple[Withheld, ...]) -> None:
        """Log the reasoning that the request left out, and tell the user, unless that
        was already logged.
        """
        known = self._log.context.withheld
        news = [each for each in withheld if each.message_id not in known]
        if news:
            messages = tuple(dict.fromkeys(each.message_id for each in news))
            cause = _CAUSES[news[0].cause]
            await self._log.append(ReasoningWithheld(messages, cause))
            await self._notices.tell(_left_out(len(news), cause))

    async def _save_and_show(
        self,
        message_id: str,
        receive: MemoryObjectReceiveStream[Delta],
        ended: anyio.Event,
    ) -> None:
        """Save deltas before showing them, so that a kill loses nothing that was on the
        screen.
        """
        # A cancel in between would leave text that is saved but was never shown. The
        # task ends when the stream closes.
        with anyio.CancelScope(shield=True):
            async for delta in receive:
                waiting = receive.statistics().current_buffer_used
                deltas = [delta, *(receive.receive_nowait() for _ in range(waiting))]
                text = "".join(
                    delta.text for delta in deltas if isinstance(delta, TextDelta)
                )
                thinking = "".join(
                    delta.text for delta in deltas if isinstance(delta, ThinkingDelta)
                )
                await self._log.append(PartialAnswer(message_id, text, thinking))
                for kind, neighbours in groupby(deltas, type):
                    joined = "".join(delta.text for delta in neighbours)
                    update = AgentSaid if kind is TextDelta else AgentThought
                    await self._show(update(message_id, joined))
                with anyio.move_on_after(GATHER_SECONDS):
                    await ended.wait()


def _left_out(pieces: int, cause: str) -> str:
    return f"Left out {counted(pieces, 'piece')} of the model's earlier reasoning: {cause}."


def _with_call_ids(known: set[str], entries: tuple[Entry, ...]) -> set[str]:
    """Add the calls' provider ids to `known` and return it. The set is never copied,
    since used ids stay used.
    """
    for entry in entries:
        if isinstance(entry.message, AssistantMessage):
            known.update(call.provider_id for call in entry.message.tool_calls)
    return known


def _own_parts(answered: Answered, used: set[str]) -> tuple[AssistantPart, ...]:
    """Return the answer's parts with our own call ids, without calls if the answer was
    cut off.

    The last call of an answer that was cut off may be incomplete.

    :param used: the provider's ids of earlier calls. A repeated id is not sent back to
        the provider.
    """
    cut_off = answered.stop_reason in ("max_tokens", "context_overflow", "refusal")
    new = set[str]()
    parts: list[AssistantPart] = []
    for part in answered.parts:
        if isinstance(part, ToolCall):
            if cut_off:
                continue
            is_repeated = part.id in used or part.id in new
            provider_id = "" if is_repeated else part.id
            new.add(part.id)
            part = replace(part, id=new_id("call"), provider_id=provider_id)  # noqa: PLW2901
        parts.append(part)
    return tuple(parts)


def _first(failure: Exception) -> Exception:
    """Return the first failure of a task group in which only one task can fail before
    the others are cancelled.
    """
    while isinstance(failure, ExceptionGroup):
        failure = cast("ExceptionGroup[Exception]", failure).exceptions[0]
    return failure
