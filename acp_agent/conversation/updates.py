"""The updates that a session sends to its client, as plain values. The presenters in
`server` encode them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from acp_agent.conversation.events import CallView, PlanEntry
from acp_agent.conversation.messages import JsonObject, ResultPart, UserPart
from acp_agent.errors import Refuser
from acp_agent.frozen import frozen

CallStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
CompactionStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
SaidKind: TypeAlias = Literal["answer", "note", "veto", "failure"]


@frozen
class TurnBegan:
    """A turn began."""


@frozen
class TurnOver:
    """A turn ended, and all its updates were sent.

    :ivar stop: the protocol's stop reason; None if the turn failed.
    :ivar error: the failure.
    """

    stop: str | None
    error: Exception | None = None


@frozen
class PromptTaken:
    """A live prompt was added to the conversation. The client that sent it may already
    show it.
    """

    message_id: str
    parts: tuple[UserPart, ...]


@frozen
class UserSaid:
    """A part of the user's message, on replay only."""

    message_id: str
    part: UserPart


@frozen
class AgentSaid:
    """More visible text of the message with this id.

    :ivar kind: `answer`: an answer of the model or a command; `note`: an additional
        note; `veto`: why a hook ended the turn; `failure`: why a command was not
        carried out.
    """

    message_id: str
    text: str
    kind: SaidKind = "answer"


@frozen
class AgentThought:
    """More reasoning of the message with this id."""

    message_id: str
    text: str


@frozen
class CallAnnounced:
    """A tool call is pending and not running yet."""

    call_id: str
    name: str
    view: CallView
    arguments: JsonObject


@frozen
class CallStarted:
    """The call is allowed and running. `view` is the result of its preparation.

    :ivar asks: whether the call has already run, and the user is being asked whether it
        may run again with more access.
    """

    call_id: str
    view: CallView
    asks: bool = False


@frozen
class CallTerminal:
    """The call runs in this terminal of the editor."""

    call_id: str
    terminal_id: str


@frozen
class CallOutput:
    """All output so far of a call without a terminal, shortened for display."""

    call_id: str
    text: str


@frozen
class CallFinished:
    """The call has ended. This update describes the whole call, since a replay sends no
    other.

    :ivar refused_by: what refused the call without asking the user; None if the call
        was allowed, if the user was asked, and in a replay.
    """

    call_id: str
    name: str
    view: CallView
    arguments: JsonObject
    status: CallStatus
    parts: tuple[ResultPart, ...]
    replayed: bool = False
    refused_by: Refuser | None = None


@frozen
class PlanUpdated:
    """The new plan, which replaces the earlier one."""

    entries: tuple[PlanEntry, ...]


@frozen
class UsageUpdated:
    """The tokens used, the size of the window in tokens, and the cost of the session in
    US dollars.
    """

    used: int
    size: int
    cost: float | None


@frozen
class ModeUpdated:
    """The new mode of the session."""

    mode: str


@frozen
class Choice:
    """One value of an option.

    :ivar group: name of the group of values that this one belongs to, if any.
    """

    value: str
    name: str
    description: str | None = None
    group: str | None = None


@frozen
class Option:
    """A setting of the session that the user may change.

    :ivar category: the protocol's category; None if no category applies.
    :ivar is_switch: whether the two choices are on and off, in this order.
    """

    id: str
    name: str
    category: Literal["mode", "model", "thought_level"] | None
    current: str
    choices: tuple[Choice, ...]
    description: str | None = None
    is_switch: bool = False


@frozen
class OptionsUpdated:
    """The new list of all options of the session."""

    options: tuple[Option, ...]


@frozen
class TitleUpdated:
    """The new title of the session."""

    title: str


@frozen
class Command:
    """A slash command; `hint` describes its arguments."""

    name: str
    description: str
    hint: str | None = None


@frozen
class CommandsUpdated:
    """The new list of all slash commands of the session."""

    commands: tuple[Command, ...]


@frozen
class CompactionStarted:
    """A compaction began."""

    compaction_id: str
    trigger: str


@frozen
class CompactionChunk:
    """More of the summary."""

    compaction_id: str
    text: str


@frozen
class CompactionFinished:
    """A compaction ended. A replay sends only this update, with the status completed.

    :ivar receipt: a description of its effect and cost, in one or more lines.
    """

    compaction_id: str
    status: CompactionStatus
    summary: str | None = None
    error: str | None = None
    receipt: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    replayed: bool = False


@frozen
class Notice:
    """Information for the user that belongs to no message."""

    severity: Literal["info", "warning", "error"]
    text: str


Update: TypeAlias = (
    TurnBegan
    | TurnOver
    | PromptTaken
    | UserSaid
    | AgentSaid
    | AgentThought
    | CallAnnounced
    | CallStarted
    | CallTerminal
    | CallOutput
    | CallFinished
    | PlanUpdated
    | UsageUpdated
    | ModeUpdated
    | OptionsUpdated
    | TitleUpdated
    | CommandsUpdated
    | CompactionStarted
    | CompactionChunk
    | CompactionFinished
    | Notice
)

Show: TypeAlias = Callable[[Update], Awaitable[None]]
"""Sends an update to the client, and waits if the client is slow."""
