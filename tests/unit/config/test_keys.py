"""Stored keys: each is in the keyring or in the file, and removed keys are removed from
both.
"""

from __future__ import annotations

import json
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import anyio
import pytest

from acp_agent.config.keys import KeyStore
from acp_agent.config.settings import Settings
from acp_agent.errors import ConfigError
from acp_agent.llm.credentials import ModelAccess, Route
from acp_agent.llm.registry import Registry

SECRET = "0123-not-of-a-keys-form"


class Keyring(ModuleType):
    """Stands in for the package `keyring`.

    :ivar held: what it has, by account.
    :ivar locked: nothing of it can be changed.
    :ivar broken: nothing of it can be read either.
    :ivar unlocked: what a removal waits for.
    """

    def __init__(self) -> None:
        super().__init__("keyring")
        self.__spec__ = ModuleSpec("keyring", None)
        self.held: dict[str, str] = {}
        self.priority = 5.0
        self.locked = self.broken = False
        self.unlocked = threading.Event()
        self.unlocked.set()

    def get_keyring(self) -> object:
        return SimpleNamespace(priority=self.priority)

    def get_password(self, service: str, account: str) -> str | None:
        if self.broken:
            raise RuntimeError("broken")
        return self.held.get(account)

    def set_password(self, service: str, account: str, password: str) -> None:
        if self.locked or self.broken:
            raise RuntimeError(f"locked: {password}")
        self.held[account] = password

    def delete_password(self, service: str, account: str) -> None:
        self.unlocked.wait()
        if self.locked:
            raise RuntimeError("locked")
        del self.held[account]


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Keyring:
    package = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", package)
    return package


def test_without_a_keyring_keys_are_in_a_private_file(
    tmp_path: Path,
) -> None:
    store = KeyStore(tmp_path / "home")
    assert store.store("openai", SECRET) == str(store.path)
    assert SECRET not in repr(store.read())
    assert KeyStore(tmp_path / "home").read()["openai"].key == SECRET
    assert store.remove(["anthropic"]) == ()
    assert store.remove() == ("openai",)
    assert store.read() == {}


def test_a_keyring_stores_keys_by_home_and_the_file_only_names_providers(
    tmp_path: Path, keyring: Keyring
) -> None:
    store = KeyStore(tmp_path / "home")
    other = KeyStore(tmp_path / "other")
    assert (
        store.store("openai", SECRET)
        == other.store("openai", "another")
        == "the system's keyring"
    )
    assert json.loads(store.path.read_text())["providers"] == {
        "openai": {"in": "keyring"}
    }
    assert (store.read()["openai"].key, store.from_keyring("openai")) == (None, SECRET)
    assert store.remove() == ("openai",)
    assert [*keyring.held.values()] == ["another"]


@pytest.mark.parametrize("why", ["unsafe", "locked", "broken"])
def test_a_key_is_stored_in_the_file_if_the_keyring_is_insecure_or_fails(
    tmp_path: Path, keyring: Keyring, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    keyring.priority = 0.5 if why == "unsafe" else 5.0
    keyring.locked = why == "locked"
    keyring.broken = why == "broken"
    store = KeyStore(tmp_path)
    assert store.store("openai", SECRET) == str(store.path)
    assert store.read()["openai"].key == SECRET
    assert store.remove() == ("openai",)
    assert SECRET not in caplog.text


def test_a_key_that_is_stored_in_two_places_is_removed_from_both(
    tmp_path: Path, keyring: Keyring
) -> None:
    store = KeyStore(tmp_path)
    store.store("openai", "older")
    keyring.locked = True
    assert store.store("openai", SECRET) == str(store.path)
    with pytest.raises(ConfigError, match="did not remove the key of openai"):
        store.remove()
    assert SECRET not in store.path.read_text()
    keyring.locked = False
    assert store.remove() == ("openai",)
    assert keyring.held == {}

    keyring.locked = True
    store.store("openai", SECRET)
    keyring.locked = False
    assert store.store("openai", "newer") == "the system's keyring"
    assert SECRET not in store.path.read_text()


async def test_waiting_for_a_keyring_that_does_not_answer_has_a_time_limit(
    tmp_path: Path, keyring: Keyring
) -> None:
    store = KeyStore(tmp_path)
    store.store("openai", SECRET)
    keyring.unlocked.clear()
    try:
        with (
            anyio.fail_after(5),
            pytest.raises(ConfigError, match="keyring has not answered"),
        ):
            await ModelAccess(store, patience=0.05).forget_keys()
    finally:
        keyring.unlocked.set()


async def test_a_model_s_endpoint_has_the_current_key_and_route(
    tmp_path: Path, keyring: Keyring
) -> None:
    access = ModelAccess(KeyStore(tmp_path))
    registry = Registry(Settings(home=tmp_path), {}, access)

    def endpoint() -> tuple[str | None, str | None]:
        found = registry.resolve("openai/gpt-6-luna").learned.endpoint
        return found.key, found.base_url

    own = endpoint()[1]
    assert endpoint() == (None, own)
    KeyStore(tmp_path).store("openai", SECRET)  # as another process does
    assert endpoint() == (None, own)
    await registry.unlock("openai/gpt-6-luna")
    assert endpoint() == (SECRET, own)

    keyring.locked = True
    KeyStore(tmp_path).store("openai", "newer")
    assert endpoint() == ("newer", own)
    access.set_route("openai", Route("https://editor.example/v1"))
    assert endpoint() == (None, "https://editor.example/v1")
    access.set_route("openai", None)
    with pytest.raises(ConfigError, match="turned the provider openai off"):
        endpoint()
