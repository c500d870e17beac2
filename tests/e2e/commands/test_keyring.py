"""The system's keyring, in processes: the agent has its keys."""

from __future__ import annotations

from pathlib import Path

from support.checkout import REPOSITORY
from support.client import connected_agent
from support.models import KEY, Reply, base_urls, model_server
from support.stage import PATIENCE
from support.terminal import run_command

KEYRING = '''
"""Stands in for the package `keyring`, with one file in place of the system's service."""
import json, os, pathlib
_FILE = pathlib.Path(os.environ["KEYRING_FILE"])
class Backend:
    priority = 5
def get_keyring():
    return Backend()
def _read():
    return json.loads(_FILE.read_text()) if _FILE.exists() else {}
def get_password(service, user):
    return _read().get(f"{service}/{user}")
def set_password(service, user, password):
    _FILE.write_text(json.dumps(_read() | {f"{service}/{user}": password}))
def delete_password(service, user):
    held = _read()
    del held[f"{service}/{user}"]
    _FILE.write_text(json.dumps(held))
'''


def keyring(home: Path) -> dict[str, str]:
    """Variables with which the agent finds a package `keyring`."""
    folder = home / "packages"
    folder.mkdir()
    (folder / "keyring.py").write_text(KEYRING)
    return {"PYTHONPATH": f"{REPOSITORY}:{folder}", "KEYRING_FILE": str(home / "keyring.json")}


async def test_the_agent_uses_a_key_of_the_keyring_and_asks_it_for_none_that_the_environment_has(
    tmp_path: Path,
) -> None:
    packages = keyring(tmp_path)
    async with model_server([Reply("Hi."), Reply("Hi.")], "openai") as server:
        env = {**base_urls(server.env()), **packages}
        ran = await run_command(tmp_path, "login", "openai", env=env, stdin=KEY)
        assert ran.out == "The key for openai is stored in the system's keyring.\n"
        async with connected_agent(home=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello", PATIENCE) == {"stopReason": "end_turn"}
        (tmp_path / "keyring.json").write_text("what is asked breaks")
        async with connected_agent(home=tmp_path, env={**server.env(), **packages}) as agent:
            session = await agent.new_session(tmp_path)
            assert await agent.prompt(session, "Hello", PATIENCE) == {"stopReason": "end_turn"}
        assert "keyring" not in (tmp_path / "state" / "logs" / "acp-agent.log").read_text()
