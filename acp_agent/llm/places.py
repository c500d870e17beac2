"""The endpoint of each provider: base URL, key and headers.

An editor's route takes precedence over the environment, and the environment over stored
keys. The user's configuration adds providers or changes the built-in ones.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from acp_agent.config.load import unknown_provider
from acp_agent.config.settings import ProviderKind, ProviderSettings, Settings
from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.frozen import frozen
from acp_agent.llm.credentials import ModelAccess

Parallel: TypeAlias = Literal["one", "many", "unknown"]
"""How many requests a server answers at once. llama.cpp and Ollama queue further
requests by default. With `--parallel` or `OLLAMA_NUM_PARALLEL` they serve several at
once, which then share the machine.
"""


@frozen
class Place:
    """A provider, combined from the built-in values, the user's settings, the
    environment and the editor.

    :ivar base_url: None if it is not configured.
    :ivar variables: environment variables that may hold the key; empty for a local
        server.
    :ivar offered: models for the picker; the first is the default if the key is set.
    :ivar small: the provider's cheap model for small tasks; empty if there is no
        reliable one.
    :ivar variable: the first of `variables` that holds a key.
    :ivar enabled: False if the editor has turned the provider off.
    """

    kind: ProviderKind
    base_url: str | None = None
    variables: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    small: str = ""
    name: str = ""
    variable: str | None = None
    enabled: bool = True

    @property
    def api(self) -> Literal["anthropic", "openai"]:
        """Return the vendor whose API the provider implements."""
        return "anthropic" if self.kind == "anthropic" else "openai"


BUILT_IN: dict[str, Place] = {
    "anthropic": Place(
        "anthropic",
        variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        offered=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"),
        small="claude-haiku-5-5",
    ),
    "openai": Place(
        "openai-responses",
        variables=("OPENAI_API_KEY",),
        offered=("gpt-6.2-sol", "gpt-6.2-astra", "gpt-6-luna"),
        small="gpt-6-luna",
    ),
    "google": Place(
        "openai-chat",
        "https://generativelanguage.googleapis.com/v1beta/openai/",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("gemini-3.8-flash", "gemini-3.1-pro-preview"),
        small="gemini-3.1-flash-lite",
    ),
    "openrouter": Place(
        "openai-chat",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        ("anthropic/claude-sonnet-5.5", "openai/gpt-6.2-sol"),
    ),
    "ollama": Place("openai-chat", "http://localhost:11434/v1"),
    "lmstudio": Place("openai-chat", "http://localhost:1234/v1"),
}
"""The built-in providers; the first one whose key is set is the default."""

GIVEN_KEY = "the key that you gave"
"""The hint for a key that is being tried."""
_FIRST_PARTIES = ("anthropic", "openai")
_UNKNOWN = Place("openai-chat")
"""Defaults for all other providers."""

_BASE_URLS: dict[ProviderKind, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai-responses": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
}
"""The environment variable that each SDK reads its base URL from, and the default URL.
"""


@frozen
class Endpoint:
    """The address and credentials of a provider. Equal endpoints share a client.

    :ivar name: the word before the slash in `provider/model`.
    :ivar base_url: None if it is not configured.
    :ivar key: None if the provider has no key.
    :ivar token: Anthropic's token, used instead of a key.
    :ivar headers: the headers to send with every request.
    :ivar key_hint: what to check if the key is refused, for an error message.
    :ivar required: whether the agent refuses to send a call without a key.
    """

    name: str
    kind: ProviderKind
    base_url: str | None = None
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    key_hint: str = ""
    required: bool = False

    @property
    def host(self) -> str:
        """Return host and port, without credentials, path or query."""
        return urlsplit(self.base_url or "").netloc.rpartition("@")[2]

    @property
    def is_local(self) -> bool:
        """Return whether the server is on this machine or in a private network."""
        from ipaddress import ip_address

        name = urlsplit(self.base_url or "").hostname or ""
        try:
            address = ip_address(name)
        except ValueError:
            return name == "localhost" or name.endswith(
                (".localhost", ".local", ".internal", ".lan")
            )
        return address.is_private or address.is_loopback or address.is_link_local

    @property
    def parallel(self) -> Parallel:
        """Return how many requests the server answers at once, judging by the
        endpoint's settings.
        """
        if self.kind != "openai-chat" or not self.is_local:
            return "many"
        # A gateway on this machine usually requires a key; Ollama, llama.cpp and
        # similar servers do not.
        return "unknown" if self.required else "one"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the secrets that must not appear in any message."""
        return tuple(
            {text for text in (self.key, self.token, *self.headers.values()) if text}
        )

    def check_key(self) -> None:
        """Refuse a key that is missing or that no header can carry.

        :raises ModelAuthError: if the key is missing or invalid. The message says what
            to set.
        """
        key = self.key or self.token
        if self.required and not key:
            raise ModelAuthError(
                f"No key for {self.name}: run `acp-agent login {self.name}`, or set {self.key_hint} and start the agent"
                " again."
            )
        check_key(self.name, key or "", self.key_hint)


def check_key(provider: str, key: str, hint: str) -> None:
    """Refuse a key that no header can carry.

    :param hint: the variable that holds the key, or a description of its source.
    :raises ModelAuthError: if the key contains a line break, another control character,
        or a non-ASCII character.
    """
    if not (key.isascii() and key.isprintable()):
        is_variable = hint.isidentifier()
        advice = f"Set {hint} to" if is_variable else f"Check {hint}: it should be"
        raise ModelAuthError(
            f"The key for {provider} cannot be sent: it contains a line break, a typographic quote or another character"
            f" that keys never have. {advice} the key alone{' and start the agent again' if is_variable else ''}."
        )


def is_first_party(endpoint: Endpoint) -> bool:
    """Return whether an endpoint counts as the vendor's own API.

    This includes a built-in provider for which the user has set another base URL.
    """
    return (
        endpoint.name in _FIRST_PARTIES
        and endpoint.kind == BUILT_IN[endpoint.name].kind
    )


def known_host(endpoint: Endpoint, hosts: Collection[str]) -> str:
    """Return which of the known hosts an endpoint belongs to, or stands in for; empty
    if none.

    :param hosts: host names, or parent domains of hosts.
    """
    name = endpoint.host.partition(":")[0]
    for host in hosts:
        if name == host or name.endswith((f".{host}", f"-{host}")):
            return host
    if not is_first_party(endpoint):
        return ""
    own = "api.anthropic.com" if endpoint.kind == "anthropic" else "api.openai.com"
    return own if own in hosts else ""


def is_base_url(url: str, *, secrets: bool = False) -> bool:
    """Return whether a text is an http or https URL.

    :param secrets: whether it may contain a user name and a password.
    """
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
        )
    except ValueError:
        return False
    return good and (secrets or "@" not in parts.netloc)


def key_variables(settings: Settings) -> frozenset[str]:
    """Return the environment variables that may hold a provider's key, whether or not
    the provider is in use.
    """
    configured = (
        provider.api_key_env
        for provider in settings.providers.values()
        if provider.api_key_env
    )
    return frozenset(configured).union(
        *(built_in.variables for built_in in BUILT_IN.values())
    )


class Places:
    """Resolves each provider's base URL, key and headers.


    :param settings: the configuration.
    :param env: environment variables, for keys and base URLs.
    :param access: the stored keys and the editor's routes.
    """

    def __init__(
        self, settings: Settings, env: Mapping[str, str], access: ModelAccess
    ) -> None:
        self._settings = settings.providers
        self._env = env
        self._access = access
        self._known = BUILT_IN | {
            name: _corrected(name, given) for name, given in settings.providers.items()
        }
        self._endpoints: dict[str, tuple[Hashable, Endpoint]] = {}

    def names(self) -> list[str]:
        """Return the name of every provider, the built-in ones first."""
        return list(self._known)

    def kind(self, name: str) -> ProviderKind:
        """Return the kind of API that a provider implements; for an unknown name, the
        most common kind.
        """
        return self._known.get(name, _UNKNOWN).kind

    def all(self) -> tuple[Place, ...]:
        """Return every provider that is called over the network.

        :raises ConfigError: if a base URL in the environment is invalid.
        """
        return tuple(
            replace(
                known,
                name=name,
                base_url=self._base_url(name),
                variable=self.variable(name),
                enabled=not self._access.is_disabled(name),
            )
            for name, known in self._known.items()
            if known.kind != "scripted"
        )

    def endpoint(self, name: str) -> Endpoint:
        """Return a provider's address and credentials.

        The same object is returned until a key or a route changes.

        :raises ConfigError: if there is no such provider, its base URL is invalid, the
            editor has turned it off, or its key could only be in the key file and that
            file is invalid.
        """
        version = self._access.key_version()
        known = self._endpoints.get(name)
        if known is None or known[0] != version:
            known = (version, self._read_endpoint(name))
            self._endpoints[name] = known
        return known[1]

    def _read_endpoint(self, name: str) -> Endpoint:
        if name not in self._known:
            raise ConfigError(unknown_provider(name, self.names()))
        if self._access.is_disabled(name):
            raise ConfigError(
                f"the editor has turned the provider {name} off; choose another model, or turn it on in the editor"
            )
        kind = self.kind(name)
        base_url = self._base_url(name)
        if (route := self._access.route(name)) is not None:
            # The user's keys and headers are not sent, since they are not meant for
            # this address.
            hint = "the headers that the editor sends with its requests"
            return Endpoint(name, kind, base_url, headers=route.headers, key_hint=hint)
        variables = self._known[name].variables
        found = self.variable(name)
        value = self._env.get(found or "", "").strip() or None
        hint = found or " or ".join(variables) or "its headers"
        if found is None and (value := self._access.key(name)):
            hint = f"the key that `acp-agent login {name}` has stored"
        is_token = kind == "anthropic" and found in variables[1:]
        key, token = (None, value) if is_token else (value, None)
        headers = (self._settings.get(name) or ProviderSettings(name)).headers
        return Endpoint(
            name, kind, base_url, key, token, headers, hint, bool(variables)
        )

    def is_usable(self, name: str) -> bool:
        """Return whether a provider that requires a key can be called, judging by local
        information only.
        """
        if self._access.is_disabled(name):
            return False
        if self._access.route(name) or self.variable(name):
            return True
        try:
            return self._access.has_key(name)
        except ConfigError:  # other providers can still be called
            return False

    def is_at_home(self, name: str) -> bool:
        """Return whether a built-in provider is used at its built-in address. Other
        servers may have different models.

        :raises ConfigError: see `all`.
        """
        known = BUILT_IN[name]
        own = known.base_url or _BASE_URLS[known.kind][1]
        return (
            name not in self._settings
            and self._base_url(name) == own
            and not self._access.is_disabled(name)
        )

    def local_urls(self) -> dict[str, str]:
        """Return the base URLs of servers that need no key, such as local ones, keyed
        by provider.
        """
        return {
            name: url
            for name, known in self._known.items()
            if known.kind == "openai-chat"
            and not known.variables
            and not self._access.is_disabled(name)
            if (url := self._base_url(name))
        }

    def has_stored_key(self, provider: str) -> bool:
        """Return whether `acp-agent login` has stored a key for a provider.

        :raises ConfigError: if the key file is invalid.
        """
        return self._access.has_key(provider)

    def variable(self, name: str) -> str | None:
        """Return the first of a provider's variables that holds a key."""
        variables = self._known.get(name, _UNKNOWN).variables
        return next(
            (each for each in variables if self._env.get(each, "").strip()), None
        )

    def _base_url(self, name: str) -> str | None:
        known = self._known[name]
        if (route := self._access.route(name)) is not None:
            return route.base_url
        if known.base_url is not None or known.kind not in _BASE_URLS:
            return known.base_url
        variable, default = _BASE_URLS[known.kind]
        url = self._env.get(variable, "").strip() or default
        if not is_base_url(url, secrets=True):
            # The error does not show the value, since it may contain a password.
            raise ConfigError(
                "should be an http or https URL, such as https://gateway.example/v1",
                source=variable,
            )
        return url


def _corrected(name: str, given: ProviderSettings) -> Place:
    """Return a provider with the user's settings in place of the built-in values."""
    known = BUILT_IN.get(name, _UNKNOWN)
    variables = (given.api_key_env,) if given.api_key_env else known.variables
    return replace(
        known,
        kind=given.kind or known.kind,
        base_url=given.base_url or known.base_url,
        variables=variables,
    )
