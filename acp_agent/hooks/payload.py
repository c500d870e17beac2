"""An event as an executable reads it: JSON with our keys, and beside them those that a hook for Claude Code looks for.

Knows no process. What the two call differently is in `claude`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_agent.conversation.messages import JsonObject
from acp_agent.hooks import claude
from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    AgentStop,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionEnd,
    SessionStart,
    TurnEnd,
    UserMessageSend,
)
from acp_agent.hooks.messages import as_json

if TYPE_CHECKING:
    from acp_agent.conversation.messages import JsonValue


async def payload(event: HookEvent) -> JsonObject:
    """The event as JSON; writes the transcript that it names.

    `tool_name` is Claude Code's name of the tool and `tool` is ours. `source` and the `reason` of a session's end are
    our words.
    """
    at = event.at
    usage = at.usage
    messages: list[JsonValue] = [as_json(message) for message in at.messages]
    return {
        "event": event.name,
        "hook_event_name": claude.EVENTS.get(event.name, event.name),
        "conv_id": at.session_id,
        "session_id": at.session_id,
        "transcript_path": await at.transcript(),
        "cwd": at.cwd,
        "permission_mode": claude.MODES.get(at.mode, "default"),
        "invoked_by": at.invoked_by,
        "turn_number": at.turn_number,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "current_context_window": usage.current_context_window,
            "max_context_window": usage.max_context_window,
        },
        **_details(event),
        "messages": messages,
    }


def _details(event: HookEvent) -> JsonObject:
    match event:
        case SessionStart():
            return {"source": event.source}
        case UserMessageSend():
            return {"prompt": event.prompt}
        case BeforeToolCall():
            return _call(event)
        case AfterToolCall():
            return {
                **_call(event),
                "tool_output": event.text,
                "is_error": event.is_error,
                "tool_response": _response(event),
            }
        case TurnEnd():
            return {"response": event.response}
        case AgentStop():
            return {
                "response": event.response,
                "last_assistant_message": event.response,
                "stop_hook_active": event.stop_hook_active,
            }
        case BeforeCompaction():
            return {**_compaction(event), "custom_instructions": event.instructions}
        case AfterCompaction():
            return {**_compaction(event), "summary": event.summary}
        case SessionEnd():
            return {"reason": event.reason}


def _call(event: BeforeToolCall | AfterToolCall) -> JsonObject:
    return {
        "tool": event.tool,
        "tool_name": claude.TOOLS.get(event.tool, event.tool),
        "tool_use_id": event.call_id,
        "tool_input": claude.with_its_keys(event.tool, event.input, event.at.cwd),
    }


def _response(event: AfterToolCall) -> JsonObject:
    """What Claude Code's tools answer with, as far as there is something that corresponds."""
    response: JsonObject = {"success": not event.is_error, "content": event.text}
    if event.tool == "shell":
        response |= _streams(event)
    path = event.input.get("path")
    if event.tool in ("read", "write", "edit") and isinstance(path, str):
        response["filePath"] = claude.absolute(event.at.cwd, path)
    return response


def _streams(event: AfterToolCall) -> JsonObject:
    """What a command has printed, without what the model reads around it; a terminal's streams come together."""
    raw = event.raw_output if isinstance(event.raw_output, dict) else {}
    stdout = raw.get("stdout", raw.get("output", event.text))
    streams: JsonObject = {"stdout": stdout, "stderr": raw.get("stderr", ""), "interrupted": False}
    if "exitCode" in raw:
        streams |= {"exit_code": raw["exitCode"], "interrupted": raw["exitCode"] is None}
    return streams


def _compaction(event: BeforeCompaction | AfterCompaction) -> JsonObject:
    return {
        "compaction_reason": event.reason,
        "trigger": claude.trigger(event.reason),
        "input_tokens": event.input_tokens,
        "output_tokens": event.output_tokens,
        "context_limit": event.context_limit,
    }
