"""`Accumulator`: folds a sequence that grows at its end, processing each item only
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")
_S = TypeVar("_S")


class Accumulator(Generic[_T, _S]):
    """Folds tuples, each of which usually extends the previous one, as a conversation
    does from turn to turn.

    :param start: the fold of an empty tuple.
    :param add: takes a fold and the items that follow it, and returns the fold of both.
    """

    def __init__(self, start: _S, add: Callable[[_S, tuple[_T, ...]], _S]) -> None:
        self._start = start
        self._add = add
        self._items: tuple[_T, ...] = ()
        self._folded = start

    def over(self, items: tuple[_T, ...]) -> _S:
        """Return the fold of these items. Start over if they do not extend the items of
        the last call.
        """
        if items is self._items:
            return self._folded
        known = len(self._items)
        # Identical objects need no deep comparison.
        if items[:known] != self._items:
            known = 0
            self._items = ()
            self._folded = self._start
        if added := items[known:]:
            self._folded = self._add(self._folded, added)
        self._items = items
        return self._folded
