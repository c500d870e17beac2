"""Readers of recorded sessions. The form is recognised by what is in the file, not by the file's name.

Each reader yields messages in the form of Chat Completions or of Anthropic's Messages API; `_build` makes legal ones.
"""

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from acp_agent.compaction.evaluation.recording import Recording
from acp_agent.conversation.context import Context, Entry
from acp_agent.conversation.events import ContextRestored, ContextSwapped, LoggedEvent
from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.errors import AgentError, located
from acp_agent.llm.json_access import get_object, get_objects, get_text, parse_object

FORMS = (
    "expected a session of this agent (its id), a transcript with `messages`, a trajectory of mini-swe-agent, or a "
    "session file (JSON Lines) of Claude Code or Codex"
)
NO_RESULT = "The recording has no result of this call."

_CLAUDE_TYPES = {"user", "assistant"}
_CLAUDE_LEFT_OUT = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")
_CODEX_TYPES = {"response_item", "session_meta", "event_msg", "turn_context", "compacted"}
_CODEX_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_CODEX_NOTES = ("<environment_context>", "<user_instructions>", "<permissions", "<turn_aborted>", "# AGENTS.md instr")


def read_recording(path: Path) -> Recording:
    """Read a recorded session of another agent, or a transcript.

    :raises AgentError: it has none of the known forms; names file and line, and says what was expected.
    :raises OSError: it cannot be read.
    """
    lines, notice = _read_json(path)
    record = lines[0]
    types = {get_text(line, "type") for line in lines if line.keys() & {"message", "payload"}}
    if isinstance(record.get("messages"), list):
        form = "mini-swe-agent" if "trajectory_format" in record else "transcript"
        messages = get_objects(record, "messages")
    elif types & _CODEX_TYPES:
        form, messages = "Codex", _codex(lines)
    elif types & _CLAUDE_TYPES:
        form, messages = "Claude Code", _claude_code(lines)
    else:
        raise AgentError(located(f"is JSON of another form; {FORMS}", source=str(path), line=1))
    entries, system = _build(messages)
    if not entries:
        raise AgentError(located(f"looks like a session of {form}, but nothing was said in it", source=str(path)))
    places = [place for line in lines for place in (line, get_object(line, "payload"))]
    places.append(get_object(get_object(get_object(record, "info"), "config"), "environment"))
    cwd = next((cwd for place in places if (cwd := get_text(place, "cwd")).startswith("/")), "")
    return Recording(str(path), form, entries, system, cwd, notice)


def from_log(events: Iterable[LoggedEvent], name: str) -> Recording:
    """Return a session of this agent from its whole log, as if no compaction had ever happened."""
    kept = (logged for logged in events if not isinstance(logged.event, ContextSwapped | ContextRestored))
    context = Context.from_log(kept)
    return Recording(name, "acp-agent", context.entries, context.instructions, context.cwd)


def _read_json(path: Path) -> tuple[list[JsonObject], str]:
    """Return the one object of a file or those of its lines, and a notice of a last line left out."""
    if not path.is_file():
        raise AgentError(located(f"is not a file; {FORMS}", source=str(path)))
    text, notice = path.read_bytes().decode("utf-8-sig", "replace"), ""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise AgentError(located(f"is empty; {FORMS}", source=str(path), line=1))
    if (whole := parse_object(text)) is not None:
        return [whole], ""
    found: list[JsonObject] = []
    for number, line in lines:
        if (value := parse_object(line)) is not None:
            found.append(value)
        elif not found or number < lines[-1][0]:
            raise AgentError(located(f"is not a JSON object; {FORMS}", source=str(path), line=number))
        else:
            notice = "is no whole JSON, as where a session was killed while it was written; the line is left out"
            notice = located(notice, source=str(path), line=number)
    return found, notice


def _blocks(content: JsonValue) -> list[JsonObject]:
    """Return the blocks of content: a text, or an array of texts and blocks."""
    blocks: list[JsonValue] = content if isinstance(content, list) else [content]
    return get_objects({"blocks": [{"text": each} if isinstance(each, str) else each for each in blocks]}, "blocks")


def _text(content: JsonValue) -> str:
    """Return the text of content, without halves of surrogate pairs, which JSON can hold and no provider takes."""
    texts = (get_text(block, "text") for block in _blocks(content))
    return "\n".join(filter(None, texts)).encode("utf-8", "replace").decode()


def _claude_code(lines: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield messages of Claude Code, which records each block of an answer on a line of its own."""
    for line in lines:
        if line.get("type") in _CLAUDE_TYPES and not any(line.get(mark) is True for mark in _CLAUDE_LEFT_OUT):
            yield {"role": line["type"], "content": get_object(line, "message").get("content")}


def _codex(lines: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield messages of a rollout of Codex."""
    for item in (get_object(line, "payload") for line in lines if line.get("type") == "response_item"):
        kind, call_id, content = get_text(item, "type"), get_text(item, "call_id"), item.get("content")
        if kind == "message" and not _text(content).lstrip().startswith(_CODEX_NOTES):
            yield {"role": item.get("role"), "content": content}
        elif kind in _CODEX_CALLS:
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            call: JsonObject = {"id": call_id, "name": item.get("name"), "arguments": arguments}
            yield {"role": "assistant", "tool_calls": [call]}
        elif kind.endswith("_call_output"):
            output = item.get("output")
            fields = (parse_object(output) or {}) if isinstance(output, str) else get_object(item, "output")
            text = get_text(fields, "output") or get_text(fields, "content") or output
            status = get_object(fields, "metadata").get("exit_code")
            yield {"role": "tool", "tool_call_id": call_id, "content": text, "extra": {"returncode": status}}


def _build(messages: Iterable[JsonObject]) -> tuple[tuple[Entry, ...], str]:
    """Return the messages of the user and the model, without reasoning, and the system prompt.

    A call without a result gets one that says so; a result without a call is left out.
    """
    system: list[str] = []
    steps: list[tuple[str, list[Text | ToolCall]]] = []
    waiting: dict[str, str] = {}  # our ids of the calls that have no result yet, by the recorded ones
    results: dict[str, ToolResult] = {}
    numbers, begins = count(1), True  # whether the next part of an answer begins a new one
    for message in messages:
        role, content = get_text(message, "role"), message.get("content")
        if role in ("system", "developer"):
            system.append(_text(content))
        if role not in ("user", "assistant", "tool"):
            continue
        blocks = _blocks(content) + [{**call, "type": "tool_use"} for call in get_objects(message, "tool_calls")]
        if role == "tool":
            failed = get_object(message, "extra").get("returncode") not in (0, None)
            blocks = [
                {**message, "type": "tool_result", "tool_use_id": message.get("tool_call_id"), "is_error": failed}
            ]
        parts: list[Text | ToolCall] = []
        for block in blocks:
            kind = block.get("type")
            if kind == "tool_use" and role == "assistant":
                call = _call(f"call_{next(numbers)}", block)
                waiting[get_text(block, "id")] = call.id
                parts.append(call)
            elif kind == "tool_result" and (call_id := waiting.pop(get_text(block, "tool_use_id"), None)):
                failed = block.get("is_error") is True
                results[call_id] = ToolResult(call_id, (Text(_text(block.get("content"))),), failed)
                begins = True
            elif kind != "tool_result" and (text := _text([block]).strip()):
                parts.append(Text(text))
        if parts and not begins and role == "assistant":
            steps[-1][1].extend(parts)
        elif parts:
            steps.append((role, parts))
            begins = role == "user"
    built: list[Message] = []
    for number, (role, parts) in enumerate(steps, 1):
        calls = [part for part in parts if isinstance(part, ToolCall)]
        texts = tuple(part for part in parts if isinstance(part, Text))
        user = role == "user"
        built.append(UserMessage(f"msg_{number}", texts) if user else AssistantMessage(f"msg_{number}", tuple(parts)))
        built += [results.get(call.id) or ToolResult(call.id, (Text(NO_RESULT),), is_error=True) for call in calls]
    return tuple(Entry(seq, message) for seq, message in enumerate(built, 1)), "\n\n".join(filter(None, system))


def _call(call_id: str, block: JsonObject) -> ToolCall:
    function = get_object(block, "function") or block
    given = function.get("arguments", block.get("input"))
    fields = parse_object(given) if isinstance(given, str) else given
    arguments: JsonObject = fields if isinstance(fields, dict) else {"input": given} if given else {}
    return ToolCall(call_id, get_text(function, "name") or "tool", arguments)
