"""What a model call says, in one form for Anthropic's Messages, OpenAI's Responses and
Chat Completions.

assert texts(server.calls[2].body)[-1] == "Three?" check_legal(call.body)
# each call has its results right behind it, and so on
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from support.compactions import RECIPE_TEXT

Role = Literal["user", "assistant", "call", "result", "thinking"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One block of a conversation.

    :ivar id: of the call, for a call and its result.
    """

    role: Role
    text: str
    id: str = ""


def pieces(body: Mapping[str, Any]) -> list[Piece]:
    """The conversation, block by block, without the system prompt."""
    if "input" in body:
        return [piece for item in body["input"] for piece in _item(item)]
    return [
        piece
        for message in body["messages"]
        if message["role"] != "system"
        for piece in _message(message)
    ]


def texts(body: Mapping[str, Any], role: Role = "user") -> list[str]:
    return [piece.text for piece in pieces(body) if piece.role == role]


def system_of(body: Mapping[str, Any]) -> str:
    if "input" in body:
        return str(body.get("instructions", ""))
    if "system" in body:
        return "".join(block["text"] for block in body["system"])
    return "".join(
        message["content"]
        for message in body["messages"]
        if message["role"] == "system"
    )


def asks_for_summary(body: Mapping[str, Any]) -> bool:
    return RECIPE_TEXT in texts(body)[-1]


def check_legal(body: Mapping[str, Any]) -> None:
    """What every provider demands of a history."""
    said = [piece for piece in pieces(body) if piece.role != "thinking"]
    assert said[0].role == "user"
    assert said[-1].role != "assistant"
    assert list(torn(body)) == []


def torn(body: Mapping[str, Any]) -> Iterator[str]:
    """The calls that have no result right behind them, and the results that have no
    call before them.
    """
    waiting: list[str] = []
    seen: set[str] = set()
    for piece in pieces(body):
        if piece.role == "call":
            if piece.id in seen:
                yield f"{piece.id} is there twice"
            seen.add(piece.id)
            waiting.append(piece.id)
        elif piece.role == "result":
            if piece.id not in waiting:
                yield f"the result of {piece.id} has no call right before it"
            else:
                waiting.remove(piece.id)
        elif piece.role != "thinking":
            yield from (f"{call} has no result right behind it" for call in waiting)
            waiting.clear()
    yield from (f"{call} has no result right behind it" for call in waiting)


def _item(item: Mapping[str, Any]) -> list[Piece]:
    match item.get("type"):
        case "function_call":
            return [
                Piece("call", f"{item['name']} {item['arguments']}", item["call_id"])
            ]
        case "function_call_output":
            return [Piece("result", _text(item["output"]), item["call_id"])]
        case "reasoning":
            return [Piece("thinking", json.dumps(item))]
        case _:
            return _said(item["role"], item["content"])


def _message(message: Mapping[str, Any]) -> list[Piece]:
    if message["role"] == "tool":
        return [Piece("result", _text(message["content"]), message["tool_call_id"])]
    found = _said(message["role"], message.get("content") or [])
    for call in message.get("tool_calls", ()):
        function = call["function"]
        found.append(
            Piece("call", f"{function['name']} {function['arguments']}", call["id"])
        )
    return found


def _said(role: Role, content: Any) -> list[Piece]:
    if isinstance(content, str):
        return [Piece(role, content)]
    found: list[Piece] = []
    for block in content:
        match block["type"]:
            case "tool_use":
                found.append(
                    Piece(
                        "call",
                        f"{block['name']} {json.dumps(block['input'])}",
                        block["id"],
                    )
                )
            case "tool_result":
                found.append(
                    Piece("result", _text(block["content"]), block["tool_use_id"])
                )
            case "thinking" | "redacted_thinking":
                found.append(Piece("thinking", json.dumps(block)))
            case "text" | "input_text" | "output_text":
                found.append(Piece(role, block["text"]))
            case kind:
                found.append(Piece(role, f"[{kind}]"))
    return found


def _text(content: Any) -> str:
    return (
        content
        if isinstance(content, str)
        else "\n".join(block.get("text", "[image]") for block in content)
    )
