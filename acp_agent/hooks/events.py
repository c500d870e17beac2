"""What hooks are told of: one class an event, each with the moment of the session at which it happens.

Plain values. How one is written down for an executable is `payload`'s matter.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias

from acp_agent.config.hook_events import ALIASES, EVENT_NAMES, EventName, event_name
from acp_agent.conversation.events import CompactionTrigger
from acp_agent.conversation.messages import JsonObject, JsonValue, Message, ResultPart, Text
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome

__all__ = [
    "ALIASES",
    "EVENT_NAMES",
    "OBSERVED",
    "AfterCompaction",
    "AfterToolCall",
    "AgentStop",
    "BeforeCompaction",
    "BeforeToolCall",
    "EventName",
    "HookEvent",
    "Moment",
    "SessionEnd",
    "SessionStart",
    "TokenUsage",
    "TurnEnd",
    "UserMessageSend",
    "changed",
    "event_name",
]

OBSERVED: frozenset[EventName] = frozenset({"after_compaction", "session_end"})
"""Events of things that are done: nothing that a hook answers can change them."""


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
        """How full the window is, from 0 on; 0 where that is not known."""
        return self.current_context_window / self.max_context_window if self.max_context_window else 0.0


@frozen
class Moment:
    """What every event says of the session that it happens in.

    :ivar cwd: absolute path of the session's directory.
    :ivar turn_number: which answer without tool calls it is within one prompt, from 1: a hook that lets the agent go on
        makes a second one.
    :ivar invoked_by: the recipe that runs; empty for an ordinary prompt.
    :ivar messages: the context as the model sees it.
    :ivar transcript: writes the session down as JSON lines, and says in which file. Costs something only where a hook
        wants it.
    """

    session_id: str
    cwd: str
    transcript: Callable[[], Awaitable[str]]
    mode: str = "ask"
    turn_number: int = 1
    invoked_by: str = ""
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
    """A prompt is about to be put to the model.

    :ivar prompt: its text, of a recipe the recipe's.
    """

    name: ClassVar[EventName] = "user_message_send"
    at: Moment
    prompt: str


@frozen
class BeforeToolCall:
    """The model asks for a call; nobody has been asked for permission yet.

    :ivar paths: files and folders that it is about, as far as the arguments say.
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
        """The result's text, joined."""
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

    :ivar stop_hook_active: whether it goes on already because a hook wanted it to.
    """

    name: ClassVar[EventName] = "agent_stop"
    at: Moment
    response: str
    stop_hook_active: bool = False


@frozen
class BeforeCompaction:
    """A compaction is due, and will be done unless a hook stands in its way.

    :ivar context_limit: tokens of the model's window.
    :ivar instructions: what the user wants kept in mind, where it was asked for by hand.
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
    """A compaction has been done. The tokens are those from before it, so that "from X to Y" can be told."""

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
    """The event as the next hook is told of it: with what this one made of it."""
    match event:
        case UserMessageSend() if outcome.message is not None:
            return replace(event, prompt=outcome.message)
        case BeforeToolCall() if outcome.tool_input is not None:
            paths = paths_of(outcome.tool_input, event.at.cwd)
            return replace(event, input=outcome.tool_input, paths=paths)
        case AfterToolCall() if outcome.tool_output is not None:
            return replace(event, output=(Text(outcome.tool_output),), raw_output=None)
        case _:
            return event


def paths_of(input: JsonObject, cwd: str) -> tuple[str, ...]:
    """The file or folder that a call's arguments name, as the tools read them: absolute, relative to `cwd`, from the
    home folder on, or a `file://` URI.

    :returns: absolute paths.
    """
    path = input.get("path")
    if not isinstance(path, str) or not path.strip():
        return ()
    if path.startswith("file://"):
        from urllib.parse import unquote, urlsplit

        path = unquote(urlsplit(path).path)
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111 - leaves a path without a home folder as it is
    return (os.path.normpath(os.path.join(cwd, path)),)  # noqa: PTH118 - the parts may be anything
