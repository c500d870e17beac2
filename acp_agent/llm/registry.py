"""Which provider a model's name means, and what is known of the model: the one door to this room.

`provider/model` is split at the first slash. Built-in providers need only a key in the environment; the user's
configuration adds others or corrects them. Makes each provider once; loads no SDK until one is used. Knows no sessions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol

import anyio

from acp_agent.config.checks import unknown_provider
from acp_agent.config.settings import ProviderKind, ProviderSettings, Settings, is_model_name
from acp_agent.errors import ConfigError
from acp_agent.llm import probe
from acp_agent.llm.access import check_base_url
from acp_agent.llm.profiles import ModelProfile, profile
from acp_agent.llm.provider import Provider

_log = logging.getLogger(__name__)

NO_MODEL = (
    "No model is configured. Set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or OPENROUTER_API_KEY, start a local"
    " Ollama, or name a model as provider/model in ACP_AGENT_MODEL or under `model` in config.yaml."
)
_LIST_SECONDS = 60.0


class _WarmProvider(Provider, Protocol):
    async def prewarm(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    """A provider that needs no configuration.

    :ivar keys: environment variables that may hold its key; none for a local server.
    :ivar offered: models for the picker; the first is the default where the key is set.
    :ivar small: its cheap model, for little things; empty where there is none to rely on.
    :ivar elsewhere: environment variable that sends its requests to another place.
    """

    kind: ProviderKind
    base_url: str | None = None
    keys: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    small: str = ""
    elsewhere: str = ""


_BUILT_IN: dict[str, _BuiltIn] = {
    "anthropic": _BuiltIn(
        "anthropic",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        offered=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
        small="claude-haiku-5-5",
        elsewhere="ANTHROPIC_BASE_URL",
    ),
    "openai": _BuiltIn(
        "openai-responses",
        keys=("OPENAI_API_KEY",),
        offered=("gpt-6.2-sol", "gpt-6.2-astra", "gpt-6-luna"),
        small="gpt-6-luna",
        elsewhere="OPENAI_BASE_URL",
    ),
    "google": _BuiltIn(
        "openai-chat",
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("gemini-3.8-flash", "gemini-3.1-pro-preview"),
        small="gemini-3.1-flash-lite",
    ),
    "openrouter": _BuiltIn(
        "openai-chat",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        ("anthropic/claude-sonnet-5.5", "openai/gpt-6.2-sol"),
    ),
    "ollama": _BuiltIn("openai-chat", "http://localhost:11434/v1"),
    "lmstudio": _BuiltIn("openai-chat", "http://localhost:1234/v1"),
}
"""In the order in which a set key makes a provider the default."""

_ADAPTERS: dict[ProviderKind, str] = {
    "anthropic": "acp_agent.llm.anthropic",
    "openai-responses": "acp_agent.llm.openai_responses",
    "openai-chat": "acp_agent.llm.openai_chat",
    "scripted": "acp_agent.llm.scripted",
}
"""Modules."""

BUILT_IN_PROVIDERS = tuple(_BUILT_IN)
"""Names of the providers that need no configuration."""

_LOCAL = {"ollama": probe.ollama_window, "lmstudio": probe.lmstudio_window}
"""How those local servers are asked for windows that have their own ways."""

_PRICED = frozenset({"anthropic", "openai", "google", "openrouter"})
"""Who charges what the table says; elsewhere a model of the same name is free, or has a price of its own."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model and where it answers.

    :ivar id: the provider's own id, for `ModelRequest.model`.
    """

    name: str
    provider: Provider
    id: str
    profile: ModelProfile


class Registry:
    """All models that can be used.

    :param settings: the configuration.
    :param env: environment variables, for keys and base URLs.
    """

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._env = env
        self._providers: dict[str, _WarmProvider] = {}
        self._local: tuple[float, tuple[str, ...]] | None = None

    def resolve(self, model: str) -> ResolvedModel:
        """The provider of `provider/model`.

        :raises ConfigError: there is no such provider, the name has another form, or its base URL is none.
        """
        if not is_model_name(model):
            raise ConfigError(
                f"{model!r} is not a model's name; write provider/model, such as anthropic/claude-sonnet-5-5"
            )
        provider, _, name = model.partition("/")
        return ResolvedModel(model, self._provider(provider), name, self.profile(model))

    def unusable(self, model: str) -> str:
        """Why a text is no `provider/model` of a provider that is built in or configured; empty where it is one.

        What models the provider has is not asked.
        """
        return unknown_provider(model, self._names()) if is_model_name(model) else "a model is named `provider/model`"

    def profile(self, model: str) -> ModelProfile:
        """What is known of `provider/model` without asking anybody, the user's corrections included."""
        provider, _, name = model.partition("/")
        known = profile(name)
        if provider not in _PRICED:
            known = replace(known, prices=None)
        if _kind(self._settings.providers.get(provider), _BUILT_IN.get(provider)) != "openai-chat":
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
        if self._settings.context_window:
            return self._settings.context_window
        resolved = self.resolve(model)
        return resolved.provider.context_window(resolved.id) or resolved.profile.context_window

    async def learn_window(self, model: str) -> None:
        """Let the provider say how large the window is, where that counts; see `Provider.learn_window`.

        :raises ConfigError: see `resolve`.
        """
        if not self._settings.context_window:
            resolved = self.resolve(model)
            await resolved.provider.learn_window(resolved.id)

    async def default_model(self) -> str | None:
        """The model for a session that names none; None where there is nothing to choose (see `NO_MODEL`)."""
        if self._settings.model:
            return self._settings.model
        for name, built_in in _BUILT_IN.items():
            if built_in.offered and self._key(name, built_in.keys):
                return f"{name}/{built_in.offered[0]}"
        return next((model for model in await self._local_models() if model.startswith("ollama/")), None)

    def small_model(self, model: str) -> str | None:
        """The cheap model for little things beside a conversation: the user's choice, else that of the same provider.

        A provider that was sent to another address is another one: a gateway or a local server has what models it has.

        :param model: `provider/model` of the conversation.
        :returns: None where there is none to rely on.
        """
        if self._settings.small_model:
            return self._settings.small_model
        provider = model.partition("/")[0]
        built_in = _BUILT_IN.get(provider)
        if built_in is None or not built_in.small or provider in self._settings.providers:
            return None
        return None if self._env.get(built_in.elsewhere, "").strip() else f"{provider}/{built_in.small}"

    async def available_models(self) -> tuple[str, ...]:
        """Models for a picker, the default first; never waits on the network for longer than half a second."""
        models: dict[str, None] = {}
        if default := await self.default_model():
            models[default] = None
        models |= dict.fromkeys(self._settings.models)
        for name, built_in in _BUILT_IN.items():
            if self._key(name, built_in.keys):
                models |= dict.fromkeys(f"{name}/{model}" for model in built_in.offered)
        for name, provider in self._settings.providers.items():
            if provider.kind == "scripted" and provider.script is not None:
                models[f"{name}/{provider.script.stem}"] = None
        return tuple(models | dict.fromkeys(await self._local_models()))

    def load(self, model: str) -> None:
        """Load the adapter that a model's provider needs, without its SDK; run this in a thread. A name that is none
        needs nothing."""
        provider = model.partition("/")[0]
        settings, built_in = self._settings.providers.get(provider), _BUILT_IN.get(provider)
        if settings is not None or built_in is not None:
            import_module(_ADAPTERS[_kind(settings, built_in)])

    async def prewarm(self, model: str) -> None:
        """Load what the model's provider needs for a call, except an SDK, in a worker thread.

        :raises ModelAuthError: there is no key for it.
        :raises ConfigError: see `resolve`.
        """
        self.resolve(model)
        await self._providers[model.partition("/")[0]].prewarm()

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        providers, self._providers = self._providers, {}
        for provider in providers.values():
            await provider.aclose()

    async def _local_models(self) -> tuple[str, ...]:
        """Models of local servers that answer at once, as `provider/model`; asked again after a minute."""
        now = time.monotonic()
        if self._local is not None and now - self._local[0] < _LIST_SECONDS:
            return self._local[1]
        found: dict[str, tuple[str, ...]] = {}

        async def look(name: str, base_url: str) -> None:
            found[name] = await probe.list_models(base_url) or ()

        servers = {name: url for name in self._names() if (url := self._local_url(name))}
        async with anyio.create_task_group() as tasks:
            for name, url in servers.items():
                tasks.start_soon(look, name, url)
        models = tuple(f"{name}/{model}" for name in servers for model in found.get(name, ()))
        self._local = (now, models)
        return models

    def _local_url(self, name: str) -> str | None:
        """Base URL of a server that wants no key, as local ones do."""
        settings = self._settings.providers.get(name)
        built_in = _BUILT_IN.get(name)
        kind = _kind(settings, built_in)
        url = (settings.base_url if settings else None) or (built_in.base_url if built_in else None)
        keyless = not (built_in.keys if built_in else ()) and not (settings.api_key_env if settings else None)
        return url if kind == "openai-chat" and keyless else None

    def key_variables(self) -> dict[str, tuple[str, ...]]:
        """By provider, the environment variables in which its key is looked for; none where it needs no key."""
        return {name: self._variables(name) for name in self._names()}

    def _variables(self, name: str) -> tuple[str, ...]:
        settings, built_in = self._settings.providers.get(name), _BUILT_IN.get(name)
        if settings is not None and settings.api_key_env:
            return (settings.api_key_env,)
        return built_in.keys if built_in else ()

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*_BUILT_IN, *self._settings.providers]))

    def _key(self, name: str, variables: tuple[str, ...]) -> str | None:
        """The first key that is set, without the white space that copying leaves around it."""
        variable = self._variable(name, variables)
        return self._env[variable].strip() if variable else None

    def _variable(self, name: str, variables: tuple[str, ...]) -> str | None:
        """The first variable with a key in it."""
        settings = self._settings.providers.get(name)
        if settings is not None and settings.api_key_env:
            variables = (settings.api_key_env,)
        return next((variable for variable in variables if self._env.get(variable, "").strip()), None)

    def _provider(self, name: str) -> _WarmProvider:
        if name not in self._providers:
            settings = self._settings.providers.get(name)
            built_in = _BUILT_IN.get(name)
            if settings is None and built_in is None:
                known = ", ".join(self._names())
                raise ConfigError(f"there is no provider {name!r}; known are {known}. Others go under `providers`")
            self._providers[name] = self._make(settings or ProviderSettings(name), built_in)
        return self._providers[name]

    def _base_url(self, variable: str, default: str) -> str | None:
        return check_base_url(self._env.get(variable), variable, default)

    def _make(self, settings: ProviderSettings, built_in: _BuiltIn | None) -> _WarmProvider:
        name = settings.name
        variables = (settings.api_key_env,) if settings.api_key_env else built_in.keys if built_in else ()
        base_url = settings.base_url or (built_in.base_url if built_in else None)
        found = self._variable(name, variables)
        hint = found or " or ".join(variables) or "its headers"
        kind = _kind(settings, built_in)
        _log.info("the provider %s speaks %s; key: %s", name, kind, found or "none")

        def profile_of(model: str) -> ModelProfile:
            return self.profile(f"{name}/{model}")

        if kind == "scripted":
            if settings.script is None:
                raise ConfigError("needs `script: FILE`", key=f"providers.{name}")
            from acp_agent.llm.scripted import ScriptedProvider

            return ScriptedProvider(name, settings.script)
        if kind == "anthropic":
            from acp_agent.llm.anthropic import AnthropicAccess, AnthropicProvider

            key, token = self._key(name, variables[:1]), None
            if key is None and len(variables) > 1:
                token = self._env.get(variables[1], "").strip() or None
            own = built_in is not None and not settings.api_key_env
            return AnthropicProvider(
                AnthropicAccess(
                    name=name,
                    api_key=key,
                    auth_token=token,
                    base_url=base_url or self._base_url("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
                    headers=settings.headers,
                    key_hint=hint,
                    required=bool(variables),
                    ambient=own,
                ),
                profile_of,
            )
        from acp_agent.llm.openai import OpenAIAccess

        if kind == "openai-responses" and base_url is None:
            base_url = self._base_url("OPENAI_BASE_URL", "https://api.openai.com/v1")
        if kind == "openai-chat" and base_url is None:
            raise ConfigError("needs `base_url: URL`", key=f"providers.{name}")
        access = OpenAIAccess(
            name=name,
            api_key=self._key(name, variables),
            base_url=base_url,
            headers=settings.headers,
            key_hint=hint,
            required=bool(variables),
        )
        if kind == "openai-responses":
            from acp_agent.llm.openai_responses import OpenAIResponsesProvider

            return OpenAIResponsesProvider(access, profile_of)
        from acp_agent.llm.openai_chat import OpenAIChatProvider

        return OpenAIChatProvider(
            access,
            profile_of,
            reasoning="reasoning" if name == "openrouter" else "reasoning_effort",
            local=_LOCAL.get(name),
        )


def _kind(settings: ProviderSettings | None, built_in: _BuiltIn | None) -> ProviderKind:
    return (settings.kind if settings else None) or (built_in.kind if built_in else "openai-chat")
