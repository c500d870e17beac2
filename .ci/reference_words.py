"""What the reference says of events and handlers, which are no pydantic models with
descriptions of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from acp_agent.config.hook_events import EventName

EVENTS: Mapping[EventName, tuple[str, str]] = {
    "session_start": (
        "a session is opened, or goes on compacted",
        "`source`: `new`, `load`, `resume`, `compact`",
    ),
    "user_message_send": ("a prompt is about to be put to the model", "`prompt`"),
    "before_tool_call": (
        "the model asks for a call; nobody has been asked for permission",
        "`tool`, `tool_name`, `tool_input`, `tool_use_id`",
    ),
    "after_tool_call": (
        "a call that was not refused has run, or has failed; the model has not read its result",
        "as before it, and `tool_output`, `tool_response`, `is_error`",
    ),
    "turn_end": ("the model has answered without calls", "`response`"),
    "agent_stop": (
        "the turn is about to end",
        "`response`, `last_assistant_message`, `stop_hook_active`",
    ),
    "before_compaction": (
        "a compaction is due",
        "`compaction_reason`, `trigger`, `input_tokens`, `output_tokens`, `context_limit`, `custom_instructions`",
    ),
    "after_compaction": (
        "it has been done; the tokens are those from before",
        "the same without instructions, and `summary`",
    ),
    "session_end": ("a session is closed", "`reason`: `close`, `delete`, `exit`"),
}
"""By event: when it is, and the keys that it alone has."""

HANDLERS: Mapping[str, str] = {
    "append_context": (
        "the model reads the text, and the file of the project, beside what is said: before it answers the prompt, "
        "or from the next prompt on. At least one of the two"
    ),
    "compact": (
        "once the turn is over, the conversation is compacted, as by `/compact`: for a recipe that finishes a piece "
        "of work"
    ),
    "export_markdown": (
        "writes the whole session into a Markdown file of the project, a `.md`, by default "
        "`.acp-agent/exports/<session>-<date>.md`. A file that is no export of this session stays as it is, unless "
        "`overwrite: true`"
    ),
    "log_tool_usage": (
        "appends a line of JSON for each call to a `.jsonl` in the agent's home, by default "
        "`logs/tool-usage.jsonl`: tool, arguments, and after the call the size of what came back. What looks like a "
        "key is masked, and a text is cut at 2,000 characters"
    ),
    "swap_context": (
        "the answer takes the place of the conversation: [below](#a-recipe-that-compacts)"
    ),
    "validate_output": (
        "the answer, bare or in its last fence, has to be JSON that the JSON Schema accepts, which stands here or "
        "in a file of the project. Else the model is told what is wrong and answers again, five times at most"
    ),
    "validate_tool_output": (
        "the result of the tool (of every tool where none is named) has to have a match of the [pattern](#patterns), "
        "or be JSON that the schema accepts. Else the model reads below it what is wrong"
    ),
}
"""By built-in handler: what it does."""
