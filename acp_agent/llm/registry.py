"""Resolves `provider/model` to the provider's client and the model's properties.

The name is split at the first slash. A client is created once, and recreated when its
address or key changes. An SDK is loaded by `Registry.prepare` or by the first model
call.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from acp_agent.config.forms import is_model_name
from acp_agent.config.keys import KeyStore
from acp_agent.config.load import MODEL_VARIABLE, unknown_provider
from acp_agent.config.settings import ModelSettings, Settings
from acp_agent.conversation.strict_json import get_objects, get_text, parse_object
from acp_agent.errors import AgentError, ConfigError, ModelAuthError
from acp_agent.frozen import frozen
from acp_agent.llm.credentials import ModelAccess
from acp_agent.llm.learned import LearnedFacts, LearnedModel
from acp_agent.llm.places import BUILT_IN, GIVEN_KEY, Endpoint, Places
from acp_agent.llm.profiles import ModelProfile, corrected, profile
from acp_agent.llm.provider import Provider

if TYPE_CHECKING:
    from acp_agent.llm.client import ModelClient
    from acp_agent.llm.scripted import ScriptedProvider

NO_MODEL = (
    "No model is configured. Run `acp-agent login`, set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or"
    " OPENROUTER_API_KEY, start a local Ollama, or name a model as provider/model in ACP_AGENT_MODEL or under `model`"
    " in config.yaml."
)
_LIST_SECONDS = 60.0
_LOCAL_SECONDS = 0.3
"""Maximum seconds to wait for a local server's list of models."""


BUILT_IN_PROVIDERS = tuple(BUILT_IN)
"""Names of the providers that need no configuration."""

_PRICED = frozenset({"anthropic", "openai", "google", "openrouter"})
"""The providers that charge the table's prices. Other providers may serve a model of
the same name for free or at another price.
"""

_log = logging.getLogger(__name__)


@frozen
class ResolvedModel:
    """A model and its provider.

    :ivar id: the provider's own id, for `ModelRequest.model`.
    :ivar window: the context window in tokens: from `context_window` in the settings,
        else from the provider (see `Registry.learn_window`), else from the table, else
        from the model's settings, else the default.
    :ivar window_source: a text that changes when the settings or the provider specify a
        different window.
    :ivar learned: the facts about the model that were learned from refusals.
    """

    provider: Provider
    id: str
    profile: ModelProfile
    window: int
    window_source: str
    learned: LearnedModel


@frozen
class _KnownModel:
    """The parts of a `ResolvedModel` that stay the same until its endpoint changes."""

    provider: ModelClient | ScriptedProvider
    profile: ModelProfile
    learned: LearnedModel


class Registry:
    """All available models.

    :param settings: the configuration.
    :param env: environment variables, for keys and base URLs.
    :param access: the stored keys and the editor's routes; None for the keys only.
    :param learned: the facts learned from refusals; None starts without any.
    :ivar places: the providers' addresses and credentials.
    """

    def __init__(
        self,
        settings: Settings,
        env: Mapping[str, str],
        access: ModelAccess | None = None,
        learned: LearnedFacts | None = None,
    ) -> None:
        self._settings = settings
        self._env = env
        self._access = access or ModelAccess(KeyStore(settings.home))
        self._learned = learned or LearnedFacts()
        self.places = Places(settings, env, self._access)
        # Clients with an old key or route are kept, since a request may still be
        # running on their connections.
        self._providers: list[tuple[Endpoint, ModelClient | ScriptedProvider]] = []
        self._known: dict[str, _KnownModel] = {}
        self._local: tuple[float, tuple[str, ...]] | None = None

    def version(self) -> Hashable:
        """Return a value that changes when a key or a route changes; see
        `ModelAccess.version`.
        """
        return self._access.version()

    async def unlock(self, model: str) -> None:
        """Read the key of a model's provider from the keyring, if it is stored there.
        Call this before `resolve`.

        An invalid name is ignored.
        """
        provider = model.partition("/")[0]
        if (
            self.places.variable(provider) is None
            and self._access.route(provider) is None
        ):
            with suppress(ConfigError):  # `resolve` raises this if the key is needed
                await self._access.fetch(provider)

    def resolve(self, model: str) -> ResolvedModel:
        """Return the provider of `provider/model`.

        :raises ConfigError: if the name is not `provider/model`; see also
            `Places.endpoint`.
        """
        if not is_model_name(model):
            raise ConfigError(f"{model!r}: {self.unusable(model)}")
        if wrong := self.unusable(model):
            raise ConfigError(wrong, source=self._place_of(model))
        name, _, model_id = model.partition("/")
        endpoint = self.places.endpoint(name)
        known = self._known.get(model)
        if known is None or known.learned.endpoint is not endpoint:
            learned = LearnedModel(model, endpoint, self._learned)
            known = _KnownModel(self._provider(endpoint), self.profile(model), learned)
            self._known[model] = known
        chosen = self._settings.context_window
        window = (
            chosen
            or known.provider.context_window(model_id)
            or known.profile.context_window
        )
        source = f"{window} {'configured' if chosen else 'found'}"
        return ResolvedModel(
            known.provider, model_id, known.profile, window, source, known.learned
        )

    def _place_of(self, model: str) -> str | None:
        """Return where the settings name a model, or None if they do not."""
        for key in ("model", "small_model"):
            if getattr(self._settings, key) == model and (
                place := self._settings.places.get(key)
            ):
                return place if place == MODEL_VARIABLE else f"{place}: {key}"
        return None

    def unusable(self, model: str) -> str:
        """Return why a text is not `provider/model` with a known provider; empty if it
        is.

        Does not check whether the provider has the model.
        """
        if not is_model_name(model):
            return "a model name has the form provider/model, such as anthropic/claude-sonnet-5-5"
        return unknown_provider(model, self.places.names())

    def profile(self, model: str) -> ModelProfile:
        """Return the profile of `provider/model` without asking the provider, with the
        user's settings applied.

        The user's output limit and prices replace the table's. The user's window is
        used only if the table has none.
        """
        provider, _, name = model.partition("/")
        return _corrected_profile(self._settings, provider, name)

    def is_window_settled(self, model: str) -> bool:
        """Return whether `learn_window` would learn nothing new about a model."""
        if self._settings.context_window:
            return True
        known = self._known.get(model)
        return known is not None and known.provider.is_window_settled(
            model.partition("/")[2]
        )

    async def learn_window(self, model: str, *, lost: bool = False) -> None:
        """Ask the provider for the window, unless the settings specify it; see
        `Provider.learn_window`.

        :raises ConfigError: see `resolve`.
        """
        if not self._settings.context_window:
            await self.unlock(model)
            resolved = self.resolve(model)
            await resolved.provider.learn_window(resolved.id, lost=lost)

    async def default_model(self) -> str | None:
        """Return the model for a session that does not name one; None if no model is
        available (see `no_model`).
        """
        if self._settings.model:
            return self._settings.model
        for name, built_in in BUILT_IN.items():
            if built_in.offered and self.places.is_usable(name):
                return f"{name}/{built_in.offered[0]}"
        return next(
            (
                model
                for model in await self.local_models()
                if model.startswith("ollama/")
            ),
            None,
        )

    def no_model(self) -> AgentError:
        """Return an error that explains why there is no default model and what to do."""
        try:
            self._access.has_key("")
        except ConfigError as error:
            return error  # the missing key may be in the invalid file
        return ModelAuthError(NO_MODEL)

    def small_model(self, model: str) -> str | None:
        """Return the cheap model for small tasks in a conversation: the user's choice,
        else the provider's own.

        :param model: `provider/model` of the conversation.
        :returns: None if there is no reliable one.
        """
        if self._settings.small_model:
            return self._settings.small_model
        provider = model.partition("/")[0]
        built_in = BUILT_IN.get(provider)
        if (
            built_in is None
            or not built_in.small
            or not self.places.is_at_home(provider)
        ):
            return None
        return f"{provider}/{built_in.small}"

    async def available_models(self) -> tuple[str, ...]:
        """Return the models for a picker, with the default first. Waits at most half a
        second for the network.
        """
        offered = (
            f"{name}/{model}"
            for name, built_in in BUILT_IN.items()
            if self.places.is_usable(name)
            for model in built_in.offered
        )
        scripts = (
            f"{name}/{each.script.stem}"
            for name, each in self._settings.providers.items()
            if each.script
        )
        default = await self.default_model()
        models = [
            default or "",
            *self._settings.models,
            *offered,
            *scripts,
            *await self.local_models(),
        ]
        enabled = (
            model
            for model in models
            if model and not self._access.is_disabled(model.partition("/")[0])
        )
        return tuple(dict.fromkeys(enabled))

    def load(self, model: str) -> None:
        """Import the modules that call a model, except its SDK. Call this in a thread.
        An invalid name is ignored.
        """
        provider = model.partition("/")[0]
        if provider in self.places.names() and self.places.kind(provider) != "scripted":
            _make_client()

    async def prepare(self, model: str) -> None:
        """Import the SDK of a model in a thread, and create its client. Asks neither
        the provider nor a keyring.

        :raises ConfigError: if an environment variable for the network is invalid; see
            also `Places.endpoint`.
        """
        endpoint = self.places.endpoint(model.partition("/")[0])
        await self._provider(endpoint).prepare()

    async def try_key(self, provider: str, key: str) -> bool:
        """Check whether a provider accepts a key by sending one small, free request.

        :returns: False if the provider has no such request, so the key could not be
            checked.
        :raises ModelAuthError: if the key is refused, or contains characters that no
            header can carry.
        :raises ModelError: if the request failed for another reason.
        :raises ConfigError: if an environment variable for the network is invalid; see
            also `Places.endpoint`.
        """
        endpoint = replace(
            self.places.endpoint(provider), key=key, token=None, key_hint=GIVEN_KEY
        )
        client = self._client(endpoint)
        try:
            return await client.takes_key()
        finally:
            await client.aclose()

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        providers = self._providers
        self._providers = []
        self._known.clear()
        for _, provider in providers:
            await provider.aclose()

    async def local_models(self) -> tuple[str, ...]:
        """Return the models of local servers that answer at once, as `provider/model`.
        Caches them for a minute.
        """
        now = time.monotonic()
        if self._local is not None and now - self._local[0] < _LIST_SECONDS:
            return self._local[1]
        found: dict[str, tuple[str, ...]] = {}

        async def look(name: str, base_url: str) -> None:
            found[name] = await _list_models(base_url)

        servers = self.places.local_urls()
        async with anyio.create_task_group() as tasks:
            for name, url in servers.items():
                tasks.start_soon(look, name, url)
        models = tuple(f"{name}/{model}" for name in servers for model in found[name])
        self._local = (now, models)
        return models

    def _provider(self, endpoint: Endpoint) -> ModelClient | ScriptedProvider:
        for made, provider in self._providers:
            if made == endpoint:
                return provider
        _log.info(
            "the provider %s speaks %s; key: %s",
            endpoint.name,
            endpoint.kind,
            endpoint.key_hint,
        )
        provider = (
            self._scripted(endpoint.name)
            if endpoint.kind == "scripted"
            else self._client(endpoint)
        )
        self._providers.append((endpoint, provider))
        return provider

    def _scripted(self, name: str) -> ScriptedProvider:
        script = self._settings.providers[name].script
        if script is None:
            raise ConfigError("needs `script: FILE`", key=f"providers.{name}")
        from acp_agent.llm.scripted import ScriptedProvider

        return ScriptedProvider(name, script)

    def _client(self, endpoint: Endpoint) -> ModelClient:
        profile_of = partial(_corrected_profile, self._settings, endpoint.name)
        return _make_client()(endpoint, profile_of, learned=self._learned)


def _corrected_profile(settings: Settings, provider: str, name: str) -> ModelProfile:
    known = profile(name)
    given = settings.models.get(f"{provider}/{name}", ModelSettings())
    return replace(
        known,
        context_window=settings.context_window
        or (not known.listed and given.context_window)
        or known.context_window,
        max_output_tokens=settings.max_output_tokens
        or given.max_output_tokens
        or known.max_output_tokens,
        prices=corrected(known.prices if provider in _PRICED else None, given.prices),
    )


def _make_client() -> Callable[..., ModelClient]:
    from acp_agent.llm.client import make_client

    return make_client


async def _list_models(base_url: str) -> tuple[str, ...]:
    """Return the ids of the models that an OpenAI-compatible server offers; none if no
    server answers at once.

    :param base_url: the URL, with `/v1` at its end.
    """
    with anyio.move_on_after(_LOCAL_SECONDS):
        return await to_thread.run_sync(_listed, base_url, abandon_on_cancel=True)
    return ()


def _listed(base_url: str) -> tuple[str, ...]:
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(base_url)
    if parts.scheme != "http" or not parts.hostname:  # local servers use http
        return ()
    connection = HTTPConnection(parts.hostname, parts.port, timeout=_LOCAL_SECONDS)
    try:
        connection.request(
            "GET", f"{parts.path.rstrip('/')}/models", headers={"Connection": "close"}
        )
        answer = connection.getresponse()
        found = parse_object(answer.read()) if answer.status == 200 else None
        return tuple(
            name
            for model in get_objects(found or {}, "data")
            if (name := get_text(model, "id"))
        )
    except (OSError, HTTPException, ValueError):
        return ()
    finally:
        connection.close()
