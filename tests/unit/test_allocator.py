"""Threads share the arenas of the allocator."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from support.checkout import REPOSITORY

COUNT = """
import ctypes, sys, threading
from acp_agent.allocator import limit_arenas

if sys.argv[1] == "limited":
    limit_arenas()
barrier = threading.Barrier(6)

def allocate():
    kept = [bytes(10_000) for _ in range(50)]
    barrier.wait(20)
    return kept

threads = [threading.Thread(target=allocate) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = libc.fdopen(1, b"w")
libc.malloc_info(0, ctypes.c_void_p(out))
libc.fflush(ctypes.c_void_p(out))
"""


def arenas(how: str) -> int:
    env = {
        name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"
    }
    ran = subprocess.run(
        [sys.executable, "-c", COUNT, how],
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ran.stdout.count("<heap nr=")


@pytest.mark.process
@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas"
)
def test_threads_share_one_arena_of_the_allocator() -> None:
    assert arenas("unlimited") > 3
    assert arenas("limited") == 1
