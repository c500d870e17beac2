"""Recognizes messages that programs print about paths closed by the sandbox, and
explains them to the model.

Source: git's builtin/clean.c, entry.c and unlink_or_warn; rm of GNU coreutils
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from acp_agent.sandbox.guarded_paths import is_guarded
from acp_agent.sandbox.policy import GUARDED
from acp_agent.visible import on_one_line

_REMOVED = re.compile(
    r"^(?:warning: failed to remove|rm: cannot remove|rmdir: failed to remove) '?(?P<path>[^'\n]+?)/?'?"
    r": Device or resource busy\r?(?:\n|\Z)",
    re.MULTILINE,
)
"""Matches an error about an empty folder that could not be removed."""
_OF_GIT = "warning: failed to remove "
_STASHED = "Saved working directory and index state "
"""Git's message after it has saved a stash, and before it cleans the work tree."""
_UNWRITTEN = re.compile(
    r"^(?:error|warning): unable to (?:unlink|unlink old|create file) '?(?P<path>[^'\n]+?)'?"
    r": (?:Device or resource busy|Read-only file system|Is a directory)\r?$",
    re.MULTILINE,
)
"""Matches git's message about a file of another commit that it cannot write. Git
continues after it.
"""


_MOST_NAMED = 200
"""Maximum number of renamed paths to list for the model."""


def split_placeholders(output: str, roots: Sequence[Path]) -> tuple[str, str]:
    """Remove errors about the sandbox's empty folders, which a command could not
    remove, from its output.

    :param roots: the session's directories, which do not contain these folders after
        the command.
    :returns: the rest of the output, and a sentence about the errors, which is empty if
        there are none.
    """
    names: dict[str, None] = {}

    def drop(found: re.Match[str]) -> str:
        name = found["path"].rstrip("/").rpartition("/")[2]
        if name not in GUARDED or any(_is_filled(root / name) for root in roots):
            return found[0]
        names[name] = None
        return ""

    rest = _REMOVED.sub(drop, output)
    if not names:
        return output, ""
    about_git = ""
    if _STASHED in output:
        about_git = (
            " git stopped there: the stash is complete, but the tracked files still have their changes, which are also"
            " in the stash. Run `git reset --hard` to finish."
        )
    elif _OF_GIT in output:
        excludes = " ".join(f"-e {name}" for name in names)
        about_git = (
            " git has removed everything else, and its exit status is 1 only because of these folders. If that matters,"
            f" run `git clean` with `{excludes}`."
        )
    return rest, (
        f"({', '.join(names)}: the sandbox puts empty folders there while a command runs. They are mount points, which"
        " the kernel does not remove. They are gone now, so nothing needs to be removed."
        f"{about_git})"
    )


def unchanged_files(output: str) -> str:
    """Return a sentence about files that git left unchanged because the sandbox never
    writes to them.

    :returns: an empty string if there are none.
    """
    paths = dict.fromkeys(found["path"] for found in _UNWRITTEN.finditer(output))
    closed = [path for path in paths if is_guarded(Path(path))]
    if not closed:
        return ""
    return (
        f"(Not changed, since the sandbox never writes there: {', '.join(closed)}. `git status` shows what is left to "
        "do. Do it only for these paths, such as with `git checkout HEAD -- PATH`, and set `outside: true`.)"
    )


def renamed_files(blocked: Sequence[str]) -> str:
    """Return a sentence about paths that the sandbox renamed.

    :param blocked: see `Sandbox.wrap`.
    :returns: an empty string if there are none.
    """
    if not blocked:
        return ""
    lines = [on_one_line(line) for line in blocked[:_MOST_NAMED]]
    more = len(blocked) - len(lines)
    listed = ", ".join(lines) + (f" and {more} more" if more else "")
    old, _, new = lines[0].partition(" → ")
    return (
        f"(Renamed, because other programs run files with these names automatically: {listed}. Do not "
        "commit the new name, or the old name as deleted. If the user wants a file back under its old name, run "
        f"`mv {shlex.quote(new)} {shlex.quote(old)}` with `outside: true`, which asks the user. If a git operation "
        "such as a rebase stops halfway, start and continue it in the same command.)"
    )


def _is_filled(path: Path) -> bool:
    try:
        return path.exists() and not (path.is_dir() and not any(path.iterdir()))
    except OSError:
        return True
