"""The sandbox on Linux: the command line of bubblewrap, and whether it works here.

Source: bwrap(1), mount_namespaces(7)
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from acp_agent.sandbox.policy import Policy, search_path

_RUN = ("/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/current-system")
"""What commands need of `/run`, whose sockets would lead out of the sandbox: names of hosts, and NixOS's programs."""
_MOST_PROCESSES = 4096
_TRY_SECONDS = 5.0
_SUPERVISOR = r"""
"$@"
code=$?
left=
for each in /proc/[0-9]*; do
    pid=${each#/proc/}
    [ "$pid" = $$ ] || ! read -r name < "$each/comm" || left="$left $name ($pid)"
done 2> /dev/null
[ -z "$left" ] || echo "Ended with the command, since no process outlives it:$left" >&2
exit $code
"""
"""Runs the command, and says which of its processes are left, since they end with it."""


def command_line(
    policy: Policy, argv: Sequence[str], cwd: Path, covers: Mapping[Path, Path] | None = None
) -> tuple[str, ...]:
    """Return the command line that runs a program in the sandbox. Run it only within `placeholders(policy.closed)`.

    The program ends with all of its processes when this does, and its signals come back as 128 and more.

    :param cwd: where it runs; absolute and resolved.
    :param covers: files that cover other files, keyed by the path that they cover; all of them exist.
    """
    network = () if policy.network else ("--unshare-net",)
    return (
        _program(policy, "bwrap") or "/usr/bin/bwrap",
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"),
        # Root may write the kernel's settings without any capability, `core_pattern` among them.
        *("--ro-bind-try", "/proc/sys", "/proc/sys"),
        *(word for path in _RUN for word in ("--ro-bind-try", path, path)),
        *(word for mount in _mounts(policy, covers or {}) for word in mount),
        *("--setenv", "TMPDIR", "/tmp"),
        # As the first process the supervisor ends after all others, and bwrap behind it. Root keeps its capabilities
        # otherwise, and could unmount what covers a path.
        *("--unshare-pid", "--as-pid-1", "--unshare-ipc", *network),
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent"),
        *("--chdir", str(cwd), "--"),
        *_limits(policy),
        *("/bin/sh", "-c", _SUPERVISOR, "sh", *argv),
    )


def _mounts(policy: Policy, covers: Mapping[Path, Path]) -> list[tuple[str, ...]]:
    """Return the mounts, each folder before what is in it."""
    denied = (("--tmpfs",) if path.is_dir() else ("--ro-bind", "/dev/null") for path in policy.read_deny)
    # A mount cannot be renamed.
    writable = (*policy.write, *policy.open, *policy.holders)
    mounts = [
        *((path, (*words, str(path))) for path, words in zip(policy.read_deny, denied, strict=True)),
        *((path, ("--bind", str(path), str(path))) for path in writable),
        *((path, ("--ro-bind-try", str(path), str(path))) for path in policy.protected),
        *((path, ("--ro-bind", str(cover), str(path))) for path, cover in covers.items()),
    ]
    return [words for _, words in sorted(mounts, key=lambda mount: len(mount[0].parts))]


def _limits(policy: Policy) -> Iterator[str]:
    """Yield the words that limit processes, and the memory of each to that of the machine."""
    if program := _program(policy, "prlimit"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield program
        limits = {"nproc": (resource.RLIMIT_NPROC, _MOST_PROCESSES), "data": (resource.RLIMIT_DATA, memory)}
        for name, (limit, most) in limits.items():
            hard = resource.getrlimit(limit)[1]  # which no unprivileged user can raise
            yield f"--{name}={most if hard == resource.RLIM_INFINITY else min(hard, most)}"
        yield from ("--core=0", "--")


@cache
def fault() -> str:
    """Return why there is no sandbox here, and what to do; empty where there is one."""
    empty = Policy((), (), ())
    program = _program(empty, "bwrap")
    if program is None:
        return (
            "bubblewrap is not installed. Install the package `bubblewrap` (`apt install bubblewrap`, `dnf install"
            " bubblewrap`, `pacman -S bubblewrap`)."
        )
    try:
        tried = subprocess.run(
            command_line(empty, ("true",), Path("/")), capture_output=True, text=True, timeout=_TRY_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not work here: {error}."
    if tried.returncode == 0:
        return ""
    said = tried.stderr.strip().splitlines()[-1:] or [f"exit status {tried.returncode}"]
    return (
        f"{program} does not work here: {said[0]}. Where the kernel or AppArmor refuses user namespaces, allow them"
        " for bwrap (`sysctl kernel.unprivileged_userns_clone`, `kernel.apparmor_restrict_unprivileged_userns`)."
    )


def _program(policy: Policy, name: str) -> str | None:
    return shutil.which(name, path=search_path((*policy.write, *policy.open)))
