"""`ModelAccess`: the stored keys and the editor's routes.

The whole process shares one instance. A route lives as long as the process and is never
stored.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from dataclasses import field

import anyio
from anyio import to_thread

from acp_agent.config.keys import KeyStore, StoredKey
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen
from acp_agent.secrets.names import is_secret_name

KEYRING_SECONDS = 60.0
"""How long to wait for a keyring, which may ask the user to unlock it."""

_log = logging.getLogger(__name__)


@frozen
class Route:
    """The URL that the editor routes a provider's requests to, and their headers.

    The user's keys are never sent there. The headers contain the credentials for this
    URL.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class ModelAccess:
    """Stored keys and routes.

    :param keys: the keys that `acp-agent login` has stored.
    :param patience: maximum seconds to wait for a keyring.
    """

    def __init__(self, keys: KeyStore, patience: float = KEYRING_SECONDS) -> None:
        self._keys = keys
        self._patience = patience
        self._routes: dict[str, Route | None] = {}
        self._changes = 0
        self._known: tuple[tuple[int, ...], Mapping[str, StoredKey]] = ((), {})
        self._fetched: dict[str, str] = {}
        self._fetches = 0

    def version(self) -> Hashable:
        """Return a value that changes when a route changes, or when any process stores
        or removes a key.

        Calls `stat` on the key file.
        """
        return (self._changes, self._keys.signature())

    def key_version(self) -> Hashable:
        """Return a value that changes when the result of `key` or `route` may have
        changed.

        Calls `stat` on the key file.
        """
        return (self.version(), self._fetches)

    def has_key(self, provider: str) -> bool:
        """Return whether a key is stored. Does not ask the keyring.

        :raises ConfigError: if the key file is invalid.
        """
        return provider in self._stored()

    def key(self, provider: str) -> str | None:
        """Return the stored key. A key in the keyring is available only after `fetch`.

        :raises ConfigError: see `has_key`.
        """
        stored = self._stored().get(provider)
        return None if stored is None else stored.key or self._fetched.get(provider)

    def at_hand(self) -> tuple[str, ...]:
        """Return the keys that this process knows, including those in routes' headers.
        Does no I/O.
        """
        stored = (each.key for each in self._known[1].values())
        headers = (
            item
            for route in self._routes.values()
            if route
            for item in route.headers.items()
        )
        routed = (
            value.split(" ")[-1] for name, value in headers if is_secret_name(name)
        )
        return tuple(filter(None, (*stored, *self._fetched.values(), *routed)))

    async def fetch(self, provider: str) -> None:
        """Read a key from the keyring, if it is stored there. Asks the keyring once and
        waits for at most `patience` seconds.

        :raises ConfigError: see `has_key`.
        """
        stored = self._stored().get(provider)
        if stored is None or stored.key is not None or provider in self._fetched:
            return
        with anyio.move_on_after(self._patience):
            key = await to_thread.run_sync(
                self._keys.from_keyring, provider, abandon_on_cancel=True
            )
            if key is not None:
                self._fetched[provider] = key
                self._fetches += 1
            return
        _log.warning(
            "the keyring did not return the key for %s within %.0f s",
            provider,
            self._patience,
        )

    async def forget_keys(self) -> tuple[str, ...]:
        """Remove all stored keys, for every process, and return the names of their
        providers.

        :raises ConfigError: see `KeyStore.remove`; also if the keyring does not answer
            in time, although it may still remove the keys later.
        """
        self._fetched.clear()
        self._fetches += 1
        with anyio.move_on_after(self._patience):
            return await to_thread.run_sync(self._keys.remove, abandon_on_cancel=True)
        raise ConfigError(
            f"the system keyring has not answered for {self._patience:.0f} s, so no key has been removed yet; unlock"
            " it and log out again",
            source=str(self._keys.path),
        )

    def route(self, provider: str) -> Route | None:
        """Return the editor's route for a provider, or None if there is none."""
        return self._routes.get(provider)

    def is_disabled(self, provider: str) -> bool:
        """Return whether the editor has turned a provider off."""
        return provider in self._routes and self._routes[provider] is None

    def set_route(self, provider: str, route: Route | None) -> None:
        """Send all later requests to a provider to this route, including those from
        open sessions.

        :param route: the route; None turns the provider off.
        """
        self._routes[provider] = route
        self._changes += 1

    def _stored(self) -> Mapping[str, StoredKey]:
        signature = self._keys.signature()
        if signature != self._known[0]:
            self._fetched.clear()
            self._known = (signature, self._keys.read() if signature else {})
        return self._known[1]
