"""`RefusedPrompts`: removes prompts that a model or its provider refused from the
context, so that later prompts can be answered. The log keeps them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from acp_agent.conversation.closing import leaving_out_refused, leaving_out_repeated
from acp_agent.conversation.events import ContinuationAsked, TurnRefused
from acp_agent.conversation.messages import AssistantMessage, UserMessage, new_id
from acp_agent.errors import (
    AgentError,
    ModelRequestError,
    RequestRefusedError,
    sentence,
)
from acp_agent.session.log import SessionLog
from acp_agent.session.turn.record import TurnRecord

_DO_NOT_REPEAT = (
    "Your last step ({calls}) was left out of the conversation, because your provider refuses to read it. Do not "
    "repeat it. Continue without it, or tell the user what is missing."
)


@dataclass(eq=False, slots=True)
class RefusedPrompts:
    """Removes refused prompts and steps of one session from its context."""

    _log: SessionLog
    _record: TurnRecord

    @asynccontextmanager
    async def closed_on_failure(self) -> AsyncGenerator[None]:
        """Close the open turn if the `async with` block raises, and remove a prompt
        that the provider refused from the context.
        """
        try:
            yield
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._record.close("cancelled")
            raise
        except Exception as error:
            context = self._log.context
            newest = (
                None
                if context.turn_from is None
                else max(context.turn_from, context.prompted)
            )
            inside = f"{type(error).__name__} inside the agent"
            said = [
                entry.message
                for entry in context.entries
                if newest is not None and entry.seq >= newest
            ]
            is_unanswered = bool(said) and all(
                isinstance(message, UserMessage) for message in said
            )
            is_refused = isinstance(error, RequestRefusedError) and not is_unanswered
            told = str(error) if isinstance(error, AgentError) else inside
            await self._record.close("error", told, refused=is_refused)
            if newest is None or not (
                isinstance(error, ModelRequestError) and is_unanswered
            ):
                raise
            before = self._log.context.refusals
            await self._leave_out(newest)
            left_out = "The prompt was left out of the conversation, so that the next one can be answered."
            if before:
                left_out += f" {self._ways_out()}"
            whole = type(error)(f"{sentence(error)} {left_out}", partial=error.partial)
            whole.may_be_overflow = error.may_be_overflow
            raise whole from error

    async def leave_out_open_turn(self) -> None:
        """Remove the open turn from the context, since the model refused to answer."""
        if self._log.context.turn_from is not None:
            await self._leave_out(self._log.context.turn_from)

    async def leave_out_refused(self) -> bool:
        """Remove the part of the context that a provider has refused twice, and tell
        the user.

        :returns: whether anything was left out.
        """
        context = self._log.context
        left_out = leaving_out_refused(context)
        if left_out is None:
            return False
        turn = context.refused_turn
        is_step = (
            turn is not None
            and not turn.is_shortened
            and left_out.from_seq > turn.from_seq
        )
        what = (
            "the last step of the earlier turn"
            if is_step
            else "the rest of the earlier turn"
        )
        with anyio.CancelScope(shield=True):
            await self._log.append(left_out)
            await self._record.show_usage()
        await self._record.note(
            f"The provider refused the conversation again, so {what} was left out of it. The session's log keeps it.",
            "note",
        )
        return True

    async def leave_out_repeated(self, *, again: bool) -> bool:
        """Remove the newest step from the context if it repeats one that was left out
        because the provider refused it, and tell the user and the model.

        :param again: whether this turn has already lost a step.
        :returns: whether anything was left out.
        """
        context = self._log.context
        left_out = leaving_out_repeated(context, again=again)
        if not left_out:
            return False
        begin = left_out[0].from_seq
        step = next(entry.message for entry in context.entries if entry.seq == begin)
        assert isinstance(step, AssistantMessage)
        names = dict.fromkeys(f"`{call.name}`" for call in step.tool_calls)
        calls = f"calls of {', '.join(names)}"
        told = ContinuationAsked(new_id("msg"), _DO_NOT_REPEAT.format(calls=calls))
        with anyio.CancelScope(shield=True):
            await self._log.append(*left_out, told)
            await self._record.show_usage()
        what = "it was"
        if len(left_out) > 1:
            what = "it and the rest of the earlier turn were"
        await self._record.note(
            f"The provider refused the conversation again, after another step of the model ({calls}), so {what} left"
            " out of it. The session's log keeps everything.",
            "note",
        )
        return True

    async def note_refusal(self, model: str, explanation: str) -> None:
        """Tell the user why the model refused to answer, if that is known, and what to
        do after repeated refusals.

        :param model: `provider/model`.
        :param explanation: the provider's words; may be empty.
        """
        is_repeated = self._log.context.refusals > 1
        if not explanation and not is_repeated:
            return
        why = (
            f"{model} refused to answer: {explanation}"
            if explanation
            else f"{model} refused to answer."
        )
        ways_out = f" {self._ways_out()}" if is_repeated else ""
        await self._record.note(f"{sentence(why)}{ways_out}", "veto")

    async def _leave_out(self, turn_from: int) -> None:
        """Remove a turn from the context, because its prompt was refused.

        This also reverts the compactions in the turn, since a summary may repeat what
        was refused.

        :param turn_from: sequence number of the turn's prompt.
        """
        # Without the shield, a cancel between the two would leave the user unaware of
        # the change.
        with anyio.CancelScope(shield=True):
            await self._log.append(TurnRefused(turn_from))
            await self._record.show_usage()

    def _ways_out(self) -> str:
        """Return advice for a series of refused prompts."""
        prompts = [entry.seq for entry in self._log.context.entries if entry.typed]
        fork = "fork the session before it"
        if prompts:
            command = (
                f"acp-agent sessions fork {self._log.session_id} --at {prompts[-1] - 1}"
            )
            fork = f"fork the session before it (`{command}` leaves out the newest prompt that was answered)"
        return (
            "Prompts have been refused one after another, so most likely the cause is something earlier in the"
            f" conversation, or in an instruction file such as AGENTS.md: {fork}, start a new session, or change the"
            " file."
        )
