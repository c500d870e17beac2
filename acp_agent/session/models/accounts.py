"""`Accounts`: lets an editor manage the keys and routes of the providers: signing in
and out, and setting routes.

A change applies from the next request on, in open sessions as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread

from acp_agent.errors import ConfigError, InvalidParamsError
from acp_agent.llm.credentials import Route
from acp_agent.llm.places import Place, is_base_url
from acp_agent.llm.registry import Registry
from acp_agent.session.services import SessionServices

_HEADER = re.compile(
    r"(?!(?i:host|content-length|transfer-encoding|connection):)[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~]*"
)
"""A header line: a name that does not belong to the connection itself, and a value of
printable ASCII.
"""


State: TypeAlias = Literal[
    "authenticated", "unauthenticated", "not_required", "unknown"
]
"""Whether a session can begin without the user signing in."""


class Accounts:
    """Manages keys and routes for an editor.

    :param services: the services whose keys and routes are managed.
    """

    def __init__(self, services: SessionServices) -> None:
        self._services = services
        self._access = services.access

    async def log_out(self) -> None:
        """Remove all stored keys.

        :raises InvalidParamsError: if the environment contains keys, which cannot be
            removed here. The stored keys are removed in any case.
        :raises ConfigError: if a file or the keyring cannot be changed.
        """
        removed = await self._access.forget_keys()
        variables = [
            place.variable
            for place in await self.providers()
            if place.variable is not None
        ]
        if variables:
            done = (
                f"The stored keys were removed ({', '.join(removed)})"
                if removed
                else "No key is stored"
            )
            raise InvalidParamsError(
                f"{done}, but keys are still set in the environment: {', '.join(dict.fromkeys(variables))}."
                " Unset them where the editor or your shell sets them, and restart the agent."
            )

    async def standing(self) -> tuple[State, dict[str, bool]]:
        """Return whether the user is signed in, without a request to check it, and the
        existing keys and routes.

        :returns: the state, and for each key or route a label without the key itself,
            and whether a session with the default model would use it.
        """
        try:
            registry = await self._registry()
            model = await registry.default_model()
        except ConfigError:
            return "unknown", {}  # opening a session reports the error
        used = model.partition("/")[0] if model else ""
        places = {place.name: place for place in registry.places.all()}
        sources = {
            name: source
            for name, place in places.items()
            if (source := self._source(place))
        }
        accounts = {
            f"{name}: {source}": name == used for name, source in sources.items()
        }
        place = places.get(used)
        if used in sources:
            return "authenticated", accounts
        if place is not None and not place.enabled:
            return "unknown", accounts
        return "unauthenticated" if not used or (
            place and place.variables
        ) else "not_required", accounts

    def _source(self, place: Place) -> str:
        """Return where a provider's key comes from; empty if the provider has no key or
        is turned off.
        """
        if not place.enabled:
            return ""
        if self._access.route(place.name) is not None:
            return "the editor's route"
        if place.variable is not None:
            return f"the key in {place.variable}"
        return "the stored key" if self._access.has_key(place.name) else ""

    async def providers(self) -> tuple[Place, ...]:
        """Return the providers whose requests can be sent to another address.

        :raises ConfigError: if the user's configuration is invalid.
        """
        registry = await self._registry()
        return tuple(
            place for place in registry.places.all() if place.base_url is not None
        )

    async def set_route(
        self, name: str, api: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Send a provider's requests to this address until the process ends. This
        replaces earlier routes and settings for the provider. The user's own key is not
        sent there.

        :param api: the name of the API at this address.
        :raises InvalidParamsError: if there is no such provider, if it uses another
            API, or if the address or a header is invalid.
        """
        known = {place.name: place for place in (await self._registry()).places.all()}
        place = known.get(name)
        if place is None:
            raise InvalidParamsError(
                f"providerId: there is no provider {name[:100]!r}. The providers are: {', '.join(known)}."
            )
        if api != place.api:
            raise InvalidParamsError(
                f"apiType: {name} uses {place.api!r}, not {api[:100]!r}."
            )
        if not is_base_url(base_url):
            raise InvalidParamsError(
                "baseUrl: use an http or https URL without user and password."
            )
        for header, value in headers.items():
            if not _HEADER.fullmatch(f"{header}: {value}"):
                raise InvalidParamsError(
                    f"headers: {header[:100]!r} cannot be sent with this value. Leave it out."
                )
        self._access.set_route(name, Route(base_url, dict(headers)))

    async def disable(self, name: str) -> None:
        """Turn a provider off. An unknown name has no effect."""
        if any(place.name == name for place in (await self._registry()).places.all()):
            self._access.set_route(name, None)

    async def _registry(self) -> Registry:
        return self._services.models(
            await anyio.to_thread.run_sync(self._services.settings, None)
        )


def shown_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")
    )
