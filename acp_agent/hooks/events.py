"""The events at which hooks run: one class each, with the state of the session at that
moment.

They are plain values. `payload` encodes an event for an executable.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from acp_agent.config.hook_events import EventName
from acp_agent.conversation.messages import (
    JsonObject,
    JsonValue,
    Message,
    ResultPart,
    Text,
)
from acp_agent.conversation.strict_json import get_text
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome

MAIN = "main"
"""Value of `invoked_by` for an ordinary prompt, which does not come from a recipe."""


@frozen
class TokenUsage:
    """Token counts; 0 for unknown counts.

    :ivar input_tokens: tokens of the last request, cached or not.
    :ivar output_tokens: tokens of the last answer.
    :ivar current_context_window: tokens in the context now.
    :ivar max_context_window: size of the model's context window.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    current_context_window: int = 0
    max_context_window: int = 0

    @property
    def share(self) -> float:
        """Return how full the context window is, as a fraction; 0 if unknown."""
        return (
            self.current_context_window / self.max_context_window
            if self.max_context_window
            else 0.0
        )


@frozen
class Moment:
    """The state of the session, which every event includes.

    :ivar cwd: absolute path of the session's directory.
    :ivar turn_number: number of the current answer without tool calls in the whole
        session, from 1.
    :ivar answer_number: number of the current answer without tool calls in this prompt,
        from 1. It is above 1 if a hook let the agent continue.
    :ivar invoked_by: name of the running recipe; `main` for an ordinary prompt.
    :ivar messages: the context as the model sees it.
    :ivar transcript: writes the session to a file as JSON lines and returns the file's
        path.
    """

    session_id: str
    cwd: str
    transcript: Callable[[], Awaitable[str]]
    mode: str = "ask"
    turn_number: int = 1
    answer_number: int = 1
    invoked_by: str = MAIN
    usage: TokenUsage = TokenUsage()
    messages: tuple[Message, ...] = ()


@frozen
class SessionStart:
    """A session was opened, or continues with a compacted context. Texts from hooks
    precede the next message.
    """

    name: ClassVar[EventName] = "session_start"
    at: Moment
    source: Literal["new", "load", "resume", "compact"]


@frozen
class UserMessageSend:
    """A prompt is about to be sent to the model. For a recipe, the prompt is the
    recipe's text.
    """

    name: ClassVar[EventName] = "user_message_send"
    at: Moment
    prompt: str


@frozen
class BeforeToolCall:
    """The model requested a tool call. The user has not been asked for permission yet.

    :ivar paths: absolute paths of the files and folders that the arguments name.
    """

    name: ClassVar[EventName] = "before_tool_call"
    at: Moment
    call_id: str
    tool: str
    input: JsonObject
    paths: tuple[str, ...] = ()


@frozen
class AfterToolCall:
    """A call that was not refused has run or failed. The model has not seen its result
    yet.

    :ivar output: the result for the model.
    :ivar raw_output: the tool's structured output, such as a command's streams and exit
        status; None if there is none or a hook has replaced the output.
    """

    name: ClassVar[EventName] = "after_tool_call"
    at: Moment
    call_id: str
    tool: str
    input: JsonObject
    output: tuple[ResultPart, ...]
    is_error: bool = False
    paths: tuple[str, ...] = ()
    raw_output: JsonValue = None

    @property
    def text(self) -> str:
        """Return the texts of the result, joined."""
        return "\n".join(part.text for part in self.output if isinstance(part, Text))


@frozen
class TurnEnd:
    """The model has answered without tool calls.

    :ivar response: the visible text of the answer.
    :ivar is_summary: whether the answer is a summary that is about to replace the
        conversation.
    """

    name: ClassVar[EventName] = "turn_end"
    at: Moment
    response: str
    is_summary: bool = False


@frozen
class AgentStop:
    """The turn is about to end, unless a hook lets the agent continue.

    :ivar stop_hook_active: whether the agent is already continuing because of a hook.
    """

    name: ClassVar[EventName] = "agent_stop"
    at: Moment
    response: str
    stop_hook_active: bool = False


@frozen
class BeforeCompaction:
    """A compaction is about to start, unless a hook vetoes it.

    :ivar context_limit: size of the model's context window in tokens.
    :ivar instructions: the user's instructions if the compaction was requested
        manually.
    """

    name: ClassVar[EventName] = "before_compaction"
    at: Moment
    reason: CompactionTrigger
    input_tokens: int
    output_tokens: int
    context_limit: int
    instructions: str = ""


@frozen
class AfterCompaction:
    """A compaction has finished. The token counts are from before it."""

    name: ClassVar[EventName] = "after_compaction"
    at: Moment
    reason: CompactionTrigger
    input_tokens: int
    output_tokens: int
    context_limit: int
    summary: str


@frozen
class SessionEnd:
    """A session is being closed."""

    name: ClassVar[EventName] = "session_end"
    at: Moment
    reason: Literal["close", "delete", "exit"]


HookEvent: TypeAlias = (
    SessionStart
    | UserMessageSend
    | BeforeToolCall
    | AfterToolCall
    | TurnEnd
    | AgentStop
    | BeforeCompaction
    | AfterCompaction
    | SessionEnd
)


def changed(event: HookEvent, outcome: Outcome) -> HookEvent:
    """Return the event for the next hook, with the texts or arguments that this outcome
    replaces.
    """
    match event:
        case UserMessageSend() if outcome.message is not None:
            return replace(event, prompt=outcome.message)
        case BeforeToolCall() if outcome.tool_input is not None:
            return replace(
                event,
                input=outcome.tool_input,
                paths=paths_of(outcome.tool_input, event.at.cwd),
            )
        case AfterToolCall() if outcome.tool_output is not None:
            return replace(event, output=(Text(outcome.tool_output),), raw_output=None)
        case _:
            return event


def paths_of(input: JsonObject, cwd: str) -> tuple[str, ...]:
    """Return the absolute path of the file or folder in a call's arguments, if there is
    one.
    """
    path = get_text(input, "path")
    return (absolute_path(path, cwd),) if path.strip() else ()


def absolute_path(path: str, cwd: str) -> str:
    """Return the absolute path for a path argument, as the tools resolve it. It may be
    absolute, relative to `cwd`, begin with `~`, or be a `file://` URI.
    """
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - leaves a path without a home folder as it is
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - the parts may be anything
