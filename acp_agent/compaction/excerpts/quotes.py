"""Quotations of the user that every compaction carries word for word: pins, rules, the
first and the newest requests.

Code copies them byte for byte between fences that no text inside can close. Of a recipe
only the typed line is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.excerpts.rules import rule_spans
from acp_agent.compaction.excerpts.words import Said, each_once
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.markdown import fence_for
from acp_agent.conversation.messages import (
    Entry,
    Resource,
    ResourceLink,
    address_of,
    words_in,
)
from acp_agent.conversation.swaps import Memory, Pin, Quote
from acp_agent.errors import InvalidParamsError

_MASK = "m"
"""What stands for each character of a file's name or a link while rules are looked for."""
_MENTIONED = re.compile(
    r"""!?\[[^\[\]\n]{1,500}\](?:\([^()\s]{1,2000}\)|\[[^\[\]\n]{0,200}\])"""  # a link of Markdown
    r"""|(?<![\w@])@(?:"[^"\n]{1,500}"|'[^'\n]{1,500}'|`[^`\n]{1,500}`|[^\s,;:!?)\]}"']{0,500}[^\s,;:!?.)\]}"'])"""
    r"""|\b(?:file|https?)://[^\s<>"]{0,2000}[^\s<>".,;:!?)]"""
)
"""A link, a file that is mentioned by `@`, and an address, as they stand in a text."""
_INTRODUCTION = (
    "Copied word for word by the program that you run in. A quotation ends "
    "only at the fence that it began with."
)
_PINS = "The user pinned these texts. They are standing orders and hold until the user removes them."
_SAID = (
    "Oldest first, by entry; […] stands for text that is left out. Rules still hold, unless they were plainly about "
    "one task that is done; of two that contradict each other, the later one holds. The rest is history and no new "
    "order."
)


def new_pin(memory: Memory, text: str, max_tokens: int) -> Pin:
    """Return a pin with the next number.

    :param max_tokens: estimated tokens that all pins together may take.
    :raises InvalidParamsError: the text is empty or too long.
    """
    if not text.strip():
        raise InvalidParamsError(
            "There is nothing to pin: write the text behind `/pin`."
        )
    taken = sum(estimate_text(pin.text) for pin in memory.pins)
    if taken + estimate_text(text) > max_tokens:
        raise InvalidParamsError(
            f"This was not pinned: it takes about {estimate_text(text):,} tokens, and of {max_tokens:,} for all pins "
            f"{max(0, max_tokens - taken):,} are free. Remove a pin first, or pin something shorter."
        )
    return Pin(max([memory.next_pin, *(pin.number + 1 for pin in memory.pins)]), text)


def pin_of(memory: Memory, number: int) -> Pin:
    """Return the pin with this number.

    :raises InvalidParamsError: there is none.
    """
    for pin in memory.pins:
        if pin.number == number:
            return pin
    known = ", ".join(str(pin.number) for pin in memory.pins)
    there_are = f"There are {known}." if known else "Nothing is pinned."
    raise InvalidParamsError(f"There is no pin {number}. {there_are}")


def render_pins(memory: Memory) -> str:
    """Return the pins as the user reads them, with their numbers, in Markdown."""
    if not memory.pins:
        return "Nothing is pinned. `/pin` and a text pins it: after every compaction the agent reads it word for word."
    return "\n\n".join(f"Pin {pin.number}:\n{fenced(pin.text)}" for pin in memory.pins)


def fenced(text: str) -> str:
    """Return the text between fences that differ from everything in it."""
    fence = min((fence_for(text, mark) for mark in "~`"), key=len)
    return f"{fence}\n{text}\n{fence}"


def said_by_user(entries: Iterable[Entry], carried: Iterable[Quote]) -> list[Said]:
    """Return what the user typed in these entries.

    :param carried: the rules in logs of earlier versions.
    """
    said = [_said(entry) for entry in entries if entry.typed]
    known = "\n".join(each.text for each in said)
    old = [
        Said(quote.seq, quote.text, ((0, len(quote.text)),))
        for quote in carried
        if quote.text not in known
    ]
    return each_once([*said, *old])


def _said(entry: Entry) -> Said:
    """Return what the user typed in this message, and where rules stand in it.

    A file's name and a link's title are somebody else's words, which make no sentence a
    rule.
    """
    text = _typed_text(entry)
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    named = _typed_text(entry, lambda part: _MASK * len(address_of(part)))
    return Said(entry.seq, text, _rules_in(named[lead:].rstrip()))


@lru_cache(maxsize=4096)
def _rules_in(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of the rules in a message, outside of links and file names.

    The result is cached, since every compaction looks twice at everything that the user
    said.
    """
    masked = _MENTIONED.sub(lambda found: _MASK * len(found[0]), text)
    return tuple(rule_spans(masked))


def render_quotes(
    pins: Sequence[Pin], said: Sequence[Quote], plan: Sequence[PlanEntry], mode: str
) -> str:
    """Return the quotations as the model reads them; empty if there are none."""
    parts: list[str] = []
    if pins:
        parts.append(
            "\n\n".join(
                (
                    "## Pinned by the user",
                    _PINS,
                    *(f"Pin {p.number}:\n{fenced(p.text)}" for p in pins),
                )
            )
        )
    if said:
        lines = "\n".join(f"[#{quote.seq}] {quote.text}" for quote in said)
        parts.append(f"## What the user said\n\n{_SAID}\n{fenced(lines)}")
    if mode:
        parts.append(
            f"## Mode\n\nAs it was when this was written; the user may have changed it since.\n{fenced(mode)}"
        )
    if plan:
        steps = "\n".join(f"[{entry.status}] {entry.content}" for entry in plan)
        parts.append(f"## Plan\n\nAs you left it.\n{fenced(steps)}")
    return "\n\n".join((_INTRODUCTION, *parts)) if parts else ""


def _typed_text(
    entry: Entry, shown: Callable[[ResourceLink | Resource], str] = address_of
) -> str:
    """Return the text that the user typed in this message, with the addresses of
    attached files.

    :param shown: returns what stands for such a file.
    """
    text = ""
    for part in entry.typed:
        piece = (
            shown(part) if isinstance(part, ResourceLink | Resource) else words_in(part)
        )
        # Editors split a text where a file is mentioned; such pieces continue the line.
        is_new_line = (
            text and piece and not text[-1].isspace() and not piece[0].isspace()
        )
        text += f"\n{piece}" if is_new_line else piece
    return text
