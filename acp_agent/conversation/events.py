"""The events of a session's log.

An event says what happened, in the past tense, and is never changed afterwards. Whoever adds a kind of event says in
`Context.apply` what it does to the context and in the editor's presenter how it is replayed. Fields are only ever added
with a default, so that a log written by an older version stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from acp_agent.conversation.messages import (
    AssistantMessage,
    JsonValue,
    Text,
    ToolResult,
    Usage,
    UserMessage,
    UserPart,
)

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
PlanPriority: TypeAlias = Literal["high", "medium", "low"]
CompactionTrigger: TypeAlias = Literal["manual", "threshold", "overflow"]


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One line of the plan that the agent follows."""

    content: str
    status: PlanStatus = "pending"
    priority: PlanPriority = "medium"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file that a call looks at or changes; `line` counts from 1."""

    path: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """A change of one file (or of a part of it, where the file is large); `old_text` is None for a new file."""

    path: str
    old_text: str | None
    new_text: str


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The contents of a file that the model has seen, by digest; None where the file is gone."""

    path: str
    digest: str | None


@dataclass(frozen=True, slots=True)
class CallView:
    """What an editor shows of a tool call besides the result's text."""

    title: str
    kind: ToolKind = "other"
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()
    raw_output: JsonValue = None


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The first event of every log."""

    cwd: str
    additional_directories: tuple[str, ...] = ()
    mode: str = "ask"
    model: str = ""
    thought_level: str = ""
    kind: Literal["session_started"] = "session_started"


@dataclass(frozen=True, slots=True)
class InstructionsLoaded:
    """The system prompt as it was put together from the built-in text and the project's instruction files."""

    text: str
    sources: tuple[str, ...] = ()
    kind: Literal["instructions_loaded"] = "instructions_loaded"


@dataclass(frozen=True, slots=True)
class UserPrompted:
    """A turn began.

    `shown` is what the editor sent and what is replayed. `sent` is what the model gets in its place (a recipe's text);
    None means the same, and an empty tuple that the prompt never enters the context (a command such as `/compact`).
    """

    message_id: str
    shown: tuple[UserPart, ...]
    sent: tuple[UserPart, ...] | None = None
    kind: Literal["user_prompted"] = "user_prompted"


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """A checkpoint of an answer that still streams: what came since the last one. The whole message supersedes it."""

    message_id: str
    text: str = ""
    thinking: str = ""
    kind: Literal["partial_answer"] = "partial_answer"


@dataclass(frozen=True, slots=True)
class AssistantAnswered:
    """A model's answer is complete, or all that will come of it."""

    message: AssistantMessage
    kind: Literal["assistant_answered"] = "assistant_answered"


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool call has its result. `files` are the versions that the model has now seen."""

    result: ToolResult
    view: CallView
    files: tuple[FileVersion, ...] = ()
    kind: Literal["tool_returned"] = "tool_returned"


@dataclass(frozen=True, slots=True)
class NoteAdded:
    """A message of the agent to the user that the model never sees, such as the answer to a built-in command."""

    message_id: str
    text: str
    kind: Literal["note_added"] = "note_added"


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The plan was replaced."""

    entries: tuple[PlanEntry, ...]
    kind: Literal["plan_changed"] = "plan_changed"


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """The session works in another mode from here on."""

    mode: str
    kind: Literal["mode_changed"] = "mode_changed"


@dataclass(frozen=True, slots=True)
class ModelChanged:
    """The session uses another model (`provider/model`) from here on."""

    model: str
    kind: Literal["model_changed"] = "model_changed"


@dataclass(frozen=True, slots=True)
class ThoughtLevelChanged:
    """The session thinks more or less from here on."""

    level: str
    kind: Literal["thought_level_changed"] = "thought_level_changed"


@dataclass(frozen=True, slots=True)
class PermissionGranted:
    """The user allowed this kind of call (see `Access.subject`) for the rest of the session."""

    subject: str
    kind: Literal["permission_granted"] = "permission_granted"


@dataclass(frozen=True, slots=True)
class TitleChanged:
    """The session has a title."""

    title: str
    kind: Literal["title_changed"] = "title_changed"


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn is over; `error` is the sentence that the user was shown where it failed."""

    stop_reason: str
    error: str | None = None
    kind: Literal["turn_ended"] = "turn_ended"


@dataclass(frozen=True, slots=True)
class TurnRefused:
    """The model, or its provider, refused; everything from `from_seq` on leaves the context, and stays in the log."""

    from_seq: int
    kind: Literal["turn_refused"] = "turn_refused"


@dataclass(frozen=True, slots=True)
class Carried:
    """What a swap carries over besides messages, so that a context can be rebuilt from the swap's tail alone."""

    cwd: str
    additional_directories: tuple[str, ...]
    mode: str
    model: str
    thought_level: str
    instructions: str
    title: str | None
    plan: tuple[PlanEntry, ...]
    grants: tuple[str, ...]
    cost: float
    turn_from: int | None


@dataclass(frozen=True, slots=True)
class Pinned:
    """A message from before the tail that stays word for word, with the seq at which it stands in the log."""

    seq: int
    message: UserMessage


@dataclass(frozen=True, slots=True)
class ContextSwapped:
    """A compaction: the messages before `keep_from` leave the context, and `sent` stands in their place.

    :ivar compaction_id: unique, and never reused.
    :ivar summary: the summary as the user reads it.
    :ivar sent: the same as the model reads it, framed as history.
    :ivar keep_from: seq of the first event whose message stays, word for word; the swap's own seq where none does.
    :ivar pinned: messages from before that, which stay as well, between the summary and the tail: the prompt of a turn
        that is still running.
    :ivar tokens_before: tokens of the context that was replaced.
    :ivar tokens_after: estimate of the new context's tokens.
    :ivar recipe: name of the recipe that ran, and `digest` of its text.
    """

    compaction_id: str
    message_id: str
    trigger: CompactionTrigger
    summary: str
    sent: tuple[Text, ...]
    keep_from: int
    carried: Carried
    tokens_before: int
    tokens_after: int
    pinned: tuple[Pinned, ...] = ()
    usage: Usage | None = None
    recipe: str = ""
    digest: str = ""
    kind: Literal["context_swapped"] = "context_swapped"


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """A compaction began and did not happen; the context is as it was."""

    compaction_id: str
    trigger: CompactionTrigger
    status: Literal["failed", "cancelled"]
    error: str | None = None
    usage: Usage | None = None
    kind: Literal["compaction_failed"] = "compaction_failed"


Event: TypeAlias = (
    SessionStarted
    | InstructionsLoaded
    | UserPrompted
    | PartialAnswer
    | AssistantAnswered
    | ToolReturned
    | NoteAdded
    | PlanChanged
    | ModeChanged
    | ModelChanged
    | ThoughtLevelChanged
    | PermissionGranted
    | TitleChanged
    | TurnEnded
    | TurnRefused
    | ContextSwapped
    | CompactionFailed
)


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event in its place: `seq` counts from 1 without gaps, `at` is milliseconds since the epoch."""

    seq: int
    at: int
    event: Event
