"""What was measured, what it should be, and the table of both. Knows nothing of how a figure comes about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    :ivar name: what is measured, from where to where.
    :ivar unit: ms, s, MiB, ...
    :ivar values: one for each run, in `unit`; never empty.
    :ivar target: the median should be at or below it; None where there is no target.
    :ivar best: the quickest of twelve other agents, in words, as far as it is known.
    """

    name: str
    unit: str
    values: Sequence[float]
    target: float | None = None
    best: str = ""

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
    """A measure that did not work, which is something else than being slow."""

    name: str
    reason: str


Outcome: TypeAlias = Figure | Failure

_HEAD = ("measure", "median", "min", "runs", "target", "", "quickest of twelve others")


def render(outcomes: Sequence[Outcome]) -> str:
    """The table as text; failures stand below it."""
    rows = [_HEAD, *(_row(figure) for figure in outcomes if isinstance(figure, Figure))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * max(len(line) for line in lines))
    failures = [f"FAILED {outcome.name}: {outcome.reason}" for outcome in outcomes if isinstance(outcome, Failure)]
    return "\n".join([*lines, *failures])


def _row(figure: Figure) -> tuple[str, ...]:
    target = "" if figure.target is None else f"{_number(figure.target)} {figure.unit}"
    verdict = {None: "", True: "met", False: "MISSED"}[figure.met]
    middle = f"{_number(figure.median)} {figure.unit}"
    return figure.name, middle, _number(min(figure.values)), str(len(figure.values)), target, verdict, figure.best


def _line(row: tuple[str, ...], widths: Sequence[int]) -> str:
    name, *numbers, verdict, best = row
    cells = [name.ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(numbers, widths[1:-2], strict=True)]
    return "  ".join([*cells, verdict.ljust(widths[-2]), best]).rstrip()


def _number(value: float) -> str:
    """Three digits that count, and no more of them after the point than help."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
