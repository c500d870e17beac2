"""What the operating system knows of a process: processor time, memory, descendants.

Linux says it in /proc; elsewhere `ps` does, more coarsely.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
MEMORY = "PSS" if LINUX else "RSS"
"""What `memory` counts. PSS shares out among its users what several processes have in
memory together.
"""


def cpu_seconds(pid: int) -> float:
    """Processor time of a living process and all its threads so far, without its
    children.
    """
    if LINUX:
        # The clock of another process, as clock_getcpuclockid(3) makes its number: in
        # nanoseconds, where /proc counts hundredths of a second.
        return time.clock_gettime((~pid << 3) | 2)
    seconds = 0.0
    for part in _ps("-o", "time=", "-p", str(pid)).strip().split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def memory(pid: int) -> float:
    """MiB of memory; see `MEMORY`."""
    if LINUX:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "Pss":
                return int(rest.split()[0]) / 1024
        raise RuntimeError(f"the kernel does not tell the memory of process {pid}")
    return int(_ps("-o", "rss=", "-p", str(pid))) / 1024


def peak_memory(pid: int) -> float:
    """MiB that were resident at once since the last call; elsewhere than on Linux, what
    is now.
    """
    if not LINUX:
        return memory(pid)
    status = Path(f"/proc/{pid}/status").read_text()
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def descendants(pid: int) -> dict[int, str]:
    """All children of a process, and theirs, with the names of their programs."""
    children: dict[int, list[tuple[int, str]]] = {}
    for line in _ps("-A", "-o", "pid=,ppid=,comm=").splitlines():
        child, parent, name = line.split(maxsplit=2)
        children.setdefault(int(parent), []).append((int(child), name))
    found: dict[int, str] = {}
    look = [pid]
    while look:
        for child, name in children.get(look.pop(), ()):
            if child not in found:
                found[child] = name
                look.append(child)
    return found


def living(pids: Iterable[int]) -> set[int]:
    """Those which run; a process that has ended and was not waited for does not."""
    return {pid for pid in pids if _state(pid) not in ("", "Z", "X")}


def tree(measure: Callable[[int], float], pid: int) -> float:
    """Measure a process first, then all below it that live."""
    total = measure(pid)
    for child in descendants(pid):
        with suppress(OSError, RuntimeError, subprocess.SubprocessError):
            total += measure(child)
    return total


def _state(pid: int) -> str:
    """One letter, or nothing of a process that is gone."""
    try:
        if LINUX:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return _ps("-o", "state=", "-p", str(pid))[:1]
    except (OSError, subprocess.SubprocessError):
        return ""


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started, and wait for it."""
    pids = {process.pid, *descendants(process.pid)}
    for pid in pids if process.poll() is None else pids - {process.pid}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    process.wait()


def _ps(*arguments: str) -> str:
    return subprocess.run(
        ("ps", *arguments), capture_output=True, text=True, check=True
    ).stdout
