"""Records running commands, so that the next agent finds what they created if their own
agent was killed.

While a command runs, a file in the agent's home describes the state before the command.
The agent touches the file ten times a second and holds a lock on it, which is released
no matter how the agent exits. So a file without a lock was left by an agent that was
killed. Its commands ended with it and made no later changes. A command in an editor's
terminal may have continued, so all later changes are treated as the command's.

Source: flock(2); bwrap(1), `--die-with-parent`
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from acp_agent.frozen import frozen
from acp_agent.sandbox.baseline import Baseline, Survey
from acp_agent.sandbox.blocked import GuardedFolder
from acp_agent.sandbox.further import Further
from acp_agent.sandbox.placeholders import is_mounted_elsewhere
from acp_agent.sandbox.repositories import Repository
from acp_agent.sandbox.tips import Tips

_SUFFIX = ".json"
_LATER_NS = 2_000_000_000
"""Maximum time in nanoseconds that a command may continue after the last touch, until
it has been killed as well.
"""
_MOST_BYTES = 64 * 1024 * 1024


@frozen
class Left:
    """A command whose agent was killed.

    :ivar baseline: the state before the command.
    :ivar until: the time after which the command cannot have created anything, in
        nanoseconds since the epoch.
    """

    baseline: Baseline
    until: int


@contextmanager
def recorded(folder: Path | None, baseline: Baseline) -> Generator[Callable[[], None]]:
    """Keep the state before a command on disk inside the `with` block, and yield a
    function that touches the file.

    :param folder: a folder that commands can neither read nor write. If None, nothing
        is stored.
    """
    if folder is None:
        yield lambda: None
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = os.urandom(16).hex()
    temporary = folder / f"{name}.tmp"
    path = folder / f"{name}{_SUFFIX}"
    file = os.open(
        temporary,
        os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
        0o600,
    )
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        with os.fdopen(os.dup(file), "wb") as opened:
            opened.write(json.dumps(_as_json(baseline)).encode())
        temporary.rename(path)
        yield lambda: os.utime(file)
    finally:
        for each in (path, temporary):
            each.unlink(missing_ok=True)
        os.close(file)


def left_behind(folder: Path | None) -> Iterator[Left]:
    """Yield the commands of agents that were killed. Each record is deleted when the
    iteration continues.

    A command that is still running, for example in an editor's terminal, is yielded
    again the next time.
    """
    for path in _files(folder):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            baseline = _read(path)
            if baseline is not None:
                is_running = any(map(is_mounted_elsewhere, baseline.roots))
                touched = os.fstat(file).st_mtime_ns + _LATER_NS
                yield Left(
                    baseline, touched if baseline.ends_with_agent else time.time_ns()
                )
                if is_running:
                    continue
            path.unlink(missing_ok=True)
        except BlockingIOError:  # its agent is still running
            continue
        finally:
            os.close(file)


def tips_known(folder: Path | None) -> dict[Path, list[AbstractSet[str]]]:
    """Return the user's commits, as recorded for each command that is running or was
    left behind.

    The keys are the common directories of the repositories.
    """
    found: dict[Path, list[AbstractSet[str]]] = {}
    for path in _files(folder):
        baseline = _read(path)
        for tips in (*baseline.tips, *baseline.nested) if baseline is not None else ():
            found.setdefault(tips.repository.common, []).append(tips.commits.keys())
    return found


def _files(folder: Path | None) -> list[Path]:
    try:
        return (
            []
            if folder is None
            else sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX)
        )
    except OSError:
        return []


def _read(path: Path) -> Baseline | None:
    """Return the content of a file; None if the file is gone, or was written by another
    version of the agent.
    """
    with suppress(OSError, ValueError, KeyError, TypeError), path.open("rb") as file:
        return _of_json(json.loads(file.read(_MOST_BYTES)))
    return None


def _as_json(baseline: Baseline) -> dict[str, Any]:
    before = baseline.before
    return {
        "roots": _texts(baseline.roots),
        "writable": _texts(baseline.writable),
        "marks": {str(mark): inode for mark, inode in before.marks.items()},
        "links": _texts(sorted(before.links)),
        "is_whole": before.is_whole,
        "at": before.at,
        "further": {str(mark): inode for mark, inode in before.further.marks.items()},
        "is_whole_further": before.further.is_whole,
        "has_all_behind": before.further.has_all_behind,
        "protected": _texts(sorted(baseline.protected)),
        "places": [
            [str(each.folder), each.paths, list(each.targets.items())]
            for each in baseline.places
        ],
        "states": {
            str(git): [[path, what.decode("latin-1")] for path, what in sorted(state)]
            for git, state in baseline.states.items()
        },
        "tips": [_of_tips(each) for each in baseline.tips],
        "nested": [_of_tips(each) for each in baseline.nested],
        "network": baseline.network,
        "ends_with_agent": baseline.ends_with_agent,
    }


def _of_json(kept: dict[str, Any]) -> Baseline:
    before = Survey(
        {Path(mark): inode for mark, inode in kept["marks"].items()},
        frozenset(_paths(kept["links"])),
        kept["is_whole"],
        kept["at"],
        Further(
            {Path(mark): inode for mark, inode in kept.get("further", {}).items()},
            {},
            kept.get("is_whole_further", False),
            kept.get("has_all_behind", False),
        ),
    )
    places = tuple(
        GuardedFolder(
            Path(folder),
            tuple(map(tuple, paths)),
            {tuple(path): target for path, target in targets},
        )
        for folder, paths, targets in kept["places"]
    )
    states = {
        Path(git): frozenset(
            (tuple(path), what.encode("latin-1")) for path, what in state
        )
        for git, state in kept["states"].items()
    }
    tips, nested = (tuple(map(_tips_of, kept[key])) for key in ("tips", "nested"))
    return Baseline(
        _paths(kept["roots"]),
        _paths(kept["writable"]),
        before,
        frozenset(_paths(kept["protected"])),
        places,
        states,
        tips,
        nested,
        kept["network"],
        kept["ends_with_agent"],
    )


def _of_tips(tips: Tips) -> list[Any]:
    repository = tips.repository
    folders = (repository.work_tree, repository.folder, repository.common)
    return [
        *_texts(folders),
        dict(tips.commits),
        sorted(tips.others),
        sorted(tips.strange),
        sorted(tips.replaced),
    ]


def _tips_of(kept: Sequence[Any]) -> Tips:
    work_tree, folder, common, commits, others, strange, replaced = kept
    repository = Repository(Path(work_tree), Path(folder), Path(common))
    return Tips(
        repository,
        cast("Mapping[str, str]", commits),
        frozenset(others),
        frozenset(strange),
        frozenset(map(tuple, replaced)),
    )


def _texts(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]


def _paths(texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(map(Path, texts))
