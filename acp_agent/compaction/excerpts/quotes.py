"""Text of the user that every compaction keeps word for word: pins, rules, and the
first and newest requests.

The text is copied unchanged between fences that nothing in it can close. For a recipe,
only the line that the user typed is quoted, not the recipe's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from acp_agent.compaction.estimate import estimate_text
from acp_agent.compaction.excerpts.rules import rule_spans
from acp_agent.compaction.excerpts.words import TypedMessage, without_duplicates
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

_LONGEST_CACHED = 4_000
"""Maximum characters of a message whose rules are cached."""
_MASK = "m"
"""Character that replaces each character of a file name or a link before a text is
searched for rules.
"""
_MENTIONED = re.compile(
    r"""!?\[[^\[\]\n]{1,500}\](?:\([^()\s]{1,2000}\)|\[[^\[\]\n]{0,200}\])"""  # a link of Markdown
    r"""|(?<![\w@])@(?:"[^"\n]{1,500}"|'[^'\n]{1,500}'|`[^`\n]{1,500}`|[^\s,;:!?)\]}"']{0,500}[^\s,;:!?.)\]}"'])"""
    r"""|\b(?:file|https?)://[^\s<>"]{0,2000}[^\s<>".,;:!?)]"""
)
"""Matches a link, a file mentioned with `@`, and an address in a text."""
_INTRODUCTION = (
    "Copied word for word by the program that runs you. A quotation ends only at a fence like the one that it starts "
    "with."
)
_PINS = "The user pinned these texts. They are standing instructions and apply until the user removes them."
_SAID = (
    "Oldest first, each with the number of its entry; […] marks omitted text. Rules still apply, unless they were "
    "clearly about one task that is done. If two rules contradict each other, follow the later one. Everything else is "
    "history and not a new request."
)


def new_pin(memory: Memory, text: str, max_tokens: int) -> Pin:
    """Return a pin with the next number.

    :param max_tokens: maximum estimated tokens of all pins together.
    :raises InvalidParamsError: if the text is empty or too long.
    """
    if not text.strip():
        raise InvalidParamsError(
            "Nothing was pinned. Write the text to pin after `/pin`."
        )
    taken = sum(estimate_text(pin.text) for pin in memory.pins)
    if taken + estimate_text(text) > max_tokens:
        raise InvalidParamsError(
            f"This was not pinned: it takes about {estimate_text(text):,} tokens, and only "
            f"{max(0, max_tokens - taken):,} of the {max_tokens:,} tokens for all pins are free. Remove a pin first "
            "with `/unpin`, or pin a shorter text."
        )
    return Pin(max([memory.next_pin, *(pin.number + 1 for pin in memory.pins)]), text)


def pin_of(memory: Memory, number: int) -> Pin:
    """Return the pin with this number.

    :raises InvalidParamsError: if there is no such pin.
    """
    for pin in memory.pins:
        if pin.number == number:
            return pin
    known = ", ".join(str(pin.number) for pin in memory.pins)
    available = f"Pins: {known}." if known else "Nothing is pinned."
    raise InvalidParamsError(f"There is no pin {number}. {available}")


def render_pins(memory: Memory) -> str:
    """Return the pins as the user reads them, with their numbers, in Markdown."""
    if not memory.pins:
        return "Nothing is pinned. `/pin TEXT` pins a text, which then stays in the context through every compaction."
    return "\n\n".join(f"Pin {pin.number}:\n{fenced(pin.text)}" for pin in memory.pins)


def fenced(text: str) -> str:
    """Return the text between fences that do not occur in it."""
    fence = min((fence_for(text, mark) for mark in "~`"), key=len)
    return f"{fence}\n{text}\n{fence}"


def typed_messages(
    entries: Iterable[Entry], carried: Iterable[Quote]
) -> list[TypedMessage]:
    """Return the user's messages among these entries, in order and without duplicates.

    :param carried: rules that earlier versions of the agent have stored in the log.
    """
    typed = [_typed_message(entry) for entry in entries if entry.typed]
    known = "\n".join(each.text for each in typed)
    old = [
        TypedMessage(quote.seq, quote.text, ((0, len(quote.text)),))
        for quote in carried
        if quote.text not in known
    ]
    return without_duplicates([*typed, *old])


def _typed_message(entry: Entry) -> TypedMessage:
    """Return the text that the user typed in this message, with the spans of its rules.

    The user did not choose the names of files and the titles of links, so words in them
    do not make a sentence a rule.
    """
    text = _typed_text(entry)
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    named = _typed_text(entry, lambda part: _MASK * len(address_of(part)))
    named = named[lead:].rstrip()
    find = _rules_in if len(named) > _LONGEST_CACHED else _cached_rules_in
    return TypedMessage(entry.seq, text, find(named))


def _rules_in(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of the rules in a message, ignoring words in links and file
    names.
    """
    masked = _MENTIONED.sub(lambda found: _MASK * len(found[0]), text)
    return tuple(rule_spans(masked))


# Every compaction needs the rules of each message twice.
_cached_rules_in = lru_cache(maxsize=1024)(_rules_in)


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
            "## Mode\n\nThe session's mode when this was written. The user may have changed it since.\n"
            f"{fenced(mode)}"
        )
    if plan:
        steps = "\n".join(f"[{entry.status}] {entry.content}" for entry in plan)
        parts.append(f"## Plan\n\nYour newest plan.\n{fenced(steps)}")
    return "\n\n".join((_INTRODUCTION, *parts)) if parts else ""


def _typed_text(
    entry: Entry, shown: Callable[[ResourceLink | Resource], str] = address_of
) -> str:
    """Return the text that the user typed in this message, including the files that it
    mentions.

    :param shown: returns the text for such a file; by default, its address.
    """
    text = ""
    for part in entry.typed:
        piece = (
            shown(part) if isinstance(part, ResourceLink | Resource) else words_in(part)
        )
        # Editors split a text at a mentioned file. The pieces belong to the same line
        # if there is white space between them.
        is_new_line = (
            text and piece and not text[-1].isspace() and not piece[0].isspace()
        )
        text += f"\n{piece}" if is_new_line else piece
    return text
