"""Which model a session uses right now, and what is known of it.

A provider is asked for the window when a model is used first, and again with each turn as long as the answer is missing
or may change; what it says takes effect with the next request. Nobody waits long for it.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from acp_agent.compaction.budget import TokenBudget
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen
from acp_agent.llm.profiles import DEFAULT_WINDOW, ModelProfile
from acp_agent.llm.provider import NativeCompaction, Provider
from acp_agent.llm.registry import Registry, ResolvedModel
from acp_agent.session.attaching import Resolver, attaching
from acp_agent.session.learned import LearnedWindow

TURN_WAIT = 0.35
"""Seconds that a turn waits for the provider's word on the window of a model used before; longer than a local server is
given when it is asked again, so that the window does not change within a turn once it is known."""

_Basis: TypeAlias = tuple[ResolvedModel, LearnedWindow]
"""What an active model is made of: another one is made when one of these is another one."""

_log = logging.getLogger(__name__)


@frozen
class ActiveModel:
    """A model that is ready to be asked.

    :ivar name: `provider/model`.
    :ivar model_id: the provider's own id.
    :ivar guessed: whether nobody has said how large its window is, or that it is as small as it is taken to be.
    :ivar rate: tokens as its provider counts them for each of our estimate, by what a refusal has shown.
    :ivar max_output_tokens: upper bound of one answer.
    :ivar max_images: images that one request may hold.
    :ivar max_bytes: bytes that one request may hold.
    :ivar profile: what else is known of it.
    """

    name: str
    model_id: str
    provider: Provider
    budget: TokenBudget
    guessed: bool
    rate: float
    max_output_tokens: int
    max_images: int
    max_bytes: int
    profile: ModelProfile

    @property
    def native(self) -> NativeCompaction | None:
        """The provider's own compaction, where it has one."""
        return self.provider if isinstance(self.provider, NativeCompaction) else None


class SessionModels:
    """Resolves names to models, and remembers those that were used.

    :param first_wait: seconds that the first use of a model waits for the provider's word on its window.
    :param resolver: puts what messages refer to into a request; None sends requests as they are.
    """

    def __init__(self, registry: Registry, first_wait: float = 3.0, resolver: Resolver | None = None) -> None:
        self._registry = registry
        self._resolver = resolver
        self._first_wait = first_wait
        self._used: dict[str, tuple[_Basis, ActiveModel]] = {}
        self._default: str | None = None
        self._version: Hashable = None
        self._tasks: TaskGroup | None = None
        self._closed = False
        self._asking: dict[str, anyio.Event] = {}
        self._learned: dict[str, LearnedWindow] = {}

    def run_in(self, tasks: TaskGroup) -> None:
        """Ask in this task group, which ends with the session, so that a slow answer is waited for by nobody."""
        self._tasks = tasks

    async def begin_turn(self) -> None:
        """Ask again for the windows that are not known for good; takes a third of a second at most. What was learned
        for the last turn alone is forgotten."""
        self._learned = {name: learned.next_turn() for name, learned in self._learned.items()}
        await self._ask_again(tuple(self._used), TURN_WAIT)

    async def name(self, chosen: str) -> str | None:
        """The model in use.

        :param chosen: what the session's user chose; empty for the default, which a key that was set or stored
            meanwhile decides.
        :returns: `provider/model`; None where nothing is configured.
        """
        if chosen:
            return chosen
        version = self._registry.version()
        if self._default is None or version != self._version:
            self._default, self._version = await self._registry.default_model(), version
        return self._default

    async def active(self, chosen: str) -> ActiveModel:
        """The model in use, ready to be asked.

        :raises ModelAuthError: nothing is configured; says what to set.
        :raises ConfigError: the name's provider is unknown, or the stored keys that it needs cannot be read.
        """
        name = await self.name(chosen)
        if name is None:
            raise self._registry.no_model()
        return await self.named(name)

    async def named(self, name: str) -> ActiveModel:
        """Any model, ready to be asked.

        :raises ConfigError: the name's provider is unknown.
        """
        await self._registry.unlock(name)
        if name not in self._used:
            self._registry.resolve(name)
            await self._ask_again((name,), self._first_wait)
        basis = self._registry.resolve(name), self.learned(name)
        known = self._used.get(name)
        if known is None or known[0] != basis:
            made = self._made(*basis)
            if known is not None and known[1].provider == made.provider:
                # Whoever has begun something with it goes on, whatever has been learned of its window meanwhile.
                made = replace(made, provider=known[1].provider)
            known = self._used[name] = basis, made
        return known[1]

    def learned(self, name: str) -> LearnedWindow:
        """What the session has learned of a model's window so far."""
        return self._learned.get(name, LearnedWindow())

    def learn(self, name: str, learned: LearnedWindow) -> None:
        """Keep what was learned, while the session is open."""
        self._learned[name] = learned

    def _made(self, resolved: ResolvedModel, learned: LearnedWindow) -> ActiveModel:
        known, stated = resolved.profile, resolved.window
        window = learned.window(stated)
        output = min(known.max_output_tokens, window // 2)
        budget = TokenBudget(window, output)
        provider = resolved.provider
        if self._resolver is not None:
            provider = attaching(provider, known, self._resolver)
        return ActiveModel(
            resolved.name,
            resolved.id,
            provider,
            budget,
            learned.is_guess(stated) or (not known.listed and window == DEFAULT_WINDOW),
            learned.rate,
            learned.longest(output),
            known.max_images,
            known.max_request_bytes,
            known,
        )

    async def _ask_again(self, names: Iterable[str], wait: float) -> None:
        """Have providers asked for windows, and wait for their answers, but not for long."""
        if self._closed:
            return  # somebody still tells of a session that was closed meanwhile; nobody would close the connection
        with anyio.move_on_after(wait):
            if self._tasks is None:
                for name in names:
                    await self._registry.learn_window(name)
                return
            for name in names:
                if name not in self._asking:
                    self._asking[name] = anyio.Event()
                    self._tasks.start_soon(self._ask, name, self._asking[name])
            for answered in [self._asking[name] for name in names]:
                await answered.wait()

    async def _ask(self, name: str, answered: anyio.Event) -> None:
        try:
            await self._registry.learn_window(name)
        except AgentError as error:
            # Such as a provider that was turned off: whoever asks the model is told.
            _log.info("the window of %s was not asked for: %s", name, error)
        except Exception:
            _log.exception("asking for the window of %s failed", name)
        finally:
            del self._asking[name]
            answered.set()

    def unusable(self, name: str) -> str:
        """Why a name is no model's, or of a provider that there is not; empty where the model can be asked for."""
        return self._registry.unusable(name)

    def small(self, name: str) -> str | None:
        """The cheap model for little things beside a conversation with this one; None where there is none."""
        return self._registry.small_model(name)

    def version(self) -> Hashable:
        """What is another one when the providers are reached in another way, and another choice may be there."""
        return self._registry.version()

    async def choices(self) -> tuple[str, ...]:
        """What may be chosen from."""
        return await self._registry.available_models()

    def load(self, name: str | None) -> None:
        """Load what a model is asked with, except an SDK; run this in a thread.

        :param name: `provider/model`; None where there is none.
        """
        if name is not None:
            self._registry.load(name)

    async def prewarm(self, chosen: str) -> None:
        """Load what the model in use needs, except an SDK, so that the first prompt does not wait for it."""
        name = await self.name(chosen)
        if name is not None:
            await self._registry.prewarm(name)

    async def aclose(self) -> None:
        """Close connections."""
        self._tasks, self._closed = None, True
        await self._registry.aclose()
