"""Finds the paths of a folder that match the patterns of `guarded.csv`, such as
`mise.*.toml`.

This lists the folders that may contain such a path: the folder itself, and the few that
patterns name, such as `.direnv`. A folder is listed again only if its change time is
new. A slow listing is not repeated immediately, so that many files do not slow down a
command.

Source: inode(7), "Last status change timestamp (ctime)", which no program can set
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import TypeAlias

from acp_agent.frozen import frozen
from acp_agent.sandbox.changes import COARSE_NS
from acp_agent.sandbox.guarded_paths import How, has_own_row, pattern_paths

Part: TypeAlias = tuple[str, ...]

_SHARE = 10
"""A folder is not listed again until this many times the duration of the last listing
has passed.
"""


@frozen
class _Listing:
    """The paths found in one folder.

    :ivar version: the folder's inode and change time, if the listing is valid until
        these change; None if it is valid only until the folder may be listed again.
    :ivar again: the earliest time for another listing, by the monotonic clock in
        nanoseconds.
    """

    version: tuple[int, int] | None
    again: int
    found: tuple[Part, ...]


class PatternPaths:
    """Looks for paths that match the patterns of some kinds of guarded paths.

    :param folder: absolute.
    """

    def __init__(self, folder: Path, *how: How) -> None:
        self._folder = folder
        self._patterns = _patterns_by_folder(how)
        self._known: dict[Part, _Listing] = {}

    def look(self, *, anew: bool = False) -> Iterator[Part]:
        """Yield the parts of each path that exists, relative to the folder.

        :param anew: whether to list every folder again, even if it appears unchanged.
        """
        for parent, names in self._patterns.items():
            listing = None if anew else self._known.get(parent)
            place = "/".join((str(self._folder), *parent))
            try:
                status = os.stat(place)  # noqa: PTH116 - ten times a second
                if listing is None or _is_old(listing, status):
                    listing = _list(place, parent, names, status)
            except OSError:  # usually, the folder does not exist
                self._known.pop(parent, None)
                continue
            self._known[parent] = listing
            yield from listing.found


def _is_old(listing: _Listing, status: os.stat_result) -> bool:
    version = (status.st_ino, status.st_ctime_ns)
    return listing.version != version and time.monotonic_ns() >= listing.again


def _list(
    place: str, parent: Part, names: re.Pattern[str], status: os.stat_result
) -> _Listing:
    """List a folder.

    :param place: its path.
    :param parent: its path relative to the project.
    :param names: a pattern for the names to look for, in lower case.
    :param status: its status before the listing.
    :raises OSError: if the folder cannot be read.
    """
    is_settled = status.st_ctime_ns < time.time_ns() - COARSE_NS
    start = time.monotonic_ns()
    found = [
        (*parent, name)
        for name in sorted(os.listdir(place))  # noqa: PTH208 - a text
        if names.match(name.lower()) and not has_own_row((*parent, name))
    ]
    end = time.monotonic_ns()
    version = (status.st_ino, status.st_ctime_ns) if is_settled else None
    return _Listing(version, end + _SHARE * (end - start), tuple(found))


@cache
def _patterns_by_folder(how: tuple[How, ...]) -> Mapping[Part, re.Pattern[str]]:
    """Return a pattern for the names in each folder for which the table has patterns."""
    found: dict[Part, list[str]] = {}
    for *parent, last in pattern_paths(*how):
        found.setdefault(tuple(parent), []).append(translate(last.lower()))
    return {parent: re.compile("|".join(names)) for parent, names in found.items()}
