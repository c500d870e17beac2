"""Keys in the system's keyring: who waits for it, and that none stays behind in a second place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

from acp_agent.config.keys import KeyStore
from acp_agent.errors import ConfigError
from acp_agent.llm.credentials import ModelAccess
from support.checkout import REPOSITORY
from support.client import AgentError, connected_agent, start_agent
from support.models import KEY, Reply, base_urls, model_server
from support.stage import PATIENCE
from support.terminal import at_a_terminal, run_command

SECRET = "0123-not-of-a-keys-form"

KEYRING = '''
"""Stands in for the package `keyring`, with one file in place of the system's service."""
import json, os, pathlib
_FILE = pathlib.Path(os.environ["KEYRING_FILE"])
class Backend:
    priority = float(os.environ.get("KEYRING_PRIORITY", "5"))
def get_keyring():
    return Backend()
def _read():
    return json.loads(_FILE.read_text()) if _FILE.exists() else {}
def get_password(service, user):
    return _read().get(f"{service}/{user}")
def _wait():
    if os.environ.get("KEYRING_WAITS"):
        pathlib.Path(os.environ["KEYRING_WAITS"]).open().close()  # until somebody opens the other end of the pipe
def set_password(service, user, password):
    _wait()
    if os.environ.get("KEYRING_LOCKED"):
        raise RuntimeError("locked: " + password)
    _FILE.write_text(json.dumps(_read() | {f"{service}/{user}": password}))
def delete_password(service, user):
    _wait()
    if os.environ.get("KEYRING_LOCKED"):
        raise RuntimeError("locked")
    held = _read()
    del held[f"{service}/{user}"]
    _FILE.write_text(json.dumps(held))
'''


def keyring(home: Path) -> dict[str, str]:
    """Variables with which the agent finds a package `keyring`."""
    folder = home / "packages"
    folder.mkdir(exist_ok=True)
    (folder / "keyring.py").write_text(KEYRING)
    return {"PYTHONPATH": f"{REPOSITORY}:{folder}", "KEYRING_FILE": str(home / "keyring.json")}


async def test_a_keyring_keeps_the_key_where_there_is_one_and_the_file_names_the_provider_alone(tmp_path: Path) -> None:
    packages = keyring(tmp_path)
    async with model_server([Reply("Hi.")], "openai") as server:
        env = {**base_urls(server.env()), **packages}
        ran = await run_command(tmp_path, "login", "openai", env=env, stdin=KEY)
        assert ran.out == "The key for openai is stored in the system's keyring.\n"
        assert KEY not in (tmp_path / "state" / "keys.json").read_text()
        async with connected_agent(home=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello", PATIENCE) == {"stopReason": "end_turn"}
        locked = await run_command(tmp_path, "logout", env={**env, "KEYRING_LOCKED": "1"})
        assert "does not let go of the key for openai" in locked.err
        assert (await run_command(tmp_path, "logout", env=env)).code == 0
        assert json.loads((tmp_path / "keyring.json").read_text()) == {}


async def test_a_key_that_is_in_two_places_is_removed_from_both(tmp_path: Path) -> None:
    env = keyring(tmp_path)
    held = tmp_path / "keyring.json"
    file = tmp_path / "state" / "keys.json"
    assert (await run_command(tmp_path, "login", "openai", "--no-check", env=env, stdin="older")).code == 0
    locked = {**env, "KEYRING_LOCKED": "1"}
    ran = await run_command(tmp_path, "login", "openai", "--no-check", env=locked, stdin=SECRET)
    assert ran.code == 0
    assert "keys.json; one is left in the system's keyring, which does not let go of it.\n" in ran.out
    assert SECRET in file.read_text()
    refused = await run_command(tmp_path, "logout", env=locked)
    assert "does not let go of the key for openai" in refused.err
    assert SECRET not in file.read_text()
    assert (await run_command(tmp_path, "logout", env=env)).out == "The key for openai is removed.\n"
    assert "older" not in held.read_text()

    assert (await run_command(tmp_path, "login", "openai", "--no-check", env=locked, stdin=SECRET)).code == 0
    assert (await run_command(tmp_path, "login", "openai", "--no-check", env=env, stdin="newer")).code == 0
    assert SECRET not in file.read_text()
    assert "newer" in held.read_text()


def waiting_keyring(home: Path) -> dict[str, str]:
    """As `keyring`, of one that waits until it is unlocked."""
    os.mkfifo(home / "pipe")
    return {**keyring(home), "KEYRING_WAITS": str(home / "pipe")}


@pytest.mark.parametrize(("version", "method"), [(1, "logout"), (2, "auth/logout")])
async def test_a_logout_that_waits_for_the_keyring_can_be_taken_back_and_the_agent_ends(
    tmp_path: Path, version: int, method: str
) -> None:
    env = waiting_keyring(tmp_path)
    ran = await run_command(tmp_path, "login", "openai", "--no-check", env={**env, "KEYRING_WAITS": ""}, stdin=SECRET)
    assert ran.code == 0
    async with start_agent(home=tmp_path, env=env, validate=version == 1, laws=version == 1) as agent:
        await agent.request("initialize", {"protocolVersion": version, "info": {"name": "editor", "version": "1"}})
        pending = await agent.start_request(method, {})
        await agent.request("session/list", {})
        await pending.cancel()
        with pytest.raises(AgentError) as error:
            await pending.result()
        assert error.value.code == -32800
        await agent.start_request(method, {})
        await agent.request("session/list", {})
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
    assert (tmp_path / "keyring.json").exists()


async def test_a_keyring_that_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keyring(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.delitem(sys.modules, "keyring", raising=False)
    store = KeyStore(tmp_path)
    assert store.store("openai", SECRET) == "the system's keyring"
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("KEYRING_WAITS", str(tmp_path / "pipe"))
    try:
        with anyio.fail_after(5), pytest.raises(ConfigError, match="keyring has not answered"):
            await ModelAccess(store, patience=0.05).forget_keys()
    finally:
        (tmp_path / "pipe").open("w").close()


async def test_login_and_logout_say_that_they_wait_for_the_keyring_and_hold_up_nobody_else(tmp_path: Path) -> None:
    env = waiting_keyring(tmp_path)
    async with at_a_terminal(tmp_path, "login", "openai", "--no-check", env=env) as person:
        await person.until("(it is not shown): ")
        person.type(f"{SECRET}\n")
        await person.until("Waiting for the system's keyring")
        free = {**env, "KEYRING_WAITS": ""}
        other = await run_command(tmp_path, "login", "google", "--no-check", env=free, stdin=SECRET)
        assert other.code == 0
        (tmp_path / "pipe").open("w").close()
        assert await person.ended() == 0
        assert "is stored in the system's keyring." in person.shown
    async with at_a_terminal(tmp_path, "logout", "google", env=env) as person:
        await person.until("Waiting for the system's keyring")
        person.type("\x03")
        assert await person.ended() == 130


async def test_the_keyring_is_not_asked_for_a_key_that_the_environment_has(tmp_path: Path) -> None:
    async with model_server([Reply("Hi.")], "openai") as server:
        env = {**server.env(), **keyring(tmp_path)}
        assert (await run_command(tmp_path, "login", "openai", env=env, stdin=KEY)).code == 0
        (tmp_path / "keyring.json").write_text("what is asked breaks")
        async with connected_agent(home=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello", PATIENCE) == {"stopReason": "end_turn"}
        assert "keyring" not in (tmp_path / "state" / "logs" / "acp-agent.log").read_text()


@pytest.mark.parametrize("why", [{"KEYRING_PRIORITY": "0.5"}, {"KEYRING_LOCKED": "1"}])
async def test_a_keyring_that_is_not_safe_or_refuses_leaves_the_key_to_the_file(
    tmp_path: Path, why: dict[str, str]
) -> None:
    env = {**keyring(tmp_path), **why}
    ran = await run_command(tmp_path, "login", "openai", "--no-check", env=env, stdin=SECRET)
    assert ran.out.endswith("keys.json.\n")
    assert SECRET not in ran.out + ran.err
    assert SECRET in (tmp_path / "state" / "keys.json").read_text()
