"""What a call did to one path, and two forms of text that say it: patches, and Python that writes files.

Knows neither tools nor shells; whoever reads those makes touches of them.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from acp_agent.conversation.memory import Change
from acp_agent.frozen import frozen

Kind: TypeAlias = Literal["read", "create", "write", "alter", "delete", "restore"]
"""`write` gives a file all of its text, so that the model knows it; `alter` changes a part, or in ways that the model
has not seen; `create` makes one whose text the model has not seen; `restore` takes the agent's changes back."""

_LONGEST_PATH: Final = 1000
_NO_FILE: Final = re.compile(r"[\0-\x1f\x7f]|^-|^(?:/dev/|/proc/|&)|[`$]")


@frozen
class Touch:
    """One path that a call touched.

    :ivar path: absolute where the working directory is known.
    :ivar lines: the range that was read, from 1, both ends included; None for all or where it is not known.
    :ivar made: what the tool itself said about it; None where it did not.
    :ivar recorded: whether the session records the version of the file that the model has then seen.
    """

    kind: Kind
    path: str
    lines: tuple[int, int] | None = None
    made: Change | None = None
    recorded: bool = False


def joined(path: str, base: str) -> str | None:
    """A path as it is kept; None where this can be no file.

    :param path: relative to `base`, absolute, or a `file://` URI.
    :param base: absolute, or empty where it is not known.
    """
    if path.startswith("file://"):
        path = unquote(path[7:])
    if not path or len(path) > _LONGEST_PATH or _NO_FILE.search(path):
        return None
    found = path if path.startswith("~") else posixpath.normpath(posixpath.join(base, path))
    return None if found in (".", "/", base) else found


_PATCHED: Final = re.compile(r"^\*\*\* (Add File|Update File|Delete File|Move to):(.+)$", re.MULTILINE)
_DIFFED: Final = re.compile(r"^(---|\+\+\+) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)


def patched(text: str, base: str) -> list[Touch]:
    """The files of a patch: Codex's form (`*** Update File: …`), or a unified diff.

    :param base: directory that its paths are relative to.
    """
    touches: list[Touch] = []
    last: str | None = None
    if "*** Begin Patch" in text:
        for action, name in _PATCHED.findall(text):
            path = joined(name.strip(), base)
            if path is None:
                continue
            match action:
                case "Add File":
                    touches.append(Touch("write", path, made="created"))
                case "Delete File":
                    touches.append(Touch("delete", path))
                case "Move to":
                    if last is not None:
                        touches.append(Touch("delete", last))
                    touches.append(Touch("create", path))
                case _:
                    # The model wrote the change against what it had seen.
                    touches.append(Touch("write", path, made="edited"))
            last = path
        return touches
    before: str | None = None
    for mark, name in _DIFFED.findall(text):
        if mark == "---":
            before = name.strip()
        elif before is not None:
            after = name.strip()
            path = joined(before if after == "/dev/null" else after, base)
            if path is not None:
                made: Change = "created" if before == "/dev/null" else "edited"
                touches.append(Touch("delete", path) if after == "/dev/null" else Touch("write", path, made=made))
            before = None
    return touches


_QUOTED: Final = r"""[rR]?(['"])([^'"\n]{{1,1000}})\{0}"""
_NAMED: Final = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*(?:[\w.]*Path\()?" + _QUOTED.format(2), re.MULTILINE)
_OPENED: Final = re.compile(r"\bopen\(\s*(?:" + _QUOTED.format(1) + r"|(\w+))\s*,\s*(?:mode\s*=\s*)?['\"]([wax])")
_PATH_WRITTEN: Final = re.compile(
    r"(?:\bPath\(\s*" + _QUOTED.format(1) + r"\s*\)|\b(\w+))\.(?:write_text|write_bytes)\("
)


def written_by_python(code: str, base: str) -> list[Touch]:
    """Files that a piece of Python writes, where it names them by a string or by a variable that is one."""
    if "write" not in code:
        return []
    names = {name: path for name, _, path in _NAMED.findall(code)}
    found: dict[str, None] = {}
    for pattern in (_OPENED, _PATH_WRITTEN):
        for match in pattern.finditer(code):
            found[match.group(2) or names.get(match.group(3) or "", "")] = None
    paths = (joined(name, base) for name in found)
    return [Touch("alter", path) for path in paths if path is not None]
