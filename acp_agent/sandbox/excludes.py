"""Hides the files that the sandbox puts into a work tree from git while a command runs.

Placeholders are empty untracked folders, which `clean` and `stash -u` try to remove.
Guarded paths that were renamed (see `blocked`) are not part of the project, but `git
add -A` would commit them.

Git neither cleans nor stashes ignored files. In the sandbox, another file covers the
repository's `info/exclude`. It has the same text, plus a line for each of these paths.
Unlike `core.excludesFile`, this does not replace a setting of the user. Outside the
sandbox, git still reads the user's own file.

`clean -x` and `stash -a` ignore all of these rules, and no setting makes git exclude
anything from them. They call rmdir(2) for each placeholder, which fails with EBUSY,
since a placeholder is a mount point in the command's own mount namespace. Only a socket
or another special file would be invisible to them, but programs that copy the project
fail on such a file. So git warns and exits with status 1; `tools.shell.guarded`
explains that to the model.

Source: gitignore(5); git's dir.c and builtin/clean.c; rmdir(2)
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from acp_agent.nofollow import temporary_folder
from acp_agent.regular import read_resolved
from acp_agent.sandbox.aside import PREFIX, SUFFIX
from acp_agent.sandbox.guarded_paths import guarded_paths, is_pattern
from acp_agent.sandbox.policy import GUARDED, Policy
from acp_agent.sandbox.repositories import repository_of

_MOST_BYTES = 1024 * 1024
"""Maximum size of an `info/exclude` to which patterns are added."""
_SPECIAL = re.compile(rb"[\\*?\[ ]")


@contextmanager
def covered_excludes(policy: Policy) -> Generator[Mapping[Path, Path]]:
    """Write the files that cover `info/exclude` inside the `with` block, and yield
    them, keyed by the covered path.
    """
    texts = _excludes(policy)
    with temporary_folder() as folder:
        covers: dict[Path, Path] = {}
        for path, text in texts.items():
            covers[path] = folder / str(len(covers))
            covers[path].write_bytes(text)
        yield covers


def _excludes(policy: Policy) -> dict[Path, bytes]:
    """Return the text of each `info/exclude`, keyed by path, including patterns for the
    paths to hide in the roots.
    """
    texts: dict[Path, bytes] = {}
    for root in policy.roots:
        repository = repository_of(root)
        lines = [] if repository is None else _lines(root, repository.work_tree)
        if repository is None or not lines:
            continue
        path = repository.common / "info" / "exclude"
        is_denied = any(path.is_relative_to(denied) for denied in policy.read_deny)
        if is_denied or path.is_symlink():
            continue
        # The file does not exist and could not be created, or it is too large to be
        # rewritten.
        with suppress(OSError):
            text = texts[path] if path in texts else read_resolved(path, _MOST_BYTES)
            texts[path] = b"\n".join([text, *lines, b""])
    return texts


def _lines(root: Path, work_tree: Path) -> list[bytes]:
    """Return the patterns for a root.

    They match the new names of renamed guarded paths, and empty guarded folders. Since
    git does not track empty folders, excluding them hides nothing of the user's.
    """
    lines = [*_of_renamed(root.relative_to(work_tree))]
    for name in GUARDED:
        with suppress(OSError):
            if not os.listdir(root / name):  # noqa: PTH208 - `iterdir` reads all of it too
                lines.append(_pattern((root / name).relative_to(work_tree)))
    return lines


@lru_cache(100)
def _of_renamed(folder: Path) -> tuple[bytes, ...]:
    """Return patterns for the new names of guarded paths in a folder of the work tree."""
    lines: list[bytes] = []
    for row in guarded_paths("closed"):
        *above, last = row.parts
        new = f"{PREFIX}{last}" if last.endswith("*") else f"{last}{SUFFIX}"
        pattern = _pattern(folder.joinpath(*above, new))
        if is_pattern(row.parts):  # wildcards have the same meaning in git
            parent, _, name = pattern.rpartition(b"/")
            pattern = parent + b"/" + name.replace(b"\\*", b"*")
        lines += (pattern, pattern + b"-[0-9]*")
    return tuple(lines)


def _pattern(path: Path) -> bytes:
    """Return a pattern that matches only this path. A line break in the path is
    replaced by a wildcard for any character.
    """
    escaped = _SPECIAL.sub(rb"\\\g<0>", os.fsencode(path))
    return b"/" + re.sub(rb"[\r\n]", b"?", escaped)
