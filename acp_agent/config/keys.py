"""`KeyStore`: stores the keys that `acp-agent login` gets, in the system's keyring or
in a file.

A small file in the agent's home (mode 0600) lists the providers that have a key. If the
package `keyring` is installed and has a secure backend, the keys themselves are in the
keyring; otherwise they are in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from acp_agent.config.home import KEYS_FILE
from acp_agent.config.state_file import StateFile, file_signature
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen

_SERVICE = "acp-agent"
"""The service name for keys in the keyring."""
_IN_KEYRING = {"in": "keyring"}
_SAFE = 1.0
"""The minimum priority of a recommended keyring backend. Other backends store keys
unencrypted, or not at all.
"""

_log = logging.getLogger(__name__)


@frozen
class StoredKey:
    """An entry of the file of keys.

    :ivar key: the key; None if it is in the keyring.
    """

    key: str | None = field(default=None, repr=False)


class KeyStore:
    """The stored keys of one home. The keyring may ask the user to unlock it, so call
    methods that use the keyring in a thread that can be abandoned.

    :param home: the folder of all state.
    """

    def __init__(self, home: Path) -> None:
        advice = "the stored keys cannot be used; remove the file, and store the keys again with `acp-agent login`"
        self._file = StateFile(home / KEYS_FILE, "providers", advice)
        self._home = home
        self.path = self._file.path

    def read(self) -> Mapping[str, StoredKey]:
        """Return the keys by provider, without using the keyring.

        :raises ConfigError: if the file is invalid.
        """
        return {
            name: StoredKey(entry.get("key"))
            for name, entry in self._file.read().items()
        }

    def signature(self) -> tuple[int, ...]:
        """Return a value that changes when a key is stored or removed. This does not
        read the file.
        """
        return file_signature(self.path)

    def from_keyring(self, provider: str) -> str | None:
        """Return a key from the keyring, or None if the keyring is unavailable or has
        no such key. Uses the keyring.
        """
        with _logged(f"reading the key of {provider}"):
            return (
                keyring.get_password(_SERVICE, self._account(provider))
                if (keyring := _keyring())
                else None
            )
        return None

    def store(self, provider: str, key: str) -> str:
        """Store a key, replacing an existing one. Uses the keyring.

        :returns: a description of where it is stored.
        :raises ConfigError: see `read`; also if the file cannot be written.
        """
        self.read()  # if the file is invalid, fail before a key goes into the keyring
        keyring = _keyring()
        in_keyring = False
        if keyring is not None:
            with _logged(f"storing the key of {provider}"):
                keyring.set_password(_SERVICE, self._account(provider), key)
                in_keyring = (
                    keyring.get_password(_SERVICE, self._account(provider)) == key
                )
        with self._file.update() as stored:
            stored[provider] = _IN_KEYRING if in_keyring else {"key": key}
        return "the system's keyring" if in_keyring else str(self.path)

    def remove(self, providers: Iterable[str] | None = None) -> tuple[str, ...]:
        """Remove keys. Uses the keyring.

        :param providers: the providers whose keys to remove; None for all.
        :returns: the providers that had a key.
        :raises ConfigError: see `store`; also if the keyring does not remove a key. The
            file then still lists this key.
        """
        before = {
            name: key
            for name, key in self.read().items()
            if providers is None or name in providers
        }
        if not before:
            return ()
        kept: list[str] = []
        for name, key in before.items():
            if not self._removed_from_keyring(name) and (
                key.key is None or self.from_keyring(name) is not None
            ):
                kept.append(name)
        with self._file.update() as stored:
            for name in before:
                stored.pop(name, None)
            stored.update(dict.fromkeys(kept, _IN_KEYRING))
        if kept:
            raise ConfigError(
                f"the system's keyring did not remove the key of {', '.join(kept)}; unlock the keyring and try again, "
                "or remove the key there",
                source=str(self.path),
            )
        return tuple(before)

    def _removed_from_keyring(self, provider: str) -> bool:
        """Remove a key from the keyring, and return whether it is gone."""
        keyring = _keyring()
        account = self._account(provider)
        if keyring is not None:
            with _logged(f"removing the key of {provider}"):
                if keyring.get_password(_SERVICE, account) is not None:
                    keyring.delete_password(_SERVICE, account)
                return True
        return False

    def _account(self, provider: str) -> str:
        return f"{provider} ({self._home})"  # each home has its own keys


def _keyring() -> Any | None:
    """Return the optional package `keyring`, or None if it is not installed or has no
    secure backend.
    """
    if find_spec("keyring") is not None:
        with _logged("starting"):
            keyring: Any = import_module("keyring")
            return (
                keyring
                if getattr(keyring.get_keyring(), "priority", 0) >= _SAFE
                else None
            )
    return None


@contextmanager
def _logged(what: str) -> Generator[None]:
    """Suppress errors of the keyring and log their types. Backends raise their own
    exceptions, and the message of one may contain the key.
    """
    try:
        yield
    except Exception as error:
        _log.warning("the keyring failed while %s: %s", what, type(error).__name__)
