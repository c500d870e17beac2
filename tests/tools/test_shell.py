"""The `shell` and `plan` tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import pytest

from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.messages import JsonValue
from acp_agent.errors import ToolError
from acp_agent.tools.command_lines import program_of
from acp_agent.tools.environment import CommandResult, Environment
from acp_agent.tools.shell import OUTPUT_LIMIT, subject_of
from acp_agent.tools.tool import OutputArrived, TerminalStarted
from support.workspace import Workspace


async def refusal(workspace: Workspace, tool: str, **arguments: JsonValue) -> str:
    with pytest.raises(ToolError) as caught:
        await workspace.call(tool, **arguments)
    return str(caught.value)


async def test_a_result_states_both_streams_and_the_exit_status(workspace: Workspace) -> None:
    outcome = await workspace.call("shell", command="echo out; echo err >&2; exit 2")
    assert outcome.parts[0].text == "exit status: 2\nstdout:\nout\nstderr:\nerr"  # type: ignore[union-attr]
    assert outcome.view.raw_output == {"stdout": "out\n", "stderr": "err\n", "exitCode": 2}
    assert outcome.is_error
    assert await workspace.text("shell", command="true") == "exit status: 0\nstdout: (empty)\nstderr: (empty)"


async def test_output_is_reported_as_it_comes(workspace: Workspace) -> None:
    await workspace.call("shell", command=r"printf 'a\033[1mb'")
    assert workspace.progress == [OutputArrived("ab")]


async def test_signals_and_time_limits_are_told_from_exit_codes(workspace: Workspace) -> None:
    assert (await workspace.text("shell", command="kill -TERM $$")).startswith("exit status: none, ended by SIGTERM")
    assert (await workspace.text("shell", command="sleep 50", timeout=0.1)).startswith(
        "exit status: none, stopped after the time limit of 0.1 seconds"
    )


async def test_a_command_runs_in_a_directory_of_the_session(workspace: Workspace) -> None:
    workspace.file("sub/x")
    assert "stdout:\nx\n" in await workspace.text("shell", command="ls", cwd="sub")
    assert "does not exist" in await refusal(workspace, "shell", command="ls", cwd="absent")
    assert "is a file" in await refusal(workspace, "shell", command="ls", cwd="sub/x")


async def test_a_directory_outside_is_shown_and_asked_for_whatever_links_lead_there(workspace: Workspace) -> None:
    (workspace.root / "link").symlink_to(workspace.root.parent)
    inside = await workspace.prepare("shell", command="ls")
    for cwd in ("..", "link"):
        prepared = await workspace.prepare("shell", command="ls", cwd=cwd)
        assert prepared.access.outside == (workspace.root.parent,)
        assert prepared.view.title == f"ls (in {workspace.root.parent})"
        # "Always" for one says nothing about the other, also where the directory looks like a word of the command.
        assert prepared.access.subject != inside.access.subject
        [part] = (await workspace.run(prepared)).parts
        assert "stdout:\nproject\n" in part.text  # type: ignore[union-attr]
    # What is not there is only told of once it was allowed to look.
    absent = await workspace.prepare("shell", command="ls", cwd="../absent")
    with pytest.raises(ToolError, match="does not exist"):
        await workspace.run(absent)


async def test_a_directory_that_became_a_link_out_of_the_project_meanwhile_is_not_used(workspace: Workspace) -> None:
    workspace.file("sub/x")
    prepared = await workspace.prepare("shell", command="touch made", cwd="sub")
    (workspace.root / "sub").rename(workspace.root / "moved")
    (workspace.root / "sub").symlink_to(workspace.root.parent)
    with pytest.raises(ToolError, match="leads somewhere else"):
        await workspace.run(prepared)
    assert not (workspace.root.parent / "made").exists()


async def test_the_title_is_the_first_line(workspace: Workspace) -> None:
    prepared = await workspace.prepare("shell", command="\necho 1\necho 2")
    assert (prepared.view.title, prepared.view.kind) == ("echo 1 …", "execute")
    assert (prepared.access.effect, prepared.access.subject) == ("execute", "shell: echo 1\necho 2")


@pytest.mark.parametrize("command", ["", "  ", "a\0b", "x" * 200_000])
async def test_a_command_that_cannot_be_meant_is_refused(workspace: Workspace, command: str) -> None:
    assert (await refusal(workspace, "shell", command=command)).startswith("shell: ")


class EditorTerminal:
    """An editor's terminal: it shows the output itself, both streams in one."""

    async def run(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        on_start: Callable[[str], Awaitable[None]],
        on_output: Callable[[str], Awaitable[None]],
        *,
        exclude: Collection[str] = (),
    ) -> CommandResult:
        await on_start("terminal-1")
        return CommandResult(f"{command}\r\n\x1b[1m" + "x" * 100_000, "", 0, merged=True)


async def test_an_editors_terminal_is_reported_and_its_output_made_readable(workspace: Workspace) -> None:
    workspace.environment = Environment(
        workspace.root, (workspace.root,), workspace.environment.files, EditorTerminal(), workspace.seen
    )
    outcome = await workspace.call("shell", command="make")
    text = outcome.parts[0].text  # type: ignore[union-attr]
    assert workspace.progress == [TerminalStarted("terminal-1")]
    assert text.startswith("exit status: 0\noutput (stdout and stderr together):\nmake\nxxx")
    assert list(outcome.view.raw_output) == ["output", "exitCode"]  # type: ignore[arg-type]
    assert "characters cut …]" in text
    assert len(text) < OUTPUT_LIMIT + 100


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("git status", "git"),
        ("  git commit -m 'fix; a & b | c > d'", "git"),
        ('git commit -m "one (two)"', "git"),
        ("./run.sh --fast", "./run.sh"),
        ("python3.11 -m pytest", "python3.11"),
        ("git status; rm -rf /", None),
        ("git status&& rm -rf /", None),
        ("git log|sh", None),
        ("git log & rm x", None),
        ("git log > /etc/passwd", None),
        ("git log >/etc/passwd", None),
        ("git log 2>&1", None),
        ("cat <(rm x)", None),
        ("git $(rm x)", None),
        ('git "$(rm x)"', None),
        ("git `rm x`", None),
        ('git "`rm x`"', None),
        ("git status\nrm x", None),
        ("git log # x", None),
        ("git log --grep '# x' --author=a#b", "git"),
        ("git status\rrm x", None),
        ("git log $'\\'' ; rm x #'", None),
        ("git log \\' ; rm x", None),
        ("git log 'unfinished", None),
        ("(rm x)", None),
        ("{ rm x", None),
        ("FOO=1 git status", None),
        ("$TOOL x", None),
        ("sudo rm x", None),
        ("/usr/bin/env rm x", None),
        ("bash -c 'rm x'", None),
        ("xargs rm", None),
        ("'rm x' y", None),
        ("g* x", None),
        ("foo:bar x", None),
        ("", None),
    ],
)
def test_the_program_of_a_command_line_is_known_only_where_nothing_else_can_run(
    command: str, program: str | None
) -> None:
    assert program_of(command) == program
    if program is None:
        assert subject_of(command) == f"shell: {command.strip()}"


async def test_a_plan_replaces_the_plan(workspace: Workspace) -> None:
    prepared = await workspace.prepare(
        "plan", entries=[{"content": "look", "status": "completed"}, {"content": "do", "priority": "high"}]
    )
    assert (prepared.access.effect, prepared.view.kind) == ("none", "think")
    outcome = await workspace.run(prepared)
    assert outcome.plan == (PlanEntry("look", "completed"), PlanEntry("do", "pending", "high"))
    assert outcome.parts[0].text == "The plan has 2 steps, 1 completed."  # type: ignore[union-attr]
    dropped = await workspace.call("plan", entries=[{"content": "look", "status": "cancelled"}])
    assert dropped.plan == (PlanEntry("look", "cancelled"),)
    assert dropped.parts[0].text == "The plan has 1 step, 0 completed, 1 cancelled."  # type: ignore[union-attr]
    assert (await workspace.call("plan", entries=[])).plan == ()
    assert "should be 'pending'" in await refusal(workspace, "plan", entries=[{"content": "x", "status": "done"}])
