"""Finds the files that sockets are bound to, even if the names of the sockets do not tell.

The kernel's list has the name that a process gave to its socket. The name is relative if the process changed to a
folder first, and useless after the file was renamed. But the kernel also reports the device and inode of each file. If
a file is not where its name says, it is searched for: first in the folders of the names and the working directories of
processes, then below the session's directories, the home and the mounts. The search is bounded, and runs once for each
socket.

Source: unix(7); sock_diag(7); mount_namespaces(7)
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from acp_agent.frozen import frozen
from acp_agent.sandbox.bound_sockets import BoundSocket, Mount
from acp_agent.sandbox.nested import SKIPPED

_MOST_FOLDERS = 5000
"""Maximum number of folders that a search enters below each starting point."""
_LAST = (SKIPPED - {".git"}) | {"objects"}
"""Names of folders that a search does not descend into. Git keeps a socket in `.git`, so `.git` is not among them."""
_NEVER = {"/proc", "/sys", "/dev", "/usr", "/boot", "/lib", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store"}
"""Folders with thousands of subfolders where programs put no sockets, and folders that the sandbox replaces."""

_searched: dict[BoundSocket, tuple[str, ...]] = {}
"""The paths that a search has found for each socket that is not where its name says; shared by all sessions."""


@frozen
class Places:
    """Where socket files are searched for.

    :ivar starts: the folders where a search begins, with the likely ones first.
    :ivar hidden: folders that a search need not enter, since commands do not see them.
    :ivar mounted: the mounted file systems.
    """

    starts: tuple[str, ...]
    hidden: frozenset[str]
    mounted: tuple[Mount, ...]

    def is_visible(self, device: tuple[int, int]) -> bool:
        """Return whether commands see anything of a file system."""
        if any((mount := mount_of(start, self.mounted)) and mount.device == device for start in self.starts):
            return True
        hidden = self.hidden | _NEVER
        here = (mount.path for mount in self.mounted if mount.device == device)
        return any(not any(is_inside(path, folder) for folder in hidden) for path in here)

    def avoided(self, devices: set[tuple[int, int]]) -> set[str]:
        """Return the folders that a search on some file systems does not enter."""
        others = {mount.path for mount in self.mounted if mount.device not in devices}
        return {*self.hidden, *_NEVER, *others}

    def begin(self, devices: set[tuple[int, int]]) -> Iterator[str]:
        """Yield the folders where a search on some file systems begins."""
        yield from self.starts
        yield from (mount.path for mount in self.mounted if mount.device in devices)


def files_of_sockets(bound: Iterable[BoundSocket], places: Places) -> set[str]:
    """Return the paths of the files that sockets are bound to."""
    found: set[str] = set()
    missing: list[BoundSocket] = []
    for each in bound:
        status = socket_status(each.name) if each.name.startswith("/") else None
        if status is not None:
            found.add(each.name)
        if status is not None and _is_of(each, status) and status.st_nlink == 1:
            continue
        if each.inode is None or places.is_visible(each.device):
            missing.append(each)
    for gone in [each for each in _searched if each not in missing]:
        _searched.pop(gone, None)
    if unknown := [each for each in missing if not _is_known(each)]:
        _searched.update(_search(unknown, places))
    for each in missing:
        found.update(_searched.get(each, ()))
    return found


def socket_status(path: str) -> os.stat_result | None:
    """Return the status of a socket file, following links; None if there is none at this path."""
    with suppress(OSError, ValueError):
        status = os.stat(path)  # noqa: PTH116 - there are hundreds
        if stat.S_ISSOCK(status.st_mode):
            return status
    return None


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path equals a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mount_of(path: str, mounted: Sequence[Mount]) -> Mount | None:
    """Return the mount that a path lies on; None if the list has none.

    :param path: resolved.
    """
    around = [mount for mount in reversed(mounted) if is_inside(path, mount.path)]
    return max(around, key=lambda mount: len(mount.path), default=None)


def elsewhere(path: str, mounted: Sequence[Mount]) -> Iterator[str]:
    """Yield the other paths of a file whose folder is mounted more than once.

    :param path: resolved.
    """
    nearest = mount_of(path, mounted)
    if nearest is None:
        return
    in_file_system = _joined(nearest.root, path[len(nearest.path.rstrip("/")) :])
    for mount in mounted:
        if mount.device == nearest.device and is_inside(in_file_system, mount.root):
            other = _joined(mount.path, in_file_system[len(mount.root.rstrip("/")) :])
            if other != path:
                yield other


def _joined(folder: str, rest: str) -> str:
    return (folder.rstrip("/") + rest) or "/"


def _is_of(bound: BoundSocket, status: os.stat_result) -> bool:
    return bound.inode in (None, _lower(status.st_ino))


def _lower(inode: int) -> int:
    return inode & 0xFFFFFFFF


def _is_known(bound: BoundSocket) -> bool:
    """Return whether an earlier search found nothing, or the socket is still where that search found it."""
    paths = _searched.get(bound)
    if paths is None:
        return False
    status = [socket_status(path) for path in paths]
    return all(each is not None and _is_of(bound, each) for each in status)


def _search(wanted: Sequence[BoundSocket], places: Places) -> Mapping[BoundSocket, tuple[str, ...]]:
    """Return the paths of each socket's file, which may have several names."""
    found: dict[BoundSocket, dict[str, None]] = {each: {} for each in wanted}
    by_inode: dict[int, list[BoundSocket]] = {}
    for each in wanted:
        if each.inode is not None:
            by_inode.setdefault(each.inode, []).append(each)
        else:
            paths = (f"{folder}/{each.name}" for folder in working_folders())
            found[each].update((path, None) for path in paths if socket_status(path) is not None)
    devices = {each.device for each in wanted if each.inode is not None}
    left = set(by_inode)
    for folder in _folders(_guessed(wanted), places, devices):
        if not left:
            break
        for path in _with_inodes(folder, left):
            status = socket_status(path)
            if status is None:
                continue
            inode = _lower(status.st_ino)
            for each in by_inode.get(inode, ()):
                found[each][path] = None
                if len(found[each]) >= status.st_nlink:
                    left.discard(inode)
    return {each: tuple(paths) for each, paths in found.items()}


def _guessed(wanted: Iterable[BoundSocket]) -> Iterator[str]:
    """Yield the folders that probably contain renamed sockets and those with relative names."""
    folders = list(working_folders())
    for each in wanted:
        folder = os.path.dirname(each.name)  # noqa: PTH120 - a name is no path yet
        if folder.startswith("/"):
            yield folder
        else:
            yield from (f"{start}/{folder}" for start in folders)


def working_folders() -> dict[str, None]:
    """Return the working directories of all processes whose working directory can be read."""
    found: dict[str, None] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - there are hundreds
        if name.isdecimal():
            with suppress(OSError):
                found[os.readlink(f"/proc/{name}/cwd")] = None  # noqa: PTH115 - likewise
    return found


def _folders(guessed: Iterable[str], places: Places, devices: set[tuple[int, int]]) -> Iterator[str]:
    """Yield the folders to search, each once: first the guessed ones, then the others breadth-first."""
    seen: set[str] = set()
    for folder in guessed:
        real = os.path.realpath(folder)
        if real not in seen:
            seen.add(real)
            yield real
    entered: set[str] = set()
    avoided = places.avoided(devices)
    for start in places.begin(devices):
        waiting = deque([start])
        for _ in range(_MOST_FOLDERS):
            if not waiting:
                break
            folder = waiting.popleft()
            if folder in entered or (folder in avoided and folder != start):
                continue
            entered.add(folder)
            if folder not in seen:
                yield folder
            if os.path.basename(folder) not in _LAST:  # noqa: PTH119 - there are thousands
                waiting.extend(_inside(folder))


def _inside(folder: str) -> Iterator[str]:
    """Yield the folders in a folder, without following links."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.path


def _with_inodes(folder: str, inodes: set[int]) -> Iterator[str]:
    """Yield the files in a folder with one of these inodes."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _lower(entry.inode()) in inodes and not entry.is_dir(follow_symlinks=False):
                yield entry.path
