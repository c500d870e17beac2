"""The picture of a session: tokens of the context over its steps, as SVG.

Pure. Nothing in it needs a script, a style sheet or the network; the page's style sheet gives it its colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Literal, TypeAlias

from acp_agent.frozen import frozen
from acp_agent.inspection.views import Inspection, ModelLines, Point

LineName: TypeAlias = Literal["window", "threshold", "prepare"]

WIDTH, HEIGHT = 960, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 14, 40
_MOST_POINTS = 1_500
"""More are not seen on so many pixels."""
_LABELS: Mapping[LineName, str] = {"window": "window", "threshold": "compaction", "prepare": "prepared from here"}


def plot(seen: Inspection, lines: Mapping[str, ModelLines]) -> str:
    """The picture.

    :param lines: of the models in it, by `provider/model`; a model that is not there has no lines.
    """
    if not seen.points:
        return ""
    levels = [level for name in {point.model for point in seen.points} for level in _levels(lines.get(name))]
    highest = max(*(point.tokens for point in seen.points), *(tokens for _, tokens in levels), 1)
    scale = _Scale(max(1, seen.points[-1].step), highest * 1.05)
    drops = [tuple(points) for _, points in groupby(_drops(seen), key=lambda point: point.compaction)]
    count = sum(1 for each in seen.compactions if each.status == "completed")
    title = f"Context size over {_count(len(seen.steps), 'step')}, with {_count(count, 'compaction')}"
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" ',
            f'aria-labelledby="plot-title"><title id="plot-title">{title}</title>',
            *_axes(scale),
            *(_segment(*each, scale) for each in _segments(seen.points, lines)),
            f'<path class="used" d="{_path(thinned(seen.points), scale)}"/>',
            *(_drop(points, seen, scale) for points in drops),
            "</svg>",
        )
    )


def thinned(points: Sequence[Point], most: int = _MOST_POINTS) -> Sequence[Point]:
    """At most so many points with the same outline: of each stretch the lowest and the highest one, and all at which
    something other than a step happened.

    :param most: at least 2, not counting the latter.
    """
    if len(points) <= most:
        return points
    size = -(-len(points) // (most // 2))
    kept: list[Point] = []
    for begin in range(0, len(points), size):
        stretch = range(begin, min(begin + size, len(points)))
        ends = {min(stretch, key=lambda n: points[n].tokens), max(stretch, key=lambda n: points[n].tokens)}
        kept += [points[n] for n in stretch if n in ends or points[n].kind in ("compacted", "restored")]
    return kept


@frozen
class _Scale:
    """From steps and tokens to places in the picture."""

    steps: int
    tokens: float

    def x(self, step: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * step / self.steps, 1)

    def y(self, tokens: float) -> float:
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * tokens / self.tokens, 1)


def _levels(lines: ModelLines | None) -> list[tuple[LineName, int]]:
    if lines is None:
        return []
    levels: list[tuple[LineName, int | None]] = [
        ("window", lines.window),
        ("threshold", lines.threshold),
        ("prepare", lines.prepare),
    ]
    return [(name, tokens) for name, tokens in levels if tokens is not None]


def _segments(
    points: Sequence[Point], lines: Mapping[str, ModelLines]
) -> Iterable[tuple[LineName, int, float, float, bool]]:
    """Name, tokens, first and last step of every level line, and whether it is the last of its name."""
    runs = [tuple(run) for _, run in groupby(points, key=lambda point: point.model)]
    for number, run in enumerate(runs):
        begins = 0.0 if number == 0 else float(run[0].step)
        ends = float(run[-1].step if number == len(runs) - 1 else runs[number + 1][0].step)
        for name, tokens in _levels(lines.get(run[0].model)):
            yield name, tokens, begins, max(ends, begins), number == len(runs) - 1


def _segment(name: LineName, tokens: int, begins: float, ends: float, last: bool, scale: _Scale) -> str:
    y, right = scale.y(tokens), scale.x(scale.steps if last else ends)
    line = f'<line class="level {name}" x1="{scale.x(begins)}" x2="{right}" y1="{y}" y2="{y}"/>'
    if not last:
        return line
    return (
        f'{line}<text class="label {name}" x="{right}" y="{y - 4}" text-anchor="end">{_LABELS[name]} {tokens:,}</text>'
    )


def _axes(scale: _Scale) -> Iterable[str]:
    bottom, left, right = scale.y(0), scale.x(0), scale.x(scale.steps)
    for tokens in _ticks(scale.tokens):
        y = scale.y(tokens)
        yield f'<line class="grid" x1="{left}" x2="{right}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{left - 8}" y="{y + 4}" text-anchor="end">{tokens:,}</text>'
    for step in _ticks(scale.steps):
        yield f'<text class="tick" x="{scale.x(step)}" y="{bottom + 16}" text-anchor="middle">{step:,}</text>'
    middle = (left + right) / 2
    yield f'<text class="tick" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">model calls; up: tokens</text>'


def _ticks(most: float) -> list[int]:
    """Round numbers from 0 on, four to ten of them where there is room."""
    size = 1
    while most / size > 8:
        size = size * 2 if str(size)[0] in "15" else size * 5 // 2
    return [*range(0, int(most) + 1, size)]


def _path(points: Sequence[Point], scale: _Scale) -> str:
    return "M" + "L".join(f"{scale.x(point.step)} {scale.y(point.tokens)}" for point in points)


def _drops(seen: Inspection) -> Iterable[Point]:
    return (point for point in seen.points if point.kind == "compacted")


def _drop(points: Sequence[Point], seen: Inspection, scale: _Scale) -> str:
    """The fall at a compaction, as a link to it."""
    high, low = points[0], points[-1]
    assert high.compaction is not None
    each = seen.compactions[high.compaction]
    undone = ", undone later" if each.undone else ""
    words = f"Compaction {each.number}: {high.tokens:,} to {low.tokens:,} tokens, {each.trigger}{undone}"
    label, x = escape(words), scale.x(high.step)
    top, bottom = scale.y(high.tokens), scale.y(low.tokens)
    return (
        f'<a class="drop{" undone" if each.undone else ""}" href="#compaction-{each.number}" aria-label="{label}">'
        f'<title>{label}</title><line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'
        f'<circle cx="{x}" cy="{top}" r="5"/><circle class="low" cx="{x}" cy="{bottom}" r="4"/></a>'
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
