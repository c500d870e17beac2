"""`Accounts`: keys and routes of the providers, as an editor manages them: signing in
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
"""A name, but for those that belong to the connection, and printable ASCII."""


State: TypeAlias = Literal[
    "authenticated", "unauthenticated", "not_required", "unknown"
]
"""Whether a session can begin without signing in."""


class Accounts:
    """:param services: whose keys and routes."""

    def __init__(self, services: SessionServices) -> None:
        self._services = services
        self._access = services.access

    async def log_out(self) -> None:
        """Remove all stored keys.

        :raises InvalidParamsError: the environment has keys as well, or alone, which
            cannot be removed here; what was stored is removed all the same.
        :raises ConfigError: a file or the keyring does not let it be done.
        """
        removed = await self._access.forget_keys()
        variables = [
            place.variable
            for place in await self.providers()
            if place.variable is not None
        ]
        if variables:
            done = (
                f"The stored keys are removed ({', '.join(removed)})"
                if removed
                else "No key is stored"
            )
            raise InvalidParamsError(
                f"{done}; what is still in use is set in the environment, as {', '.join(dict.fromkeys(variables))}."
                " Unset it where the editor or your shell sets it, and start the agent again."
            )

    async def standing(self) -> tuple[State, dict[str, bool]]:
        """Return the state of signing in, without a request to check it; and the keys
        and routes that there are.

        :returns: for each a label, which holds no key, and whether a session that names
            no model would use it.
        """
        try:
            registry = await self._registry()
            model = await registry.default_model()
        except ConfigError:
            return "unknown", {}  # opening a session reports what is wrong
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
        """Return where a provider's key comes from; empty if it has none, or is turned
        off.
        """
        if not place.enabled:
            return ""
        if self._access.route(place.name) is not None:
            return "the editor's route"
        if place.variable is not None:
            return f"the key in {place.variable}"
        return "the key that is stored" if self._access.has_key(place.name) else ""

    async def providers(self) -> tuple[Place, ...]:
        """Return every provider whose requests can be sent elsewhere.

        :raises ConfigError: the user's configuration is wrong.
        """
        registry = await self._registry()
        return tuple(
            place for place in registry.places.all() if place.base_url is not None
        )

    async def set_route(
        self, name: str, api: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        """Send a provider's requests to this address, in place of all that was said of
        it before, until the process ends. The user's own key does not go there.

        :param api: whose API is spoken there.
        :raises InvalidParamsError: there is no such provider, it speaks another API, or
            what was given cannot be used.
        """
        known = {place.name: place for place in (await self._registry()).places.all()}
        place = known.get(name)
        if place is None:
            raise InvalidParamsError(
                f"providerId: there is no provider {name[:100]!r}; known are {', '.join(known)}."
            )
        if api != place.api:
            raise InvalidParamsError(
                f"apiType: {name} speaks {place.api!r}, and not {api[:100]!r}."
            )
        if not is_base_url(base_url):
            raise InvalidParamsError(
                "baseUrl: it should be an http or https URL, without user and password."
            )
        for header, value in headers.items():
            if not _HEADER.fullmatch(f"{header}: {value}"):
                raise InvalidParamsError(
                    f"headers: {header[:100]!r} cannot be sent with this value. Leave it out."
                )
        self._access.set_route(name, Route(base_url, dict(headers)))

    async def disable(self, name: str) -> None:
        """Turn a provider off; an unknown name has no effect."""
        if any(place.name == name for place in (await self._registry()).places.all()):
            self._access.set_route(name, None)

    async def _registry(self) -> Registry:
        return self._services.models(
            await anyio.to_thread.run_sync(self._services.settings, None)
        )


def shown_url(url: str) -> str:
    """Return an address without what may be secret in it: user, password, query."""
    parts = urlsplit(url)
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")
    )
