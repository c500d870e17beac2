"""`SessionRequests`: a session's next request to a model, how large it is, and for which model the last one was made.

Does not send it, and decides nothing about compactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acp_agent.compaction.budget import SURE_SHARE, Limits, TokenBudget
from acp_agent.compaction.estimate import estimate_messages, estimate_text, estimate_tools, used_tokens
from acp_agent.conversation.context import Context
from acp_agent.conversation.messages import AssistantMessage, Message
from acp_agent.frozen import frozen
from acp_agent.llm.provider import ModelRequest, ToolDefinition
from acp_agent.session.models import ActiveModel
from acp_agent.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost

UNSURE_SHARE = 0.1
"""Of the window: where more of the count than this is our own estimate, the provider may be asked to count."""
LIKELY = (0.6, 1.4)
"""Shares of the usable window between which a wrong estimate would decide wrongly."""


@frozen
class _Defined:
    """What the model is told of these tools, and an estimate of its tokens."""

    tools: ToolRegistry
    definitions: tuple[ToolDefinition, ...]
    tokens: int


class SessionRequests:
    """Makes and measures the requests of one session.

    :ivar asked: the model that the last of them was made for; None before the first one, and where its provider may
        have become another one since.
    """

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self.asked: ActiveModel | None = None
        self._defined: _Defined | None = None

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told of the tools: of all of them, whatever may run."""
        return self._told.definitions

    @property
    def _told(self) -> _Defined:
        # Made with the first request: their schemas take longer than all else of a new session.
        tools = self._host.tools
        if self._defined is None or self._defined.tools is not tools:
            told = tuple(ToolDefinition(tool.name, tool.description, tool.input_schema) for tool in tools)
            self._defined = _Defined(tools, told, estimate_tools(told))
        return self._defined

    def prefix_tokens(self) -> int:
        """Estimate of what stands before the messages."""
        return estimate_text(self._host.context.instructions) + self._told.tokens

    def next(self, active: ActiveModel) -> ModelRequest:
        """The live request, which is sent to this model."""
        self.asked = active
        return self.request(active)

    def answered(self, answer: AssistantMessage, asked: Context) -> None:
        """Learn what a model's answer says of its window.

        :param asked: the context that it was asked with.
        """
        if self.asked is not None and answer.usage is not None:
            models, name = self._host.models, self.asked.name
            learned = models.learned(name).measures(answer.usage.prompt_tokens, self.estimate(asked))
            models.learn(name, learned.accepts(answer.usage.total_tokens))

    def request(self, active: ActiveModel, context: Context | None = None) -> ModelRequest:
        """The live request.

        :param context: the context as it is where not given.
        """
        context = context or self._host.context
        return ModelRequest(
            model=active.model_id,
            system=context.instructions,
            messages=context.messages,
            tools=self.definitions,
            max_output_tokens=active.budget.output(self.used(active, context), active.max_output_tokens),
            thought_level=context.thought_level or self._host.settings.thought_level or "",
            conversation_id=self._host.session_id,
        )

    async def filled(self, active: ActiveModel) -> TokenBudget:
        """The model's budget with the next request in it; the provider is asked where our count alone would decide."""
        used = self.used(active)
        if self._is_unsure(used, active) and LIKELY[0] < used / active.budget.usable < LIKELY[1]:
            used = await active.provider.count_tokens(self.request(active)) or used
        return active.budget.filled(used, self.prefix_tokens())

    async def limits(self, active: ActiveModel, messages: Sequence[Message]) -> Limits:
        """What a request to this model may hold besides tokens, by what its images take as they are sent.

        :param messages: those of the request.
        """
        limits = Limits(active.max_images, active.max_bytes)
        if not limits.exceeded(messages):  # as they are stored they are hardly ever smaller
            return limits
        sent = await self._host.attachments.lengths(messages, active.profile, active.model_id)
        return replace(limits, sent=sent)

    def used(self, active: ActiveModel, context: Context | None = None) -> int:
        """Tokens of the next request, by the model's last count and our estimate of what came since.

        :param context: the context as it is where not given.
        """
        return used_tokens(context or self._host.context, self.prefix_tokens(), active.rate)

    def estimate(self, context: Context | None = None) -> int:
        """Tokens of the same by our estimate alone, whatever the provider has counted."""
        return self.prefix_tokens() + estimate_messages((context or self._host.context).messages)

    async def too_large(self, active: ActiveModel) -> int | None:
        """Tokens of the next request, where it is certain that the window does not hold them.

        It is certain where the model's provider has counted nearly all of them and somebody has said how large the
        window is: a refusal without a number has not. An estimate may be wrong by a third, and another model counts
        otherwise: where there is nothing better, the request is sent, and a refusal teaches the window.
        """
        used = self.used(active)
        answers = (entry.message for entry in reversed(self._host.context.entries))
        newest = next((answer for answer in answers if isinstance(answer, AssistantMessage)), None)
        # Older logs have no name where the default model answered.
        same = newest is not None and newest.model in (active.name, self._host.model)
        if not same or self._is_unsure(used, active):
            used = await active.provider.count_tokens(self.request(active)) or 0
        return used if not active.guessed and used * SURE_SHARE > active.budget.window else None

    def _is_unsure(self, used: int, active: ActiveModel) -> bool:
        counted = self._host.context.baseline if self._host.context.usage else 0
        return used - counted > active.budget.window * UNSURE_SHARE
