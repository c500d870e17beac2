"""The events of a session's log.

An event is named in the past tense, and never changes after it is logged. A new kind of
event also needs a case in `Context._changes` for its effect on the context, and one in
`session/replay.py` for its replay. New fields must have a default, so that logs of
older versions stay readable. The events of a compaction are in `swaps.py`, and the
values that an editor shows are in `views.py`.
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
    """The session was forked from another one. All earlier events are copies from the
    other session's log, without costs and permissions.

    :ivar source: ID of the other session.
    :ivar at: seq of the last entry that was copied.
    :ivar additional_directories: all additional directories.
    :ivar mode: the mode of the new session; empty if it keeps the other session's mode.
    """

    source: str
    at: int
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mode: str = ""
    kind: Literal["session_forked"] = "session_forked"


@frozen
class InstructionsLoaded:
    """The system prompt was assembled from the built-in text and the project's
    instruction files.

    The prompt is used until a compaction that keeps no reasoning of earlier answers.
    Until then, `SurroundingsChanged` tells the model about changes.

    :ivar sections: the parts of `text`; empty in logs of earlier versions.
    """

    text: str
    sources: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    kind: Literal["instructions_loaded"] = "instructions_loaded"


@frozen
class ToolsDeclared:
    """The tools and the reasoning level at the beginning of every request were set.

    They stay the same until the system prompt is assembled again. Until then,
    `SurroundingsChanged` tells the model about changes.
    """

    tools: tuple[ToolDefinition, ...]
    thought_level: str = ""
    kind: Literal["tools_declared"] = "tools_declared"


@frozen
class SurroundingsChanged:
    """The instructions, the tools or the reasoning level changed after the last
    request.
    """

    amendment: Amendment
    kind: Literal["surroundings_changed"] = "surroundings_changed"


@frozen
class ReasoningWithheld:
    """Reasoning of earlier answers is no longer sent to the model.

    :ivar messages: IDs of these answers.
    :ivar cause: the reason, as a sentence.
    :ivar pieces: names of the pieces of reasoning that are never sent again, since the
        provider rejects them; see `messages.name_of`. All others are sent again once
        the conversation before them is restored, for example by undoing a compaction.
    """

    messages: tuple[str, ...]
    cause: str
    pieces: tuple[str, ...] = ()
    kind: Literal["reasoning_withheld"] = "reasoning_withheld"


@frozen
class FeatureRefused:
    """A provider refused an optional part of its API. Requests to this model no longer
    use it.

    :ivar model: `provider/model`.
    :ivar takes: values that the provider accepts instead, as named in its error: the
        largest number, or words separated by spaces. Empty if it accepts none.
    """

    model: str
    feature: Feature
    takes: str = ""
    kind: Literal["feature_refused"] = "feature_refused"


@frozen
class ImagesRefused:
    """A provider refused a request because of its images. Requests to this model
    contain a line of text in place of each of these images.

    :ivar model: `provider/model`.
    :ivar images: hexadecimal SHA-256 of each image's bytes.
    """

    model: str
    images: tuple[str, ...]
    kind: Literal["images_refused"] = "images_refused"


@frozen
class ToolsRefused:
    """A provider refused requests because of these tools. Requests to this model no
    longer include them.

    :ivar model: `provider/model`.
    :ivar tools: names of the tools.
    """

    model: str
    tools: tuple[str, ...]
    kind: Literal["tools_refused"] = "tools_refused"


@frozen
class UserPrompted:
    """A turn began, or the user sent another message while it ran.

    `shown` is the message from the editor, and is replayed. `sent` is what the model
    gets instead, such as a recipe's text. None means that the model gets `shown`. An
    empty tuple means that the prompt never enters the context, as for a command such as
    `/compact`.

    :ivar recipe: name of the recipe that the prompt ran; empty if there was none.
    :ivar digest: version of the recipe: the hexadecimal SHA-256 of its file's text.
    :ivar steers: whether the message belongs to a turn that was already running.
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
    """A checkpoint of a streaming answer, with the text since the last checkpoint. The
    final message replaces it.
    """

    message_id: str
    text: str = ""
    thinking: str = ""
    kind: Literal["partial_answer"] = "partial_answer"

    def after(self, earlier: PartialAnswer | None) -> PartialAnswer:
        """Return this checkpoint appended to `earlier`, the earlier checkpoints of the
        same answer.
        """
        if earlier is None or earlier.message_id != self.message_id:
            return self
        return PartialAnswer(
            self.message_id, earlier.text + self.text, earlier.thinking + self.thinking
        )


@frozen
class AssistantAnswered:
    """A model's answer is complete, or was cut off for good."""

    message: AssistantMessage
    kind: Literal["assistant_answered"] = "assistant_answered"


@frozen
class ToolReturned:
    """A tool call returned.

    :ivar files: the file versions that the model has now seen.
    :ivar before: the previous versions of the files that the call changed, in the order
        of its diffs. The digest of a new file is None.
    """

    result: ToolResult
    view: CallView
    files: tuple[FileVersion, ...] = ()
    before: tuple[FileVersion, ...] = ()
    kind: Literal["tool_returned"] = "tool_returned"


@frozen
class NoteAdded:
    """A message from the agent to the user that the model never sees, such as the
    answer to a built-in command.
    """

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
    """The session's mode changed.

    :ivar scope: `session`: the mode applies from now on. `opening`: the mode applies
        only until the session is closed, because the session was opened in a directory
        other than its own.
    """

    mode: str
    scope: Literal["session", "opening"] = "session"
    kind: Literal["mode_changed"] = "mode_changed"


@frozen
class ModelChanged:
    """The session's model (`provider/model`) changed."""

    model: str
    kind: Literal["model_changed"] = "model_changed"


@frozen
class ThoughtLevelChanged:
    """The session's reasoning level changed."""

    level: str
    kind: Literal["thought_level_changed"] = "thought_level_changed"


@frozen
class AutoCompactionChanged:
    """Automatic compaction was switched on or off."""

    on: bool
    kind: Literal["auto_compaction_changed"] = "auto_compaction_changed"


@frozen
class DirectoriesChanged:
    """The session was opened with other additional directories, or its working
    directory or root has changed.

    :ivar additional_directories: all additional directories.
    :ivar cwd: absolute path of the working directory; empty if it has not changed.
    :ivar root: absolute path of the project's root; empty if it has not changed.
    :ivar mode: the mode from here on, since the former one was chosen for other
        directories; empty if it has not changed.
    """

    additional_directories: tuple[str, ...]
    cwd: str = ""
    root: str = ""
    mode: str = ""
    kind: Literal["directories_changed"] = "directories_changed"


@frozen
class PermissionGranted:
    """The user allowed this kind of call (see `Access.subject`).

    :ivar scope: how long the permission lasts. `session`: for the rest of the session.
        `project`: by a rule of the project, which is stored elsewhere and can be
        revoked. `opening`: until the session is closed, because it was opened in a
        directory other than its own.
    """

    subject: str
    scope: Literal["session", "project", "opening"] = "session"
    kind: Literal["permission_granted"] = "permission_granted"


@frozen
class TitleChanged:
    """The session got a new title.

    :ivar by: the source of the title: the first words of a prompt, a model, or the
        user.
    :ivar usage: usage of the request for the title.
    """

    title: str
    by: TitleAuthor = "words"
    usage: Usage | None = None
    kind: Literal["title_changed"] = "title_changed"


@frozen
class TurnEnded:
    """A turn is over.

    :ivar error: the sentence shown to the user if the turn failed.
    :ivar refused: whether the turn failed because the provider refused a request after
        the turn's first answer, and so refused the turn's messages.
    """

    stop_reason: str
    error: str | None = None
    refused: bool = False
    kind: Literal["turn_ended"] = "turn_ended"


@frozen
class TurnRefused:
    """The model or its provider refused to answer. Entries from `from_seq` up to, but
    not including, `before_seq` leave the context but stay in the log.

    :ivar before_seq: 0 for the end of the context.
    """

    from_seq: int
    before_seq: int = 0
    kind: Literal["turn_refused"] = "turn_refused"

    def removes(self, seq: int) -> bool:
        """Return whether an entry before this event leaves the context."""
        return seq >= self.from_seq and not 0 < self.before_seq <= seq


@frozen
class TextPinned:
    """The user pinned a text. Every later context contains it word for word."""

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
    :ivar paths: the files, which must be read again before they are changed.
    """

    message_id: str
    turn: int
    paths: tuple[str, ...]
    sent: str
    kind: Literal["edits_undone"] = "edits_undone"


@frozen
class MessageSupplied:
    """A hook supplied a message of the conversation that replaces the current one. The
    swap that follows keeps the message.
    """

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
    """The model's answer was cut off because the window was full, or it was empty;
    `sent` asks the model to continue. The text is not from the user.
    """

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
    """An event in the log. `seq` counts from 1 without gaps, and `at` is in
    milliseconds since the epoch.
    """

    seq: int
    at: int
    event: Event
