"""The signatures that the server gave out as Anthropic, and what each stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from support.binding.claude import PRESERVING
from support.binding.messages_form import MessagesRequest, named_tools, summary_piece
from support.binding.messages_rules import TOOL_CHANGES
from support.binding.pieces import Piece


@dataclass(frozen=True, slots=True)
class Seal:
    """What the signature of a thinking block stands for.

    :ivar predecessor: signature of the thinking block before it that its model read.
    :ivar text: what of the thinking was sent.
    """

    model: str
    organization: str
    system: tuple[Piece, ...]
    tools: Mapping[str, Piece]
    pieces: tuple[Piece, ...]
    predecessor: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What the signature of a compaction block stands for.

    :ivar pieces: of the messages that it summarizes.
    """

    model: str
    block: Mapping[str, Any]
    marker: Piece
    system: tuple[Piece, ...]
    tools: Mapping[str, Piece]
    pieces: tuple[Piece, ...]
    last_role: str


class MessagesSeals:
    """What was signed so far."""

    def __init__(self) -> None:
        self._thoughts: dict[str, Seal] = {}
        self._summaries: dict[str, Summary] = {}

    def thought(self, signature: str) -> Seal | None:
        return self._thoughts.get(signature)

    def summary(self, block: Mapping[str, Any]) -> Summary | None:
        return self._summaries.get(str(block.get("signature")))

    def sign(self, seal: Seal) -> str:
        """Return the signature of a new thinking block."""
        signature = f"thinking-{len(self._thoughts) + 1}-{token_hex(8)}"
        self._thoughts[signature] = seal
        return signature

    def summarize(
        self, request: MessagesRequest, text: str, *, with_tools: bool
    ) -> dict[str, Any]:
        """Return a signed compaction block for the messages of a request.

        :param with_tools: whether the block carries the changes of tools in these
            messages.
        """
        signature = f"summary-{len(self._summaries) + 1}-{token_hex(8)}"
        block: dict[str, Any] = {
            "type": "compaction",
            "content": text,
            "signature": signature,
        }
        if with_tools:
            block["tool_changes"] = tool_changes(request)
        roles = [str(message.get("role")) for message in request.messages]
        self._summaries[signature] = Summary(
            request.model,
            block,
            summary_piece(block, "messages.0.content.0"),
            tuple(request.system),
            request.tools,
            tuple(request.pieces),
            roles[-1],
        )
        return block

    def tools_in_force(self, request: MessagesRequest) -> dict[str, Piece]:
        """Return the tools that an answer to the request is bound to."""
        return request.tools_in_force(self.unfolded(request.pieces))

    def unfolded(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Put the summarized messages in the place of each compaction that the check
        accepts as their replacement.
        """
        markers = {
            summary.marker.digest: summary for summary in self._summaries.values()
        }
        unfolded: list[Piece] = []
        for each in pieces:
            summary = markers.get(each.digest)
            if summary is None or summary.model not in PRESERVING:
                unfolded.append(each)
            else:
                unfolded += self.unfolded(summary.pieces)
        return unfolded


def tool_changes(request: MessagesRequest) -> list[Mapping[str, Any]]:
    """Return the tool changes that are in force at the end of a request: the last one
    for each tool.

    A block that begins the request brings those of the messages it summarizes.
    """
    last: dict[str, Mapping[str, Any]] = {}
    earlier = (request.summary or {}).get("tool_changes") or []
    given = [
        block
        for message in request.messages
        for block in message.get("content") or []
        if isinstance(block, dict)
    ]
    for block in [*earlier, *given]:
        if block.get("type") in TOOL_CHANGES:
            for name in named_tools(block) or {
                str((block.get("tool") or {}).get("name"))
            }:
                last[name] = block
    return list(last.values())
