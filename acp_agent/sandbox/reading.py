"""`ReadLimits`: the paths that the agent's own tools never read, and the paths that
they read only after asking the user.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from acp_agent.frozen import frozen
from acp_agent.nofollow import resolved
from acp_agent.sandbox.folders import READ_DENIED


@frozen
class ReadLimits:
    """The files and folders that are closed to tools.

    If a closed folder contains a session's directory, that directory is open, as it is
    to commands.

    :ivar roots: the session's directories, absolute and resolved.
    :ivar named: the paths in the setting `sandbox.read_deny`, absolute. No tool reads
        or changes them.
    :ivar usual: keys and secrets of other programs in the user's home, absolute. A tool
        asks the user about each of them.
    """

    roots: tuple[Path, ...] = ()
    named: tuple[Path, ...] = ()
    usual: tuple[Path, ...] = ()

    @classmethod
    def of(cls, roots: Sequence[Path], read_deny: Iterable[str]) -> ReadLimits:
        """Return the limits of a session.

        :param roots: the session's directories, absolute and resolved. Relative paths
            start at the first one.
        :param read_deny: files and folders as named in the settings, possibly with `~`.
        """
        named = tuple(roots[0] / _expanded(each) for each in read_deny)
        return cls(tuple(roots), named, _usual_in(Path.home()))

    def refuse(self, real: Path) -> bool:
        """Return whether no tool may read a path.

        :param real: absolute and resolved.
        """
        return any(self._holds(closed, real) for closed in _resolved(self.named))

    def ask(self, real: Path) -> bool:
        """Return whether a tool may read a path only after asking the user, even in a
        session's directory.

        :param real: absolute and resolved.
        """
        return any(self._holds(closed, real) for closed in _resolved(self.usual))

    def below(self, folder: Path) -> Iterator[Path]:
        """Yield the closed paths in a folder, which a search of the folder skips.

        :param folder: absolute and resolved.
        """
        for closed in _resolved((*self.named, *self.usual)):
            if folder in closed.parents:
                yield closed

    def _holds(self, closed: Path, real: Path) -> bool:
        if not real.is_relative_to(closed):
            return False
        return not any(
            root.is_relative_to(closed) and real.is_relative_to(root)
            for root in self.roots
        )


@cache
def _usual_in(home: Path) -> tuple[Path, ...]:
    return tuple(home / each for each in READ_DENIED)


def _expanded(name: str) -> Path:
    return Path(os.path.expanduser(name))  # noqa: PTH111 - pathlib's version fails if there is no home


def _resolved(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if os.path.lexists(path):
            yield resolved(path)
