"""The user's requests that a provider's own compaction holds already, so that the model does not read them twice.

OpenAI sends every message of the user back word for word, beside what it compacted. Such a request stands in the
block's text, for every other provider, and not in the layer beside the block. How blocks are sent is `llm`'s matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from acp_agent.compaction.framing import frame
from acp_agent.compaction.pinned import pieces, render_pinned
from acp_agent.conversation.memory import Memory
from acp_agent.conversation.messages import CompactedBlock, JsonValue, UserPart


def held_requests(body: Sequence[UserPart], memory: Memory) -> frozenset[int]:
    """Numbers of the requests that stand in a provider's own form among these parts."""
    said = [text for part in body if isinstance(part, CompactedBlock) for text in _said(part.data)]
    if not said:
        return frozenset()
    return frozenset(request.seq for request in memory.requests if any(_is_of(pieces(request), text) for text in said))


def beside(memory: Memory, held: frozenset[int]) -> Memory:
    """The memory without those requests."""
    return replace(memory, requests=tuple(request for request in memory.requests if request.seq not in held))


def with_requests(
    body: Sequence[UserPart], memory: Memory, held: frozenset[int], *, recall: bool
) -> tuple[UserPart, ...]:
    """The parts with those requests in the text that other providers read."""
    if not held:
        return tuple(body)
    requests = Memory(requests=tuple(request for request in memory.requests if request.seq in held))
    [layer] = frame(render_pinned(requests, mode="", grants=(), plan=(), recall=recall), "", "", recall=recall)
    return tuple(
        replace(part, text=f"{layer.text}\n\n{part.text}") if isinstance(part, CompactedBlock) else part
        for part in body
    )


def _said(value: JsonValue) -> Iterable[str]:
    """The text of each message of the user in a provider's form; both APIs name the role and have texts in parts."""
    if isinstance(value, list):
        for item in value:
            yield from _said(item)
    elif isinstance(value, dict):
        if value.get("role") == "user":
            yield _bare("".join(_texts(value.get("content"))))
        else:
            for item in value.values():
                yield from _said(item)


def _texts(content: JsonValue) -> Iterable[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            yield text


def _is_of(request: tuple[str, ...], text: str) -> bool:
    """Whether this is the message, of which the request may have lost its middle."""
    if len(request) == 1:
        return text == _bare(request[0])
    head, tail = _bare(request[0]), _bare(request[-1])
    return len(text) > len(head) + len(tail) and text.startswith(head) and text.endswith(tail)


def _bare(text: str) -> str:
    # Where an editor splits a message, a request goes on in the same line or in the next one.
    return "".join(text.split())
