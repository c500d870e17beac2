"""A request to Anthropic Messages in the form that the prefix check compares.

What is no change, from preserved-thinking, "What counts as an edit": `cache_control`
markers, the order of tools, a deferred tool that nothing has named yet, everything
outside of `system`, `tools` and `messages`. What the API's own parsing makes equal is
no change either: a string and one text block, white space at the edges of a text, blank
texts, the order of keys, null members, `1` and `1.0`, `is_error: false` and none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support.binding.claude import family
from support.binding.pieces import Piece, piece

THINKING = ("thinking", "redacted_thinking")
MESSAGE_OPTIONS = ("clear_at", "output_config")


@dataclass(frozen=True, slots=True)
class Thought:
    """A thinking block that was sent back.

    :ivar place: indices of its message and of itself.
    :ivar before: how many pieces stand before it.
    """

    block: Mapping[str, Any]
    place: tuple[int, int]
    before: int

    @property
    def path(self) -> str:
        return path_of(*self.place)

    @property
    def signature(self) -> str:
        return str(self.block.get("signature") or self.block.get("data") or "")


class MessagesRequest:
    """The compared form.

    :ivar pieces: role and block of everything in `messages` but thinking, in order.
        That consecutive messages of a role are one turn for the API follows from it.
    :ivar tools: by name, without the deferred ones.
    :ivar summaries: the compaction blocks that hold a summary, with the indices of
        message and block.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.model = family(str(body.get("model")))
        self.messages: list[Mapping[str, Any]] = list(body.get("messages") or [])
        self.system = [
            piece(block, f"system.{index}")
            for index, given in enumerate(blocks_of(body.get("system")))
            if (block := canonical_block(given)) is not None
        ]
        self.tools: dict[str, Piece] = {}
        self.deferred: dict[str, Piece] = {}
        self.pieces: list[Piece] = []
        self.thoughts: list[Thought] = []
        self.summaries: list[tuple[int, int, Mapping[str, Any]]] = []
        self._read_tools()
        for index, message in enumerate(self.messages):
            self._read_message(index, message)

    @property
    def thinking(self) -> Mapping[str, Any]:
        return self.body.get("thinking") or {}

    @property
    def summary(self) -> Mapping[str, Any] | None:
        """The compaction block that stands first."""
        return self.summaries[0][2] if self.summaries else None

    def kept_role(self) -> str | None:
        """Return the role of the first message after the compaction block, which may
        share the block's message.
        """
        alone = len(blocks_of(self.messages[0].get("content"))) == 1
        if not alone:
            return str(self.messages[0].get("role"))
        return str(self.messages[1].get("role")) if len(self.messages) > 1 else None

    def tools_in_force(self, before: Sequence[Piece]) -> dict[str, Piece]:
        """Return the tools that a block is bound to: a deferred one counts once it was
        named before the block.
        """
        named = {name for each in before for name in each.names}
        return self.tools | {
            name: tool for name, tool in self.deferred.items() if name in named
        }

    def _read_tools(self) -> None:
        for index, tool in enumerate(self.body.get("tools") or []):
            plain = canonical_tool(tool)
            deferred = plain.pop("defer_loading", False)
            name = str(plain.get("name") or plain.get("type"))
            kind = self.deferred if deferred else self.tools
            kind[name] = piece(plain, f"tools.{index}")

    def _read_message(self, index: int, message: Mapping[str, Any]) -> None:
        role = message.get("role")
        options = {
            name: message[name]
            for name in MESSAGE_OPTIONS
            if message.get(name) is not None
        }
        if options:
            self.pieces.append(piece([role, options], f"messages.{index}"))
        for position, block in enumerate(blocks_of(message.get("content"))):
            path = path_of(index, position)
            if block.get("type") in THINKING:
                self.thoughts.append(
                    Thought(block, (index, position), len(self.pieces))
                )
            elif block.get("type") == "compaction":
                # One without is a failed compaction, which the API skips.
                if block.get("content") is not None:
                    self.summaries.append((index, position, block))
                    self.pieces.append(summary_piece(block, path))
            elif (compared := canonical_block(block)) is not None:
                self.pieces.append(piece([role, compared], path, named_tools(block)))


def path_of(message: int, block: int) -> str:
    return f"messages.{message}.content.{block}"


def blocks_of(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or [])


def summary_piece(block: Mapping[str, Any], path: str) -> Piece:
    return piece(["compaction", block.get("signature")], path, named_tools(block))


def canonical_block(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the compared form of a block; None for a blank text, which counts as
    absent.
    """
    plain = {
        name: value
        for name, value in block.items()
        if name != "cache_control" and value is not None
    }
    if plain.get("citations") == []:
        del plain["citations"]
    match plain.get("type"):
        case "text":
            plain["text"] = str(plain.get("text", "")).strip()
            return plain if plain["text"] else None
        case "tool_result":
            if plain.get("is_error") is False:
                del plain["is_error"]
            parts = [canonical_block(part) for part in blocks_of(plain.get("content"))]
            plain["content"] = [part for part in parts if part is not None]
        case "image" | "document" if plain.get("source", {}).get("type") == "url":
            # The API compares the file, so a new URL for the same file is no change.
            plain["source"] = {"type": "url"}
        case "tool_addition" if plain.get("tool", {}).get("type") == "tool_definition":
            plain["tool"] = plain["tool"] | {
                "definition": canonical_tool(plain["tool"]["definition"])
            }
    return plain


def canonical_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    plain = {
        name: value
        for name, value in tool.items()
        if name != "cache_control" and value is not None
    }
    if plain.get("type") == "custom":
        del plain["type"]
    for name, default in (
        ("description", ""),
        ("strict", False),
        ("defer_loading", False),
    ):
        if plain.get(name) == default:
            del plain[name]
    return plain


def named_tools(block: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of tools that a block brings into force, whether they are
    deferred or not.
    """
    if block.get("type") == "tool_addition":
        tool = block.get("tool") or {}
        return frozenset({str((tool.get("definition") or tool).get("name"))})
    if block.get("type") == "compaction":
        changes = block.get("tool_changes") or []
        return frozenset().union(*(named_tools(change) for change in changes))
    if block.get("type") != "tool_result":
        return frozenset()
    parts = blocks_of(block.get("content"))
    return frozenset(
        str(part.get("tool_name"))
        for part in parts
        if part.get("type") == "tool_reference"
    )
