"""The answer to a request that passed Anthropic's checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from support.binding.claude import OMITS_TEXT, THINKS_BY_DEFAULT
from support.binding.messages_form import MessagesRequest, canonical_block
from support.binding.messages_seals import MessagesSeals, Seal
from support.binding.pieces import piece
from support.binding.settings import Binding
from support.replies import Part, Reply, Usage


@dataclass(slots=True)
class ExaminedMessages:
    """A request that passed, and what its answer needs.

    :ivar chain: signatures of the thinking blocks before the answer.
    :ivar reported: `input_transformations`; None leaves them out.
    """

    binding: Binding
    seals: MessagesSeals
    request: MessagesRequest
    chain: list[str]
    reported: list[dict[str, Any]] | None
    usage: Usage
    with_tools: bool

    def sealed(self, reply: Reply, number: int) -> Reply:
        """Return the reply as the API would give it: thinking only if the model thinks,
        signed, with usage.
        """
        thinks = self.binding.thinks
        if self.request.body.get("compaction") or not self._may_think(reply):
            reply = replace(reply, thinking="", thoughts=(), between=())
        elif thinks and not (reply.thinking or reply.thoughts or reply.between):
            reply = replace(reply, thinking=thinks)
        display = self.request.thinking.get("display")
        shown = reply.shown and not (
            display == "omitted"
            or (display is None and self.request.model in OMITS_TEXT)
        )
        reply = replace(reply, shown=shown)
        if reply.usage is None:
            output = reply.usage_for(self.request.body).output
            reply = replace(reply, usage=replace(self.usage, output=output))
        return replace(reply, seals=self._signatures(reply.parts(number)))

    def reported_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """Add to an answer, or to an event of one, what the check has to say, and sign
        its compaction block.
        """
        if data.get("type") == "message_start":
            return {**data, "message": self._with_entries(data["message"])}
        if (
            data.get("type") == "content_block_start"
            and data["content_block"].get("type") == "compaction"
        ):
            return {**data, "content_block": self._signed(data["content_block"])}
        if data.get("type") == "message":
            content = [
                self._signed(block) if block["type"] == "compaction" else block
                for block in data["content"]
            ]
            return {**self._with_entries(data), "content": content}
        return data

    def _may_think(self, reply: Reply) -> bool:
        kind = self.request.thinking.get("type")
        if kind == "between_tools":
            return bool(reply.tool_calls)
        if kind is None:
            return self.request.model in THINKS_BY_DEFAULT
        return kind != "disabled"

    def _signatures(self, parts: Sequence[Part]) -> dict[str, str]:
        """Sign the blocks of an answer; each is bound to the blocks before it in the
        same answer too.
        """
        signatures: dict[str, str] = {}
        before = list(self.request.pieces)
        predecessor = self.chain[-1] if self.chain else None
        for part in parts:
            if part.kind == "thinking":
                seal = Seal(
                    self.request.model,
                    self.binding.organization,
                    tuple(self.request.system),
                    self.seals.tools_in_force(self.request),
                    tuple(before),
                    predecessor,
                    part.text,
                )
                predecessor = self.seals.sign(seal)
                signatures[part.id] = predecessor
            elif (block := canonical_block(_sent_back(part))) is not None:
                before.append(piece(["assistant", block], "answer"))
        return signatures

    def _with_entries(self, message: dict[str, Any]) -> dict[str, Any]:
        return (
            message
            if self.reported is None
            else {**message, "input_transformations": self.reported}
        )

    def _signed(self, block: Mapping[str, Any]) -> dict[str, Any]:
        return self.seals.summarize(
            self.request, str(block["content"]), with_tools=self.with_tools
        )


def _sent_back(part: Part) -> dict[str, Any]:
    """Return a block of an answer as a client sends it back."""
    if part.kind == "text":
        return {"type": "text", "text": part.text}
    try:
        arguments = json.loads(part.text) if part.text else {}
    except ValueError:
        arguments = {}
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
