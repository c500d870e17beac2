"""Records what the agent's own tools write to guarded paths while a command runs, so
that the command is not blamed for it.

The user is asked before the agent edits a guarded path, so the user wants what the
agent writes there. Nothing on disk shows who created a file: a sandboxed command runs
with the user's ID, and the kernel does not tell ordinary users which process changed a
file. So the agent records its own writes, for all sessions of the process.

Source: fanotify_init(2), "unprivileged listeners"; user_namespaces(7)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

_MOST = 1_000

judging = RLock()
"""Held while the agent writes a file, and while a thread checks and renames paths that
a command created.
"""
_written: dict[tuple[str, str], None] = {}
"""Paths, each with a digest of the content."""


@contextmanager
def writing(path: Path, data: bytes) -> Generator[None]:
    """Let the agent write a file inside the `with` block.

    :param path: absolute and resolved.
    :param data: the file's new content.
    """
    with judging:
        _written[str(path), _digest(data)] = None
        while len(_written) > _MOST:
            del _written[next(iter(_written))]
        yield


def has_written(path: str) -> bool:
    """Return whether the agent has written any content to a path.

    :param path: absolute and resolved.
    """
    return any(each == path for each, _ in _written)


def is_written(path: str, data: bytes) -> bool:
    """Return whether the agent has written this content to a path.

    :param path: absolute and resolved.
    """
    return bool(_written) and (path, _digest(data)) in _written


def _digest(data: bytes) -> str:
    import hashlib  # not loaded at startup

    return hashlib.sha256(data).hexdigest()
