"""Finds the files that sockets are bound to, even if the sockets' names do not show
where these are.

The kernel's list has the name that a process gave to its socket. The name is relative
if the process first changed its working directory, and useless once the file has been
renamed. But the kernel also reports the device and inode of each file. If a file is not
where its name says, it is searched for: first in the folders of the names and the
working directories of processes, then below the session's directories, the home and the
mounts. Each socket is searched for only once.

A command may have moved a file within a folder that it may write to, so such a folder
is searched completely, including package folders and folders whose permissions a
command has removed. Elsewhere the search is bounded. If a writable folder is too large
to be searched in time, the files that may be in it are reported as unlocated.

Source: unix(7); sock_diag(7); mount_namespaces(7)
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from acp_agent.frozen import frozen
from acp_agent.sandbox.bound_sockets import BoundSocket, Mount
from acp_agent.sandbox.listing import open_up
from acp_agent.sandbox.walk import SKIPPED

_MOST_FOLDERS = 5000
"""Maximum number of folders that a search enters below each starting point that
commands may not write to.
"""
_SECONDS = 10.0
"""Time limit in seconds for searching the folders that commands may write to. A million
files take about three seconds.
"""
_LAST = (SKIPPED - {".git"}) | {"objects"}
"""Names of folders that a search does not descend into. `.git` is not included, since
git keeps a socket there.
"""
_NEVER = {
    "/proc",
    "/sys",
    "/dev",
    "/usr",
    "/boot",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/nix/store",
    "/gnu/store",
}
"""Folders with thousands of subfolders in which programs do not put sockets, and
folders that the sandbox replaces.
"""


@frozen
class _Result:
    """The result of a search for one socket.

    :ivar paths: the paths of the socket's file.
    :ivar is_unlocated: whether the file may have further paths in folders that commands
        may write to.
    """

    paths: tuple[str, ...]
    is_unlocated: bool = False


_searched: dict[tuple[BoundSocket, tuple[str, ...]], _Result] = {}
"""The results for sockets that are not where their names say, for each set of starting
points. Shared by all sessions.
"""


@frozen
class SocketPlaces:
    """The places to search for socket files.

    :ivar starts: the folders where a search begins, with the likely ones first.
    :ivar writable: the folders that commands may write to.
    :ivar hidden: folders that a search need not enter, since commands do not see them.
    :ivar mounted: the mounted file systems.
    """

    starts: tuple[str, ...]
    writable: tuple[str, ...]
    hidden: frozenset[str]
    mounted: tuple[Mount, ...]

    def is_visible(self, device: tuple[int, int]) -> bool:
        """Return whether commands see anything of a file system."""
        if any(
            (mount := mount_of(start, self.mounted)) and mount.device == device
            for start in self.starts
        ):
            return True
        hidden = self.hidden | _NEVER
        here = (mount.path for mount in self.mounted if mount.device == device)
        return any(
            not any(is_inside(path, folder) for folder in hidden) for path in here
        )

    def avoided(self, devices: set[tuple[int, int]]) -> set[str]:
        """Return the folders that a search on some file systems does not enter."""
        others = {mount.path for mount in self.mounted if mount.device not in devices}
        return {*self.hidden, *_NEVER, *others}

    def may_hold(self, bound: BoundSocket) -> bool:
        """Return whether a socket's file may be in a folder that commands may write to,
        even though its name says otherwise.

        A command cannot move a file out of a folder that it may not write to.
        """
        devices = {
            mount.device
            for folder in self.writable
            if (mount := mount_of(folder, self.mounted))
        }
        if bound.inode is None or bound.device not in devices:
            return False
        folder = os.path.dirname(bound.name)  # noqa: PTH120 - a name is no path yet
        if not folder.startswith("/"):
            return True
        real = os.path.realpath(folder)
        if any(is_inside(real, each) for each in self.writable):
            return True
        if os.path.isdir(real):  # noqa: PTH112
            return False
        return not any(is_inside(real, each) for each in self.hidden)

    def begin(self, devices: set[tuple[int, int]]) -> Iterator[str]:
        """Yield the folders where a search on some file systems begins."""
        yield from self.starts
        yield from (mount.path for mount in self.mounted if mount.device in devices)


@frozen
class SocketFiles:
    """The files that sockets are bound to.

    :ivar paths: the paths of the files.
    :ivar unlocated: the sockets whose files may have other paths in folders that
        commands may write to.
    """

    paths: frozenset[str]
    unlocated: tuple[BoundSocket, ...] = ()


def files_of_sockets(bound: Sequence[BoundSocket], places: SocketPlaces) -> SocketFiles:
    """Find the files that sockets are bound to. Run this within `restoring`."""
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
    closed = {each for each, _ in _searched}.difference(bound)
    for key in [key for key in _searched if key[0] in closed]:
        _searched.pop(key, None)
    if unknown := [each for each in missing if not _is_known(each, places)]:
        results = _search(unknown, places)
        _searched.update(
            {(each, places.starts): result for each, result in results.items()}
        )
    results = {
        each: _searched.get((each, places.starts), _Result(())) for each in missing
    }
    for result in results.values():
        found.update(result.paths)
    return SocketFiles(
        frozenset(found),
        tuple(each for each, result in results.items() if result.is_unlocated),
    )


def socket_status(path: str) -> os.stat_result | None:
    """Return the status of a socket file, following links; None if there is no socket
    at this path.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - there are hundreds
    except PermissionError:
        open_up(os.path.dirname(path))  # noqa: PTH120 - likewise
        with suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - likewise
            return status if stat.S_ISSOCK(status.st_mode) else None
        return None
    except (OSError, ValueError):
        return None
    return status if stat.S_ISSOCK(status.st_mode) else None


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path equals a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mount_of(path: str, mounted: Sequence[Mount]) -> Mount | None:
    """Return the mount that contains a path; None if the list has none.

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


def _is_known(bound: BoundSocket, places: SocketPlaces) -> bool:
    """Return whether the result of an earlier search is still valid: the search found
    nothing, or the socket is still where it was found.
    """
    result = _searched.get((bound, places.starts))
    if result is None:
        return False
    status = [socket_status(path) for path in result.paths]
    return all(each is not None and _is_of(bound, each) for each in status)


def _search(
    wanted: Sequence[BoundSocket], places: SocketPlaces
) -> Mapping[BoundSocket, _Result]:
    """Return the result for each socket, whose file may have several names."""
    search = _Search(wanted)
    search.look_in(_guessed(wanted))
    devices = {each.device for each in wanted if each.inode is not None}
    avoided = places.avoided(devices)
    movable = [each for each in wanted if places.may_hold(each)]
    is_whole = not movable or search.through(places.writable, avoided)
    for start in places.begin(devices):
        search.around(start, avoided)
    return {
        each: _Result(
            tuple(paths),
            is_unlocated=not is_whole and each in movable and search.is_left(each),
        )
        for each, paths in search.found.items()
    }


class _Search:
    """A search for the files of some sockets, which ends once all names of each file
    are found.

    :ivar found: the paths of each socket.
    """

    def __init__(self, wanted: Iterable[BoundSocket]) -> None:
        self.found: dict[BoundSocket, dict[str, None]] = {each: {} for each in wanted}
        self._by_inode: dict[int, list[BoundSocket]] = {}
        self._entered: set[str] = set()
        self._is_whole = True
        for each in self.found:
            if each.inode is not None:
                self._by_inode.setdefault(each.inode, []).append(each)
            else:
                paths = (f"{folder}/{each.name}" for folder in working_folders())
                self.found[each].update(
                    (path, None) for path in paths if socket_status(path) is not None
                )
        self._left = set(self._by_inode)

    def is_left(self, bound: BoundSocket) -> bool:
        """Return whether a socket's file may have names that have not been found."""
        return bound.inode in self._left

    def look_in(self, folders: Iterable[str]) -> None:
        """Search some folders, but not their subfolders."""
        for folder in dict.fromkeys(map(os.path.realpath, folders)):
            if self._left:
                self._look(folder)

    def through(self, folders: Iterable[str], avoided: Collection[str]) -> bool:
        """Search some folders, including all subfolders.

        :returns: whether there was enough time for all of them, and each could be
            listed.
        """
        self._is_whole = True
        end = time.monotonic() + _SECONDS
        waiting = list(folders)
        while waiting and self._left:
            folder = waiting.pop()
            if folder not in self._entered and (
                folder not in avoided or folder in folders
            ):
                self._entered.add(folder)
                waiting += self._look(folder)
            if time.monotonic() > end:
                return False
        return self._is_whole

    def around(self, start: str, avoided: Collection[str]) -> None:
        """Search a folder breadth-first, with a limit, skipping package folders."""
        waiting = deque([start])
        for _ in range(_MOST_FOLDERS):
            if not waiting or not self._left:
                return
            folder = waiting.popleft()
            if folder in self._entered or (folder in avoided and folder != start):
                continue
            self._entered.add(folder)
            inside = self._look(folder)
            if os.path.basename(folder) not in _LAST:  # noqa: PTH119 - there are thousands
                waiting.extend(inside)

    def _look(self, folder: str) -> list[str]:
        """Search one folder for the files, and return its subfolders."""
        inside: list[str] = []
        entries = _entries(folder)
        if entries is None:
            self._is_whole = False
        for entry in entries or ():
            if entry.is_dir(follow_symlinks=False):
                inside.append(entry.path)
            elif _lower(entry.inode()) in self._left:
                self._add(entry.path)
        return inside

    def _add(self, path: str) -> None:
        status = socket_status(path)
        if status is None:
            return
        inode = _lower(status.st_ino)
        for each in self._by_inode.get(inode, ()):
            self.found[each][path] = None
            if len(self.found[each]) >= status.st_nlink:
                self._left.discard(inode)


def _guessed(wanted: Iterable[BoundSocket]) -> Iterator[str]:
    """Yield the folders that probably contain renamed sockets and those with relative
    names.
    """
    folders = list(working_folders())
    for each in wanted:
        folder = os.path.dirname(each.name)  # noqa: PTH120 - a name is no path yet
        if folder.startswith("/"):
            yield folder
        else:
            yield from (f"{start}/{folder}" for start in folders)


def working_folders() -> dict[str, None]:
    """Return the working directories of all processes whose working directory can be
    read.
    """
    found: dict[str, None] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - there are hundreds
        if name.isdecimal():
            with suppress(OSError):
                found[os.readlink(f"/proc/{name}/cwd")] = None  # noqa: PTH115 - likewise
    return found


def _entries(folder: str) -> list[os.DirEntry[str]] | None:
    """Return the entries of a folder, even if a command has removed its permissions.

    :returns: an empty list for a folder that no command can list either; None if the
        folder's path is too long, or the disk fails.
    """
    for _ in range(2):
        try:
            with os.scandir(folder) as found:
                return list(found)
        except PermissionError:
            open_up(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:  # a command can go further by using relative paths
            return None
    return []
