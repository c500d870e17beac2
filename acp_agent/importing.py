"""Imports in threads that are given up when the process ends.

One that loads an SDK, a thousand modules, would hold the interpreter again and again while the sessions are being
closed. Only what says so is given up: what the end itself needs, a hook that imports something in its last moment among
it, is loaded as ever. Knows no package.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

_this_thread = threading.local()


class GivenUpError(ImportError):
    """The module is not loaded any more, since the process ends."""


@contextmanager
def given_up_at_the_end() -> Generator[None]:
    """Around what a thread loads for somebody who is cancelled when the process ends and does not wait for the thread:
    behind `give_up`, its next import raises `GivenUpError`."""
    before: bool = getattr(_this_thread, "gives_up", False)
    _this_thread.gives_up = True
    try:
        yield
    finally:
        _this_thread.gives_up = before


def give_up() -> None:
    """The process ends, and whoever waited for such imports has been told."""
    if not any(isinstance(finder, _NothingMore) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NothingMore())


class _NothingMore:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if getattr(_this_thread, "gives_up", False):
            raise GivenUpError(f"{name} is not loaded any more: the process is ending", name=name)
