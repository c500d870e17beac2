"""The models of a session: resolves names to models, and tracks what is known about
their context windows.

A provider is asked for a model's window when the model is first used, and again on each
turn while the answer is missing or may change.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from acp_agent.compaction.budget import TokenBudget
from acp_agent.conversation.messages import (
    CompactedBlock,
    Text,
    Usage,
    UserMessage,
    new_id,
)
from acp_agent.frozen import frozen
from acp_agent.llm.learned import LearnedModel
from acp_agent.llm.places import Parallel
from acp_agent.llm.profiles import DEFAULT_WINDOW, ModelProfile
from acp_agent.llm.provider import (
    Answered,
    AskedAgain,
    ModelEvent,
    ModelRequest,
    NativeCompaction,
    Provider,
    Refusal,
    Retrying,
)
from acp_agent.llm.registry import Registry, ResolvedModel
from acp_agent.llm.rules import ReasoningRules
from acp_agent.session.attachments import Attachments
from acp_agent.session.models.learned import LearnedWindow

FIRST_WAIT = 3.0
"""How many seconds the first use of a model waits for the provider to report its
window.
"""
TURN_WAIT = 0.35
"""How many seconds a turn waits if the model was used before. This is longer than a
repeated request to a local server may take.
"""

_log = logging.getLogger(__name__)


@frozen
class ActiveModel:
    """A model that is ready for requests.

    :ivar name: `provider/model`.
    :ivar model_id: the provider's own id.
    :ivar guessed: whether its window is an assumption.
    :ivar rate: tokens by the provider's count for each token of our estimate.
    :ivar max_output_tokens: maximum tokens of one answer.
    :ivar profile: what else is known about the model.
    :ivar parallel: how many requests its server answers at once.
    :ivar learned: what refusals have shown about the model in all sessions.
    """

    name: str
    model_id: str
    provider: Provider
    budget: TokenBudget
    guessed: bool
    rate: float
    max_output_tokens: int
    profile: ModelProfile
    attachments: Attachments
    learned: LearnedModel
    parallel: Parallel = "many"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model; see `Provider.stream`."""
        async with aclosing(
            self.provider.stream(await self.resolved(request))
        ) as events:
            async for event in events:
                yield event

    async def answer(
        self,
        prompt: str,
        system: str,
        *,
        max_output_tokens: int | None = None,
        thought_level: str = "",
    ) -> tuple[str, Usage] | None:
        """Ask one question, without tools or the session's context. Return None if the
        answer was cut off.
        """
        message = UserMessage(new_id("msg"), (Text(prompt),))
        most = min(max_output_tokens or self.max_output_tokens, self.max_output_tokens)
        request = ModelRequest(
            self.model_id, system, (message,), (), most, thought_level
        )
        async with aclosing(self.stream(request)) as events:
            async for event in events:
                if isinstance(event, Answered):
                    return "".join(
                        part.text for part in event.parts if isinstance(part, Text)
                    ), event.usage
        return None

    async def resolved(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the attachments that its messages refer to, in the
        form in which they are sent to the provider.
        """
        return await self.attachments.resolved(request, self.profile)

    @property
    def native(self) -> NativeCompaction | None:
        """Return this model if its provider has native compaction."""
        return self if isinstance(self.provider, NativeCompaction) else None

    @property
    def rules(self) -> ReasoningRules:
        """Return how the provider handles the reasoning in this model's earlier
        answers.
        """
        return self.provider.rules(self.model_id)

    async def compact(
        self,
        request: ModelRequest,
        instructions: str,
        note: Callable[[Retrying | AskedAgain | Refusal], None] = lambda event: None,
    ) -> tuple[CompactedBlock, Usage]:
        """See `NativeCompaction.compact`."""
        assert isinstance(self.provider, NativeCompaction)
        return await self.provider.compact(
            await self.resolved(request), instructions, note
        )


class SessionModels:
    """Resolves names to models, and remembers what their refusals have shown.

    :param tasks: runs the requests for windows, so that a slow answer does not delay a
        turn.
    :ivar queueing: the providers that have made one request wait for another.
    :ivar registry: the registry of models; closed and replaced when the settings are
        read again.
    """

    def __init__(
        self, registry: Registry, attachments: Attachments, tasks: TaskGroup
    ) -> None:
        self.registry = registry
        self._attachments = attachments
        self._tasks = tasks
        self._asking: dict[str, anyio.Event] = {}
        self._used: set[str] = set()
        self._learned: dict[str, LearnedWindow] = {}
        self.queueing: set[str] = set()

    async def use(self, registry: Registry) -> None:
        """Use the models of other settings from now on."""
        former = self.registry
        self.registry = registry
        self._used = set()
        self._learned.clear()
        await former.aclose()

    async def prepare(self, name: str) -> None:
        """Load what the first request to a model needs; see `Registry.prepare`."""
        try:
            await self.registry.prepare(name)
        except Exception as error:  # a request to the model will report it
            _log.info("%s was not prepared: %s", name, error)

    async def begin_turn(self) -> None:
        """Ask again for windows that are not settled. This takes about a third of a
        second at most.
        """
        open_ones = [
            name for name in self._used if not self.registry.is_window_settled(name)
        ]
        if open_ones or self._asking:
            await self._ask_windows(open_ones, TURN_WAIT)

    async def name(self, chosen: str) -> str | None:
        """Return the name of the model in use, `provider/model`; None if nothing is
        configured.

        :param chosen: the user's choice; empty for the default, which depends on the
            available keys.
        """
        return chosen or await self.registry.default_model()

    async def active(self, chosen: str) -> ActiveModel:
        """Return the model in use.

        :raises ModelAuthError: if nothing is configured. The message says what to set.
        :raises ConfigError: if the name's provider is unknown, or if the stored keys
            that it needs cannot be read.
        """
        name = await self.name(chosen)
        if name is None:
            raise self.registry.no_model()
        return await self.named(name)

    async def named(self, name: str) -> ActiveModel:
        """Return any model.

        :raises ConfigError: if the name's provider is unknown.
        """
        await self.registry.unlock(name)
        if name not in self._used:
            self.registry.resolve(name)
            self._used.add(name)
            await self._ask_windows([name], FIRST_WAIT)
        resolved = self.registry.resolve(name)
        learned = self._learned_window(resolved)
        known = resolved.profile
        window = resolved.window
        if learned.tokens is not None:
            window = min(window, learned.tokens)
        is_guess = (
            learned.guessed
            if window < resolved.window
            else not known.listed and window == DEFAULT_WINDOW
        )
        output = min(known.max_output_tokens, window // 2)
        budget = TokenBudget(window, output)
        return ActiveModel(
            name,
            resolved.id,
            resolved.provider,
            budget,
            is_guess,
            learned.rate,
            output,
            known,
            self._attachments,
            resolved.learned,
            "one"
            if resolved.provider.name in self.queueing
            else resolved.provider.parallel,
        )

    def learned(self, name: str) -> LearnedWindow:
        """Return what refusals have shown about a model's window, in this session or
        otherwise in other sessions.

        :raises ConfigError: see `named`.
        """
        return self._learned_window(self.registry.resolve(name))

    def _learned_window(self, resolved: ResolvedModel) -> LearnedWindow:
        known = self._learned.get(resolved.learned.name)
        if known is not None and known.source == resolved.window_source:
            return known
        return LearnedWindow.remembered(
            resolved.learned.facts(), resolved.window_source
        )

    def learn(self, name: str, learned: LearnedWindow) -> None:
        """Remember what was learned about a model's window, for this session only."""
        self._learned[name] = learned

    def keep(self, name: str) -> None:
        """Store what was learned about a model's window for other sessions."""
        learned = self.registry.resolve(name).learned
        self._tasks.start_soon(
            to_thread.run_sync, learned.keep, self.learned(name).facts()
        )

    async def ask_window(self, name: str, *, lost: bool = False) -> None:
        """Ask a provider again for a model's window. This takes at most three seconds.

        :param lost: see `Provider.learn_window`.
        """
        with anyio.move_on_after(FIRST_WAIT), suppress(Exception):
            await self.registry.learn_window(name, lost=lost)

    async def _ask_windows(self, names: Iterable[str], seconds: float) -> None:
        """Ask providers for windows in the background, and wait briefly for their
        answers.
        """
        for name in names:
            if name not in self._asking:
                self._asking[name] = anyio.Event()
                self._tasks.start_soon(self._ask_window, name)
        with anyio.move_on_after(seconds):
            for asked in [*self._asking.values()]:
                await asked.wait()

    async def _ask_window(self, name: str) -> None:
        try:
            await self.registry.learn_window(name)
        except Exception as error:
            # For example, the provider was turned off. A request to the model will
            # report it. No turn fails because of a window.
            _log.info("could not ask for the window of %s: %s", name, error)
        finally:
            self._asking.pop(name).set()
