"""Quotations of the user that every compaction carries word for word: pins, rules, the first and the newest requests.

Code copies them byte for byte between fences that no text inside can close. Of a recipe only the typed line is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN, estimate_text
from acp_agent.compaction.excerpts.rules import same_rule_key, stated_rules
from acp_agent.compaction.shortening import SHORTEST_PIECE, LeftOut, cut_middle
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.markdown import fence_for
from acp_agent.conversation.messages import Entry, Resource, ResourceLink, address_of, words_in
from acp_agent.conversation.swaps import Memory, Pin, Quote
from acp_agent.errors import InvalidParamsError

QUOTE_TOKENS = 8
"""Tokens of the number and the fences of one quotation."""

_MENTION, _MENTION_END = "mention\ue000", "\ue001"
"""What stands for a file or a link while rules are looked for: a word that begins no line and no sentence."""
_WITHOUT = re.compile(f"{_MENTION}([0-9]{{1,6}}){_MENTION_END}")
_CUT_MENTION = re.compile(f"{_MENTION}[0-9]{{0,6}}$")
_MENTIONED = re.compile(
    r"""!?\[[^\[\]\n]{1,500}\](?:\([^()\s]{1,2000}\)|\[[^\[\]\n]{0,200}\])"""  # a link of Markdown
    r"""|(?<![\w@])@(?:"[^"\n]{1,500}"|'[^'\n]{1,500}'|`[^`\n]{1,500}`|[^\s,;:!?)\]}"']{0,500}[^\s,;:!?.)\]}"'])"""
    r"""|\b(?:file|https?)://[^\s<>"]{0,2000}[^\s<>".,;:!?)]"""
)
"""A link, a file that is mentioned by `@`, and an address, as they stand in a text."""
_INTRODUCTION = (
    "Copied word for word from the earlier part of this conversation by the program that you run in; nothing here was "
    "rewritten by a model. What stands between two fences is quoted: however it looks, it ends only at the same fence."
)
_PINS = "The user pinned these texts. They are standing orders and hold until the user removes them."
_RULES = (
    "Sentences of the user that state a rule, oldest first, each with the number of the entry it is from. They still "
    "hold, unless they were plainly about one task that is done; where two contradict each other, the later one holds."
)
_REQUESTS = (
    "What the user asked for, oldest first. This is history and no new order: the messages that follow say what is "
    "wanted now."
)


def new_pin(memory: Memory, text: str, max_tokens: int) -> Pin:
    """Return a pin with the next number.

    :param max_tokens: estimated tokens that all pins together may take.
    :raises InvalidParamsError: the text is empty or too long.
    """
    if not text.strip():
        raise InvalidParamsError("There is nothing to pin: write the text behind `/pin`.")
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


def rules_of(entries: Iterable[Entry], carried: Iterable[Quote], max_tokens: int) -> tuple[Quote, ...]:
    """Return the rules that the user stated, each once at its newest place, in order; the shortest if not all fit.

    :param carried: the rules in logs of earlier versions.
    """
    rules = {same_rule_key(quote.text): quote for quote in carried}
    for entry in entries:
        for text in _rules_stated(entry):
            rules.pop(same_rule_key(text), None)
            rules[same_rule_key(text)] = Quote(entry.seq, text)
    fitting: set[str] = set()
    for key, quote in sorted(rules.items(), key=lambda item: len(item[1].text)):
        max_tokens -= estimate_text(f"[#{quote.seq}] {quote.text}\n")
        if max_tokens < 0:
            break
        fitting.add(key)
    return tuple(quote for key, quote in rules.items() if key in fitting)


def _rules_stated(entry: Entry) -> list[str]:
    """Return the rules in what the user typed. A file's name and a link's title are somebody else's words: they make
    no sentence a rule, and they stand in one that the user's own words make one."""
    mentions: list[str] = []

    def without(mention: str) -> str:
        mentions.append(mention)
        return f"{_MENTION}{len(mentions) - 1}{_MENTION_END}"

    own = _typed_text(entry, lambda part: without(address_of(part)))
    own = _MENTIONED.sub(lambda found: without(found[0]), own)

    def whole(rule: str) -> str:
        # Once more for an address that stands in the title of a link.
        for _ in range(2):
            rule = _WITHOUT.sub(lambda found: mentions[int(found[1])] if int(found[1]) < len(mentions) else "", rule)
        return _CUT_MENTION.sub("", rule)

    return [whole(rule) for rule in _rules_in(own)]


@lru_cache(maxsize=4096)
def _rules_in(text: str) -> tuple[str, ...]:
    """See `stated_rules`; kept, since every compaction looks through all that the user said, and twice."""
    return tuple(stated_rules(text))


def requests_of(entries: Iterable[Entry], max_tokens: int, *, recall: bool) -> tuple[Quote, ...]:
    """Return the first request of the user and as many of the newest as fit, in order.

    A long one is shortened in the middle: the first to half of the tokens, the last one that fits to the rest.
    """
    requests = {entry.seq: text for entry in entries if (text := _typed_text(entry)).strip()}
    quotes: dict[int, Quote] = {}
    for seq in [*list(requests)[:1], *reversed(requests)]:
        if seq in quotes:
            continue
        is_first = not quotes and len(requests) > 1
        limit = ((max_tokens // 2 if is_first else max_tokens) - QUOTE_TOKENS) * CHARACTERS_PER_TOKEN
        text = requests[seq]
        if len(text) > limit:
            if limit < SHORTEST_PIECE:
                break
            text = cut_middle(text, limit, LeftOut(seq, recall))
        quotes[seq] = Quote(seq, text)
        max_tokens -= estimate_text(text) + QUOTE_TOKENS
    return tuple(quotes[seq] for seq in sorted(quotes))


def render_quotes(
    pins: Sequence[Pin], rules: Sequence[Quote], requests: Sequence[Quote], plan: Sequence[PlanEntry], mode: str
) -> str:
    """Return the quotations as the model reads them; empty if there are none."""
    parts: list[str] = []
    if pins:
        parts.append(
            "\n\n".join(("## Pinned by the user", _PINS, *(f"Pin {p.number}:\n{fenced(p.text)}" for p in pins)))
        )
    if rules:
        lines = "\n".join(f"[#{rule.seq}] {rule.text}" for rule in rules)
        parts.append(f"## Rules that the user stated\n\n{_RULES}\n\n{fenced(lines)}")
    if requests:
        quoted = (f"[#{quote.seq}]\n{fenced(quote.text)}" for quote in requests)
        parts.append("\n\n".join(("## Earlier requests of the user", _REQUESTS, *quoted)))
    if mode:
        parts.append(f"## Mode\n\nAs it was when this was written; the user may have changed it since.\n{fenced(mode)}")
    if plan:
        steps = "\n".join(f"[{entry.status}] {entry.content}" for entry in plan)
        parts.append(f"## Plan\n\nAs you left it.\n{fenced(steps)}")
    return "\n\n".join((_INTRODUCTION, *parts)) if parts else ""


def _typed_text(entry: Entry, shown: Callable[[ResourceLink | Resource], str] = address_of) -> str:
    """Return the text that the user typed in this message, with the addresses of attached files.

    :param shown: returns what stands for such a file.
    """
    text = ""
    for part in entry.typed:
        piece = shown(part) if isinstance(part, ResourceLink | Resource) else words_in(part)
        # Editors split a text where a file is mentioned; such pieces continue the line.
        is_new_line = text and piece and not text[-1].isspace() and not piece[0].isspace()
        text += f"\n{piece}" if is_new_line else piece
    return text
