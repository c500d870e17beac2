"""What a turn needs of the session that it runs in."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from dataclasses import replace
from typing import Protocol

from acp_agent.conversation.context import Context
from acp_agent.conversation.events import CallView, Event
from acp_agent.conversation.messages import AssistantMessage, JsonObject, ToolCall
from acp_agent.errors import ContextOverflowError, OverflowLimit
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome as HookOutcome
from acp_agent.llm.provider import ModelEvent, ModelRequest
from acp_agent.tools.environment import Environment
from acp_agent.tools.tool import Outcome
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Update


@frozen
class TurnLimits:
    """What bounds a turn.

    :ivar max_requests: model calls in one turn.
    :ivar max_cost: US dollars in one turn; None for no limit.
    :ivar allowed_tools: names of the tools that may run; None for all. Definitions are sent all the same.
    :ivar allowed_commands: glob patterns that a shell command must match; None for all.
    """

    max_requests: int = 200
    max_cost: float | None = None
    allowed_tools: frozenset[str] | None = None
    allowed_commands: tuple[str, ...] | None = None

    def less(self, requests: int, cost: float) -> TurnLimits:
        """What is left of a turn that goes on.

        :param requests: model calls that it has made.
        :param cost: US dollars that they cost.
        """
        left = None if self.max_cost is None else self.max_cost - cost
        return replace(self, max_requests=self.max_requests - requests, max_cost=left)


class TurnHost(Protocol):
    """The session, as a turn sees it."""

    @property
    def context(self) -> Context:
        """The context after everything appended so far."""
        ...

    @property
    def asked_model(self) -> str:
        """The model that the last request was made for, `provider/model`."""
        ...

    @property
    def mode(self) -> str:
        """The permission mode that holds now."""
        ...

    async def grants(self) -> Collection[str]:
        """What needs no more asking (see `grant_subject`), as of now."""
        ...

    async def append(self, *events: Event) -> None:
        """Add events to the log, durably, and apply them to `context`."""
        ...

    async def show(self, update: Update) -> None:
        """Let the user see something; waits while the editor is slow."""
        ...

    async def show_usage(self) -> None:
        """Let the user see how full the window is now."""
        ...

    async def leave_out(self, turn_from: int) -> None:
        """Take the turn out of the context, since its prompt was refused, and show how full the window is now.

        :param turn_from: seq of its prompt.
        """
        ...

    async def next_request(self) -> ModelRequest:
        """The request for the next step, after a compaction where one is due.

        :raises ContextOverflowError: it is certainly too large, and could not be made short.
        """
        ...

    async def out_of_room(self, answer: AssistantMessage) -> bool:
        """Whether an answer that was cut off was so because the window was full, and not at its own limit."""
        ...

    async def heed(self, refusal: ContextOverflowError) -> bool:
        """Learn what a refusal of the last request says of the window.

        :returns: whether the same prompt fits with a shorter answer, which the next request asks for; never twice for
            one prompt.
        """
        ...

    async def make_room(self, limit: OverflowLimit | None = None, refusal: ContextOverflowError | None = None) -> bool:
        """Compact, since the provider refused the last request or its answer ended for want of room.

        :param limit: what the provider said there was too much of; None where it took the request.
        :param refusal: what it said, where it refused the request or broke an answer off.
        :returns: False where nothing could be made short, and a shorter answer is asked for instead.
        :raises AgentError: it came to nothing; the context is as it was.
        """
        ...

    def call_model(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the session's model."""
        ...

    def environment(self, call_id: str = "") -> Environment:
        """What tools work in, as of now.

        :param call_id: the call that it is for.
        """
        ...

    async def before_call(self, call: ToolCall, view: CallView) -> HookOutcome:
        """Ask the hooks about a call that nobody has allowed yet."""
        ...

    def begin_call(self, call_id: str) -> None:
        """Note that a call begins to run: until then it has no effect."""
        ...

    async def after_call(self, call: ToolCall, outcome: Outcome) -> HookOutcome:
        """Tell the hooks of a call that has run, or has failed, before the model reads its result."""
        ...

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Put a call to the user.

        :param subject: what "always" would cover.
        :param reason: why a hook has the user asked, who is shown it.
        """
        ...
