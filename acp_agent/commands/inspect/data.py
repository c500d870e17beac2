"""What the page's script gets: an inspection as JSON, each text in it once.

A message that stays through ten compactions is one text and ten numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from acp_agent.commands.safe import Safe
from acp_agent.inspection.story import prompt_tokens
from acp_agent.inspection.views import Block, Compaction, Inspection, Item, Step, Turn
from acp_agent.protocol import JsonObject, JsonValue

_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


class Texts:
    """The texts by number. A number once given stays, so that a page which follows a session need not forget any.

    :param safe: is asked of every text.
    :param growing: is asked of one that goes on, of which the end may be the beginning of a secret.
    """

    def __init__(self, safe: Safe, growing: Safe) -> None:
        self.safe = safe
        self.growing = growing
        self._numbers: dict[str, int] = {}
        self.all: list[JsonValue] = []

    def number(self, text: str) -> int:
        """Its number, a new one where it has none yet."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.all)
            self.all.append(self.safe(text))
        return number


def page_data(seen: Inspection, session_id: str, plot: str, texts: Texts) -> JsonObject:
    """All that the page shows.

    :param plot: the picture, as SVG.
    :param texts: takes the texts in.
    """
    safe, totals = texts.safe, seen.totals
    return {
        "session": safe(session_id),
        "title": safe(seen.title),
        "cwd": safe(seen.cwd),
        "model": safe(seen.model),
        "mode": safe(seen.mode),
        "began": seen.began,
        "ended": seen.ended,
        "head": seen.head,
        "totals": {
            "steps": totals.steps,
            "calls": totals.calls,
            "failed": totals.failed_calls,
            "input": totals.input,
            "read": totals.cache_read,
            "write": totals.cache_write,
            "output": totals.output,
            "cost": totals.cost,
            "compactionCost": totals.compaction_cost,
            "cached": totals.cache_share,
        },
        "turns": [_turn(turn, texts) for turn in seen.turns],
        "compactions": [_compaction(each, texts) for each in seen.compactions],
        "steps": [_step(step, safe) for step in seen.steps],
        "plot": plot,
        "texts": texts.all,
    }


def script_json(value: JsonValue) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"))
    for character, escaped in _SCRIPT.items():
        text = text.replace(character, escaped)
    return text


def _turn(turn: Turn, texts: Texts) -> JsonObject:
    return {
        "number": turn.number,
        "at": turn.at,
        "ended": turn.ended,
        "title": texts.number(turn.title),
        "stop": turn.stop_reason,
        "error": texts.number(turn.error) if turn.error else None,
        "cost": turn.cost,
        "items": [_item(item, texts) for item in turn.items],
    }


def _item(item: Item, texts: Texts) -> JsonObject:
    # An answer that still streams is another text at every look.
    grows = item.kind == "answer" and item.status == "open"
    parts: list[JsonValue] = [
        [part.label, texts.growing(part.text) if grows else texts.number(part.text)] for part in item.parts
    ]
    return {
        "seq": item.seq,
        "at": item.at,
        "kind": item.kind,
        "title": texts.number(item.title),
        "parts": parts,
        "status": item.status,
        "ms": item.milliseconds,
        "cost": item.cost,
        "compaction": item.compaction,
        "marks": [texts.number(mark) for mark in item.marks],
    }


def _compaction(each: Compaction, texts: Texts) -> JsonObject:
    return {
        "number": each.number,
        "id": texts.number(each.id),
        "seq": each.seq,
        "at": each.at,
        "trigger": each.trigger,
        "status": each.status,
        "strategy": texts.number(each.strategy),
        "recipe": texts.number(each.recipe),
        "tokens": [each.tokens_before, each.tokens_after],
        "seconds": each.seconds,
        "waited": each.waited,
        "requests": each.requests,
        "cached": each.cached,
        "cost": each.cost,
        "error": texts.number(each.error) if each.error else None,
        "notes": [texts.number(note) for note in each.notes],
        "undone": each.undone,
        "before": _blocks(each.before, texts),
        "after": _blocks(each.after, texts),
    }


def _blocks(blocks: Sequence[Block], texts: Texts) -> list[JsonValue]:
    return [
        [block.layer, block.role, block.seq, block.tokens, texts.number(block.text), block.shortened]
        for block in blocks
    ]


def _step(step: Step, safe: Safe) -> JsonObject:
    return {
        "number": step.number,
        "turn": step.turn,
        "model": safe(step.model),
        "sent": prompt_tokens(step),
        "read": step.cache_read,
        "write": step.cache_write,
        "output": step.output,
        "cost": step.cost,
        "elsewhere": step.elsewhere,
    }
