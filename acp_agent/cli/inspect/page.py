"""The page: a template, its style sheet, its script, and the data and picture of a
session, in one text.

A policy in it lets the browser run this script and no other, whatever a session's texts
hold.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Literal, TypeAlias, cast

from acp_agent.cli.inspect.entries import Block
from acp_agent.cli.inspect.story import Story
from acp_agent.cli.terminal.safe import Safe
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.tools.text import counted

Level: TypeAlias = Literal["window", "threshold", "prepare"]

MARK = "<!doctype html>\n<!-- a session of acp-agent, by `acp-agent inspect` -->\n"
"""How every page begins."""
_SENT = "Sent with the next request to the model."
_NOT_SENT = "No longer sent."
_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""In a script element: nothing in JSON may end the element or begin a comment."""
WIDTH = 960
HEIGHT = 320
_LEFT = 76
_RIGHT = 16
_TOP = 14
_BOTTOM = 40
_LABELS: Mapping[Level, str] = {
    "window": "window",
    "threshold": "compaction",
    "prepare": "prepared from here",
}


def page_data(
    story: Story,
    session_id: str,
    levels: Mapping[Level, int],
    safe: Safe,
    reasoning_sent: Container[str] | None = None,
) -> JsonObject:
    """Return what the page's script gets.

    A block's text stands there by its number in `texts`, since a message may stay
    through many compactions.

    :param levels: see `_plot`.
    :param safe: makes a text safe to be shown.
    :param reasoning_sent: ids of the answers whose reasoning the next request is sent
        with; None if that is not known.
    """
    numbers: dict[str, int] = {}

    def numbered(blocks: Sequence[Block]) -> list[tuple[object, ...]]:
        return [
            (*block[:4], numbers.setdefault(block.text, len(numbers)), block.shortened)
            for block in blocks
        ]

    def shown(value: object) -> JsonValue:
        match value:
            case str():
                return safe(value)
            case None | int() | float():
                return value
            case dict():
                return {
                    name: shown(each)
                    for name, each in cast("dict[str, object]", value).items()
                }
            case _:
                return [shown(each) for each in cast("Sequence[object]", value)]

    turns = [asdict(turn) for turn in story.turns]
    for turn in turns:
        turn["cost"] = sum(item["cost"] for item in turn["items"])
        for item in turn["items"]:
            message_id = item.pop("reasons")
            if message_id and reasoning_sent is not None:
                item["parts"].append(
                    ("Reasoning", _SENT if message_id in reasoning_sent else _NOT_SENT)
                )
    compactions = [
        {**asdict(each), "before": numbered(each.before), "after": numbered(each.after)}
        for each in story.compactions
    ]
    about = {
        "session": session_id,
        "title": story.title,
        "cwd": story.context.cwd,
        "model": story.model,
        "mode": story.context.mode,
        "began": story.began,
        "ended": story.ended,
        "head": story.head,
        "totals": totals(story),
        "turns": turns,
        "compactions": compactions,
        "steps": [asdict(step) for step in story.steps],
    }
    return {
        **cast("JsonObject", shown(about)),
        "texts": [*map(safe, numbers)],
        "plot": _plot(story, levels),
    }


def totals(story: Story) -> Mapping[str, float | None]:
    """Return sums over the session; of a fork, steps, tokens and costs are those since
    it was made.
    """
    steps = [step for step in story.steps if not step.elsewhere]
    items = [item for turn in story.turns for item in turn.items]
    sent = sum(step.sent for step in steps)
    return {
        "steps": len(steps),
        "calls": sum(item.kind == "call" for item in items),
        "failed": sum(
            item.kind == "call" and item.status == "failed" for item in items
        ),
        "sent": sent,
        "output": sum(step.output for step in steps),
        "cost": sum(item.cost for item in items),
        "compaction_cost": sum(each.cost for each in story.compactions),
        "other_cost": sum(
            item.cost
            for item in items
            if item.kind not in ("answer", "thought", "call", "compaction")
        ),
        "cached": sum(step.read for step in steps) / sent if sent else None,
    }


def html_page(data: JsonObject, *, live: bool = False) -> str:
    """Return the whole page.

    :param data: see `page_data`.
    :param live: whether the page asks where it came from for what is new.
    """
    style = _asset("inspect.css")
    script = _asset("inspect.js")
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )
    values = {
        "POLICY": escape(policy),
        "TITLE": escape(str(data["title"] or data["session"])),
        "LIVE": " data-live" if live else "",
        "STYLE": style,
        "DATA": json.dumps(data, separators=(",", ":")).translate(_SCRIPT),
        "SCRIPT": script,
    }
    return f"{MARK}{Template(_asset('inspect.html')).substitute(values)}"


@cache
def _asset(name: str) -> str:
    return files("acp_agent.cli.inspect").joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    digest = base64.b64encode(sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _plot(story: Story, levels: Mapping[Level, int]) -> str:
    """Return tokens of the context over the model calls, as SVG; "" for a session whose
    context was never measured.

    :param levels: tokens at which the model's window ends, a compaction is due, and a
        summary is prepared.
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
        shown += (
            line("grid", tokens),
            text("tick", x(0) - 8, y(tokens) + 4, "end", f"{tokens:,}"),
        )
    shown += (
        text("tick", x(step), y(0) + 16, "middle", f"{step:,}")
        for step in _ticks(steps)
    )
    shown.append(
        text(
            "tick",
            (x(0) + x(steps)) / 2,
            HEIGHT - 6,
            "middle",
            "model calls; up: tokens",
        )
    )
    for name, tokens in levels.items():
        shown.append(line(f"level {name}", tokens))
        shown.append(
            text(
                f"label {name}",
                x(steps),
                y(tokens) - 4,
                "end",
                f"{_LABELS[name]} {tokens:,}",
            )
        )
    path = "L".join(f"{x(point.step)} {y(point.tokens)}" for point in story.points)
    shown.append(f'<path class="used" d="M{path}"/>')
    places = {
        point.compaction: x(point.step)
        for point in story.points
        if point.compaction is not None
    }
    for index, at in places.items():  # each drop is a link to its compaction
        each = story.compactions[index]
        high, low = each.tokens
        undone = ", undone later" if each.undone else ""
        label = escape(
            f"Compaction {each.number}: {high:,} to {low:,} tokens, {each.trigger}{undone}"
        )
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
