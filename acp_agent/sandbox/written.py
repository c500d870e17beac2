"""What the agent's own tools write to guarded paths while a command runs, so that it is not taken for the command's.

The user is asked before the agent edits a guarded path, so the user wants what it writes there. Nothing on the disk
tells who made a file: a sandboxed command has the user's id, and for an ordinary user the kernel reports no process id
with changes of files. So the agent remembers its own writes, for all sessions of the process.

Source: fanotify_init(2), "unprivileged listeners"; user_namespaces(7)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

_MOST = 1_000

judging = RLock()
"""Held while the agent writes a file, and while a thread looks at what a command has made and renames it."""
_written: dict[tuple[str, str], None] = {}
"""Paths, each with a digest of the content."""


@contextmanager
def writing(path: Path, data: bytes) -> Generator[None]:
    """Write a file of the agent's inside the `with` block.

    :param path: absolute and resolved.
    :param data: its new content.
    """
    with judging:
        _written[str(path), _digest(data)] = None
        while len(_written) > _MOST:
            del _written[next(iter(_written))]
        yield


def is_written(path: str, data: bytes) -> bool:
    """Return whether the agent has written this content to a path.

    :param path: absolute and resolved.
    """
    return bool(_written) and (path, _digest(data)) in _written


def _digest(data: bytes) -> str:
    import hashlib  # no start waits for it

    return hashlib.sha256(data).hexdigest()
