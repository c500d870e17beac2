"""Which provider a model's name means, and what is known of the model: the one door to this room.

`provider/model` is split at the first slash. Built-in providers need only a key, in the environment or stored; the
user's configuration adds others or corrects them, and the editor may send one's requests elsewhere or turn it off.
Makes each provider once, and again where it is reached in another way; loads no SDK until one is used. Knows no
sessions.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import replace

import anyio

from acp_agent.config.checks import unknown_provider
from acp_agent.config.settings import Settings, is_model_name
from acp_agent.errors import AgentError, ConfigError, ModelAuthError
from acp_agent.frozen import frozen
from acp_agent.llm import probe
from acp_agent.llm.builtin import BUILT_IN
from acp_agent.llm.credentials import ModelAccess
from acp_agent.llm.lending import Lent, lent
from acp_agent.llm.making import Reach, load_adapter, make_provider
from acp_agent.llm.places import Places
from acp_agent.llm.profiles import ModelProfile, profile
from acp_agent.llm.provider import Provider

NO_MODEL = (
    "No model is configured. Run `acp-agent login`, set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or"
    " OPENROUTER_API_KEY, start a local Ollama, or name a model as provider/model in ACP_AGENT_MODEL or under `model`"
    " in config.yaml."
)
_LIST_SECONDS = 60.0


BUILT_IN_PROVIDERS = tuple(BUILT_IN)
"""Names of the providers that need no configuration."""

_PRICED = frozenset({"anthropic", "openai", "google", "openrouter"})
"""Who charges what the table says; elsewhere a model of the same name is free, or has a price of its own."""


@frozen
class ResolvedModel:
    """A model and where it answers.

    :ivar id: the provider's own id, for `ModelRequest.model`.
    :ivar window: tokens of the whole window, as far as is known by now; see `Registry.context_window`.
    """

    name: str
    provider: Provider
    id: str
    profile: ModelProfile
    window: int


class Registry:
    """All models that can be used.

    :param settings: the configuration.
    :param env: environment variables, for keys and base URLs.
    :param access: stored keys, and the editor's routes.
    :ivar places: where they are asked.
    """

    def __init__(self, settings: Settings, env: Mapping[str, str], access: ModelAccess | None = None) -> None:
        self._settings = settings
        self._env = env
        self._access = access or ModelAccess()
        self.places = Places(settings, env, self._access)
        self._providers: dict[str, tuple[Reach, Lent]] = {}
        self._retired: list[Lent] = []
        # Of the table and the settings alone, and neither is ever another one here.
        self._profiles: dict[str, ModelProfile] = {}
        self._local: tuple[float, tuple[str, ...]] | None = None

    def version(self) -> Hashable:
        """What is another one when the providers are reached in another way; see `ModelAccess.version`."""
        return self._access.version()

    async def unlock(self, model: str) -> None:
        """Have the key of a model's provider at hand, where it is the keyring's, and let go of providers that are
        reached in another way by now. To be done before `resolve`; a name that is none needs nothing."""
        provider = model.partition("/")[0]
        if self.places.variable(provider) is None and self._access.route(provider) is None:
            with suppress(ConfigError):  # `resolve` says so, where the key is needed
                await self._access.fetch(provider)
        while self._retired:
            await self._retired.pop().retire()

    def resolve(self, model: str) -> ResolvedModel:
        """The provider of `provider/model`.

        :raises ConfigError: the name has another form; or see `Places.reach`.
        """
        if not is_model_name(model):
            raise ConfigError(
                f"{model!r} is not a model's name; write provider/model, such as anthropic/claude-sonnet-5-5"
            )
        name, _, model_id = model.partition("/")
        provider, known = self._provider(name), self.profile(model)
        window = self._settings.context_window or provider.context_window(model_id) or known.context_window
        return ResolvedModel(model, provider, model_id, known, window)

    def unusable(self, model: str) -> str:
        """Why a text is no `provider/model` of a provider that is built in or configured; empty where it is one.

        What models the provider has is not asked.
        """
        if not is_model_name(model):
            return "a model is named `provider/model`"
        return unknown_provider(model, self.places.names())

    def profile(self, model: str) -> ModelProfile:
        """What is known of `provider/model` without asking anybody, the user's corrections included."""
        known = self._profiles.get(model)
        if known is None:
            known = self._profiles[model] = self._profile(model)
        return known

    def _profile(self, model: str) -> ModelProfile:
        provider, _, name = model.partition("/")
        known = profile(name)
        if provider not in _PRICED:
            known = replace(known, prices=None)
        if self.places.kind(provider) != "openai-chat":
            known = replace(known, audio=False)
        known = known.with_settings(self._settings.models.get(model))
        return replace(
            known,
            context_window=self._settings.context_window or known.context_window,
            max_output_tokens=self._settings.max_output_tokens or known.max_output_tokens,
        )

    def context_window(self, model: str) -> int:
        """Tokens of the whole window: what the provider has said by now (see `learn_window`), else the table, else the
        model's settings, else a guess.

        `context_window` of the settings as a whole goes before all of them.

        :raises ConfigError: see `resolve`.
        """
        return self._settings.context_window or self.resolve(model).window

    async def learn_window(self, model: str) -> None:
        """Let the provider say how large the window is, where that counts; see `Provider.learn_window`.

        :raises ConfigError: see `resolve`.
        """
        if not self._settings.context_window:
            await self.unlock(model)
            resolved = self.resolve(model)
            await resolved.provider.learn_window(resolved.id)

    async def default_model(self) -> str | None:
        """The model for a session that names none; None where there is nothing to choose (see `no_model`)."""
        if self._settings.model:
            return self._settings.model
        for name, built_in in BUILT_IN.items():
            if built_in.offered and self.places.is_usable(name):
                return f"{name}/{built_in.offered[0]}"
        return next((model for model in await self._local_models() if model.startswith("ollama/")), None)

    def no_model(self) -> AgentError:
        """Why there is no default model, and what to do."""
        try:
            self._access.has_key("")
        except ConfigError as error:
            return error  # one of those that cannot be read may be all that is missing
        return ModelAuthError(NO_MODEL)

    def small_model(self, model: str) -> str | None:
        """The cheap model for little things beside a conversation: the user's choice, else that of the same provider.

        A provider that was sent to another address is another one: a gateway or a local server has what models it has.

        :param model: `provider/model` of the conversation.
        :returns: None where there is none to rely on.
        """
        if self._settings.small_model:
            return self._settings.small_model
        provider = model.partition("/")[0]
        built_in = BUILT_IN.get(provider)
        if built_in is None or not built_in.small or provider in self._settings.providers:
            return None
        if self._access.route(provider) is not None or self._access.is_disabled(provider):
            return None
        return None if self._env.get(built_in.elsewhere, "").strip() else f"{provider}/{built_in.small}"

    async def available_models(self) -> tuple[str, ...]:
        """Models for a picker, the default first; never waits on the network for longer than half a second."""
        models: dict[str, None] = {}
        if default := await self.default_model():
            models[default] = None
        models |= dict.fromkeys(self._settings.models)
        for name, built_in in BUILT_IN.items():
            if built_in.offered and self.places.is_usable(name):
                models |= dict.fromkeys(f"{name}/{model}" for model in built_in.offered)
        for name, provider in self._settings.providers.items():
            if provider.kind == "scripted" and provider.script is not None:
                models[f"{name}/{provider.script.stem}"] = None
        models |= dict.fromkeys(await self._local_models())
        return tuple(model for model in models if not self._access.is_disabled(model.partition("/")[0]))

    def load(self, model: str) -> None:
        """Load the adapter that a model's provider needs, without its SDK; run this in a thread. A name that is none
        needs nothing."""
        provider = model.partition("/")[0]
        if provider in self.places.names():
            load_adapter(self.places.kind(provider))

    async def prewarm(self, model: str) -> None:
        """Load what the model's provider needs for a call, except an SDK, in a worker thread.

        :raises ModelAuthError: there is no key for it.
        :raises ConfigError: see `resolve`.
        """
        await self.unlock(model)
        self.resolve(model)
        await self._providers[model.partition("/")[0]][1].prewarm()

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        providers = [*self._retired, *(provider for _, provider in self._providers.values())]
        self._providers, self._retired = {}, []
        for provider in providers:
            await provider.aclose()

    async def _local_models(self) -> tuple[str, ...]:
        """Models of local servers that answer at once, as `provider/model`; asked again after a minute."""
        now = time.monotonic()
        if self._local is not None and now - self._local[0] < _LIST_SECONDS:
            return self._local[1]
        found: dict[str, tuple[str, ...]] = {}

        async def look(name: str, base_url: str) -> None:
            found[name] = await probe.list_models(base_url) or ()

        servers = {name: url for name in self.places.names() if (url := self.places.local_url(name))}
        async with anyio.create_task_group() as tasks:
            for name, url in servers.items():
                tasks.start_soon(look, name, url)
        models = tuple(f"{name}/{model}" for name in servers for model in found.get(name, ()))
        self._local = (now, models)
        return models

    def _provider(self, name: str) -> Lent:
        reach, (made, provider) = self.places.reach(name), self._providers.get(name, (None, None))
        if provider is None or reach != made:
            if provider is not None:
                self._retired.append(provider)

            def profile_of(model: str) -> ModelProfile:
                return self.profile(f"{name}/{model}")

            provider = lent(make_provider(reach, profile_of))
            self._providers[name] = (reach, provider)
        return provider
