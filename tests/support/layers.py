"""What stands in a request in the place of a compacted past, layer by layer.

there = layers(server.calls[-1].body)              # {"carried_over": "...",
"conversation_summary": "...", ...} assert there["carried_over"].count(rule) == 1
summarising(["# One", "# Two"])                    # a script: summaries in order, and
`answer` for all else
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from support.compactions import is_summary_request, messages, said
from support.models import Reply

NAMES = ("carried_over", "conversation_summary", "recorded_excerpts")
_LAYER = re.compile(rf"<({'|'.join(NAMES)})>\n(.*)\n</\1>", re.DOTALL)


def layers(body: Mapping[str, Any]) -> dict[str, str]:
    """The layers of a request, in order.

    :raises AssertionError: a layer stands there twice, or in another message than the
        first.
    """
    found: dict[str, str] = {}
    for index, message in enumerate(messages(body)):
        for block in message["content"]:
            match = _LAYER.fullmatch(str(block.get("text", "")))
            if match is not None:
                assert index == 0, f"the layer {match[1]} stands in message {index}"
                assert match[1] not in found, f"the layer {match[1]} stands there twice"
                found[match[1]] = match[2]
    return found


def whole_text(body: Mapping[str, Any]) -> str:
    """All text of all messages, as the model reads it; no calls and results."""
    return "\n".join(said(message) for message in messages(body))


def summarising(
    summaries: Iterable[str | Reply], answer: Callable[[int], Reply | str]
) -> Callable[[dict[str, Any]], Reply]:
    """A script for a model server.

    :param summaries: the answers to summary requests, in order.
    :param answer: the answer to the other call of this number, from 0.
    """
    left = iter(summaries)
    others = 0

    def reply(body: dict[str, Any]) -> Reply:
        nonlocal others
        if is_summary_request(body):
            said = next(left)
        else:
            said = answer(others)
            others += 1
        return said if isinstance(said, Reply) else Reply(said)

    return reply
