"""Keys of `compaction` that earlier versions had, in configuration files and in recipes."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import cast

from acp_agent.config.document import Document, Place, dotted

REMOVED = frozenset({"ledger", "requests", "summary", "tail", "target"})
"""`size` says now what they said together."""
RENAMED = {"ledger": "excerpts", "truncate": "excerpts"}
"""Strategies, and what they are called now."""


def current(document: Document, path: Path) -> tuple[Document, str]:
    """Return a document without removed keys and with the strategies' new names, and a notice of what was changed.

    :param path: the document's file, for the notice.
    :returns: the same document and an empty notice where it has nothing old.
    """
    removed = [place for place in document.lines if _is_compaction(place[:-1]) and place[-1] in REMOVED]
    strategies = [place for place in document.lines if _is_compaction(place[:-1]) and place[-1] == "strategy"]
    data, renamed = deepcopy(dict(document.data)), list[str]()
    for place in removed:
        del _section(data, place)[str(place[-1])]
    for place in strategies:
        section = _section(data, place)
        name = section["strategy"]
        if isinstance(name, str) and name in RENAMED:
            section["strategy"] = RENAMED[name]
            renamed.append(
                f"`{dotted(place)}: {name}` (line {document.lines[place]}) means `strategy: {RENAMED[name]}` now."
            )
    sentences = [_removal(removed, document), *renamed] if removed else renamed
    if not sentences:
        return document, ""
    return Document(data, document.lines), f"{path}: {' '.join(sentences)}"


def _removal(places: list[Place], document: Document) -> str:
    keys = [f"`{dotted(place)}` (line {document.lines[place]})" for place in places]
    named = " and ".join([", ".join(keys[:-1]), keys[-1]]) if len(keys) > 1 else keys[0]
    verb = "are" if len(keys) > 1 else "is"
    return f"{named} {verb} no longer used: `compaction.size` says how much the new context may take."


def _is_compaction(place: Place) -> bool:
    """Return whether a place is a `compaction` section, a single model's included."""
    match place:
        case ("compaction",) | ("models", str(), "compaction"):
            return True
        case _:
            return False


def _section(data: dict[str, object], place: Place) -> dict[str, object]:
    """Return the mapping that the key at a place stands in."""
    section = data
    for key in place[:-1]:
        section = cast("dict[str, object]", section[str(key)])
    return section
