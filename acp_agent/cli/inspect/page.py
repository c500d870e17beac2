"""The page: a template, its style sheet, its script and the data of a session, in one text that needs nothing else.

A policy in it lets the browser run this script and no other, whatever a session's texts hold.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import cast

from acp_agent.cli.inspect.entries import Block, Part
from acp_agent.cli.inspect.story import Story
from acp_agent.cli.terminal.safe import Safe
from acp_agent.protocol import JsonObject, JsonValue

MARK = "<!doctype html>\n<!-- a session of acp-agent, by `acp-agent inspect` -->\n"
"""How every page begins."""
_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def page_data(story: Story, session_id: str, plot: str, safe: Safe, growing: Safe | None = None) -> JsonObject:
    """Return what the page's script gets.

    A block's text stands there by its number in `texts`, since a message may stay through many compactions.

    :param plot: the picture, as SVG.
    :param safe: makes a text safe to be shown.
    :param growing: does so for a text whose end may be the beginning of a secret; None for `safe`.
    """
    numbers: dict[str, int] = {}

    def numbered(blocks: Sequence[Block]) -> list[tuple[object, ...]]:
        return [(*block[:4], numbers.setdefault(block.text, len(numbers)), block.shortened) for block in blocks]

    def shown(value: object) -> JsonValue:
        match value:
            case str():
                return safe(value)
            case None | int() | float():
                return value
            case dict():
                return {name: shown(each) for name, each in cast("dict[str, object]", value).items()}
            case _:
                return [shown(each) for each in cast("Sequence[object]", value)]

    turns = [asdict(turn) for turn in story.turns]
    for turn in turns:
        turn["cost"] = sum(item["cost"] for item in turn["items"])
    if (partial := story.partial()) is not None:
        partial.parts = [Part(label, (growing or safe)(text)) for label, text in partial.parts]
        turns[-1]["items"].append(asdict(partial))
    compactions = [
        {**asdict(each), "before": numbered(each.before), "after": numbered(each.after)} for each in story.compactions
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
    return {**cast("JsonObject", shown(about)), "texts": [*map(safe, numbers)], "plot": plot}


def totals(story: Story) -> Mapping[str, float | None]:
    """Return sums over the session; of a fork, steps, tokens and costs are those since it was made."""
    steps = [step for step in story.steps if not step.elsewhere]
    items = [item for turn in story.turns for item in turn.items]
    sent = sum(step.sent for step in steps)
    return {
        "steps": len(steps),
        "calls": sum(item.kind == "call" for item in items),
        "failed": sum(item.kind == "call" and item.status == "failed" for item in items),
        "sent": sent,
        "output": sum(step.output for step in steps),
        "cost": sum(item.cost for item in items),
        "compaction_cost": sum(each.cost for each in story.compactions),
        "cached": sum(step.read for step in steps) / sent if sent else None,
    }


def script_json(value: JsonValue) -> str:
    """Return JSON that can stand in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"))
    for character, escaped in _SCRIPT.items():
        text = text.replace(character, escaped)
    return text


def html_page(data: JsonObject, *, live: bool = False) -> str:
    """Return the whole page.

    :param data: see `page_data`.
    :param live: whether the page asks where it came from for what is new.
    """
    style, script = _asset("inspect.css"), _asset("inspect.js")
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )
    values = {
        "POLICY": escape(policy),
        "TITLE": escape(str(data["title"] or data["session"])),
        "LIVE": " data-live" if live else "",
        "STYLE": style,
        "DATA": script_json(data),
        "SCRIPT": script,
    }
    # Split first: what is put in must not be looked through for further fields.
    first, *rest = _asset("inspect.html").split("@@")
    filled = "".join(values[piece] if number % 2 == 0 else piece for number, piece in enumerate(rest))
    return f"{MARK}{first}{filled}"


@cache
def _asset(name: str) -> str:
    return files("acp_agent.cli.inspect").joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    digest = base64.b64encode(sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
