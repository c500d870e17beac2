"""What runs in a thread, counted by calls of the agent's functions: the same on every machine, however busy it is.

    with agent_calls() as calls:
        await service(state, policy, model)
    assert calls.count < 100                    # in this thread, the event loop's; other threads are not counted

Each step of a generator counts as a call.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from support.checkout import REPOSITORY

PACKAGE = str(REPOSITORY / "acp_agent")


class Calls:
    """Calls by function.

    :ivar by_name: file and name of a function, with how often it was called.
    """

    def __init__(self) -> None:
        self.by_name: Counter[tuple[str, str]] = Counter()

    @property
    def count(self) -> int:
        return self.by_name.total()

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            self.by_name[code.co_filename.removeprefix(PACKAGE), code.co_name] += 1


@contextmanager
def agent_calls() -> Iterator[Calls]:
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
