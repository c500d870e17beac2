"""`Accounts`: as whom and where the providers are asked, as an editor manages it: signing in and out, and routes of its
own.

Whatever changes counts from the next request on, in open sessions as well. Knows no version of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread

from acp_agent.errors import ConfigError, InvalidParamsError
from acp_agent.frozen import frozen
from acp_agent.llm.access import is_base_url
from acp_agent.llm.credentials import Route
from acp_agent.llm.places import Place
from acp_agent.llm.registry import Registry
from acp_agent.session.services import Services

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")
"""Printable ASCII: what the SDKs' HTTP client can put into a header."""
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})
"""Headers that belong to the connection, and would break it."""


@frozen
class Account:
    """Something that a provider is asked with.

    :ivar label: for people; holds no key.
    :ivar active: whether a session that names no model would use it.
    """

    label: str
    active: bool


@frozen
class Standing:
    """Whether a session can begin without the user signing in first."""

    state: Literal["authenticated", "unauthenticated", "not_required", "unknown"]
    accounts: tuple[Account, ...] = ()


class Accounts:
    """:param services: whose keys and routes."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._access = services.access

    async def to_sign_in(self) -> tuple[str, ...]:
        """The providers that want a key, the one that a session would use first.

        :raises ConfigError: the user's configuration is wrong.
        """
        registry = await self._registry()
        model = await registry.default_model()
        first = model.partition("/")[0] if model else ""
        names = [place.name for place in registry.places.all() if place.keyed and place.enabled and place.base_url]
        return tuple(sorted(names, key=lambda name: name != first))

    async def sign_in(self, name: str, key: str) -> str:
        """Try a provider's key, and keep it.

        :param name: one of `to_sign_in`.
        :returns: where it is kept, in words.
        :raises AgentError: the provider refuses it or cannot be asked, or it cannot be kept. Then nothing is.
        """
        from acp_agent.config.keys import KeyStore
        from acp_agent.llm.trying import try_key

        places = (await self._registry()).places
        base_url = next((place.base_url for place in places.all() if place.name == name), None)
        reach = replace(places.reach(name), key=key, token=None, hint="the key that you gave")
        await try_key(reach, base_url or "")
        return await anyio.to_thread.run_sync(KeyStore(self._services.home).store, name, key, abandon_on_cancel=True)

    async def log_out(self) -> None:
        """Remove all stored keys.

        :raises InvalidParamsError: the environment has keys as well, or alone, which nobody can take away here; what
            was stored is removed all the same.
        :raises ConfigError: a file or the keyring does not let it be done.
        """
        removed = await self._access.forget_keys()
        variables = [place.variable for place in await self.providers() if place.variable is not None]
        if variables:
            done = f"The stored keys are removed ({', '.join(removed)})" if removed else "No key is stored"
            raise InvalidParamsError(
                f"{done}; what is still in use is set in the environment, as {', '.join(dict.fromkeys(variables))}."
                " Unset it where the editor or your shell sets it, and start the agent again."
            )

    async def standing(self) -> Standing:
        """As whom the providers would be asked now. Asks none of them, so that a key may be there and be wrong."""
        try:
            registry = await self._registry()
            places, sources = self._sources(registry)
            while True:
                model = await registry.default_model()
                before = sources
                places, sources = self._sources(registry)
                if sources == before:
                    break  # and so the model was chosen by these keys
        except ConfigError:
            return Standing("unknown")  # whoever opens a session is told what is wrong
        name = model.partition("/")[0] if model else None
        accounts = tuple(Account(f"{each}: {source}", each == name) for each, source in sources.items())
        if name is None:
            return Standing("unauthenticated", accounts)
        place = next((place for place in places if place.name == name), None)
        if place is not None and not place.enabled:
            return Standing("unknown", accounts)
        if name in sources:
            return Standing("authenticated", accounts)
        return Standing("unauthenticated" if place is not None and place.keyed else "not_required", accounts)

    def _sources(self, registry: Registry) -> tuple[tuple[Place, ...], dict[str, str]]:
        places = registry.places.all()
        return places, {place.name: source for place in places if (source := self._source(place))}

    def _source(self, place: Place) -> str:
        """Where a provider's key comes from; empty where it has none, or is not to be asked."""
        if not place.enabled:
            return ""
        if self._access.route(place.name) is not None:
            return "the editor's route"
        if place.variable is not None:
            return f"the key in {place.variable}"
        return "the key that is stored" if self._access.has_key(place.name) else ""

    async def providers(self) -> tuple[Place, ...]:
        """Every provider whose requests can be sent elsewhere.

        :raises ConfigError: the user's configuration is wrong.
        """
        registry = await self._registry()
        return tuple(place for place in registry.places.all() if place.base_url is not None)

    async def set_route(self, name: str, api: str, base_url: str, headers: Mapping[str, str]) -> None:
        """Send a provider's requests to this address, in place of all that was said of it before, until the process
        ends. The user's own key does not go there.

        :param api: whose API is spoken there.
        :raises InvalidParamsError: there is no such provider, it speaks another API, or what was given cannot be used.
        """
        known = {place.name: place for place in (await self._registry()).places.all()}
        place = known.get(name)
        if place is None:
            raise InvalidParamsError(f"providerId: there is no provider {name[:100]!r}; known are {', '.join(known)}.")
        if api != place.api:
            raise InvalidParamsError(f"apiType: {name} speaks {place.api!r}, and not {api[:100]!r}.")
        if not is_base_url(base_url):
            raise InvalidParamsError("baseUrl: it should be an http or https URL, without user and password.")
        for header, value in headers.items():
            if not _HEADER_NAME.fullmatch(header) or header.lower() in _OURS:
                raise InvalidParamsError(f"headers: {header[:100]!r} cannot be sent as a header. Leave it out.")
            if not _HEADER_VALUE.fullmatch(value):
                raise InvalidParamsError(f"headers: the value of {header} has characters that no header can carry.")
        self._access.set_route(name, Route(base_url, dict(headers)))

    async def disable(self, name: str) -> None:
        """Ask a provider nothing any more; one that there is not is none to be asked anyway."""
        if any(place.name == name for place in (await self._registry()).places.all()):
            self._access.set_route(name, None)

    async def _registry(self) -> Registry:
        return self._services.models(await anyio.to_thread.run_sync(self._services.settings, None))


def shown_url(url: str) -> str:
    """An address without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
