"""The home from the first moment on: private, or left as it was."""

from __future__ import annotations

import stat
from pathlib import Path

from support.called import call_command
from support.client import connected_agent


def modes(folder: Path) -> dict[str, int]:
    """Of a folder and all that is in it, by path below it."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


async def test_an_open_home_is_closed_with_its_configuration_before_a_session_is_asked_for(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o755)
    (state / "config.yaml").write_text("mode: plan\n")
    (state / "config.yaml").chmod(0o644)
    async with connected_agent(home=tmp_path) as agent:
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
    found = modes(state)
    assert [found[name] for name in (".", "config.yaml", "logs", "logs/acp-agent.log")] == [0o700, 0o600, 0o700, 0o600]


async def test_in_a_home_that_is_refused_nothing_is_left(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    env = {"ACP_AGENT_HOME": str(shared)}
    ran = await call_command(tmp_path, "run", "Hi.", env=env)
    assert (ran.code, ran.out) == (1, "")
    assert "belongs to the whole system" in ran.err
    assert modes(shared) == {".": 0o1777}
