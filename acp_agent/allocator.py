"""Limits the memory that glibc's allocator keeps for threads."""

from __future__ import annotations

import os
import sys
from functools import cache

_M_ARENA_MAX = -8


@cache
def limit_arenas() -> None:
    """Let threads that start from now on share the existing arenas of the allocator.

    By default, glibc creates a separate arena for each of many threads, and threads do
    not reuse memory that was freed in another arena. Worker threads compact
    conversations, so after a few thousand turns the agent would use a third more
    memory. Python's interpreter lock lets only one thread allocate at a time, so
    sharing an arena slows nothing down.

    Does nothing with other C libraries, or if the user has set `MALLOC_ARENA_MAX`.

    Source: mallopt(3)
    """
    if sys.platform != "linux" or "MALLOC_ARENA_MAX" in os.environ:
        return
    import ctypes  # imported here, since few commands of the command line need it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
