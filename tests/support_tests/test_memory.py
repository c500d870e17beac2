"""An agent in the process of the tests: what it leaves behind, which is nothing."""

from __future__ import annotations

import os
from pathlib import Path

from acp_agent.secrets.known import remember_secret, secrets_of
from support.called import process_state
from support.editors import BARE
from support.memory import stage
from support.replies import Reply, ToolCall


async def test_its_environment_is_what_it_is_given_and_its_commands_inherit_that_alone(
    tmp_path: Path,
) -> None:
    before = dict(os.environ)
    call = ToolCall("shell", {"command": "echo $HOME $WORD"})
    replies = [Reply(tool_calls=[call]), Reply("Done.")]
    async with stage(
        tmp_path, *replies, mode="full-access", editor=BARE, env={"WORD": "own"}
    ) as it:
        await it.prompt()
        assert f"{it.home} own" in str(it.server.calls[1].body)
    assert dict(os.environ) == before


async def test_what_a_hook_prints_is_not_on_the_wire_and_what_it_writes_to_stderr_is_the_agents(
    tmp_path: Path,
) -> None:
    hook = (
        "import sys\nfrom acp_agent.hooks import hook\n@hook('user_message_send')\ndef loud(event, services):\n"
        "    print('printed')\n    print('said', file=sys.stderr)\n"
    )
    async with stage(
        tmp_path, Reply("Done."), files={".acp-agent/hooks/loud.py": hook}, trusted=True
    ) as it:
        await it.prompt()
        assert await it.agent.until(lambda: it.agent.stderr) == "said\n"


def test_what_a_process_has_met_is_unknown_to_the_next(tmp_path: Path) -> None:
    before = secrets_of({})
    with process_state({"HOME": str(tmp_path)}, tmp_path):
        remember_secret("very-secret")
        assert (secrets_of({}), Path.cwd(), os.environ["HOME"]) == (
            ["very-secret"],
            tmp_path,
            str(tmp_path),
        )
    assert secrets_of({}) == before
    assert Path.cwd() != tmp_path
