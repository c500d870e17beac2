"""The `shell` and `plan` tools."""

from __future__ import annotations

import pytest

from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import ToolError
from support.workspace import Workspace


async def refusal(workspace: Workspace, tool: str, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call(tool, **arguments)
    return str(caught.value)


async def test_a_result_states_both_streams_and_the_exit_status(
    workspace: Workspace,
) -> None:
    outcome = await workspace.call("shell", command="echo out; echo err >&2; exit 2")
    assert outcome.parts[0].text == "exit status: 2\nstdout:\nout\nstderr:\nerr"  # type: ignore[union-attr]
    assert outcome.view.raw_output == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exitCode": 2,
        "sandboxed": False,
    }
    assert outcome.is_error
    assert (
        await workspace.text("shell", command="true")
        == "exit status: 0\nstdout: (empty)\nstderr: (empty)"
    )


async def test_signals_and_time_limits_are_distinguished_from_exit_codes(
    workspace: Workspace,
) -> None:
    assert (await workspace.text("shell", command="kill -TERM $$")).startswith(
        "exit status: none, ended by SIGTERM"
    )
    assert (await workspace.text("shell", command="sleep 50", timeout=0.1)).startswith(
        "exit status: none, stopped after the time limit of 0.1 seconds"
    )


async def test_a_command_runs_in_a_directory_of_the_session(
    workspace: Workspace,
) -> None:
    workspace.file("sub/x")
    assert "stdout:\nx\n" in await workspace.text("shell", command="ls", cwd="sub")
    assert "no such file" in await refusal(
        workspace, "shell", command="ls", cwd="absent"
    )


async def test_a_directory_outside_needs_permission_even_through_links(
    workspace: Workspace,
) -> None:
    (workspace.root / "link").symlink_to(workspace.root.parent)
    inside = await workspace.prepare("shell", command="ls")
    for cwd in ("..", "link"):
        prepared = await workspace.prepare("shell", command="ls", cwd=cwd)
        assert prepared.access.outside == (workspace.root.parent,)
        assert prepared.view.title == f"ls (in {workspace.root.parent})"
        # "Always" for one says nothing about the other, also where the directory looks
        # like a word of the command.
        assert prepared.access.subject != inside.access.subject
        [part] = (await workspace.run(prepared)).parts
        assert "stdout:\nproject\n" in part.text  # type: ignore[union-attr]


@pytest.mark.parametrize("command", ["", "  ", "a\0b", "x" * 200_000])
async def test_an_empty_or_invalid_command_is_refused(
    workspace: Workspace, command: str
) -> None:
    assert (await refusal(workspace, "shell", command=command)).startswith("shell: ")


async def test_a_new_plan_replaces_the_old_one(workspace: Workspace) -> None:
    prepared = await workspace.prepare(
        "plan",
        entries=[
            {"content": "look", "status": "completed"},
            {"content": "do", "priority": "high"},
        ],
    )
    assert (prepared.access.effect, prepared.view.kind) == ("none", "think")
    outcome = await workspace.run(prepared)
    assert outcome.plan == (
        PlanEntry("look", "completed"),
        PlanEntry("do", "pending", "high"),
    )
    assert outcome.parts[0].text == "The plan has 2 steps."  # type: ignore[union-attr]
    dropped = await workspace.call(
        "plan", entries=[{"content": "look", "status": "cancelled"}]
    )
    assert dropped.plan == (PlanEntry("look", "cancelled"),)
    assert (await workspace.call("plan", entries=[])).plan == ()
    assert "should be 'pending'" in await refusal(
        workspace, "plan", entries=[{"content": "x", "status": "done"}]
    )
