"""Local process groups."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from acp_agent import processes
from acp_agent.errors import ToolError
from acp_agent.tools.environment import CommandResult, OutputArrived, Progress
from acp_agent.tools.shell.run import MISSING, REPORT_LIMIT, STREAM_LIMIT, LocalCommands
from support.processes import Process, marked, outlive


class Listener:
    """Collects the output that a command reports."""

    def __init__(self) -> None:
        self.output = ""
        self.arrived = anyio.Event()

    async def report(self, progress: Progress) -> None:
        assert isinstance(progress, OutputArrived), "a local command has no terminal"
        assert len(progress.text) <= len(MISSING) + REPORT_LIMIT
        self.output += progress.text
        self.arrived.set()


async def run(
    command: str, cwd: Path, timeout: float = 20, listener: Listener | None = None
) -> CommandResult:
    listener = listener or Listener()
    return await LocalCommands().run(
        ("bash", "-c", command), cwd, timeout, listener.report, shown=command
    )


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An environment variable of every process that a test starts."""
    monkeypatch.setenv("TEST_MARK", str(tmp_path))
    return f"TEST_MARK={tmp_path}"


def started_by(mark: str) -> set[Process]:
    return {process for process in marked(mark) if process.pid != os.getpid()}


async def test_output_is_reported_while_the_command_runs(tmp_path: Path) -> None:
    listener = Listener()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            command = (
                "echo first; until [ -e go ]; do sleep 0.02; done; echo second >&2"
            )
            tasks.start_soon(run, command, tmp_path, 20, listener)
            await listener.arrived.wait()
            assert listener.output == "first\n"
            (tmp_path / "go").touch()
    assert listener.output == "first\nsecond\n"


async def test_endless_output_is_cut_and_the_rest_is_counted(
    tmp_path: Path,
) -> None:
    listener = Listener()
    result = await run(
        "echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end",
        tmp_path,
        20,
        listener,
    )
    assert len(result.stdout) == STREAM_LIMIT
    assert result.stdout.startswith("begin\nxxx")
    assert result.stdout.endswith("xxx\nend\n")
    assert "characters cut …]" in result.stdout
    assert listener.output.endswith("xxx\nend\n")
    # what was not passed on is seen to be missing
    assert len(listener.output) < 5_000_000
    assert MISSING in listener.output


async def test_progress_bar_frames_do_not_use_up_the_output_limit(
    tmp_path: Path,
) -> None:
    result = await run(
        "echo begin; seq -f '%.0f%%' 100000 | tr '\\n' '\\r'; printf '\\nerror\\n'",
        tmp_path,
    )
    assert result.stdout == "begin\n100000%\nerror\n"


async def test_a_command_stopped_by_the_time_limit_keeps_its_output(
    tmp_path: Path, mark: str
) -> None:
    with anyio.fail_after(10):
        result = await run("echo begun; sleep 100 & sleep 100", tmp_path, 0.5)
    assert (result.stdout, result.exit_code, result.timed_out) == (
        "begun\n",
        None,
        True,
    )
    assert not started_by(mark)


STUBBORN = (
    f"{sys.executable} -c 'import signal,time; signal.signal(15, "
    f"signal.SIG_IGN); print(1, flush=True); time.sleep(99)'"
)


@pytest.mark.parametrize(
    "command",
    [
        "echo 1; sleep 100",
        "(sleep 100 & sleep 100) & echo 1; wait",
        f"{STUBBORN} & wait",
        "trap '' TERM; echo 1; sleep 99; sleep 99",
    ],
    ids=["child", "grandchildren", "stubborn grandchild", "stubborn shell"],
)
async def test_cancellation_kills_the_whole_process_group(
    tmp_path: Path, mark: str, command: str
) -> None:
    listener = Listener()
    watched: set[Process] = set()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, command, tmp_path, 60, listener)
            await listener.arrived.wait()
            watched = started_by(mark)
            tasks.cancel_scope.cancel()
    assert watched
    assert not await outlive(watched, 0.5)
    assert not started_by(mark)


async def test_a_background_process_ends_with_the_call_and_does_not_delay_it(
    tmp_path: Path, mark: str
) -> None:
    with anyio.fail_after(5):
        result = await run("sleep 100 & (sleep 0.02; echo late) & echo now", tmp_path)
    assert (sorted(result.stdout.split()), result.exit_code) == (["late", "now"], 0)
    assert not await outlive(started_by(mark), 0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
async def test_ended_processes_that_nobody_reaps_do_not_delay_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_child_subreaper = partial(ctypes.CDLL(None).prctl, 36)
    monkeypatch.setattr(processes, "TERMINATE_SECONDS", 21)
    set_child_subreaper(1)
    try:
        with anyio.move_on_after(
            20
        ) as scope:  # which is shielded from while a group ends
            await run("sleep 297 & sleep 298 &", tmp_path)
        assert not scope.cancel_called
    finally:
        set_child_subreaper(0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # noqa: ASYNC222 - it waits for nothing
                pass


async def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    descriptors = Path("/dev/fd")
    await run("true", tmp_path)
    before = len(list(descriptors.iterdir()))
    for command in ("echo x", "exit 1", "sleep 100 & true"):
        await run(command, tmp_path)
    await run("sleep 100", tmp_path, 0.05)
    with pytest.raises(ToolError):
        await run("true", tmp_path / "absent")
    with anyio.move_on_after(0.05):
        await run("sleep 100", tmp_path)
    assert len(list(descriptors.iterdir())) == before
