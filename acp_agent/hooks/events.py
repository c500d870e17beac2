"""The events at which hooks run. Each is a class with the state of the session at that
moment.

Events are plain values. The module `payload` encodes them for executables.
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
    """Token counts. An unknown count is 0.

    :ivar input_tokens: tokens of the last request, cached or not.
    :ivar output_tokens: tokens of the last answer.
    :ivar current_context_window: tokens in the current context.
    :ivar max_context_window: size of the model's context window in tokens.
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
    :ivar transcript: writes the session to a file as JSON lines and returns the file's
        path.
    :ivar mode: the permission mode.
    :ivar turn_number: number of the current answer, from 1. Answers without tool calls
        are counted, in the whole session.
    :ivar answer_number: number of the current answer to this prompt, from 1. Answers
        without tool calls are counted; there are several if a hook let the agent
        continue.
    :ivar invoked_by: name of the running recipe; `main` for an ordinary prompt.
    :ivar messages: the context as the model sees it.
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
    """A session was opened, or continues with a compacted context. Texts that hooks add
    precede the next message.

    :ivar source: how the session began; `compact` after a compaction.
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

    :ivar tool: our name of the tool.
    :ivar input: the arguments of the call.
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
    """A tool call that was not refused has run or failed. The model has not seen the
    result yet. See `BeforeToolCall` for the other attributes.

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

    :ivar response: the visible text of the last answer.
    :ivar stop_hook_active: whether a hook has already let the agent continue in this
        turn.
    """

    name: ClassVar[EventName] = "agent_stop"
    at: Moment
    response: str
    stop_hook_active: bool = False


@frozen
class BeforeCompaction:
    """A compaction is about to start, unless a hook vetoes it.

    :ivar input_tokens: tokens of the last request.
    :ivar output_tokens: tokens of the last answer.
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
    """A compaction has finished. The token counts are from before the compaction; see
    `BeforeCompaction`.
    """

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
    """Return the event for the next hook, with the replaced text or arguments of an
    earlier hook's outcome.
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
    """Return the absolute paths of the files and folders that a call's arguments name.
    At most one can be named at present.
    """
    path = get_text(input, "path")
    return (absolute_path(path, cwd),) if path.strip() else ()


def absolute_path(path: str, cwd: str) -> str:
    """Resolve a path argument in the same way as the tools do.

    :param path: an absolute path, a path relative to `cwd`, a path that begins with
        `~`, or a `file://` URI.
    """
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - leaves a path without a home folder as it is
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - the parts may be anything
