"""The end of the process while something is still being loaded in the background."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from startup.slow_modules import begun, growing, hanging
from support.client import ROOT, AgentProcess, connected_agent
from support.editors import BARE
from support.models import Reply, model_server
from support.remote import serving
from support.stage import PATIENCE
from support.terminal import run_command

SLOW = """
import pathlib, threading

pathlib.Path(__file__).with_name("began").write_text("yes")
threading.Event().wait()
"""
LEAVING = """
from pathlib import Path

from acp_agent.hooks import hook


@hook("session_end")
def leave(event, services):
    import colorsys

    assert colorsys
    Path(__file__).with_name("left").write_text(event.reason)
"""
STRATEGIES = "acp_agent.compaction.strategies.summary"
MODULES = {"recipes": "yaml", "the params of a prompt": "pydantic.alias_generators", "an SDK's ground": "httpx2"}


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
async def test_the_end_does_not_wait_for_a_module_that_is_being_loaded(tmp_path: Path, module: str) -> None:
    """The module takes for ever, as on a disk that does not answer."""
    slow = hanging(tmp_path, module)
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "ANTHROPIC_API_KEY": "key"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        await agent.new_session(tmp_path)
        await begun(slow)
        await agent.close_stdin()
        assert await agent.wait_exit() == 0


GROW = {"recipes": "yaml", "an SDK's ground": "httpx2", "an SDK": "openai", "strategies": STRATEGIES}


@pytest.mark.parametrize("scheme", ["stdio", "ws"])
@pytest.mark.parametrize("module", GROW.values(), ids=GROW)
async def test_what_is_loaded_while_the_agent_ends_is_given_up_without_a_word(
    tmp_path: Path, module: str, scheme: str
) -> None:
    slow = growing(tmp_path, module)
    home = tmp_path / "home"

    async def talk(agent: AgentProcess, end: Callable[[], Awaitable[None]]) -> None:
        session = await agent.new_session(tmp_path)
        if module in (STRATEGIES, "openai"):
            await agent.start_prompt(session, "Hello")
        await begun(slow)
        await end()
        await agent.wait_exit()
        agent.problems.clear()

    async with model_server([Reply("Hi.")] * 2, "openai") as server:
        env = {**server.env(), "PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
        if scheme == "stdio":
            async with connected_agent(home=home, env=env, laws=False) as agent:
                await talk(agent, agent.close_stdin)
        else:
            editor: dict[str, Any] = {"home": tmp_path / "editor", "laws": False, "capabilities": BARE}
            async with serving(home, env=env) as served:

                async def end() -> None:
                    served.terminate()

                async with connected_agent(argv=served.argv(scheme), **editor) as agent:
                    await talk(agent, end)
    for log in (home / "state" / "logs").iterdir():
        assert "not loaded" not in log.read_text()


async def test_a_hook_can_import_what_was_never_needed_before_when_the_agent_ends(tmp_path: Path) -> None:
    hooks = tmp_path / "home" / "state" / "hooks"
    hooks.mkdir(parents=True, mode=0o700)
    hooks.parent.chmod(0o700)
    (hooks / "leaving.py").write_text(LEAVING)
    async with (
        model_server([Reply("Hi.")], "openai") as server,
        connected_agent(home=tmp_path / "home", env=server.env()) as agent,
    ):
        await agent.prompt(await agent.new_session(tmp_path), "Hello", PATIENCE)
        await agent.close_stdin()
        assert await agent.wait_exit() == 0
    assert (hooks / "left").read_text() == "exit"


async def test_an_interrupt_while_the_agent_is_still_being_loaded_ends_it_without_a_word(tmp_path: Path) -> None:
    slow = hanging(tmp_path, "acp_agent.app")
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        await begun(slow)
        agent.process.send_signal(signal.SIGINT)
        assert await agent.wait_exit() == 0
        assert agent.stderr == ""


INTERRUPTED = r"acp-agent: interrupted\.\n"
ENDS = {
    "the command line": ("acp_agent.cli", 128 + signal.SIGINT, ""),
    "the command": ("acp_agent.commands.run", 128 + signal.SIGINT, ""),
    # From here on it listens; a session in which no model was asked is removed.
    "recipes": ("yaml", 128 + signal.SIGINT, INTERRUPTED),
    "an SDK": ("openai", 128 + signal.SIGINT, rf"(sess_\w+): 0 → 1 messages, .* \(cancelled\)\n{INTERRUPTED}"),
}


@pytest.mark.parametrize("part", ENDS)
async def test_an_interrupt_while_a_command_is_being_loaded_ends_it_without_a_traceback(
    tmp_path: Path, part: str
) -> None:
    module, code, said = ENDS[part]
    if "." in module:
        slow = hanging(tmp_path, module)
    else:  # found at once, so that other modules can be
        slow = hanging(tmp_path, "nothing")
        (slow / f"{module}.py").write_text(SLOW)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ACP_AGENT_HOME": str(tmp_path / "state")}
    env |= {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}", "OPENAI_API_KEY": "key", "ACP_AGENT_MODEL": "openai/gpt-5.2"}
    prompt = "/explain it" if part == "recipes" else "Hi."
    line = [sys.executable, "-m", "acp_agent", "run", prompt]
    with anyio.fail_after(30):
        async with await anyio.open_process(line, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL) as process:
            try:
                await begun(slow)
                process.send_signal(signal.SIGINT)
                assert await process.wait() == code
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
            assert process.stderr is not None
            found = re.fullmatch(said, b"".join([chunk async for chunk in process.stderr]).decode())
    assert found is not None
    listed = (await run_command(tmp_path, "sessions")).out
    assert found[1] in listed if found.groups() else not listed
