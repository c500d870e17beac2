"""The endpoint of each provider: base URL, key and headers.

An editor's route takes precedence over the environment, and that over stored keys; the user's configuration adds
providers or corrects the built-in ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from acp_agent.config.settings import ProviderKind, ProviderSettings, Settings
from acp_agent.errors import ConfigError, ModelAuthError
from acp_agent.frozen import frozen
from acp_agent.llm.credentials import ModelAccess

Parallel: TypeAlias = Literal["one", "many", "unknown"]
"""How many requests a server answers at once. llama.cpp and Ollama queue further requests by default. With `--parallel`
or `OLLAMA_NUM_PARALLEL` they serve several at once, which then share the machine."""


@frozen
class Place:
    """A provider: what is built in, with the user's settings and what the environment and the editor say of it.

    :ivar base_url: None where the configuration lacks it.
    :ivar variables: of the environment, that may hold its key; none for a local server.
    :ivar offered: models for the picker; the first is the default where the key is set.
    :ivar small: its cheap model, for little things; empty where there is none to rely on.
    :ivar variable: the first of `variables` with a key in it.
    :ivar enabled: False where the editor has turned it off.
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
        """Return whose API it speaks."""
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

_FIRST_PARTIES = ("anthropic", "openai")
_UNKNOWN = Place("openai-chat")
"""What is taken to hold of any other provider."""

_BASE_URLS: dict[ProviderKind, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai-responses": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
}
"""The SDKs' variable for a base URL, and the URL without it."""


@frozen
class Endpoint:
    """The address and credentials of a provider. Equal ones share a client.

    :ivar name: the word before the slash in `provider/model`.
    :ivar base_url: None where the configuration lacks it.
    :ivar key: None where there is none.
    :ivar token: for Anthropic, in place of a key.
    :ivar headers: sent with every request.
    :ivar key_hint: what to check when the key is refused, in the words of an error message.
    :ivar required: whether a call without any key is refused here, before it is sent.
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
            return name == "localhost" or name.endswith((".localhost", ".local", ".internal", ".lan"))
        return address.is_private or address.is_loopback or address.is_link_local

    @property
    def parallel(self) -> Parallel:
        """Return how many requests the server answers at once, as far as the endpoint's settings tell."""
        if self.kind != "openai-chat" or not self.is_local:
            return "many"
        # A gateway on this machine usually requires a key; Ollama, llama.cpp and similar servers do not.
        return "unknown" if self.required else "one"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the texts that no message may contain."""
        return tuple({text for text in (self.key, self.token, *self.headers.values()) if text})

    def check_key(self) -> None:
        """Refuse a key that is missing or that no header can carry.

        :raises ModelAuthError: says what to set.
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

    :param hint: the variable that holds the key, or in words where it is from.
    :raises ModelAuthError: it has a line break, another control character or one outside ASCII in it.
    """
    if not (key.isascii() and key.isprintable()):
        is_variable = hint.isidentifier()
        advice = f"Set {hint} to" if is_variable else f"Check {hint}: it should be"
        raise ModelAuthError(
            f"The key for {provider} cannot be sent: there is a line break, a typographic quote or another character in"
            f" it that no key has. {advice} the key alone{' and start the agent again' if is_variable else ''}."
        )


def is_first_party(endpoint: Endpoint) -> bool:
    """Return whether an endpoint is a maker's own API, or stands in its place: the user has set another base URL for
    the built-in provider."""
    return endpoint.name in _FIRST_PARTIES and endpoint.kind == BUILT_IN[endpoint.name].kind


def known_host(endpoint: Endpoint, hosts: Collection[str]) -> str:
    """Return the one of some known hosts at which an endpoint is, or in whose place it stands; empty if none.

    :param hosts: names of hosts, or of the domains that they are in.
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

    :param secrets: whether a user and a password may stand in it.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return good and (secrets or "@" not in parts.netloc)


def key_variables(settings: Settings) -> frozenset[str]:
    """Return the environment variables that may hold a provider's key, whether or not the provider is in use."""
    configured = (provider.api_key_env for provider in settings.providers.values() if provider.api_key_env)
    return frozenset(configured).union(*(built_in.variables for built_in in BUILT_IN.values()))


class Places:
    """Those of all providers.

    :param settings: the configuration.
    :param env: environment variables, for keys and base URLs.
    :param access: stored keys, and the editor's routes.
    """

    def __init__(self, settings: Settings, env: Mapping[str, str], access: ModelAccess) -> None:
        self._settings = settings.providers
        self._env = env
        self._access = access
        self._known = BUILT_IN | {name: _corrected(name, given) for name, given in settings.providers.items()}

    def names(self) -> list[str]:
        """Return the name of every provider, the built-in ones first."""
        return list(self._known)

    def kind(self, name: str) -> ProviderKind:
        """Return whose API a provider speaks; for an unknown name, the usual one."""
        return self._known.get(name, _UNKNOWN).kind

    def all(self) -> tuple[Place, ...]:
        """Return every provider that is asked over the network.

        :raises ConfigError: a base URL in the environment is none.
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
        """Return where a provider is, and as whom it is asked.

        :raises ConfigError: there is no such provider, its base URL is none, the editor has turned it off, or only the
            file of keys could have its key, and that cannot be understood.
        """
        if name not in self._known:
            known = ", ".join(self.names())
            raise ConfigError(f"there is no provider {name!r}; known are {known}. Others go under `providers`")
        if self._access.is_disabled(name):
            raise ConfigError(
                f"the editor has turned the provider {name} off; choose another model, or turn it on there"
            )
        kind, base_url = self.kind(name), self._base_url(name)
        if (route := self._access.route(name)) is not None:
            # Neither the user's keys nor the user's headers: the place is not the one that they are meant for.
            hint = "the headers that the editor sends with its requests"
            return Endpoint(name, kind, base_url, headers=route.headers, key_hint=hint)
        variables, found = self._known[name].variables, self.variable(name)
        value, hint = self._env.get(found or "", "").strip() or None, found or " or ".join(variables) or "its headers"
        if found is None and (value := self._access.key(name)):
            hint = f"the key that `acp-agent login {name}` has stored"
        is_token = kind == "anthropic" and found in variables[1:]
        key, token = (None, value) if is_token else (value, None)
        headers = (self._settings.get(name) or ProviderSettings(name)).headers
        return Endpoint(name, kind, base_url, key, token, headers, hint, bool(variables))

    def is_usable(self, name: str) -> bool:
        """Return whether a provider that has to have a key can be asked, as far as is known here."""
        if self._access.is_disabled(name):
            return False
        if self._access.route(name) or self.variable(name):
            return True
        try:
            return self._access.has_key(name)
        except ConfigError:  # the others can be asked all the same
            return False

    def is_at_home(self, name: str) -> bool:
        """Return whether a built-in provider is asked as it is built in: a gateway or a local server has what models it
        has.

        :raises ConfigError: see `all`.
        """
        known = BUILT_IN[name]
        own = known.base_url or _BASE_URLS[known.kind][1]
        return name not in self._settings and self._base_url(name) == own and not self._access.is_disabled(name)

    def local_urls(self) -> dict[str, str]:
        """Return the base URLs of the servers that want no key, as local ones do, by provider."""
        return {
            name: url
            for name, known in self._known.items()
            if known.kind == "openai-chat" and not known.variables and not self._access.is_disabled(name)
            if (url := self._base_url(name))
        }

    def has_stored_key(self, provider: str) -> bool:
        """Return whether `acp-agent login` has stored one for it.

        :raises ConfigError: the file of keys cannot be understood.
        """
        return self._access.has_key(provider)

    def variable(self, name: str) -> str | None:
        """Return the first of a provider's variables that has a key in it."""
        variables = self._known.get(name, _UNKNOWN).variables
        return next((each for each in variables if self._env.get(each, "").strip()), None)

    def _base_url(self, name: str) -> str | None:
        known = self._known[name]
        if (route := self._access.route(name)) is not None:
            return route.base_url
        if known.base_url is not None or known.kind not in _BASE_URLS:
            return known.base_url
        variable, default = _BASE_URLS[known.kind]
        url = self._env.get(variable, "").strip() or default
        if not is_base_url(url, secrets=True):
            # Without the value, as a password may stand in it.
            raise ConfigError("should be an http or https URL, such as https://gateway.example/v1", source=variable)
        return url


def _corrected(name: str, given: ProviderSettings) -> Place:
    """Return what is known of a provider, with the user's settings in place of what is built in."""
    known = BUILT_IN.get(name, _UNKNOWN)
    variables = (given.api_key_env,) if given.api_key_env else known.variables
    return replace(known, kind=given.kind or known.kind, base_url=given.base_url or known.base_url, variables=variables)
