"""The updates that a session sends to its client, as values; the presenters of `server` give them their wire form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from acp_agent.conversation.events import CallView, PlanEntry
from acp_agent.conversation.messages import JsonObject, ResultPart, UserPart
from acp_agent.frozen import frozen

CallStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
CompactionStatus: TypeAlias = Literal["completed", "failed", "cancelled"]


@frozen
class TurnBegan:
    """A turn began: the session is running."""


@frozen
class TurnOver:
    """A turn ended: the session is idle, and all updates of the turn were sent.

    :ivar stop: why, in the protocol's words; None where it failed.
    :ivar error: how it failed.
    """

    stop: str | None
    error: Exception | None = None


@frozen
class PromptTaken:
    """A live prompt has its place in the conversation. Who sent it may have it on the screen already."""

    message_id: str
    parts: tuple[UserPart, ...]


@frozen
class UserSaid:
    """A part of the user's message, on replay only."""

    message_id: str
    part: UserPart


@frozen
class AgentSaid:
    """More visible text of the message with this id."""

    message_id: str
    text: str


@frozen
class AgentThought:
    """More reasoning of the message with this id."""

    message_id: str
    text: str


@frozen
class CallAnnounced:
    """A tool call is pending; nothing has happened yet."""

    call_id: str
    name: str
    view: CallView
    arguments: JsonObject


@frozen
class CallStarted:
    """The call is allowed and runs; `view` is what was learned by preparing it."""

    call_id: str
    view: CallView


@frozen
class CallTerminal:
    """The call runs in this terminal of the editor."""

    call_id: str
    terminal_id: str


@frozen
class CallOutput:
    """All output so far of a call without a terminal, cut to what is worth showing."""

    call_id: str
    text: str


@frozen
class CallFinished:
    """The call has ended. On replay this is the only update of it, so it is complete in itself."""

    call_id: str
    name: str
    view: CallView
    arguments: JsonObject
    status: CallStatus
    parts: tuple[ResultPart, ...]
    replayed: bool = False


@frozen
class PlanUpdated:
    """The plan is now this."""

    entries: tuple[PlanEntry, ...]


@frozen
class UsageUpdated:
    """How full the window is: tokens used of tokens in all, and US dollars spent in this session."""

    used: int
    size: int
    cost: float | None


@frozen
class ModeUpdated:
    """The session's mode is now this."""

    mode: str


@frozen
class Choice:
    """One value of an option.

    :ivar group: those with the same one belong together; None for one of no group.
    """

    value: str
    name: str
    description: str | None = None
    group: str | None = None


@frozen
class Option:
    """A setting of the session that the user may change.

    :ivar category: the protocol's word for what it is about; None where it has none.
    :ivar is_switch: its two choices are on and off, in this order.
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
    """The session's options, all of them, are now these."""

    options: tuple[Option, ...]


@frozen
class TitleUpdated:
    """The session has this title."""

    title: str


@frozen
class Command:
    """A slash command on offer; `hint` says what may follow its name."""

    name: str
    description: str
    hint: str | None = None


@frozen
class CommandsUpdated:
    """These are the slash commands on offer."""

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
    """A compaction ended. On replay this is the only update of it, and always says completed.

    :ivar receipt: what it did and cost, in a line or a few.
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
    """Something the user should know that belongs to no message."""

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
"""Shows an update; waits while the client is slow."""
