"""File names that look like the name that a model wrote, but have other spaces, quotes,
dashes or accents.

macOS puts U+202F into the names of screenshots, and decomposes accented letters in
other names. A model writes plain spaces and composed letters. So it would never find
such a file, or it would create a second one next to it.
"""

from __future__ import annotations

import os
from pathlib import Path

from acp_agent.nofollow import entries_of, resolved
from acp_agent.tools.matching.near import differences, fold
from acp_agent.tools.text import one_line


def nearest(path: Path) -> Path:
    """Return a path in which each missing name is replaced by the only existing name
    that looks like it.

    :param path: absolute, without `..`.
    """
    if os.path.lexists(path):
        return path
    found = Path(path.anchor)
    for index, part in enumerate(path.parts[1:], 2):
        name = part
        if not os.path.lexists(found / part):
            alike = names_alike(found, part)
            if len(alike) != 1:
                return found.joinpath(part, *path.parts[index:])
            name = alike[0]
        found /= name
    return found


def names_alike(folder: Path, name: str) -> list[str]:
    """Return the names in a folder that look like `name`, or that are shown as `name`."""
    try:
        names = [each.name for each in entries_of(resolved(folder))]
    except (OSError, ValueError):
        return []
    folded = fold(name)
    return sorted(
        each
        for each in names
        if each != name and (fold(each) == folded or one_line(each, len(name)) == name)
    )


def name_difference(there: str, written: str) -> str:
    """Return how a name differs from one that looks like it, as a phrase to follow
    "whose name has".
    """
    if fold(there) != fold(written):
        return "characters that cannot be shown"
    return ", ".join(differences(there, written))
