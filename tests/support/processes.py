"""Which processes an agent has started, and whether they are gone.

    found = descendants(agent.pid) | marked("some-unique-text")
    still_there = await outlive(found, seconds=2)

A process that was handed to init when its parent died is still found by the mark that
it inherited in its environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

_PROC = Path("/proc")
_POLL_SECONDS = 0.02
_EXITING = 0x4
"""Of a process's flags, as Linux gives them."""
_KILLED = 1 << signal.SIGKILL - 1
"""Of the signals that wait for it."""


@dataclass(frozen=True, slots=True)
class Process:
    """One entry of the process table. It stays the same where its parent ends or it
    runs another program.

    :ivar started: tells two processes with the same id apart.
    """

    pid: int
    parent: int = field(compare=False)
    started: str
    command: str = field(compare=False)


def processes() -> list[Process]:
    """Every process that has not ended.

    A zombie has; on Linux also one that was killed and only has to get its turn to end,
    for which a busy machine takes a moment.
    """
    if not sys.platform.startswith("linux"):
        listing = _ps("-A", "-o", "pid=,ppid=,stat=,lstart=,command=")
        rows = [line.split(None, 8) for line in listing if line.strip()]
        return [
            Process(
                int(row[0]),
                int(row[1]),
                " ".join(row[3:8]),
                row[8] if len(row) > 8 else "",
            )
            for row in rows
            if not row[2].startswith("Z")
        ]
    return [
        each
        for folder in _PROC.iterdir()
        if folder.name.isdigit() and (each := _process(folder))
    ]


def _process(folder: Path) -> Process | None:
    """Return the process of a folder of Linux; None where it has ended."""
    try:
        # The command's name stands in brackets and may itself hold brackets and spaces.
        fields = (
            (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        )
        command = (
            (folder / "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except OSError:
        return None
    if fields[0] in "ZX" or int(fields[6]) & _EXITING or int(fields[28]) & _KILLED:
        return None
    return Process(int(folder.name), int(fields[1]), fields[19], command)


def descendants(pid: int) -> set[Process]:
    by_parent: dict[int, list[Process]] = {}
    for process in processes():
        by_parent.setdefault(process.parent, []).append(process)
    found: set[Process] = set()
    todo = [pid]
    while todo:
        for child in by_parent.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child.pid)
    return found


def marked(text: str) -> set[Process]:
    """The processes whose environment contains a text, wherever they hang in the tree."""
    if not sys.platform.startswith("linux"):
        pids = {
            int(line.split(None, 1)[0])
            for line in _ps("-A", "-E", "-ww", "-o", "pid=,command=")
            if text in line
        }
        return {process for process in processes() if process.pid in pids}
    found: set[Process] = set()
    for folder in _PROC.iterdir():
        with suppress(OSError):  # no process, another user's, or one that has ended
            if text.encode() in (folder / "environ").read_bytes() and (
                process := _process(folder)
            ):
                found.add(process)
    return found


async def outlive(watched: set[Process], seconds: float) -> set[Process]:
    """Wait until all of these have ended, and return those that have not after so many
    seconds.
    """
    if not watched:
        return set()
    # These are nobody's children here, so there is no event to wait for on every
    # system: look again, briefly.
    left = watched & set(processes())
    with anyio.move_on_after(seconds):
        while left:
            await anyio.sleep(_POLL_SECONDS)
            left = {process for process in left if _alive(process.pid)} & set(
                processes()
            )
    return left


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ps(*args: str) -> list[str]:
    return subprocess.run(
        ["ps", *args], capture_output=True, text=True, check=True, timeout=10
    ).stdout.splitlines()
