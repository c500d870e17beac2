"""A folder and a link that change places without end, as a hostile command makes them.

with exchanged(folder, link):  # each is at either of the two paths, and at no time at neither
    ...
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
LOOP = """
import ctypes, os, sys
one, other = map(os.fsencode, sys.argv[1:])
rename = ctypes.CDLL(None).renameat2
while True:
    rename(-100, one, -100, other, 2)
"""
"""A program that exchanges two paths until it is ended."""


def exchange(one: Path, other: Path) -> None:
    """Exchange two paths at once."""
    renamed = ctypes.CDLL(None, use_errno=True).renameat2(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    )
    assert renamed == 0, os.strerror(ctypes.get_errno())


@contextmanager
def exchanged(one: Path, other: Path) -> Iterator[None]:
    """Exchange two paths in a thread inside the `with` block. Afterwards, each is where
    it was.
    """
    ended = threading.Event()
    count = 0

    def run() -> None:
        nonlocal count
        while not ended.is_set() or count % 2:
            exchange(one, other)
            count += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
