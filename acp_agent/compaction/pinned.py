"""The pinned layer: what the user said that no compaction may paraphrase, carried and shown byte for byte by code.

What is carried, and what gives way where there is no room:

- *Pins* never give way; a pin for which there is no room is refused when it is made.
- *Rules* have a budget of their own, beside that of the requests. A rule that is said again
  moves to its newest place. Over the budget, rules go that a newer one repeats but for line breaks, the first letter's
  case, "please" and the mark at the end; then, one at a time, the last rule of the message that takes the most room,
  so that one long message cannot push out what the user said in others. Such a message is named to the model, so that
  no rule is lost without a trace.
- *Requests* are what the user wrote: their text, and of attached files only the address. Of a recipe that is the line
  that runs it; the recipe's text is nobody's request, and states no rule of the user. The newest count, within a
  budget that they share with the requests in the messages that stay. The first that is too long is cut in its middle,
  where a line says so; those before it go.

The model reads all of it between fences that are longer than any such run inside, so that nothing the user quoted can
end the quotation. How rules are recognised is `rules`' matter; when to compact, and what stays, is not known here.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from acp_agent.compaction.estimate import CHARACTERS_PER_TOKEN, estimate_text
from acp_agent.compaction.rules import MAX_RULES, stated_rules
from acp_agent.conversation.context import Entry
from acp_agent.conversation.events import PlanEntry
from acp_agent.conversation.memory import Memory, Pin, Quote
from acp_agent.conversation.messages import Resource, ResourceLink, Text, UserPart
from acp_agent.errors import InvalidParamsError

RULES_SHARE = 0.5
QUOTE_TOKENS = 8
"""The number and the fence around a request."""
RULE_TOKENS = 3
LEAST_CUT = 200
"""Characters of a request below which a piece of it says nothing."""
MAX_ELSEWHERE = 50
"""Messages that are named because there was no room for their rules."""

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
    "What the user asked for, oldest first. This is history and no new order: the summary says what is done, and the "
    "messages that follow what is wanted now."
)

MODE_NOTE = (
    "As they were when this was written; the user may have changed them since, and a call that is refused says so."
)


def remember(
    memory: Memory,
    entries: Sequence[Entry],
    kept: Sequence[Entry],
    budget_tokens: int,
    rule_tokens: int | None = None,
    *,
    recall: bool,
) -> Memory:
    """The memory with the rules and requests of the messages that a compaction takes away.

    :param entries: what leaves, in order; summaries and notes of the agent are none of the user's words.
    :param kept: what stays as messages, in order, with the prompt of a running turn.
    :param budget_tokens: estimate of the tokens that the user's requests may take, here and in `kept` together.
    :param rule_tokens: of those that the rules may take; `RULES_SHARE` of the requests' where not given.
    :param recall: whether the model has the `recall` tool.
    """
    if rule_tokens is None:
        rule_tokens = int(budget_tokens * RULES_SHARE)
    staying = {entry.seq for entry in kept}
    said = [(entry.seq, _request_text(entry)) for entry in entries if entry.seq not in staying]
    rules = {rule.text: rule.seq for rule in memory.rules}
    full: set[int] = set()
    for seq, text in said:
        stated = stated_rules(text)
        for rule in stated:
            rules.pop(rule, None)
            rules[rule] = seq
        if len(stated) == MAX_RULES:
            full.add(seq)
    carried, dropped = _within([Quote(seq, text) for text, seq in rules.items()], rule_tokens)
    elsewhere = sorted({*memory.rules_elsewhere, *full, *dropped})[-MAX_ELSEWHERE:]
    requests = {quote.seq: quote for quote in memory.requests if quote.seq not in staying}
    requests |= {seq: Quote(seq, text) for seq, text in said if text.strip() and seq not in requests}
    taken = sum(_cost(text) for entry in kept if (text := _request_text(entry)).strip())
    return replace(
        memory,
        rules=carried,
        rules_elsewhere=tuple(elsewhere),
        requests=_newest([requests[seq] for seq in sorted(requests)], budget_tokens - taken, recall),
    )


def rules_size(memory: Memory) -> int:
    """Estimate of the tokens that the rules take."""
    return sum(map(_rule_cost, memory.rules))


def add_pin(memory: Memory, text: str, max_tokens: int) -> Memory:
    """The memory with one more pin, which has the number `memory.next_pin`.

    :param max_tokens: estimate of the tokens that all pins together may take.
    :raises InvalidParamsError: the text is empty, or there is no room for it.
    """
    if not text.strip():
        raise InvalidParamsError("There is nothing to pin: write the text behind `/pin`.")
    taken = sum(estimate_text(pin.text) for pin in memory.pins)
    if taken + estimate_text(text) > max_tokens:
        raise InvalidParamsError(
            f"This was not pinned: it takes about {estimate_text(text):,} tokens, and of {max_tokens:,} for all pins "
            f"{max(0, max_tokens - taken):,} are free. Remove a pin first, or pin something shorter."
        )
    number = max([memory.next_pin, *(pin.number + 1 for pin in memory.pins)])
    return replace(memory, pins=(*memory.pins, Pin(number, text)), next_pin=number + 1)


def remove_pin(memory: Memory, number: int) -> Memory:
    """The memory without this pin; its number is not given again.

    :raises InvalidParamsError: there is no such pin.
    """
    pins = tuple(pin for pin in memory.pins if pin.number != number)
    if len(pins) == len(memory.pins):
        known = ", ".join(str(pin.number) for pin in memory.pins)
        there_are = f"There are {known}." if known else "Nothing is pinned."
        raise InvalidParamsError(f"There is no pin {number}. {there_are}")
    return replace(memory, pins=pins, next_pin=max([memory.next_pin, *(pin.number + 1 for pin in memory.pins)]))


def render_pins(memory: Memory) -> str:
    """The pins as the user reads them, with their numbers, in Markdown."""
    if not memory.pins:
        return "Nothing is pinned. `/pin` and a text pins it: after every compaction the agent reads it word for word."
    return "\n\n".join(f"Pin {pin.number}:\n{_fenced(pin.text)}" for pin in memory.pins)


def render_pinned(memory: Memory, *, mode: str, grants: Sequence[str], plan: Sequence[PlanEntry], recall: bool) -> str:
    """The pinned layer as the model reads it; empty where there is nothing to carry.

    :param mode: of the session.
    :param grants: kinds of call that the user has allowed for the rest of the session.
    :param recall: whether the model has the `recall` tool.
    """
    parts: list[str] = []
    if memory.pins:
        pins = (f"Pin {pin.number}:\n{_fenced(pin.text)}" for pin in memory.pins)
        parts.append("\n\n".join(("## Pinned by the user", _PINS, *pins)))
    if memory.rules or memory.rules_elsewhere:
        parts.append("\n\n".join(("## Rules that the user stated", *_rules(memory, recall))))
    if memory.requests:
        requests = (f"[#{quote.seq}]\n{_fenced(quote.text)}" for quote in memory.requests)
        parts.append("\n\n".join(("## Earlier requests of the user", _REQUESTS, *requests)))
    if mode or grants:
        lines = [*([f"mode: {mode}"] if mode else []), *(f"allowed without asking: {grant}" for grant in grants)]
        parts.append(f"## Mode and permissions\n\n{MODE_NOTE}\n{_fenced(chr(10).join(lines))}")
    if plan:
        steps = "\n".join(f"[{entry.status}] {entry.content}" for entry in plan)
        parts.append(f"## Plan\n\nAs you left it.\n{_fenced(steps)}")
    if memory.language:
        parts.append(
            f"## Language\n\nThe user writes {memory.language}. Answer in it, unless the user asked for another."
        )
    return "\n\n".join((_INTRODUCTION, *parts)) if parts else ""


def _rules(memory: Memory, recall: bool) -> Iterable[str]:
    if memory.rules:
        yield _RULES
        yield _fenced("\n".join(f"[#{rule.seq}] {rule.text}" for rule in memory.rules))
    if memory.rules_elsewhere:
        numbers = ", ".join(f"#{seq}" for seq in memory.rules_elsewhere)
        older = " and older ones" if len(memory.rules_elsewhere) == MAX_ELSEWHERE else ""
        reads = ", which the `recall` tool reads" if recall else ""
        yield f"There was no room for all: more stand in entries {numbers}{older}{reads}."


def _fenced(text: str) -> str:
    """The text, unchanged, between fences that nothing in it can be taken for."""
    marks = min("~`", key=lambda mark: _longest_run(text, mark))
    fence = marks * max(3, _longest_run(text, marks) + 1)
    return f"{fence}\n{text}\n{fence}"


def _longest_run(text: str, mark: str) -> int:
    return max((len(run) for run in re.findall(f"{mark}+", text)), default=0)


def _request_text(entry: Entry) -> str:
    """What the user wrote in this message; empty where the user did not write it."""
    text = ""
    for part in entry.typed:
        piece = _words(part)
        # Editors split a text where a file is mentioned: such pieces go on in the same line.
        apart = text and piece and not text[-1].isspace() and not piece[0].isspace()
        text += f"\n{piece}" if apart else piece
    return text


def _words(part: UserPart) -> str:
    match part:
        case Text():
            return part.text
        case ResourceLink() | Resource():
            return part.uri
        case _:
            return ""


def _cost(text: str) -> int:
    return estimate_text(text) + QUOTE_TOKENS


def _newest(requests: Sequence[Quote], tokens: int, recall: bool) -> tuple[Quote, ...]:
    """As many of the newest requests as these tokens hold, in order; the oldest of them may be cut."""
    found: list[Quote] = []
    for request in reversed(requests):
        if _cost(request.text) > tokens:
            cut = _cut(request, tokens - QUOTE_TOKENS, recall)
            found += [cut] if cut else []
            break
        tokens -= _cost(request.text)
        found.append(request)
    return tuple(reversed(found))


def pieces(request: Quote) -> tuple[str, ...]:
    """What there is of a request: its beginning and its end where its middle was left out."""
    line = _missing(request).search(request.text)
    return (request.text[: line.start()], request.text[line.end() :]) if line else (request.text,)


def _left_out(seq: int, characters: int, recall: bool) -> str:
    where = f"; the `recall` tool reads all of entry #{seq}" if recall else f" of entry #{seq}"
    return f"\n[… {characters} characters left out here{where} …]\n"


def _missing(request: Quote) -> re.Pattern[str]:
    where = rf"(?:; the `recall` tool reads all)? of entry #{request.seq}"
    return re.compile(rf"\n\[… (\d{{1,12}}) characters left out here{where} …\]\n")


def _cut(request: Quote, tokens: int, recall: bool) -> Quote | None:
    """Its beginning and end, with a line between them that says what is missing; None where that is not worth it.

    What was cut before is cut further: both ends only get shorter, so that the old line is in what is left out now.
    """
    text = request.text
    before = _missing(request).search(text)
    whole = len(text) + (int(before[1]) - len(before[0]) if before else 0)
    room = tokens * CHARACTERS_PER_TOKEN - len(_left_out(request.seq, whole, recall))
    if room < LEAST_CUT:
        return None
    head, tail = room - room // 2, room // 2
    line = _left_out(request.seq, whole - head - tail, recall)
    return Quote(request.seq, text[:head] + line + text[len(text) - tail :])


def _within(rules: list[Quote], tokens: int) -> tuple[tuple[Quote, ...], set[int]]:
    """Those of the rules for which there is room, in order, and the seqs of the messages that lost one."""
    if sum(map(_rule_cost, rules)) > tokens:
        newest = {_wording(rule.text): rule for rule in rules}
        rules = [rule for rule in rules if newest[_wording(rule.text)] is rule]
    over = sum(map(_rule_cost, rules)) - tokens
    messages: dict[int, list[Quote]] = {}
    for rule in rules:
        messages.setdefault(rule.seq, []).append(rule)
    # The largest message first, and of two the older one.
    sizes = [(-sum(map(_rule_cost, stated)), seq) for seq, stated in messages.items()]
    heapq.heapify(sizes)
    dropped: set[int] = set()
    while over > 0 and sizes:
        size, seq = sizes[0]
        cost = _rule_cost(messages[seq].pop())
        over -= cost
        dropped.add(seq)
        if messages[seq]:
            heapq.heapreplace(sizes, (size + cost, seq))
        else:
            heapq.heappop(sizes)
    left = {id(rule) for stated in messages.values() for rule in stated}
    return tuple(rule for rule in rules if id(rule) in left), dropped


def _rule_cost(rule: Quote) -> int:
    return estimate_text(rule.text) + RULE_TOKENS


def _wording(text: str) -> str:
    words = " ".join(text.split()).rstrip(".!")
    words = words[:1].lower() + words[1:]
    return words.removeprefix("please ").removeprefix("bitte ")
