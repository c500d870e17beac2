"""The reference's descriptions of events and handlers, which have no pydantic models
that could describe them.
"""

from __future__ import annotations

from collections.abc import Mapping

from acp_agent.config.hook_events import EventName

EVENTS: Mapping[EventName, tuple[str, str]] = {
    "session_start": (
        "a session is opened, or continues after a compaction",
        "`source`: `new`, `load`, `resume`, `compact`",
    ),
    "user_message_send": ("a prompt is about to be sent to the model", "`prompt`"),
    "before_tool_call": (
        "the model requested a call; you have not been asked for permission yet",
        "`tool`, `tool_name`, `tool_input`, `tool_use_id`",
    ),
    "after_tool_call": (
        "a call that was not refused has run or failed; the model has not read its result yet",
        "those of `before_tool_call`, and `tool_output`, `tool_response`, `is_error`",
    ),
    "turn_end": ("the model has answered without tool calls", "`response`"),
    "agent_stop": (
        "the turn is about to end",
        "`response`, `last_assistant_message`, `stop_hook_active`",
    ),
    "before_compaction": (
        "a compaction is about to start",
        "`compaction_reason`, `trigger`, `input_tokens`, `output_tokens`, `context_limit`, `custom_instructions`",
    ),
    "after_compaction": (
        "a compaction has finished; the token counts are from before it",
        "those of `before_compaction` without `custom_instructions`, and `summary`",
    ),
    "session_end": ("a session is closed", "`reason`: `close`, `delete`, `exit`"),
}
"""Maps each event to a description of when it happens, and to the keys that only it has."""

HANDLERS: Mapping[str, str] = {
    "append_context": (
        "adds the text, and the contents of a file of the project, to the context: at `user_message_send` with the "
        "prompt, at `turn_end` with the next prompt. At least one of the two is required"
    ),
    "compact": (
        "compacts the conversation after the turn, like `/compact`; for a recipe that finishes a piece of work"
    ),
    "export_markdown": (
        "writes the whole session to a Markdown file (`.md`) in the project, by default "
        "`.acp-agent/exports/<session>-<date>.md`. A file that is not an export of this session is not overwritten, "
        "unless `overwrite` is `true`"
    ),
    "log_tool_usage": (
        "appends a line of JSON for each call to a `.jsonl` file in the agent's home, by default "
        "`logs/tool-usage.jsonl`: the tool, the arguments and, after the call, the size of the result. Strings that "
        "look like keys are masked, and long strings are cut at 2,000 characters"
    ),
    "swap_context": (
        "replaces the conversation with the answer: [below](#a-recipe-that-compacts)"
    ),
    "validate_output": (
        "requires the answer, or the last code fence in it, to be JSON that matches a JSON Schema, which is given "
        "here or in a file of the project. Otherwise the model gets the errors and answers again, at most five times"
    ),
    "validate_tool_output": (
        "requires the results of the tool (of every tool if none is named) to match the [pattern](#patterns), the "
        "JSON Schema, or both. Otherwise the errors are appended to the result"
    ),
}
"""Maps each built-in handler to a description of what it does."""
