"""What happens once the model has answered: the hooks of `turn_end` and of `agent_stop` are asked, and what they want
is done. Knows nothing of how a model is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.conversation.events import ContextAdded
from acp_agent.conversation.messages import new_id
from acp_agent.errors import AgentError, SessionConflictError, SessionNotFoundError
from acp_agent.hooks.outcomes import Compact, Continue, Outcome, Replace, Summarize
from acp_agent.session.replacing import replace_conversation

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

MOST = 5
"""Times that hooks may let the agent go on for one prompt: a hook that is never content must not run up a bill."""


class GoingOn:
    """One prompt's answers, and whether there is to be another.

    :param note: tells the user something that stays in the session.
    """

    def __init__(self, host: SessionHost, note: Callable[[str], Awaitable[None]]) -> None:
        self._host = host
        self._note = note
        self._times = 0

    async def after(self, response: str) -> bool:
        """Ask the hooks about an answer without tool calls, and do what they want.

        :returns: whether the model is to be asked again.
        """
        hooks = self._host.hooks
        for ask in (hooks.turn_end, hooks.agent_stop):
            outcome = await ask(response)
            try:
                await self._do(outcome)
            except (SessionConflictError, SessionNotFoundError):
                raise
            except AgentError as error:
                # The model has answered: what a hook wanted beside that must not make a failure of the turn.
                await self._note(f"What a hook wanted was not done. {error}")
            if outcome.stop is not None:
                await self._note(f"A hook ended the turn. {outcome.stop}".rstrip())
                return False
            if ask == hooks.agent_stop and isinstance(outcome.action, Compact):
                # It ends the turn, also beside a hook that does not want it to stop.
                await hooks.add(outcome.context)
                return False
            if await self._goes_on(outcome):
                return True
        return False

    async def _do(self, outcome: Outcome) -> None:
        compaction = self._host.compaction
        match outcome.action:
            case Compact():
                await compaction.on_request(outcome.action.instructions)
            case Summarize():
                await self._summarize(outcome.action.instructions)
            case Replace():
                await replace_conversation(self._host, outcome.action.messages)
            case _:
                pass

    async def _summarize(self, instructions: str) -> None:
        """Show a summary of the conversation, which stays as it is."""
        compaction, models = self._host.compaction, self._host.models
        order = await compaction.orders.make("hook", await models.active(self._host.model), instructions=instructions)
        prepared = order and await compaction.compactor.prepare(replace(order, asked=True))
        if prepared is not None:
            await self._note(prepared.result.summary)
        else:
            await compaction.orders.tell_once(
                "A hook wants a summary of the conversation; there is nothing to summarise yet."
            )

    async def _goes_on(self, outcome: Outcome) -> bool:
        await self._host.hooks.add(outcome.context)
        messages = list(outcome.action.messages) if isinstance(outcome.action, Continue) else []
        if outcome.blocks:
            messages.append(outcome.reason or "A hook does not want you to stop yet. Go on.")
        if not messages:
            return False
        if self._times == MOST:
            await self._note(f"Hooks have let the agent go on {MOST} times for this prompt; it ends here.")
            return False
        self._times += 1
        await self._host.append(*(ContextAdded(new_id("msg"), message) for message in messages))
        return True
