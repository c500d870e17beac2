"""`ModelAccess`: the stored keys, and the editor's routes.

One for the whole process. A route lives as long as the process and is never written down.
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
"""How long a keyring may take, which may have to ask the user to unlock it."""

_log = logging.getLogger(__name__)


@frozen
class Route:
    """Where the editor wants a provider's requests to be sent, and with which headers. No key of the user's goes there:
    what the place wants to see is in the headers."""

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


class ModelAccess:
    """Stored keys and routes.

    :param keys: what `acp-agent login` has stored.
    :param patience: seconds that a keyring is waited for.
    """

    def __init__(self, keys: KeyStore, patience: float = KEYRING_SECONDS) -> None:
        self._keys = keys
        self._patience = patience
        self._routes: dict[str, Route | None] = {}
        self._changes = 0
        self._known: tuple[tuple[int, ...], Mapping[str, StoredKey]] = ((), {})
        self._fetched: dict[str, str] = {}

    def version(self) -> Hashable:
        """Return a value that differs once a route changed, or a key was stored or removed, by whichever process.
        Touches the disk, but little."""
        return (self._changes, self._keys.signature())

    def has_key(self, provider: str) -> bool:
        """Return whether one is stored; asks no keyring.

        :raises ConfigError: the file of keys cannot be understood.
        """
        return provider in self._stored()

    def key(self, provider: str) -> str | None:
        """Return the stored key; one in the keyring only after `fetch`.

        :raises ConfigError: see `has_key`.
        """
        stored = self._stored().get(provider)
        return None if stored is None else stored.key or self._fetched.get(provider)

    def at_hand(self) -> tuple[str, ...]:
        """Return the keys that this process has met, those in routes' headers among them. Touches nothing."""
        stored = (each.key for each in self._known[1].values())
        headers = (item for route in self._routes.values() if route for item in route.headers.items())
        routed = (value.split(" ")[-1] for name, value in headers if is_secret_name(name))
        return tuple(filter(None, (*stored, *self._fetched.values(), *routed)))

    async def fetch(self, provider: str) -> None:
        """Read a key from the keyring, where it is there. Asks it once, and for `patience` seconds at most.

        :raises ConfigError: see `has_key`.
        """
        stored = self._stored().get(provider)
        if stored is None or stored.key is not None or provider in self._fetched:
            return
        with anyio.move_on_after(self._patience):
            key = await to_thread.run_sync(self._keys.from_keyring, provider, abandon_on_cancel=True)
            if key is not None:
                self._fetched[provider] = key
            return
        _log.warning("the keyring did not give the key of %s within %.0f s", provider, self._patience)

    async def forget_keys(self) -> tuple[str, ...]:
        """Remove all stored keys, for every process, and return whose there were.

        :raises ConfigError: see `KeyStore.remove`; or the keyring does not answer, which may still remove them later.
        """
        self._fetched.clear()
        with anyio.move_on_after(self._patience):
            return await to_thread.run_sync(self._keys.remove, abandon_on_cancel=True)
        raise ConfigError(
            f"the system's keyring has not answered for {self._patience:.0f} s, so that no key is removed yet; unlock"
            " it, and log out again",
            source=str(self._keys.path),
        )

    def route(self, provider: str) -> Route | None:
        """Return where the editor wants a provider's requests to be sent; None where it has not said."""
        return self._routes.get(provider)

    def is_disabled(self, provider: str) -> bool:
        """Return whether the editor has turned a provider off."""
        return provider in self._routes and self._routes[provider] is None

    def set_route(self, provider: str, route: Route | None) -> None:
        """Send a provider's requests there from now on, those of open sessions as well.

        :param route: None turns it off.
        """
        self._routes[provider] = route
        self._changes += 1

    def _stored(self) -> Mapping[str, StoredKey]:
        signature = self._keys.signature()
        if signature != self._known[0]:
            self._fetched.clear()
            self._known = (signature, self._keys.read() if signature else {})
        return self._known[1]
