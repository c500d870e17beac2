"""The end of the process where there is no wire, or while something is still being loaded in the background."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio

from support.called import call_command
from support.checkout import environment
from support.client import ROOT, connected_agent
from support.slow_modules import begun, hanging


async def test_an_interrupt_while_the_agent_is_still_being_loaded_ends_it_without_a_word(tmp_path: Path) -> None:
    slow = hanging(tmp_path, "acp_agent.app")
    env = {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
    async with connected_agent(home=tmp_path / "home", env=env) as agent:
        await begun(slow)
        agent.process.send_signal(signal.SIGINT)
        assert await agent.wait_exit() == 0
        assert agent.stderr == ""


INTERRUPTED = r"acp-agent: interrupted\.\n"


async def test_an_interrupt_while_a_command_is_being_loaded_ends_it_without_a_traceback(tmp_path: Path) -> None:
    slow = hanging(tmp_path, "openai")
    env = environment(tmp_path) | {"PYTHONPATH": f"{slow}{os.pathsep}{ROOT}"}
    env |= {"OPENAI_API_KEY": "key", "ACP_AGENT_MODEL": "openai/gpt-5.2"}
    line = [sys.executable, "-m", "acp_agent", "run", "Hi."]
    with anyio.fail_after(30):
        async with await anyio.open_process(line, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL) as process:
            try:
                await begun(slow)
                process.send_signal(signal.SIGINT)
                assert await process.wait() == 128 + signal.SIGINT
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
            assert process.stderr is not None
            said = b"".join([chunk async for chunk in process.stderr]).decode()
    found = re.fullmatch(rf"(sess_\w+): 0 → 1 messages, .* \(cancelled\)\n{INTERRUPTED}", said)
    assert found is not None
    assert found[1] in (await call_command(tmp_path, "sessions")).out


def test_what_cannot_be_a_wire_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -P -m acp_agent </dev/null >&-', sys.executable],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("acp-agent: cannot speak on stdin and stdout: ")
    assert "started without a stdout" in line
