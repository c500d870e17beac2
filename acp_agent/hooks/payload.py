"""An event encoded for an executable: JSON with our keys, and also those that a hook for Claude Code looks for.

The tables of Claude Code's words are here alone; they are those of its hooks reference
(https://code.claude.com/docs/en/hooks).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from acp_agent.config.hook_events import ALIASES
from acp_agent.conversation.messages import JsonObject, JsonValue
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
    absolute_path,
)
from acp_agent.hooks.messages import as_json

TOOLS: Mapping[str, str] = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "list": "LS",
    "glob": "Glob",
    "grep": "Grep",
    "plan": "TodoWrite",
    "ask_user": "AskUserQuestion",
}
"""Claude Code's names of our tools."""
KEYS: Mapping[str, Mapping[str, str]] = {
    "read": {"path": "file_path"},
    "write": {"path": "file_path"},
    "edit": {"path": "file_path"},
    "grep": {"ignore_case": "-i", "context": "-C"},
    "plan": {"entries": "todos"},
}
"""Claude Code's keys of arguments, by our tool and our key. Those of `edit` differ in more than their names."""
EDIT_KEYS = {"old_text": "old_string", "new_text": "new_string", "replace_all": "replace_all"}

_EVENTS = {ours: theirs for theirs, ours in ALIASES.items()}
_MODES = {"plan": "plan", "ask": "default", "accept-edits": "acceptEdits", "full-access": "bypassPermissions"}
_SOURCES = {"new": "startup", "load": "resume", "resume": "resume", "compact": "compact"}
_ENDS = {"close": ("other",), "delete": ("other",), "exit": ("prompt_input_exit", "other")}


async def payload(event: HookEvent) -> JsonObject:
    """Return the event as JSON; writes the transcript that it names.

    `tool_name` is Claude Code's name of the tool and `tool` is ours. `source` and the `reason` of a session's end are
    our words.
    """
    at = event.at
    messages: list[JsonValue] = [as_json(message) for message in at.messages]
    return {
        "event": event.name,
        "hook_event_name": _EVENTS.get(event.name, event.name),
        "conv_id": at.session_id,
        "session_id": at.session_id,
        "transcript_path": await at.transcript(),
        "cwd": at.cwd,
        "permission_mode": _MODES.get(at.mode, "default"),
        "invoked_by": at.invoked_by,
        "turn_number": at.turn_number,
        "usage": asdict(at.usage),
        **_details(event),
        "messages": messages,
    }


def _details(event: HookEvent) -> JsonObject:
    """Return the keys that the event alone has."""
    match event:
        case SessionStart():
            return {"source": event.source}
        case UserMessageSend():
            return {"prompt": event.prompt}
        case BeforeToolCall() | AfterToolCall():
            call: JsonObject = {
                "tool": event.tool,
                "tool_name": TOOLS.get(event.tool, event.tool),
                "tool_use_id": event.call_id,
                "tool_input": with_claude_keys(event.tool, event.input, event.at.cwd),
            }
            if isinstance(event, AfterToolCall):
                call |= {"tool_output": event.text, "is_error": event.is_error, "tool_response": _response(event)}
            return call
        case TurnEnd(response=response):
            return {"response": response}
        case AgentStop(response=response, stop_hook_active=active):
            return {"response": response, "last_assistant_message": response, "stop_hook_active": active}
        case BeforeCompaction() | AfterCompaction():
            compaction: JsonObject = {
                "compaction_reason": event.reason,
                "trigger": _trigger(event.reason),
                "input_tokens": event.input_tokens,
                "output_tokens": event.output_tokens,
                "context_limit": event.context_limit,
            }
            if isinstance(event, BeforeCompaction):
                return {**compaction, "custom_instructions": event.instructions}
            return {**compaction, "summary": event.summary}
        case SessionEnd():
            return {"reason": event.reason}


def _response(event: AfterToolCall) -> JsonObject:
    """Return what Claude Code's tools answer with, as far as there is something that corresponds."""
    response: JsonObject = {"success": not event.is_error, "content": event.text}
    if event.tool == "shell":
        # What the command itself has printed; a terminal's streams come together.
        raw = event.raw_output if isinstance(event.raw_output, dict) else {}
        stdout = raw.get("stdout", raw.get("output", event.text))
        response |= {"stdout": stdout, "stderr": raw.get("stderr", ""), "interrupted": False}
        if "exitCode" in raw:
            response |= {"exit_code": raw["exitCode"], "interrupted": raw["exitCode"] is None}
    path = event.input.get("path")
    if event.tool in ("read", "write", "edit") and isinstance(path, str):
        response["filePath"] = absolute_path(path, event.at.cwd)
    return response


def _trigger(reason: str) -> str:
    return "manual" if reason == "manual" else "auto"


def names_to_match(event: HookEvent) -> frozenset[str]:
    """Return what a matcher is compared with: our word and Claude Code's."""
    match event:
        case BeforeToolCall() | AfterToolCall():
            multiple = ("MultiEdit",) if event.tool == "edit" else ()
            return frozenset({event.tool, TOOLS.get(event.tool, event.tool), *multiple})
        case SessionStart():
            return frozenset({event.source, _SOURCES[event.source]})
        case BeforeCompaction() | AfterCompaction():
            return frozenset({event.reason, _trigger(event.reason)})
        case SessionEnd():
            return frozenset({event.reason, *_ENDS[event.reason]})
        case _:
            return frozenset()


def with_claude_keys(tool: str, arguments: JsonObject, cwd: str) -> JsonObject:
    """Return a call's arguments with Claude Code's keys added to ours; paths under its keys are absolute.

    Of several edits in one call, the old texts and the new ones are joined by line ends, so that a hook that looks for
    something in them sees all.
    """
    both = dict(arguments)
    for ours, theirs in KEYS.get(tool, {}).items():
        if ours in arguments:
            value = arguments[ours]
            both[theirs] = absolute_path(value, cwd) if theirs == "file_path" and isinstance(value, str) else value
    if tool == "edit" and (edits := edits_of(arguments)):
        both["old_string"] = "\n".join(str(edit.get("old_text", "")) for edit in edits)
        both["new_string"] = "\n".join(str(edit.get("new_text", "")) for edit in edits)
        both["replace_all"] = any(edit.get("replace_all") is True for edit in edits)
    return both


def edits_of(arguments: JsonObject) -> list[JsonObject]:
    """Return the edits of a call; a model may send anything in their place."""
    value = arguments.get("edits")
    return [edit for edit in value if isinstance(edit, dict)] if isinstance(value, list) else []
