"""`StopHooks`: asks the hooks of `turn_end` and `agent_stop` about an answer, and does what they want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextAdded, ContextSwapped, Event, MessageSupplied
from acp_agent.conversation.messages import Message, UserMessage, new_id
from acp_agent.conversation.swaps import Receipt
from acp_agent.conversation.updates import Show
from acp_agent.errors import AgentError, HookError
from acp_agent.hooks.outcomes import Compact, Continue, Outcome, Replace, Summarize
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.compact.order import REPLACE
from acp_agent.session.compact.report import finished
from acp_agent.session.log import SessionLog
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.requests import Requests
from acp_agent.session.turn.record import TurnRecord

MAX_CONTINUES = 5
"""Maximum times that hooks may continue one prompt, so that a hook that always continues has a bounded cost."""


@dataclass(eq=False, slots=True)
class StopHooks:
    """Decides whether the agent goes on once it has answered without tool calls."""

    _log: SessionLog
    _hooks: SessionHooks
    _requests: Requests
    _compaction: SessionCompaction
    _record: TurnRecord
    _show: Show
    _continues: int = 0

    def begin(self) -> None:
        """Begin to count for a new prompt."""
        self._continues = 0

    async def after(self, response: str) -> bool:
        """Ask the hooks about an answer; return whether the model is to be asked again."""
        for ask in (self._hooks.turn_end, self._hooks.agent_stop):
            outcome = await ask(response)
            try:
                await self._do(outcome)
            except AgentError as error:
                # The model has answered: a failure of what a hook wanted is no failure of the turn.
                await self._record.note(f"What a hook wanted was not done. {error}", apart=True)
            if outcome.stop is not None:
                await self._record.note(f"A hook ended the turn. {outcome.stop}".rstrip(), apart=True)
                return False
            await self._hooks.add(outcome.context)
            if ask == self._hooks.agent_stop and isinstance(outcome.action, Compact):
                return False  # it ends the turn, even if another hook wants the agent to go on
            if await self._continue(outcome):
                return True
        return False

    async def _do(self, outcome: Outcome) -> None:
        match outcome.action:
            case Compact():
                await self._compaction.for_hook(outcome.action)
            case Summarize():
                if summary := await self._compaction.summary(outcome.action.instructions):
                    await self._record.note(summary, apart=True)
            case Replace():
                await self._replace(outcome.action.messages)
            case _:
                pass

    async def _replace(self, messages: Sequence[Message]) -> None:
        """Put a hook's messages in the place of the conversation.

        :raises HookError: they cannot stand there.
        """
        used, prefix = self._requests.used(await self._requests.active()), self._requests.prefix_tokens()
        self._compaction.background.drop()
        with anyio.CancelScope(shield=True):
            build = partial(replacement, messages, used, prefix)
            *_, swap = await self._log.append_built(build)
            await self._show(finished(swap))
            await self._record.show_usage()

    async def _continue(self, outcome: Outcome) -> bool:
        messages = list(outcome.action.messages) if isinstance(outcome.action, Continue) else []
        if outcome.blocks:
            messages.append(outcome.reason or "A hook does not want you to stop yet. Go on.")
        if not messages:
            return False
        if self._continues == MAX_CONTINUES:
            text = f"Hooks have let the agent go on {MAX_CONTINUES} times for this prompt; it ends here."
            await self._record.note(text, apart=True)
            return False
        self._continues += 1
        await self._log.append(*(ContextAdded(new_id("msg"), message) for message in messages))
        return True


def replacement(
    messages: Sequence[Message], used: int, prefix_tokens: int, context: Context
) -> tuple[*tuple[Event, ...], ContextSwapped]:
    """Return the events that put a hook's messages in the place of a context.

    The first stands where a summary would; the others are logged before the swap, as the tail that it keeps.

    :param messages: legal history, whose first is the user's.
    :param used: tokens of the context as it is.
    :param prefix_tokens: estimate of the system prompt and the tools.
    :raises HookError: they begin with no message of the user's.
    """
    first, others = messages[0] if messages else None, messages[1:]
    if not isinstance(first, UserMessage):
        raise HookError("A hook wanted to replace the conversation by messages that do not begin with the user's.")
    swap = ContextSwapped(
        compaction_id=new_id("cmp"),
        message_id=new_id("msg"),
        trigger="hook",
        summary=f"A hook replaced the conversation by {len(messages)} of its own messages.",
        sent=first.parts,
        keep_from=context.head + 1,
        carried=replace(context.carried(), memory=context.memory),
        tokens_before=used,
        tokens_after=prefix_tokens + estimate_messages(messages),
        strategy=REPLACE,
        earlier=context.swaps,
        receipt=Receipt(summarised=len(context.entries)),
    )
    return (*(MessageSupplied(message) for message in others), swap)
