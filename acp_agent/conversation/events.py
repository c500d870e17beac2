"""The events of a session's log.

An event says what happened, in the past tense, and is never changed afterwards. A new kind of event also needs a case
in `Context.apply`, for its effect on the context, and one in `session/replay.py`, for its replay. Fields are only ever
added with a default, so that logs of older versions stay readable. The events of a compaction are in `swaps.py`, the
values that an editor shows in `views.py`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.conversation.messages import (
    Amendment,
    AssistantMessage,
    Message,
    Section,
    ToolDefinition,
    ToolResult,
    Usage,
    UserPart,
)
from acp_agent.conversation.surroundings import Feature
from acp_agent.conversation.swaps import (
    CompactionFailed,
    ContextRestored,
    ContextSwapped,
    SummaryDropped,
    TitleAuthor,
)
from acp_agent.conversation.views import (
    CallView,
    FileVersion,
    PlanEntry,
)
from acp_agent.frozen import frozen


@frozen
class SessionStarted:
    """The first event of every log.

    :ivar root: absolute path of the project's root; empty in logs of earlier versions.
    """

    cwd: str
    additional_directories: tuple[str, ...] = ()
    mode: str = "ask"
    model: str = ""
    thought_level: str = ""
    root: str = ""
    kind: Literal["session_started"] = "session_started"


@frozen
class SessionForked:
    """The session was forked from another one, of whose log all before this is a copy, without costs and permissions.

    :ivar source: the other session's id.
    :ivar at: seq of the last entry that was copied.
    :ivar additional_directories: all of them.
    :ivar mode: the mode of the new session; empty for that of the other one.
    """

    source: str
    at: int
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mode: str = ""
    kind: Literal["session_forked"] = "session_forked"


@frozen
class InstructionsLoaded:
    """The system prompt as it was put together from the built-in text and the project's instruction files.

    It holds until a compaction after which no reasoning of earlier answers is sent. What changes meanwhile is told by
    `SurroundingsChanged`.

    :ivar sections: what `text` was put together from; empty in logs of earlier versions.
    """

    text: str
    sources: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    kind: Literal["instructions_loaded"] = "instructions_loaded"


@frozen
class ToolsDeclared:
    """The tools and the level of reasoning with which every request begins, until the system prompt is put together
    anew. What changes meanwhile is told by `SurroundingsChanged`."""

    tools: tuple[ToolDefinition, ...]
    thought_level: str = ""
    kind: Literal["tools_declared"] = "tools_declared"


@frozen
class SurroundingsChanged:
    """The instructions, the tools or the level of reasoning have changed since the last request."""

    amendment: Amendment
    kind: Literal["surroundings_changed"] = "surroundings_changed"


@frozen
class ReasoningWithheld:
    """Reasoning of earlier answers is no longer sent to the model.

    :ivar messages: ids of these answers.
    :ivar cause: why, as a sentence.
    :ivar pieces: names of those pieces of it that are never sent again, since the provider does not take them; see
        `messages.name_of`. All others are sent again if the conversation before them is what it was, such as after an
        undone compaction.
    """

    messages: tuple[str, ...]
    cause: str
    pieces: tuple[str, ...] = ()
    kind: Literal["reasoning_withheld"] = "reasoning_withheld"


@frozen
class FeatureRefused:
    """A provider refused an optional part of its API; requests to this model no longer use it.

    :ivar model: `provider/model`.
    :ivar takes: values that the provider accepts instead, as named in its error: the largest number, or words separated
        by spaces. Empty if it accepts none.
    """

    model: str
    feature: Feature
    takes: str = ""
    kind: Literal["feature_refused"] = "feature_refused"


@frozen
class ImagesRefused:
    """A provider refused a request because of its images; requests to this model have a line of text in their place.

    :ivar model: `provider/model`.
    :ivar images: SHA-256 of each image's bytes, in hex.
    """

    model: str
    images: tuple[str, ...]
    kind: Literal["images_refused"] = "images_refused"


@frozen
class ToolsRefused:
    """A provider refused requests because of these tools; requests to this model no longer include them.

    :ivar model: `provider/model`.
    :ivar tools: names of the tools.
    """

    model: str
    tools: tuple[str, ...]
    kind: Literal["tools_refused"] = "tools_refused"


@frozen
class UserPrompted:
    """A turn began, or the user said something more while it ran.

    `shown` is what the editor sent and what is replayed. `sent` is what the model gets in its place (a recipe's text);
    None means the same, and an empty tuple that the prompt never enters the context (a command such as `/compact`).

    :ivar recipe: the name of the recipe that the prompt ran; empty where it ran none.
    :ivar digest: which version of it: SHA-256 of its file's text, in hex.
    :ivar steers: it belongs to the turn that ran.
    """

    message_id: str
    shown: tuple[UserPart, ...]
    sent: tuple[UserPart, ...] | None = None
    recipe: str = ""
    digest: str = ""
    steers: bool = False
    kind: Literal["user_prompted"] = "user_prompted"


@frozen
class PartialAnswer:
    """A checkpoint of an answer that still streams: what came since the last one. The whole message supersedes it."""

    message_id: str
    text: str = ""
    thinking: str = ""
    kind: Literal["partial_answer"] = "partial_answer"

    def after(self, earlier: PartialAnswer | None) -> PartialAnswer:
        """Return what the log holds of the answer with this checkpoint; `earlier` is what it held before."""
        if earlier is None or earlier.message_id != self.message_id:
            return self
        return PartialAnswer(self.message_id, earlier.text + self.text, earlier.thinking + self.thinking)


@frozen
class AssistantAnswered:
    """A model's answer is complete, or all that will come of it."""

    message: AssistantMessage
    kind: Literal["assistant_answered"] = "assistant_answered"


@frozen
class ToolReturned:
    """A tool call has its result.

    :ivar files: the versions that the model has now seen.
    :ivar before: of a call that changed files, the versions that they had before, in the order of its diffs; None as
        the digest of one that was made.
    """

    result: ToolResult
    view: CallView
    files: tuple[FileVersion, ...] = ()
    before: tuple[FileVersion, ...] = ()
    kind: Literal["tool_returned"] = "tool_returned"


@frozen
class NoteAdded:
    """A message of the agent to the user that the model never sees, such as the answer to a built-in command."""

    message_id: str
    text: str
    kind: Literal["note_added"] = "note_added"


@frozen
class PlanChanged:
    """The plan was replaced."""

    entries: tuple[PlanEntry, ...]
    kind: Literal["plan_changed"] = "plan_changed"


@frozen
class ModeChanged:
    """The session works in another mode from here on.

    :ivar scope: for how long: from here on; or until the session is closed, if it is open in another directory than its
        own.
    """

    mode: str
    scope: Literal["session", "opening"] = "session"
    kind: Literal["mode_changed"] = "mode_changed"


@frozen
class ModelChanged:
    """The session uses another model (`provider/model`) from here on."""

    model: str
    kind: Literal["model_changed"] = "model_changed"


@frozen
class ThoughtLevelChanged:
    """The session uses another level of reasoning from here on."""

    level: str
    kind: Literal["thought_level_changed"] = "thought_level_changed"


@frozen
class AutoCompactionChanged:
    """Automatic compaction was switched on or off."""

    on: bool
    kind: Literal["auto_compaction_changed"] = "auto_compaction_changed"


@frozen
class DirectoriesChanged:
    """The session was opened with other additional directories, or its working directory or root has changed.

    :ivar additional_directories: all additional directories.
    :ivar cwd: absolute path of the working directory; empty if it has not changed.
    :ivar root: absolute path of the project's root; empty if it has not changed.
    :ivar mode: the mode from here on, since the former one was chosen for other directories; empty if it has not
        changed.
    """

    additional_directories: tuple[str, ...]
    cwd: str = ""
    root: str = ""
    mode: str = ""
    kind: Literal["directories_changed"] = "directories_changed"


@frozen
class PermissionGranted:
    """The user allowed this kind of call (see `Access.subject`).

    :ivar scope: for how long: the rest of the session; or by a rule of the project, which is kept elsewhere and can be
        revoked; or until the session is closed, where it was opened in another directory than its own.
    """

    subject: str
    scope: Literal["session", "project", "opening"] = "session"
    kind: Literal["permission_granted"] = "permission_granted"


@frozen
class TitleChanged:
    """The session has a title.

    :ivar by: where it is from: the first words of a prompt, a model, or a person.
    :ivar usage: of the request that was made for it.
    """

    title: str
    by: TitleAuthor = "words"
    usage: Usage | None = None
    kind: Literal["title_changed"] = "title_changed"


@frozen
class TurnEnded:
    """A turn is over.

    :ivar error: the sentence shown to the user if the turn failed.
    :ivar refused: whether the turn failed because the provider refused a request that continued it, and so refused the
        turn's messages so far.
    """

    stop_reason: str
    error: str | None = None
    refused: bool = False
    kind: Literal["turn_ended"] = "turn_ended"


@frozen
class TurnRefused:
    """The model or its provider refused. Everything from `from_seq` on leaves the context but stays in the log.

    :ivar before_seq: seq from which entries stay in the context; 0 if none stay.
    """

    from_seq: int
    before_seq: int = 0
    kind: Literal["turn_refused"] = "turn_refused"

    def removes(self, seq: int) -> bool:
        """Return whether an entry before this event leaves the context."""
        return seq >= self.from_seq and not 0 < self.before_seq <= seq


@frozen
class TextPinned:
    """The user pinned a text: the model reads it from here on, and every later context holds it word for word."""

    message_id: str
    number: int
    text: str
    sent: str
    kind: Literal["text_pinned"] = "text_pinned"


@frozen
class PinRemoved:
    """The user removed a pin; `sent` tells the model."""

    message_id: str
    number: int
    sent: str
    kind: Literal["pin_removed"] = "pin_removed"


@frozen
class EditsUndone:
    """The user undid a turn's changes to files; `sent` tells the model.

    :ivar turn: seq of that turn's prompt.
    :ivar paths: the files, which have to be read again before they are changed.
    """

    message_id: str
    turn: int
    paths: tuple[str, ...]
    sent: str
    kind: Literal["edits_undone"] = "edits_undone"


@frozen
class MessageSupplied:
    """A hook supplied a message that replaces another one of the history; the swap behind this event keeps it."""

    message: Message
    kind: Literal["message_supplied"] = "message_supplied"


@frozen
class ContextAdded:
    """A hook added a text for the model to read. The user did not say it."""

    message_id: str
    sent: str
    kind: Literal["context_added"] = "context_added"


@frozen
class ContinuationAsked:
    """The model's answer was cut off because the window was full, or it was empty; `sent` asks the model to continue.
    The text is not from the user."""

    message_id: str
    sent: str
    kind: Literal["continuation_asked"] = "continuation_asked"


Event: TypeAlias = (
    SessionStarted
    | SessionForked
    | InstructionsLoaded
    | ToolsDeclared
    | SurroundingsChanged
    | ReasoningWithheld
    | FeatureRefused
    | ImagesRefused
    | ToolsRefused
    | UserPrompted
    | PartialAnswer
    | AssistantAnswered
    | ToolReturned
    | NoteAdded
    | PlanChanged
    | ModeChanged
    | ModelChanged
    | ThoughtLevelChanged
    | AutoCompactionChanged
    | DirectoriesChanged
    | PermissionGranted
    | TitleChanged
    | TurnEnded
    | TurnRefused
    | ContextSwapped
    | ContextRestored
    | CompactionFailed
    | SummaryDropped
    | TextPinned
    | PinRemoved
    | EditsUndone
    | MessageSupplied
    | ContextAdded
    | ContinuationAsked
)


@frozen
class LoggedEvent:
    """An event in its place: `seq` counts from 1 without gaps, `at` is milliseconds since the epoch."""

    seq: int
    at: int
    event: Event
