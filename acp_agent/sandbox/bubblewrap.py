"""The sandbox on Linux: builds bubblewrap's command line, and checks whether bubblewrap
works here.

Source: bwrap(1), mount_namespaces(7)
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from acp_agent.programs import find_program, own_environment
from acp_agent.sandbox.policy import Policy
from acp_agent.sandbox.seccomp import filter_program
from acp_agent.sandbox.sockets import Sockets, empty_folders, needed_of_run, sockets

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
[ -z "$left" ] || echo "Stopped when the command ended, because no process may outlive it:$left" >&2
exit $code
"""
"""Runs the command, and then lists its remaining processes, since they end with the
command.
"""
_FILTERED = ("/bin/sh", "-c", 'exec 9< "$0"; exec "$@"')
"""Opens the file with the system call filter for bwrap, since editors' terminals do not
pass on open files.
"""


def command_line(
    policy: Policy,
    argv: Sequence[str],
    cwd: Path,
    covers: Mapping[Path, Path] | None = None,
    filter_file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    found: Sockets | None = None,
    copies: Mapping[Path, Path] | None = None,
) -> tuple[str, ...]:
    """Return the command line that runs a program in the sandbox.

    Run it only within `placeholders(policy.closed)`. Run it without `LOADER_VARIABLES`,
    which could make bwrap itself load code from the project.

    The program and all of its processes end when bwrap does. If a signal ends the
    program, the exit status is 128 or more.

    :param cwd: the folder in which the program runs; absolute and resolved.
    :param covers: files that cover other files, keyed by the path that they cover. All
        of these paths exist.
    :param filter_file: a file with the system call filter; see `seccomp`.
    :param copies: writable copies of protected folders, keyed by the folder that each
        copy replaces; see `private_copies`.
    :param variables: further environment variables of the program.
    :param found: the result of `sockets_of`; None to find the sockets here.
    """
    network = () if policy.network else ("--unshare-net",)
    program = find_program("bwrap")
    protected = policy.protected
    found = sockets_of(policy) if found is None else found
    # These folders are mounted, so that a command cannot move them, nor the sockets'
    # files in them.
    holders = policy.holding((*protected, *found.paths))
    filter_opener = (*_FILTERED, str(filter_file))
    filter_option = ("--seccomp", "9")
    if filter_file is None:
        filter_opener = ()
        filter_option = ()
    return (
        *filter_opener,
        program or "/usr/bin/bwrap",
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # Even without capabilities, root may write kernel settings such as
        # `core_pattern`.
        *("--ro-bind-try", "/proc/sys", "/proc/sys"),
        *_temporary(_knows_size(program)),
        *(
            word
            for path in needed_of_run()
            for word in ("--ro-bind-try", str(path), str(path))
        ),
        *(
            word
            for mount in _mounts(
                policy, protected, holders, found, covers or {}, copies or {}
            )
            for word in mount
        ),
        *_sealed(policy, holders),
        *(
            word
            for name, value in (variables or {}).items()
            for word in ("--setenv", name, value)
        ),
        *("--setenv", "TMPDIR", "/tmp"),
        # The supervisor is process 1, so that all other processes end with it.
        *("--unshare-pid", "--as-pid-1", "--unshare-ipc", *network),
        # With capabilities, root could unmount the cover of a path.
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent"),
        *filter_option,
        *("--chdir", str(cwd), "--"),
        *_limits(),
        *("/bin/sh", "-c", _SUPERVISOR, "sh", *argv),
    )


def _temporary(limited: bool) -> Iterator[str]:
    """Yield the arguments for the in-memory file systems. Their total size
    is less than the memory that one process may use, if it can be limited.

    Of these, only `/tmp` and `/dev/shm` are writable; see `_sealed`.

    :param limited: whether this version of bubblewrap can limit their size.
    """
    most = _most_memory()
    shares = {Path(os.path.realpath("/tmp")): most // 2, Path("/dev/shm"): most // 4}
    for folder in (*empty_folders(), Path("/dev/shm")):
        if limited and folder in shares:
            yield from ("--size", str(shares[folder]))
        yield from ("--tmpfs", str(folder))


def sockets_of(policy: Policy) -> Sockets:
    """Find the sockets that a command could connect to, which `command_line` covers."""
    writable = (*policy.write, *policy.open)
    denied = [path for path in policy.read_deny if path.is_dir()]
    return sockets(
        (*empty_folders(), *denied), (*writable, *_shown_work_trees(policy)), writable
    )


def _mounts(
    policy: Policy,
    protected: Iterable[Path],
    holders: Iterable[Path],
    found: Sockets,
    covers: Mapping[Path, Path],
    copies: Mapping[Path, Path],
) -> list[tuple[str, ...]]:
    """Return the mounts, each folder before its contents."""
    # Folders that contain protected paths are mounted, since a mount cannot be renamed.
    writable = (*policy.write, *policy.open, *holders)
    folders = {path for path in policy.read_deny if path.is_dir()}
    files = (*(path for path in policy.read_deny if path not in folders), *found.paths)
    mounts = [
        *((path, ("--tmpfs", str(path))) for path in folders),
        *(
            (path, ("--ro-bind", str(path), str(path)))
            for path in _shown_work_trees(policy)
        ),
        *((path, ("--bind", str(path), str(path))) for path in writable),
        *(
            (path, ("--bind", str(copies[path]), str(path)))
            if path in copies
            else (path, ("--ro-bind-try", str(path), str(path)))
            for path in protected
        ),
        *((path, ("--ro-bind", "/dev/null", str(path))) for path in files),
        *(
            (path, ("--ro-bind", str(cover), str(path)))
            for path, cover in covers.items()
        ),
    ]
    return [words for _, words in sorted(mounts, key=lambda mount: len(mount[0].parts))]


def _shown_work_trees(policy: Policy) -> Iterator[Path]:
    """Yield the work trees around the roots that commands would not see because a
    parent folder is empty.

    Without them, git would treat all files outside the root as deleted, and `git commit
    -a` would commit that.
    """
    for repository in policy.repositories:
        tree = repository.work_tree
        if tree not in policy.roots and any(
            tree.is_relative_to(folder) for folder in empty_folders()
        ):
            yield tree


def _sealed(policy: Policy, holders: Iterable[Path]) -> Iterator[str]:
    """Yield the arguments that make the empty folders read-only after everything else
    has been mounted in them.

    If they were writable, they could use memory that no limit counts, since even empty
    files take some.
    """
    writable = {*policy.write, *policy.open, *holders, Path(os.path.realpath("/tmp"))}
    for folder in (*empty_folders(), Path("/dev"), *policy.read_deny):
        if folder not in writable and folder.is_dir():
            yield from ("--remount-ro", str(folder))


def _limits() -> Iterator[str]:
    """Yield the arguments that limit the number of processes, and the memory of each
    process to that of the machine.
    """
    if program := find_program("prlimit"):
        yield program
        limits = {
            "nproc": (resource.RLIMIT_NPROC, _MOST_PROCESSES),
            "data": (resource.RLIMIT_DATA, _machine_memory()),
        }
        for name, (limit, most) in limits.items():
            yield f"--{name}={_within(limit, most)}"
        yield from ("--core=0", "--")


def _most_memory() -> int:
    return _within(resource.RLIMIT_DATA, _machine_memory())


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _within(limit: int, most: int) -> int:
    """Return a limit that does not exceed the hard limit, which an unprivileged user
    cannot raise.
    """
    hard = resource.getrlimit(limit)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


@cache
def _knows_size(program: str | None) -> bool:
    """Return whether bubblewrap can limit the size of an in-memory file system, which
    requires version 0.7.
    """
    if program is None:
        return False
    try:
        told = subprocess.run(
            [program, "--help"],
            env=own_environment(),
            capture_output=True,
            text=True,
            timeout=_TRY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--size" in told.stdout


@contextmanager
def filter_file(*, unix_sockets: bool = True) -> Generator[Path | None]:
    """Write the system call filter to a file inside the `with` block; yield None if
    this machine has no filter.

    :param unix_sockets: see `filter_program`.
    """
    program = filter_program(unix_sockets=unix_sockets)
    if not program:
        yield None
        return
    with NamedTemporaryFile(prefix="acp-agent-") as file:
        file.write(program)
        file.flush()
        yield Path(file.name)


@cache
def fault() -> str:
    """Return why there is no sandbox here and what to do; empty if there is one."""
    empty = Policy((), (), ())
    program = find_program("bwrap")
    if program is None:
        return (
            "bubblewrap is not installed. Install the package `bubblewrap` (`apt install bubblewrap`, `dnf install"
            " bubblewrap`, `pacman -S bubblewrap`)."
        )
    try:
        with filter_file() as file:
            tried = subprocess.run(
                command_line(empty, ("true",), Path("/"), filter_file=file),
                env=own_environment(),
                capture_output=True,
                text=True,
                timeout=_TRY_SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not work here: {error}."
    if tried.returncode == 0:
        return ""
    said = tried.stderr.strip().splitlines()[-1:] or [f"exit status {tried.returncode}"]
    return (
        f"{program} does not work here: {said[0]}. If the kernel or AppArmor refuses user namespaces, allow them"
        " for bwrap (`sysctl kernel.unprivileged_userns_clone`, `kernel.apparmor_restrict_unprivileged_userns`)."
    )
