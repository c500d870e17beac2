"""The events of hooks: one class each, with the moment of the session at which it happens.

They are plain values. `payload` encodes one for an executable.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from acp_agent.config.hook_events import EventName
from acp_agent.conversation.messages import JsonObject, JsonValue, Message, ResultPart, Text
from acp_agent.conversation.strict_json import get_text
from acp_agent.conversation.swaps import CompactionTrigger
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome

MAIN = "main"
"""What an ordinary prompt, which no recipe makes, is invoked by."""


@frozen
class TokenUsage:
    """Tokens, as far as they are known; 0 where they are not.

    :ivar input_tokens: of the last request, cached or not.
    :ivar output_tokens: of the last answer.
    :ivar current_context_window: what the context takes up now.
    :ivar max_context_window: what the model's window holds.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    current_context_window: int = 0
    max_context_window: int = 0

    @property
    def share(self) -> float:
        """Return how full the window is, from 0 on; 0 where that is not known."""
        return self.current_context_window / self.max_context_window if self.max_context_window else 0.0


@frozen
class Moment:
    """What every event says of the session that it happens in.

    :ivar cwd: absolute path of the session's directory.
    :ivar turn_number: which answer without tool calls of the whole session it is, from 1.
    :ivar answer_number: the same within one prompt: a hook that lets the agent go on makes a second one.
    :ivar invoked_by: the recipe that runs; `main` for an ordinary prompt.
    :ivar messages: the context as the model sees it.
    :ivar transcript: writes the session down as JSON lines, and returns the file's path.
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
    """A session was opened, or goes on with a compacted context. What hooks add stands before what comes next."""

    name: ClassVar[EventName] = "session_start"
    at: Moment
    source: Literal["new", "load", "resume", "compact"]


@frozen
class UserMessageSend:
    """A prompt is about to be put to the model; of a recipe, it is the recipe's text."""

    name: ClassVar[EventName] = "user_message_send"
    at: Moment
    prompt: str


@frozen
class BeforeToolCall:
    """The model asks for a tool call; the user has not been asked for permission yet.

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
    """A call that was not refused has run, or has failed; the model has not read its result yet.

    :ivar output: what the model will read.
    :ivar raw_output: what the tool reports of itself, such as a command's streams and exit status; None where it
        reports nothing, or a hook has replaced the output.
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

    :ivar response: the visible text of that answer.
    :ivar is_summary: whether it is a summary, which is about to take the place of the conversation.
    """

    name: ClassVar[EventName] = "turn_end"
    at: Moment
    response: str
    is_summary: bool = False


@frozen
class AgentStop:
    """The turn is about to end, unless a hook lets the agent go on.

    :ivar stop_hook_active: whether the agent goes on already because a hook wanted it to.
    """

    name: ClassVar[EventName] = "agent_stop"
    at: Moment
    response: str
    stop_hook_active: bool = False


@frozen
class BeforeCompaction:
    """A compaction is due, and will be done unless a hook vetoes it.

    :ivar context_limit: tokens of the model's window.
    :ivar instructions: the user's, where it was asked for by hand.
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
    """A compaction has been done. The tokens are those from before it."""

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
    """Return the event for the next hook: with the texts and arguments that this outcome replaces."""
    match event:
        case UserMessageSend() if outcome.message is not None:
            return replace(event, prompt=outcome.message)
        case BeforeToolCall() if outcome.tool_input is not None:
            return replace(event, input=outcome.tool_input, paths=paths_of(outcome.tool_input, event.at.cwd))
        case AfterToolCall() if outcome.tool_output is not None:
            return replace(event, output=(Text(outcome.tool_output),), raw_output=None)
        case _:
            return event


def paths_of(input: JsonObject, cwd: str) -> tuple[str, ...]:
    """Return the absolute path of the file or folder that a call's arguments name, where they name one."""
    path = get_text(input, "path")
    return (absolute_path(path, cwd),) if path.strip() else ()


def absolute_path(path: str, cwd: str) -> str:
    """Return a path of a call's arguments as the tools read it: absolute, relative to `cwd`, from the home folder on,
    or a `file://` URI."""
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - leaves a path without a home folder as it is
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - the parts may be anything
