"""What the disk says at the moment of a compaction: versions of the files that were seen, branch and commit.

Read in a worker thread, within limits, and never an error: what cannot be read is simply not known.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import anyio.to_thread

from acp_agent.compaction.state import Workspace
from acp_agent.conversation.context import Context
from acp_agent.tools.text import digest

MAX_FILES = 400
MAX_FILE_BYTES = 2 << 20
SETTLED = 2.0
"""Seconds after which another change of a file has another time, whatever the file system's clock."""


async def read_workspace(context: Context) -> Workspace:
    """The workspace of a session as it is now.

    :param context: whose files with a known version are looked at, the newest ones where there are very many.
    """
    known = dict.fromkeys(path for path, version in context.files.items() if version)
    return await anyio.to_thread.run_sync(_read, context.cwd, list(known)[-MAX_FILES:])


def _read(cwd: str, paths: Iterable[str]) -> Workspace:
    digests: dict[str, str | None] = {}
    for path in paths:
        try:
            digests[path] = _digest(Path(path))
        except FileNotFoundError:
            digests[path] = None
        except (OSError, ValueError):
            continue
    _, branch, head = git_place(Path(cwd)) if cwd else ("", "", "")
    return Workspace(cwd, {path: found for path, found in digests.items() if found != ""}, branch, head)


def _digest(path: Path) -> str:
    """The version on the disk; empty where the file is no text of a sensible size."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
        return ""
    if time.time() - status.st_mtime < SETTLED:
        return _read_digest(path)
    return _known_digest(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(MAX_FILES)
def _known_digest(path: Path, changed: int, size: int, inode: int) -> str:
    """The same, read again only where the file was written since."""
    del changed, size, inode
    return _read_digest(path)


def _read_digest(path: Path) -> str:
    try:
        return digest(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError:
        return ""


def git_place(cwd: Path) -> tuple[str, str, str]:
    """The work tree's folder, the branch and the commit, each empty where there is none. From git's own files: starting
    git takes longer than all the rest."""
    root = next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), None)
    if root is None:
        return "", "", ""
    try:
        folder = root / ".git"
        if folder.is_file():
            folder = (root / folder.read_text().removeprefix("gitdir:").strip()).resolve()
        said = (folder / "HEAD").read_text().strip()
        if not said.startswith("ref: "):
            return str(root), "", said[:40]
        ref = said.removeprefix("ref: ")
        return str(root), ref.removeprefix("refs/heads/"), _commit(folder, ref)
    except (OSError, ValueError):
        return "", "", ""


def _commit(folder: Path, ref: str) -> str:
    common = folder
    if (folder / "commondir").is_file():
        common = (folder / (folder / "commondir").read_text().strip()).resolve()
    if (common / ref).is_file():
        return (common / ref).read_text().strip()[:40]
    packed = common / "packed-refs"
    if packed.is_file():
        for line in packed.read_text().splitlines():
            commit, _, name = line.partition(" ")
            if name == ref:
                return commit[:40]
    return ""
