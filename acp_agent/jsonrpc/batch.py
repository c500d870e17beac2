"""The answer to one request, and how the answers to a batch of them come together.

Does not run anything and does not send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acp_agent.jsonrpc.router import AfterResponse


class Answer(NamedTuple):
    """What goes out for a call.

    :param line: the encoded response; None for a notification.
    :param followers: what is to be done once that line is in the outgoing queue.
    """

    line: bytes | None
    followers: Sequence[AfterResponse]


class Batch:
    """Answers that go out together, as one array in the order of the requests.

    :param size: how many elements the incoming array has.
    """

    __slots__ = ("_followers", "_lines", "_missing")

    def __init__(self, size: int) -> None:
        self._lines: list[bytes | None] = [None] * size
        self._followers: list[AfterResponse] = []
        self._missing = size

    def settle(self, index: int, answer: Answer) -> Answer | None:
        """Note the answer to one element, each exactly once; returns the whole when it was the last one missing.

        A batch of notifications has no line at all.
        """
        self._lines[index] = answer.line
        self._followers.extend(answer.followers)
        self._missing -= 1
        if self._missing:
            return None
        lines = [line.removesuffix(b"\n") for line in self._lines if line is not None]
        return Answer(b"[" + b",".join(lines) + b"]\n" if lines else None, self._followers)
