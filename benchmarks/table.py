"""What was measured, what it should be, and the table of both. Knows nothing of how a
figure comes about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    :ivar name: what is measured, from where to where.
    :ivar unit: ms, s, MiB, ...
    :ivar values: one for each run, in `unit`; never empty.
    :ivar target: the median should be at or below it; None where there is no target.
    :ivar peers: the same of other agents, by their names.
    """

    name: str
    unit: str
    values: list[float]
    target: float | None = None
    peers: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        return None if self.target is None else self.median <= self.target


@dataclass(frozen=True, slots=True)
class Failure:
    """A measure that did not work, which is something else than being slow.

    :ivar peer: whose; "" for ours.
    """

    name: str
    reason: str
    peer: str = ""


Outcome: TypeAlias = Figure | Failure

_HEAD = ("measure", "median", "min", "runs", "target", "")


def render(outcomes: Sequence[Outcome], peers: Sequence[str]) -> str:
    """The table as text, with the peers' medians and, in brackets, ours divided by
    them; failures stand below it.
    """
    rows = [(*_HEAD, *peers)]
    rows += [_row(figure, peers) for figure in outcomes if isinstance(figure, Figure)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    lines += [
        f"{failure.peer or 'FAILED'} {failure.name}: {failure.reason}"
        for failure in failures
    ]
    return "\n".join(lines)


def _row(figure: Figure, peers: Sequence[str]) -> tuple[str, ...]:
    target = "" if figure.target is None else f"{_number(figure.target)} {figure.unit}"
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    middle = f"{_number(figure.median)} {figure.unit}"
    cells = (_beside(figure, peer) if figure.peers else "" for peer in peers)
    return (
        figure.name,
        middle,
        _number(min(figure.values)),
        str(len(figure.values)),
        target,
        verdict,
        *cells,
    )


def _beside(figure: Figure, peer: str) -> str:
    if peer not in figure.peers:
        return "-"
    other = median(figure.peers[peer])
    return (
        f"{_number(other)} ({figure.median / other:.2f})"
        if figure.unit
        else _number(other)
    )


def _number(value: float) -> str:
    """Three digits that count, and no more of them after the point than help."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
