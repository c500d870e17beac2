"""Finds the sockets of this machine that lead out of the sandbox, and the files that
commands need from the sockets' folders.

A network namespace isolates sockets without a path. But a process can connect to a
socket with a path wherever the path is visible, even on a read-only mount. So `/run`
and `/tmp` are empty in the sandbox, and sockets elsewhere are covered, such as those of
a key agent, a service that runs programs or containers, a terminal multiplexer or an
editor.

Source: unix(7); bwrap(1)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.sandbox.bound_sockets import bound_sockets, mounts
from acp_agent.sandbox.listing import restoring
from acp_agent.sandbox.socket_files import (
    SocketPlaces,
    elsewhere,
    files_of_sockets,
    socket_status,
)

EMPTY = ("/tmp", "/run", "/var/run", "/mnt/wslg")
"""Folders that are empty in the sandbox, since services keep their sockets there.
`/var/run` is usually a link to `/run`. `/mnt/wslg` has the display and sound sockets of
the Windows Subsystem for Linux.
"""
_RESOLVER = "/etc/resolv.conf"
_PROGRAMS = "/run/current-system"
"""On NixOS and Guix, a link to the system's programs in their store."""
_PATH = re.compile(r"(?:^|[:=])/{0,2}(/[^,:;=]+)")
"""Matches paths in variables, such as `unix:///run/docker.sock`,
`unix:path=/run/bus,guid=1`, or `/tmp/tmux-1/default,12,0`.
"""


def empty_folders() -> tuple[Path, ...]:
    """Return the folders that are empty in the sandbox, resolved and without
    duplicates.
    """
    real = {Path(os.path.realpath(folder)): None for folder in EMPTY}
    return tuple(folder for folder in real if folder.is_dir())


def needed_of_run() -> Iterator[Path]:
    """Yield the paths that commands need from `/run`: the file with the addresses of
    name servers, and NixOS's programs.

    This never includes a folder with sockets. The socket of systemd-resolved, for
    example, would answer name queries, which reach the network.
    """
    with suppress(OSError):
        file = Path(_RESOLVER).resolve(strict=True)
        if file.is_file() and any(
            file.is_relative_to(folder) for folder in empty_folders()
        ):
            yield file
    if Path(_PROGRAMS).is_symlink():
        yield Path(_PROGRAMS)


@frozen
class Sockets:
    """The sockets that other programs listen on.

    :ivar paths: the sockets' files outside hidden folders.
    :ivar unlocated: the names of sockets whose files may be anywhere in folders that
        commands may write to.
    """

    paths: tuple[Path, ...] = ()
    unlocated: tuple[str, ...] = ()


def sockets(
    hidden: Iterable[Path], opened: Iterable[Path], writable: Iterable[Path] = ()
) -> Sockets:
    """Find the sockets outside hidden folders that other programs listen on.

    They are found in the kernel's list, among the mounts, and in the agent's
    environment. A container gets its host's sockets as mounts, which the kernel's list
    does not include.

    :param hidden: folders that are empty in the sandbox, resolved.
    :param opened: folders that are visible nevertheless, inside or outside hidden
        folders, resolved.
    :param writable: the folders that commands may write to, resolved.
    """
    writable = tuple(writable)
    with restoring(writable):
        return _sockets(tuple(hidden), tuple(opened), writable)


def _sockets(
    hidden: tuple[Path, ...], opened: tuple[Path, ...], writable: tuple[Path, ...]
) -> Sockets:
    is_hidden = {**dict.fromkeys(hidden, True), **dict.fromkeys(opened, False)}
    mounted = tuple(mounts())
    starts = (
        *(folder for folder, hides in is_hidden.items() if not hides),
        Path.home(),
    )
    shut = frozenset(str(folder) for folder, hides in is_hidden.items() if hides)
    places = SocketPlaces(
        tuple(map(str, starts)), tuple(map(str, writable)), shut, mounted
    )
    of_kernel = files_of_sockets(bound_sockets(), places)
    found: dict[Path, None] = {}
    for text in (*of_kernel.paths, *(mount.path for mount in mounted), *_named()):
        if socket_status(text) is not None:
            with suppress(OSError, ValueError, RuntimeError):
                found[Path(text).resolve(strict=True)] = None
    for path in list(found):
        found |= {
            Path(other): None
            for other in elsewhere(str(path), mounted)
            if socket_status(other) is not None
        }
    seen: list[Path] = []
    for path in found:
        nearest = next((folder for folder in path.parents if folder in is_hidden), None)
        if nearest is None or not is_hidden[nearest]:
            seen.append(path)
    return Sockets(tuple(seen), tuple(each.name for each in of_kernel.unlocated))


def _named() -> Iterator[str]:
    for value in os.environ.values():
        if len(value) < 4096:  # paths are shorter than this
            yield from (found[1] for found in _PATH.finditer(value))
