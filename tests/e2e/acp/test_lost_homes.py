"""A home that cannot be written, as a backup or a container's may be, and one that is
deleted while the agent runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.client import connected_agent
from support.lines import AgentError
from support.memory import stage
from support.models import Reply


@pytest.mark.process
async def test_sessions_in_a_home_that_cannot_be_written_are_listed_and_loaded(
    tmp_path: Path,
) -> None:
    if subprocess.run(
        ["unshare", "-rm", "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("no user namespaces")
    async with stage(tmp_path, Reply("It adds the prices."), dialect="anthropic") as it:
        await it.prompt("What does total() do?")
    state = it.home / "state"
    (it.folder / "AGENTS.md").write_text("Be brief.\n")  # would be noted in the log
    mount = f"mount --bind {state} {state} && mount -o remount,bind,ro {state}"
    argv = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        f'{mount} && exec "$0" -m acp_agent',
        sys.executable,
    ]
    async with connected_agent(home=it.home, argv=argv) as agent:
        (listed,) = (await agent.request("session/list", {}))["sessions"]
        assert listed["sessionId"] == it.session
        await agent.load(it.session, it.folder)
        assert "It adds the prices." in agent.text()
        with pytest.raises(
            AgentError, match="is read-only: its sessions can be listed and read"
        ):
            await agent.prompt(it.session, "And now?", 30)
        with pytest.raises(AgentError, match="is read-only"):
            await agent.new_session(it.folder)


async def test_an_agent_whose_store_is_deleted_answers_no_prompt_and_says_why(
    tmp_path: Path,
) -> None:
    async with stage(
        tmp_path, Reply("It adds the prices."), Reply("Lost."), dialect="anthropic"
    ) as it:
        await it.prompt("What does total() do?")
        shutil.rmtree(it.home / "state")
        for _ in range(2):
            with pytest.raises(
                AgentError,
                match=r"cannot be found .*Nothing was written. Put the file back",
            ):
                await it.prompt("And now?")
        with pytest.raises(AgentError, match="cannot be found"):
            await it.agent.new_session(it.folder)
        assert len(it.server.calls) == 1
