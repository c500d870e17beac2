"""Compactions as an editor sees them, and the model calls around them.

[compaction] = shown_compactions(agent)            # both as session updates and as a
tool call assert compaction.statuses == ["in_progress", "completed"] assert
bare(server.calls[1].body) == bare(server.calls[0].body)      # but for the cache marks,
the same request
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.conversation import Conversation
from support.editors import ZED, ZED_BETA
from support.lines import Line

TERMINAL = ("completed", "failed", "cancelled")
RECIPE_FILE = Path(__file__).parents[2] / "recipes" / "compact.md"
RECIPE_TEXT = next(
    line
    for line in RECIPE_FILE.read_text().split("---\n", 2)[2].splitlines()
    if line.strip()
).strip()
"""The first line of the built-in recipe's prompt, by which a summary request is known."""

both_editors = pytest.mark.parametrize(
    "editor", [ZED_BETA, ZED], ids=["session updates", "tool call"]
)


@dataclass(slots=True)
class ShownCompaction:
    """One compaction.

    :ivar statuses: every status that was shown, in order.
    :ivar chunks: the summary as it streamed.
    :ivar text: what its last word said: the summary, or the error.
    :ivar receipt: what it said besides: what the compaction did and cost.
    :ivar lines: every line that was about it.
    """

    id: str
    statuses: list[str] = field(default_factory=list[str])
    chunks: str = ""
    text: str = ""
    receipt: str = ""
    lines: list[Line] = field(default_factory=list[Line])


def shown_compactions(agent: Conversation, *, since: int = 0) -> list[ShownCompaction]:
    """All compactions in the order in which they began, as session updates or as tool
    calls.
    """
    shown: dict[str, ShownCompaction] = {}
    for line in agent.lines[since:]:
        update = line.update
        id = str(update.get("compactionId") or update.get("toolCallId"))
        begins = line.update_kind == "tool_call" and str(
            update.get("title")
        ).startswith("Compact conversation")
        if begins or id in shown or line.update_kind.startswith("compaction"):
            compaction = shown.setdefault(id, ShownCompaction(id))
            compaction.lines.append(line)
            _note(compaction, line)
    return list(shown.values())


def _note(compaction: ShownCompaction, line: Line) -> None:
    update = line.update
    if line.update_kind == "compaction_summary_chunk":
        compaction.chunks += update["content"]["text"]
        return
    if "status" in update:
        compaction.statuses.append(update["status"])
    if line.update_kind == "compaction_update":
        said = [block["text"] for block in update.get("summary") or ()]
        compaction.text = update.get("error") or "".join(said[:1])
        compaction.receipt = "".join(said[1:])
    elif content := update.get("content"):
        said = [item["content"]["text"] for item in content]
        compaction.chunks = compaction.text = said[0]
        compaction.receipt = "".join(said[1:])


def bare(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request without what moves or differs from call to call (cache marks), in one
    form for both APIs.
    """
    system = body.get("instructions") or body.get("system")
    whole = {
        "model": body["model"],
        "system": system,
        "tools": body.get("tools"),
        "thinking": body.get("thinking"),
    }
    return _without_marks(whole) | {"messages": messages(body)}


def messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request to Anthropic; one to OpenAI's Responses API is put into
    the same words.
    """
    if "input" not in body:
        return _without_marks(body["messages"])
    turns: list[dict[str, Any]] = []
    for item in body["input"]:
        role, blocks = _blocks(item)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(item: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    match item.get("type"):
        case "function_call":
            call = {
                "id": item["call_id"],
                "name": item["name"],
                "input": json.loads(item["arguments"]),
            }
            return "assistant", [{"type": "tool_use", **call}]
        case "function_call_output":
            output = [{"type": "text", "text": item["output"]}]
            return "user", [
                {
                    "type": "tool_result",
                    "tool_use_id": item["call_id"],
                    "content": output,
                }
            ]
        case "reasoning":
            return "assistant", []
        case _:
            content = item["content"]
            texts = (
                [content]
                if isinstance(content, str)
                else [part["text"] for part in content]
            )
            return item["role"], [{"type": "text", "text": text} for text in texts]


def said(message: Mapping[str, Any]) -> str:
    return "\n".join(
        block["text"] for block in message["content"] if block["type"] == "text"
    )


def is_summary_request(body: Mapping[str, Any]) -> bool:
    return RECIPE_TEXT in said(messages(body)[-1])


def asked_last(body: Mapping[str, Any]) -> str:
    """The last text block of a request: what the newest prompt, or the recipe, says."""
    return str(messages(body)[-1]["content"][-1].get("text", ""))


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_marks(item)
            for key, item in value.items()
            if key != "cache_control"
        }
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    return value
