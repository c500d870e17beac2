"""How an SDK is loaded: with the first prompt, as quickly as it can be.

An SDK's thousands of classes take more memory than all else of the agent, which nobody is to pay for a session that is
only open. Knows neither of them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from acp_agent.importing import given_up_at_the_end


@cache
@given_up_at_the_end()
def prepare(sdk: str) -> None:
    """Import what both SDKs stand on, which takes little memory, and make one ready to be loaded. Run it in a thread.

    :param sdk: the SDK's package.
    """
    import pydantic  # pyright: ignore[reportUnusedImport]  # noqa: F401

    import acp_agent.llm.connecting  # pyright: ignore[reportUnusedImport]  # noqa: F401

    spec = find_spec(sdk)
    if sdk in sys.modules or spec is None or spec.origin is None or sys.dont_write_bytecode:
        return
    folder = Path(spec.origin).parent
    if os.access(folder, os.W_OK):
        import compileall

        # Some installers leave it to the first import, which takes seconds then. Of what is compiled already the heads
        # are read, so that the disk is not waited for later.
        compileall.compile_dir(folder, quiet=2)


@contextmanager
def loading(sdk: str) -> Generator[None]:
    """Around the import of an SDK, in a thread: no garbage is collected meanwhile, and what is there afterwards is left
    out of every later collection. The end of the process does not wait for it.

    Once only: what sessions leave behind later is to be collected.

    An SDK is a hundred thousand objects that stay. To look through them again and again is a fifth of its import, and
    one look through all of them, in some later turn, stops the turn for 0.1 s.

    :param sdk: the SDK's package.
    """
    if sdk in sys.modules:
        yield
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        with given_up_at_the_end():
            yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
