"""`KeyStore`: the providers' keys that `acp-agent login` was given, in the system's keyring or in a file.

One small file of the agent's home (mode 0600) says which providers have one. Where the package `keyring` is installed
and has a safe place, the key itself is there; otherwise it is in the file. Knows neither providers nor what keys open.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import Literal, Protocol, cast

from acp_agent.config.home import KEYS_FILE
from acp_agent.config.state_file import StateFile
from acp_agent.errors import ConfigError
from acp_agent.frozen import frozen

SERVICE = "acp-agent"
"""What the keyring has the keys under."""
_VERSION = 1
_SAFE = 1.0
"""The least priority of a backend that keyring itself recommends; the others keep keys in the open, or not at all."""

_log = logging.getLogger(__name__)


@frozen
class StoredKey:
    """:ivar key: None where the keyring has it.
    :ivar in_keyring: whether the keyring has one, be it an older one that it did not let go of.
    """

    key: str | None = field(default=None, repr=False)
    in_keyring: bool = True


class _Keyring(Protocol):
    """What is used of the package `keyring`."""

    def get_keyring(self) -> object: ...

    def get_password(self, service_name: str, username: str) -> str | None: ...

    def set_password(self, service_name: str, username: str, password: str) -> None: ...

    def delete_password(self, service_name: str, username: str) -> None: ...


class KeyStore:
    """:param home: the folder of all state."""

    def __init__(self, home: Path) -> None:
        advice = "the stored keys cannot be used; remove the file, and store them anew with `acp-agent login`"
        self._file = StateFile(home / KEYS_FILE, _VERSION, _loaded, _dumped, advice)
        self._home = home
        self.path = self._file.path

    def read(self) -> Mapping[str, StoredKey]:
        """What is stored, by provider; asks no keyring.

        :raises ConfigError: the file cannot be understood.
        """
        return self._file.read()

    def signature(self) -> tuple[int, ...]:
        """What is another one when a key was stored or removed. Touches the disk, but little."""
        return self._file.signature()

    def from_keyring(self, provider: str) -> str | None:
        """A key that the keyring has; None where it does not give it. It may ask the user: run this in a thread."""
        keyring = _keyring()
        if keyring is None:
            return None
        try:
            return keyring.get_password(SERVICE, self._account(provider))
        except Exception as error:  # each backend has its own
            _log.warning("the keyring does not give the key of %s: %s", provider, type(error).__name__)
            return None

    def store(self, provider: str, key: str) -> str:
        """Keep a key in place of the one there was. The keyring may ask the user: run this in a thread, which may be
        abandoned.

        :returns: where it is kept, in words, and what became of the one before it where that could not be removed.
        :raises ConfigError: see `read`; or the file cannot be written.
        """
        before = self.read().get(provider)
        # Nothing is locked meanwhile: somebody may have to be found who unlocks the keyring.
        taken = self._into_keyring(provider, key)
        in_keyring = taken == "kept"
        suspected = taken == "unsure" or (before is not None and before.in_keyring)
        left = not in_keyring and not self._out_of_keyring(provider) and suspected
        with self._file.changing() as stored:
            stored[provider] = StoredKey(None if in_keyring else key, in_keyring or left)
        if in_keyring:
            return "the system's keyring"
        return (
            f"{self.path}; one is left in the system's keyring, which does not let go of it" if left else f"{self.path}"
        )

    def remove(self, providers: Iterable[str] | None = None) -> tuple[str, ...]:
        """Forget keys. The keyring may ask the user: run this in a thread, which may be abandoned.

        :param providers: whose; None for all.
        :returns: whose there were.
        :raises ConfigError: see `store`; or the keyring does not let go of one, which stays there.
        """
        before = self.read()
        asked = [each for each in before if providers is None or each in providers]
        if not asked:
            return ()
        kept = [each for each in asked if before[each].in_keyring and not self._out_of_keyring(each)]
        with self._file.changing() as stored:
            for provider in asked:
                if provider in kept:
                    stored[provider] = StoredKey()
                else:
                    stored.pop(provider, None)
        if kept:
            raise ConfigError(
                f"the system's keyring does not let go of the key for {', '.join(kept)}; unlock it, or remove it there",
                source=str(self.path),
            )
        return tuple(asked)

    def _into_keyring(self, provider: str, key: str) -> Literal["kept", "refused", "unsure"]:
        keyring = _keyring()
        if keyring is None:
            return "refused"
        taken: Literal["refused", "unsure"] = "refused"
        try:
            account = self._account(provider)
            keyring.set_password(SERVICE, account, key)
            taken = "unsure"
            return "kept" if keyring.get_password(SERVICE, account) == key else taken
        except Exception as error:
            _log.warning("the keyring does not take the key of %s: %s", provider, type(error).__name__)
            return taken

    def _out_of_keyring(self, provider: str) -> bool:
        keyring = _keyring()
        if keyring is None:
            return False
        try:
            account = self._account(provider)
            if keyring.get_password(SERVICE, account) is not None:
                keyring.delete_password(SERVICE, account)
        except Exception as error:
            _log.warning("the keyring does not let go of the key of %s: %s", provider, type(error).__name__)
            return False
        return True

    def _account(self, provider: str) -> str:
        return f"{provider} ({self._home})"  # another home has keys of its own


def _keyring() -> _Keyring | None:
    """The package, where it is installed and has a place that is safe. An optional dependency: see pyproject.toml."""
    from importlib.util import find_spec

    if find_spec("keyring") is None:
        return None
    try:
        keyring = cast(_Keyring, import_module("keyring"))
        priority: object = getattr(keyring.get_keyring(), "priority", 0)
    except Exception as error:
        _log.warning("the package keyring cannot be used: %s", type(error).__name__)
        return None
    return keyring if isinstance(priority, int | float) and priority >= _SAFE else None


def _loaded(said: dict[str, object]) -> dict[str, StoredKey]:
    providers = said.get("providers", {} if not said else None)
    if not isinstance(providers, dict):
        raise ValueError("it has no `providers`")
    stored: dict[str, StoredKey] = {}
    for name, value in cast("dict[str, object]", providers).items():
        fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        key = fields.get("key")
        if not (isinstance(key, str) and key) and fields.get("in") != "keyring":
            raise ValueError(f"{name} has no key")
        stored[name] = StoredKey(key if isinstance(key, str) else None, fields.get("in") == "keyring")
    return stored


def _dumped(stored: Mapping[str, StoredKey]) -> dict[str, object]:
    return {
        "providers": {
            name: ({} if each.key is None else {"key": each.key}) | ({"in": "keyring"} if each.in_keyring else {})
            for name, each in sorted(stored.items())
        }
    }
