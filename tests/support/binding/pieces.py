"""The compared form of a request: a list of pieces, each with a digest of its canonical
JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support.binding.records import Cached

SHOWN_CHARACTERS = 100
CHARACTERS_PER_TOKEN = 4
REASONING_CHARACTERS = 400
"""How long a piece of reasoning counts in the cache; its text does not have to be sent."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One compared piece of a request.

    :ivar path: place in the request.
    :ivar shown: its beginning, for people.
    :ivar names: the deferred tools that it brings into force.
    """

    digest: str
    path: str
    shown: str
    characters: int
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two requests differ.

    :ivar kind: `system`, `tools`, `messages`, `compaction`, `thinking`, or a
        parameter's name.
    :ivar path: in the newer request.
    """

    kind: str
    path: str
    words: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a piece of reasoning may not be read.

    :ivar reason: the provider's word for it.
    """

    reason: str
    difference: Difference


def piece(value: Any, path: str, names: frozenset[str] = frozenset()) -> Piece:
    text = json.dumps(
        canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Piece(digest, path, text[:SHOWN_CHARACTERS], len(text), names)


def canonical(value: Any) -> Any:
    """Return JSON without what its writing may vary: members that are null, and `1.0`
    for `1`.
    """
    if isinstance(value, Mapping):
        return {
            key: canonical(member)
            for key, member in value.items()
            if member is not None
        }
    if isinstance(value, list):
        return [canonical(member) for member in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def first_difference(
    kind: str, old: Sequence[Piece], new: Sequence[Piece]
) -> Difference | None:
    """Return the first difference between two lists of pieces; None if they are equal."""
    for index, (before, now) in enumerate(zip(old, new, strict=False)):
        if before.digest == now.digest:
            continue
        if now.digest in {other.digest for other in old[index + 1 :]}:
            return Difference(
                kind, now.path, f"{kind}: removed before {now.path}: {before.shown}"
            )
        if before.digest in {other.digest for other in new[index + 1 :]}:
            return Difference(
                kind, now.path, f"{kind}: inserted at {now.path}: {now.shown}"
            )
        return Difference(
            kind,
            now.path,
            f"{kind}: changed at {now.path}: was {before.shown}, is {now.shown}",
        )
    if len(old) > len(new):
        missing = old[len(new)]
        return Difference(
            kind, missing.path, f"{kind}: removed from the end: {missing.shown}"
        )
    if len(new) > len(old):
        added = new[len(old)]
        return Difference(
            kind, added.path, f"{kind}: inserted at {added.path}: {added.shown}"
        )
    return None


def tools_difference(
    old: Mapping[str, Piece], new: Mapping[str, Piece]
) -> Difference | None:
    """Compare tools as a set by name: their order does not count."""
    for name in sorted({*old, *new}):
        if name not in new:
            return Difference("tools", "tools", f"tools: {name} was removed")
        if name not in old:
            return Difference("tools", new[name].path, f"tools: {name} was added")
        if old[name].digest != new[name].digest:
            words = (
                f"tools: {name} changed: was {old[name].shown}, is {new[name].shown}"
            )
            return Difference("tools", new[name].path, words)
    return None


class PromptCache:
    """Counts what a provider's prompt cache would read: the longest beginning that was
    sent to the model before.
    """

    def __init__(self) -> None:
        self.calls: list[Cached] = []
        self._sent: list[tuple[str, list[str]]] = []

    def add(
        self, call: int, model: str, pieces: Sequence[Piece], uncached: int = 0
    ) -> Cached:
        """Note a call.

        :param uncached: characters after the pieces, which are never read from the
            cache.
        """
        digests = [each.digest for each in pieces]
        longest = 0
        for other, earlier in self._sent:
            if other == model:
                longest = max(longest, _common(digests, earlier))
        self._sent.append((model, digests))
        read = sum(each.characters for each in pieces[:longest])
        fresh = sum(each.characters for each in pieces[longest:]) + uncached
        cached = Cached(
            call, read // CHARACTERS_PER_TOKEN, fresh // CHARACTERS_PER_TOKEN + 1
        )
        self.calls.append(cached)
        return cached


def reasoning_piece(seal: str, path: str) -> Piece:
    """Return what a block of reasoning is in the cache; the prefix check has no such
    piece.
    """
    return Piece(seal, path, "reasoning", REASONING_CHARACTERS)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
