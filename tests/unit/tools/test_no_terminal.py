"""Commands in an editor's terminal run without a terminal of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from acp_agent.sandbox.bubblewrap import fault
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.tools.shell.no_terminal import command_line
from support.processes import Process, marked, outlive
from support.pseudo_terminals import EndingThread, start_in_pseudo_terminal

pytestmark = pytest.mark.process

SECONDS = 20
MANY_LINES = "\n".join(str(number) for number in range(500))


async def _read_until(process: subprocess.Popen[bytes], text: str) -> str:
    """Wait until a terminal has shown the text or has ended, and return all that it has
    shown.
    """
    assert process.stdout is not None
    shown = b""
    with anyio.fail_after(SECONDS):
        while text.encode() not in shown or not text:
            await anyio.wait_readable(process.stdout.fileno())
            try:
                data = os.read(process.stdout.fileno(), 65_536)
            except OSError:
                data = b""
            if not data:
                break
            shown += data
    return shown.decode(errors="replace").replace("\r\n", "\n")


@asynccontextmanager
async def _terminal(
    argv: Sequence[str], folder: Path
) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Run a program in a pseudo-terminal that gets no input."""
    process = await anyio.to_thread.run_sync(
        start_in_pseudo_terminal, command_line(argv), str(folder), None
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def _shown(argv: Sequence[str], folder: Path) -> tuple[str, int]:
    """Run a program until it exits; return its terminal's output and its exit status."""
    async with _terminal(argv, folder) as process:
        shown = await _read_until(process, "")
        with anyio.fail_after(SECONDS):
            return shown, await anyio.to_thread.run_sync(
                process.wait, abandon_on_cancel=True
            )


def _started_by(mark: str) -> set[Process]:
    return {process for process in marked(mark) if process.pid != os.getpid()}


READERS = {
    "read": ("read x; echo ended", "ended"),
    "cat": ("cat; echo ended", "ended"),
    "a shell": ("bash; echo ended", "ended"),
    "select": ("select x in a b; do :; done; echo ended", "ended"),
    "input": (f"{sys.executable} -c 'input()'; echo ended", "EOFError"),
    "getpass": (
        f"{sys.executable} -c 'import getpass; getpass.getpass()'; echo ended",
        "EOFError",
    ),
    "the terminal by its name": ("read x < /dev/tty; echo ended", "ended"),
    "standard error": ("read x <&2; echo status $?", "status 1\n"),
    "ssh-keygen": ("ssh-keygen -q -t ed25519 -f key; echo ended", "ended"),
    "git's questions": (
        "git -c credential.helper= credential fill < input; echo ended",
        "ended",
    ),
}
"""Commands that read input, and what they print at the end of the input."""


@pytest.mark.parametrize("name", READERS)
async def test_a_command_that_reads_input_gets_end_of_file_at_once(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "input").write_text("protocol=https\nhost=example.org\n\n")
    command, wanted = READERS[name]
    shown, _ = await _shown(("bash", "-c", command), tmp_path)
    assert wanted in shown


@pytest.mark.parametrize("pager", ["less", "more"])
async def test_a_pager_shows_the_whole_file_and_ends(
    tmp_path: Path, pager: str
) -> None:
    if shutil.which(pager) is None:
        pytest.skip(f"no {pager}")
    (tmp_path / "file").write_text(f"{MANY_LINES}\n")
    shown, code = await _shown((pager, "file"), tmp_path)
    assert MANY_LINES in shown
    assert code == 0


async def test_programs_find_no_terminal(tmp_path: Path) -> None:
    command = "for each in 0 1 2; do [ -t $each ] && echo terminal $each; done; tty; echo x > /dev/tty"
    shown, _ = await _shown(("bash", "-c", command), tmp_path)
    assert "terminal" not in shown
    assert "not a tty" in shown
    assert "/dev/tty: No such device or address" in shown


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 7", 7),
        ("kill -TERM $$", -signal.SIGTERM),
        ("kill -SEGV $$", -signal.SIGSEGV),
    ],
)
async def test_the_program_ends_like_its_command(
    tmp_path: Path, command: str, code: int
) -> None:
    assert await _shown(("bash", "-c", command), tmp_path) == ("", code)


async def test_a_missing_program_is_reported_by_name(tmp_path: Path) -> None:
    shown, code = await _shown(("/no/such/program",), tmp_path)
    assert (shown, code) == ("/no/such/program: No such file or directory\n", 127)


async def test_an_interrupt_ends_the_command_but_not_its_parent(
    tmp_path: Path,
) -> None:
    command = (
        "trap 'echo interrupted; exit 3' INT; echo begun; while :; do sleep 0.02; done"
    )
    async with _terminal(("bash", "-c", command), tmp_path) as process:
        assert process.stdout is not None
        assert "begun" in await _read_until(process, "begun")
        os.write(process.stdout.fileno(), b"\x03")
        assert "interrupted" in await _read_until(process, "")
        assert await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True) == 3


async def test_signal_handling_is_inherited_by_the_command(
    tmp_path: Path,
) -> None:
    command = ("bash", "-c", "yes | head -n 1; trap")
    # The process that started the tests may ignore some.
    before = await anyio.run_process(command)
    assert await _shown(command, tmp_path) == (before.stdout.decode(), 0)


async def test_background_output_does_not_delay_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MARK", str(tmp_path))
    shown, code = await _shown(
        ("bash", "-c", "trap '' HUP; sleep 1000 & echo ended"), tmp_path
    )
    left = _started_by(f"TEST_MARK={tmp_path}")
    for process in left:
        os.kill(process.pid, signal.SIGKILL)
    assert (shown, code, len(left)) == ("ended\n", 0, 1)


@pytest.mark.parametrize("group", [True, False], ids=["the group", "the first process"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_a_command_ends_with_its_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: bool, number: signal.Signals
) -> None:
    monkeypatch.setenv("TEST_MARK", str(tmp_path))
    async with _terminal(
        ("bash", "-c", "sleep 1000 & echo begun; wait"), tmp_path
    ) as process:
        assert "begun" in await _read_until(process, "begun")
        started = _started_by(f"TEST_MARK={tmp_path}")
        assert len(started) >= 3
        (os.killpg if group else os.kill)(process.pid, number)
        assert await outlive(started, SECONDS) == set()
        assert process.wait() == -number


async def test_a_command_without_a_terminal_ends_with_the_killed_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MARK", str(tmp_path))
    argv = command_line(("bash", "-c", "echo begun; exec sleep 1000"))
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        assert await outlive(_started_by(f"TEST_MARK={tmp_path}"), SECONDS) == set()


@pytest.mark.skipif(bool(fault()), reason="no bubblewrap")
async def test_a_sandboxed_command_outlives_the_thread_that_started_its_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MARK", str(tmp_path))
    command = (
        "echo begun; until [ -e go ]; do sleep 0.02; done; echo gone on; sleep 1000; :"
    )
    async with Sandbox((tmp_path,), ()).confine(
        ("bash", "-c", command), tmp_path, network=False
    ) as (_, argv):
        thread = await anyio.to_thread.run_sync(
            EndingThread, command_line(argv), str(tmp_path)
        )
        process = thread.process
        assert "begun" in await _read_until(process, "begun")
        await anyio.to_thread.run_sync(thread.end)
        (tmp_path / "go").touch()
        assert "gone on" in await _read_until(process, "gone on")
        started = _started_by(f"TEST_MARK={tmp_path}")
        assert len(started) >= 4
        process.kill()
        assert await outlive(started, SECONDS) == set()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
