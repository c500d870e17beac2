"""The picture of a session: tokens of the context over its model calls, as SVG; the page's style sheet colours it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Literal, TypeAlias

from acp_agent.cli.inspect.story import Story
from acp_agent.tools.text import counted

Level: TypeAlias = Literal["window", "threshold", "prepare"]

WIDTH, HEIGHT = 960, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 14, 40
_LABELS: Mapping[Level, str] = {"window": "window", "threshold": "compaction", "prepare": "prepared from here"}


def plot(story: Story, levels: Mapping[Level, int]) -> str:
    """Return the picture; "" for a session whose context was never measured.

    :param levels: tokens at which the model's window ends, a compaction is due, and a summary is prepared.
    """
    if not story.points:
        return ""
    steps = max(1, story.points[-1].step)
    highest = 1.05 * max(*(point.tokens for point in story.points), *levels.values(), 1)

    def x(step: float) -> float:
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * step / steps, 1)

    def y(tokens: float) -> float:
        return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * tokens / highest, 1)

    def text(kind: str, at: float, below: float, anchor: str, words: str) -> str:
        return f'<text class="{kind}" x="{at}" y="{below}" text-anchor="{anchor}">{words}</text>'

    def line(kind: str, tokens: float) -> str:
        return f'<line class="{kind}" x1="{x(0)}" x2="{x(steps)}" y1="{y(tokens)}" y2="{y(tokens)}"/>'

    shown: list[str] = []
    for tokens in _ticks(highest):
        shown += line("grid", tokens), text("tick", x(0) - 8, y(tokens) + 4, "end", f"{tokens:,}")
    shown += (text("tick", x(step), y(0) + 16, "middle", f"{step:,}") for step in _ticks(steps))
    shown.append(text("tick", (x(0) + x(steps)) / 2, HEIGHT - 6, "middle", "model calls; up: tokens"))
    for name, tokens in levels.items():
        shown.append(line(f"level {name}", tokens))
        shown.append(text(f"label {name}", x(steps), y(tokens) - 4, "end", f"{_LABELS[name]} {tokens:,}"))
    path = "L".join(f"{x(point.step)} {y(point.tokens)}" for point in story.points)
    shown.append(f'<path class="used" d="M{path}"/>')
    places = {point.compaction: x(point.step) for point in story.points if point.compaction is not None}
    for index, at in places.items():  # each drop is a link to its compaction
        each = story.compactions[index]
        high, low = each.tokens
        undone = ", undone later" if each.undone else ""
        label = escape(f"Compaction {each.number}: {high:,} to {low:,} tokens, {each.trigger}{undone}")
        shown.append(
            f'<a class="drop{" undone" if each.undone else ""}" href="#compaction-{each.number}" aria-label="{label}">'
            f'<title>{label}</title><line x1="{at}" x2="{at}" y1="{y(high)}" y2="{y(low)}"/>'
            f'<circle cx="{at}" cy="{y(high)}" r="5"/><circle class="low" cx="{at}" cy="{y(low)}" r="4"/></a>'
        )
    title = f"Context size over {counted(len(story.steps), 'step')}, with {counted(len(places), 'compaction')}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-labelledby="plot-title"><title id="plot-title">{title}</title>{"".join(shown)}</svg>'
    )


def _ticks(most: float) -> list[int]:
    """Return round numbers from 0 on, four to ten of them where there is room."""
    size = 1
    while most / size > 8:
        size = size * 2 if str(size)[0] in "15" else size * 5 // 2
    return [*range(0, int(most) + 1, size)]
