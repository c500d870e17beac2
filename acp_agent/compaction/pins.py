"""Texts that the user pinned, which every compaction carries byte for byte."""

from __future__ import annotations

import re
from dataclasses import replace

from acp_agent.compaction.estimate import estimate_text
from acp_agent.conversation.memory import Memory, Pin
from acp_agent.errors import InvalidParamsError


def add_pin(memory: Memory, text: str, max_tokens: int) -> Memory:
    """Return the memory with one more pin, which has the number `memory.next_pin`.

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
    """Return the memory without this pin; its number is not given again.

    :raises InvalidParamsError: there is no such pin.
    """
    pins = tuple(pin for pin in memory.pins if pin.number != number)
    if len(pins) == len(memory.pins):
        known = ", ".join(str(pin.number) for pin in memory.pins)
        there_are = f"There are {known}." if known else "Nothing is pinned."
        raise InvalidParamsError(f"There is no pin {number}. {there_are}")
    return replace(memory, pins=pins, next_pin=max([memory.next_pin, *(pin.number + 1 for pin in memory.pins)]))


def render_pins(memory: Memory) -> str:
    """Return the pins as the user reads them, with their numbers, in Markdown."""
    if not memory.pins:
        return "Nothing is pinned. `/pin` and a text pins it: after every compaction the agent reads it word for word."
    return "\n\n".join(f"Pin {pin.number}:\n{fenced(pin.text)}" for pin in memory.pins)


def fenced(text: str) -> str:
    """Return the text, unchanged, between fences that nothing in it can be taken for."""
    marks = min("~`", key=lambda mark: _longest_run(text, mark))
    fence = marks * max(3, _longest_run(text, marks) + 1)
    return f"{fence}\n{text}\n{fence}"


def _longest_run(text: str, mark: str) -> int:
    return max((len(run) for run in re.findall(f"{mark}+", text)), default=0)
