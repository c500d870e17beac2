"""Reads recorded sessions of several agents, and chooses the points at which a
measurement splits them.

The format is recognised by the file's contents, not its name. The reader of each format
yields messages in the form of Chat Completions or Anthropic's Messages API, which
`_build` converts to `Message` objects.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, count
from pathlib import Path

from acp_agent.compaction.cuts import legal_cuts
from acp_agent.compaction.estimate import (
    estimate_message,
    estimate_messages,
    estimate_text,
)
from acp_agent.compaction.state import ConversationState
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import ContextRestored, ContextSwapped, LoggedEvent
from acp_agent.conversation.messages import (
    AssistantMessage,
    Entry,
    JsonObject,
    JsonValue,
    Message,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from acp_agent.conversation.strict_json import (
    get_object,
    get_objects,
    get_text,
    parse_object,
)
from acp_agent.errors import AgentError, located
from acp_agent.frozen import frozen

SHARES = (0.4, 0.6, 0.8)
FILLED = 0.8
"""Share of the window that the conversation fills if the window's size is chosen to fit
the conversation. This is the agent's default threshold for compaction.
"""
LEAST_BEFORE = 4
LEAST_AFTER = 2
MAX_OUTPUT_TOKENS = 8_192
FORMS = (
    "expected a session of this agent (its id), a transcript with `messages`, a trajectory of mini-swe-agent, or a "
    "session file (JSON Lines) of Claude Code or Codex"
)
NO_RESULT = "The recording has no result of this call."

_CLAUDE_TYPES = {"user", "assistant"}
_CLAUDE_LEFT_OUT = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")
_CODEX_TYPES = {
    "response_item",
    "session_meta",
    "event_msg",
    "turn_context",
    "compacted",
}
_CODEX_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_CODEX_NOTES = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions",
    "<turn_aborted>",
    "# AGENTS.md instr",
)


@frozen
class Recording:
    """A recorded session as a valid history.

    :ivar name: the file's path, or the session's ID.
    :ivar form: name of the recording's format.
    :ivar system: the system prompt; empty if the recording has none.
    :ivar cwd: absolute path of the working directory; empty if unknown.
    """

    name: str
    form: str
    entries: tuple[Entry, ...]
    system: str = ""
    cwd: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages without their numbers."""
        return tuple(entry.message for entry in self.entries)


def points(recording: Recording, shares: Sequence[float] = SHARES) -> list[int]:
    """Return the legal cuts nearest to these shares of the recording's tokens, in order
    and without duplicates, each as the number of messages before the cut.
    """
    sizes = list(
        accumulate(estimate_message(message) for message in recording.messages)
    )
    places = [
        cut
        for cut in legal_cuts(recording.entries, None)
        if LEAST_BEFORE <= cut <= len(sizes) - LEAST_AFTER
    ]
    near = (
        min(places, key=lambda cut: (abs(sizes[cut - 1] - share * sizes[-1]), cut))
        for share in shares
        if places
    )
    return sorted({*near})


def state_at(
    recording: Recording, cut: int, window: int | None = None, model: str = ""
) -> ConversationState:
    """Return the conversation at a point. A turn that has not ended by then counts as
    running.

    :param cut: the point, as the number of messages before it.
    :param window: size of the model's window in tokens; None for a window that the
        conversation fills to `FILLED`.
    """
    entries = recording.entries[:cut]
    messages = [entry.message for entry in entries]
    window = window or math.ceil(
        (estimate_text(recording.system) + estimate_messages(messages)) / FILLED
    )
    output = min(MAX_OUTPUT_TOKENS, window // 4)
    state = ConversationState.of(
        messages,
        window=window,
        model=model,
        system=recording.system,
        max_output_tokens=output,
        cwd=recording.cwd,
    )
    prompts = [
        entry.seq
        for entry in entries
        if isinstance(entry.message, UserMessage) and not entry.note
    ]
    ended = isinstance(messages[-1], AssistantMessage) and not messages[-1].tool_calls
    return replace(
        state, entries=entries, turn_from=None if ended or not prompts else prompts[-1]
    )


def read_recording(path: Path) -> Recording:
    """Read a recorded session of another agent, or a transcript.

    :raises AgentError: if the file has none of the known formats; the message names the
        file, the line and the known formats.
    :raises OSError: if the file cannot be read.
    """
    lines = _read_json(path)
    record = lines[0]
    types = {
        get_text(line, "type") for line in lines if line.keys() & {"message", "payload"}
    }
    if isinstance(record.get("messages"), list):
        form = "mini-swe-agent" if "trajectory_format" in record else "transcript"
        messages = get_objects(record, "messages")
    elif types & _CODEX_TYPES:
        form = "Codex"
        messages = _codex(lines)
    elif types & _CLAUDE_TYPES:
        form = "Claude Code"
        messages = _claude_code(lines)
    else:
        raise AgentError(
            located(f"is JSON in an unknown format; {FORMS}", source=str(path), line=1)
        )
    entries, system = _build(messages)
    if not entries:
        raise AgentError(
            located(
                f"looks like a session of {form}, but has no messages",
                source=str(path),
            )
        )
    places = [place for line in lines for place in (line, get_object(line, "payload"))]
    places.append(
        get_object(get_object(get_object(record, "info"), "config"), "environment")
    )
    cwd = next(
        (cwd for place in places if (cwd := get_text(place, "cwd")).startswith("/")), ""
    )
    return Recording(str(path), form, entries, system, cwd)


def from_log(events: Iterable[LoggedEvent], name: str) -> Recording:
    """Return a session of this agent as a recording, with all messages from before its
    compactions.

    :param events: the session's whole log.
    :param name: name of the recording.
    """
    kept = (
        logged
        for logged in events
        if not isinstance(logged.event, ContextSwapped | ContextRestored)
    )
    context = Context.from_log(kept)
    return Recording(
        name, "acp-agent", context.entries, context.instructions, context.cwd
    )


def _read_json(path: Path) -> list[JsonObject]:
    """Return the JSON objects in a file, which contains either a single object or one
    object on each line. An incomplete last line is ignored.
    """
    if not path.is_file():
        raise AgentError(located(f"is not a file; {FORMS}", source=str(path)))
    text = path.read_bytes().decode("utf-8-sig", "replace")
    if (whole := parse_object(text)) is not None:
        return [whole]
    lines = [
        (number, parse_object(line))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if len(lines) > 1 and lines[-1][1] is None:
        lines.pop()  # the process was probably killed while it wrote this line
    if broken := next(
        (number for number, value in lines if value is None), 0 if lines else 1
    ):
        what = "is not a JSON object" if lines else "is empty"
        raise AgentError(located(f"{what}; {FORMS}", source=str(path), line=broken))
    return [value for _, value in lines if value is not None]


def _blocks(content: JsonValue) -> list[JsonObject]:
    """Return a message's content as blocks. The content is a text, or a list of texts
    and blocks.
    """
    blocks: list[JsonValue] = content if isinstance(content, list) else [content]
    return get_objects(
        {
            "blocks": [
                {"text": each} if isinstance(each, str) else each for each in blocks
            ]
        },
        "blocks",
    )


def _text(content: JsonValue) -> str:
    """Return the text of a message's content. Lone surrogates, which JSON may contain
    but no provider accepts, become `?`.
    """
    texts = (get_text(block, "text") for block in _blocks(content))
    return "\n".join(filter(None, texts)).encode("utf-8", "replace").decode()


def _claude_code(lines: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield messages of Claude Code, which records each block of an answer on a
    separate line.
    """
    for line in lines:
        if get_text(line, "type") in _CLAUDE_TYPES and not any(
            line.get(mark) is True for mark in _CLAUDE_LEFT_OUT
        ):
            yield {
                "role": line["type"],
                "content": get_object(line, "message").get("content"),
            }


def _codex(lines: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield messages of a Codex rollout."""
    for item in (
        get_object(line, "payload")
        for line in lines
        if line.get("type") == "response_item"
    ):
        kind = get_text(item, "type")
        call_id = get_text(item, "call_id")
        content = item.get("content")
        if kind == "message" and not _text(content).lstrip().startswith(_CODEX_NOTES):
            yield {"role": item.get("role"), "content": content}
        elif kind in _CODEX_CALLS:
            arguments = item.get("arguments") or item.get("input") or item.get("action")
            call: JsonObject = {
                "id": call_id,
                "name": item.get("name"),
                "arguments": arguments,
            }
            yield {"role": "assistant", "tool_calls": [call]}
        elif kind.endswith("_call_output"):
            output = item.get("output")
            fields = (
                (parse_object(output) or {})
                if isinstance(output, str)
                else get_object(item, "output")
            )
            yield {
                "role": "tool",
                "tool_call_id": call_id,
                "content": get_text(fields, "output") or output,
            }


def _build(messages: Iterable[JsonObject]) -> tuple[tuple[Entry, ...], str]:
    """Convert recorded messages to numbered entries and the system prompt, dropping
    reasoning.

    A call without a result gets a placeholder result. A result without a call is
    dropped.
    """
    system: list[str] = []
    steps: list[tuple[str, list[Text | ToolCall]]] = []
    # Maps the recorded IDs of calls that have no result yet to our IDs.
    waiting: dict[str, str] = {}
    results: dict[str, ToolResult] = {}
    numbers = count(1)
    begins = True  # whether the next part of an answer begins a new one
    for message in messages:
        role = get_text(message, "role")
        if role in ("system", "developer"):
            system.append(_text(message.get("content")))
        parts: list[Text | ToolCall] = []
        for block in (
            _blocks_of(message) if role in ("user", "assistant", "tool") else ()
        ):
            kind = block.get("type")
            if kind == "tool_use" and role == "assistant":
                call = _call(f"call_{next(numbers)}", block)
                waiting[get_text(block, "id")] = call.id
                parts.append(call)
            elif kind == "tool_result" and (
                call_id := waiting.pop(get_text(block, "tool_use_id"), None)
            ):
                text = _text(block.get("content"))
                failed = block.get("is_error") is True
                results[call_id] = ToolResult(call_id, (Text(text),), failed)
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
        built.append(
            UserMessage(f"msg_{number}", texts)
            if user
            else AssistantMessage(f"msg_{number}", tuple(parts))
        )
        built += [
            results.get(call.id)
            or ToolResult(call.id, (Text(NO_RESULT),), is_error=True)
            for call in calls
        ]
    return tuple(
        Entry(seq, message) for seq, message in enumerate(built, 1)
    ), "\n\n".join(filter(None, system))


def _blocks_of(message: JsonObject) -> list[JsonObject]:
    """Return the blocks of a message, including the calls and results that Chat
    Completions keeps outside of `content`.
    """
    if message["role"] == "tool":
        failed = get_object(message, "extra").get("returncode") not in (0, None)
        return [
            {
                **message,
                "type": "tool_result",
                "tool_use_id": message.get("tool_call_id"),
                "is_error": failed,
            }
        ]
    calls = [
        {**call, "type": "tool_use"} for call in get_objects(message, "tool_calls")
    ]
    return _blocks(message.get("content")) + calls


def _call(call_id: str, block: JsonObject) -> ToolCall:
    function = get_object(block, "function") or block
    given = function.get("arguments", block.get("input"))
    fields = parse_object(given) if isinstance(given, str) else given
    arguments: JsonObject = (
        fields if isinstance(fields, dict) else {"input": given} if given else {}
    )
    return ToolCall(call_id, get_text(function, "name") or "tool", arguments)
