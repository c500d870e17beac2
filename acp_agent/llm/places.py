"""Where a provider's requests go and as whom: the address, the key, and who says so.

The environment goes before what is stored, and the editor's route before both; the user's configuration adds providers
or corrects the built-in ones. Makes no provider and asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from acp_agent.config.settings import ProviderKind, ProviderSettings, Settings
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen
from acp_agent.llm.access import check_base_url
from acp_agent.llm.builtin import BASE_URLS, BUILT_IN
from acp_agent.llm.credentials import ModelAccess
from acp_agent.llm.making import Reach


def key_variables(settings: Settings) -> frozenset[str]:
    """Return the environment variables that may hold a provider's key, whether or not the provider is in use."""
    configured = (provider.api_key_env for provider in settings.providers.values() if provider.api_key_env)
    return frozenset(configured).union(*(built_in.keys for built_in in BUILT_IN.values()))


@frozen
class Place:
    """Where a provider's requests go.

    :ivar api: whose API it speaks.
    :ivar base_url: None where the configuration lacks it.
    :ivar keyed: whether it has to have a key.
    :ivar enabled: False where the editor has turned it off.
    :ivar variable: of the environment, with a key for it.
    """

    name: str
    api: Literal["anthropic", "openai"]
    base_url: str | None
    keyed: bool
    enabled: bool
    variable: str | None


class Places:
    """Those of all providers.

    :param settings: the configuration.
    :param env: environment variables, for keys and base URLs.
    :param access: stored keys, and the editor's routes.
    """

    def __init__(self, settings: Settings, env: Mapping[str, str], access: ModelAccess) -> None:
        self._settings = settings
        self._env = env
        self._access = access

    def all(self) -> tuple[Place, ...]:
        """Every provider that is asked over the network.

        :raises ConfigError: a base URL in the environment is none.
        """
        return tuple(self._place(name) for name in self.names() if self.kind(name) != "scripted")

    def reach(self, provider: str) -> Reach:
        """Where a provider is, and as whom it is asked.

        :raises ConfigError: there is no such provider, its base URL is none, the editor has turned it off, or it has to
            have a key, which none but the file of keys could have, and that cannot be understood.
        """
        if provider not in self._settings.providers and provider not in BUILT_IN:
            known = ", ".join(self.names())
            raise ConfigError(f"there is no provider {provider!r}; known are {known}. Others go under `providers`")
        if self._access.is_disabled(provider):
            raise ConfigError(
                f"the editor has turned the provider {provider} off; choose another model, or turn it on there"
            )
        return self._reach(provider)

    def names(self) -> list[str]:
        """Every provider's, the built-in ones first."""
        return list(dict.fromkeys([*BUILT_IN, *self._settings.providers]))

    def kind(self, name: str) -> ProviderKind:
        """Whose API it speaks; of a provider that is none, the usual one."""
        settings, built_in = self._settings.providers.get(name), BUILT_IN.get(name)
        return (settings.kind if settings else None) or (built_in.kind if built_in else "openai-chat")

    def is_usable(self, name: str) -> bool:
        """Whether a provider that has to have a key can be asked, as far as is known here."""
        if self._access.is_disabled(name):
            return False
        if self._access.route(name) or self.variable(name):
            return True
        try:
            return self._access.has_key(name)
        except ConfigError:  # the others can be asked all the same
            return False

    def local_url(self, name: str) -> str | None:
        """Base URL of a server that wants no key, as local ones do."""
        place = self._place(name)
        local = self.kind(name) == "openai-chat" and not place.keyed and place.enabled
        return place.base_url if local else None

    def key_variables(self) -> dict[str, tuple[str, ...]]:
        """By provider, the environment variables in which its key is looked for; none where it needs no key."""
        return {name: self._variables(name) for name in self.names()}

    def has_stored_key(self, provider: str) -> bool:
        """Whether `acp-agent login` has stored one for it.

        :raises ConfigError: the file of keys cannot be understood.
        """
        return self._access.has_key(provider)

    def _place(self, name: str) -> Place:
        route, kind = self._access.route(name), self.kind(name)
        own = None if route is not None else self._base_url(name) or BASE_URLS.get(kind, ("", None))[1]
        return Place(
            name,
            "anthropic" if kind == "anthropic" else "openai",
            own if route is None else route.base_url,
            bool(self._variables(name)),
            not self._access.is_disabled(name),
            self.variable(name),
        )

    def _variables(self, name: str) -> tuple[str, ...]:
        """Those that may hold its key."""
        settings, built_in = self._settings.providers.get(name), BUILT_IN.get(name)
        if settings is not None and settings.api_key_env:
            return (settings.api_key_env,)
        return built_in.keys if built_in else ()

    def variable(self, name: str) -> str | None:
        """The first variable with a key in it."""
        return next((each for each in self._variables(name) if self._value(each)), None)

    def _value(self, variable: str) -> str | None:
        """What it says, without the white space that copying leaves around a key; None where it says nothing."""
        return self._env.get(variable, "").strip() or None

    def _base_url(self, name: str) -> str | None:
        """None leaves it to the SDK, or is wrong."""
        settings, built_in = self._settings.providers.get(name), BUILT_IN.get(name)
        url = (settings.base_url if settings else None) or (built_in.base_url if built_in else None)
        if url is None and (found := BASE_URLS.get(self.kind(name))):
            variable, default = found
            return check_base_url(self._env.get(variable), variable, default)
        return url

    def _reach(self, name: str) -> Reach:
        settings = self._settings.providers.get(name) or ProviderSettings(name)
        route, kind = self._access.route(name), self.kind(name)
        if route is not None:
            # Neither the user's keys nor the user's headers: the place is not the one that they are meant for.
            hint = "the headers that the editor sends with its requests"
            return Reach(name, kind, route.base_url, headers=route.headers, hint=hint, source="the editor's")
        variables, found = self._variables(name), self.variable(name)
        hint = found or " or ".join(variables) or "its headers"
        stored: str | None = None
        if found is None:
            try:
                stored = self._access.key(name)
            except ConfigError:
                if variables:
                    raise
                hint = f"{hint}, and the stored keys, which cannot be read (`acp-agent doctor` says why)"
        token = self._value(found) if found in variables[1:] and kind == "anthropic" else None
        return Reach(
            name,
            kind,
            self._base_url(name),
            key=stored or (self._value(found) if found and token is None else None),
            token=token,
            headers=settings.headers,
            hint=f"the key that `acp-agent login {name}` has stored" if stored else hint,
            source="stored" if stored else found or "none",
            required=bool(variables),
            ambient=kind == "anthropic" and name in BUILT_IN and not settings.api_key_env,
            script=settings.script,
        )
