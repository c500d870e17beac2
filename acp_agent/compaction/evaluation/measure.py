"""Measuring: each method at each point of each recording, against what the rest of the recording needs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from acp_agent.compaction.estimate import estimate_message
from acp_agent.compaction.evaluation.facts import CLASSES, FactClass
from acp_agent.compaction.evaluation.methods import Method
from acp_agent.compaction.evaluation.needs import Need, Script
from acp_agent.compaction.evaluation.points import Point, points, state_at
from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.compaction.evaluation.texts import Remains
from acp_agent.errors import AgentError
from acp_agent.frozen import frozen


@frozen
class Tally:
    """How many of so many."""

    kept: int = 0
    needed: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.kept + other.kept, self.needed + other.needed)

    @property
    def share(self) -> float | None:
        """None where nothing was needed."""
        return self.kept / self.needed if self.needed else None


@frozen
class Measurement:
    """One method at one point.

    :ivar failure: why it came to nothing; nothing else is known then.
    :ivar classes: facts that were kept, of those that are needed, by class; the control class among them.
    :ivar around: the same of facts with the words around them.
    :ivar missed: facts of the classes that count which are gone.
    :ivar unverified: pieces of a model's summary that the conversation does not contain; None without a summary.
    :ivar seconds: that the method took.
    """

    recording: str
    point: Point
    method: str
    tokens_before: int = 0
    tokens_after: int = 0
    classes: tuple[tuple[FactClass, Tally], ...] = ()
    around: Tally = Tally()
    missed: tuple[Need, ...] = ()
    unverified: tuple[str, ...] | None = None
    seconds: float = 0.0
    failure: str = ""


NOTHING_TO_DO = "found nothing to compact"


async def measure(
    recordings: Sequence[Recording], methods: Sequence[Method], shares: Sequence[float], window: int | None = None
) -> AsyncIterator[Measurement]:
    """Measure, recording by recording and point by point.

    :param shares: of a recording's tokens, for the points.
    :param window: tokens of the window; chosen for each point where not given (see `state_at`).
    """
    for recording in recordings:
        script = Script(recording)
        for point in points(recording, shares):
            needs = script.needs(point.cut)
            for method in methods:
                yield await _measured(recording, point, method, needs, window)


async def _measured(
    recording: Recording, point: Point, method: Method, needs: tuple[Need, ...], window: int | None
) -> Measurement:
    began = time.perf_counter()
    try:
        outcome = await method.compact(state_at(recording, point.cut, window))
    except AgentError as error:
        return Measurement(recording.name, point, method.name, failure=str(error))
    seconds = time.perf_counter() - began
    if outcome is None:
        return Measurement(recording.name, point, method.name, failure=NOTHING_TO_DO)
    remains = Remains(outcome.messages)
    kept = {need for need in needs if need.kept(remains)}
    counted: dict[FactClass, Tally] = {kind: Tally() for kind in (*CLASSES, "words")}
    around = Tally()
    for need in needs:
        counted[need.kind] += Tally(need in kept, 1)
        if need.around and need.kind != "words":
            around += Tally(need in kept and need.kept_with_words(remains), 1)
    return Measurement(
        recording.name,
        point,
        method.name,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
        classes=tuple(counted.items()),
        around=around,
        missed=tuple(need for need in needs if need.kind != "words" and need not in kept),
        unverified=outcome.unverified if outcome.summary else None,
        seconds=seconds,
    )


def size(recording: Recording) -> int:
    """Tokens of all messages of a recording, estimated."""
    return sum(estimate_message(entry.message) for entry in recording.entries)
