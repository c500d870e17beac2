"""Events that are a line in the story and nothing more: what the agent and hooks said, settings, pins, the plan."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from acp_agent.conversation.events import (
    AutoCompactionChanged,
    ContextAdded,
    ContinuationAsked,
    DirectoriesChanged,
    EditsUndone,
    InstructionsLoaded,
    MessageSupplied,
    ModeChanged,
    ModelChanged,
    NoteAdded,
    PermissionGranted,
    PinRemoved,
    PlanChanged,
    SessionForked,
    SessionStarted,
    TextPinned,
    ThoughtLevelChanged,
    TitleChanged,
)
from acp_agent.conversation.messages import ToolResult
from acp_agent.frozen import frozen
from acp_agent.inspection.texts import listed, message_text
from acp_agent.inspection.views import ItemKind, Part

PlainEvent: TypeAlias = (
    AutoCompactionChanged
    | ContextAdded
    | ContinuationAsked
    | DirectoriesChanged
    | EditsUndone
    | InstructionsLoaded
    | MessageSupplied
    | ModeChanged
    | ModelChanged
    | NoteAdded
    | PermissionGranted
    | PinRemoved
    | PlanChanged
    | SessionForked
    | SessionStarted
    | TextPinned
    | ThoughtLevelChanged
    | TitleChanged
)


@frozen
class Told:
    """What there is to say of an event.

    :ivar marks: see `views.Item`.
    """

    kind: ItemKind
    title: str
    parts: tuple[Part, ...] = ()
    marks: tuple[str, ...] = ()


def told_of(event: PlainEvent) -> Told:
    """The line of an event."""
    match event:
        case NoteAdded(text=text):
            return Told("note", "Told the user", (Part("Text", text),), (event.message_id,))
        case ContextAdded(sent=text):
            return Told("hook", "A hook added a text", (Part("Text", text),), (event.message_id,))
        case ContinuationAsked(sent=text):
            return Told("hook", "The model was asked to go on", (Part("Text", text),), (event.message_id,))
        case MessageSupplied(message=message):
            mark = message.call_id if isinstance(message, ToolResult) else message.id
            return Told("hook", "A hook supplied a message", (Part("Message", message_text(message)),), (mark,))
        case EditsUndone():
            parts = (Part("Files", listed(event.paths)), Part("Text", event.sent))
            return Told("undo", "Edits of a turn undone", parts, (event.message_id,))
        case TextPinned():
            return Told("pin", f"Pin {event.number}", (Part("Text", event.text),), (event.message_id,))
        case PinRemoved():
            return Told("pin", f"Pin {event.number} taken back", (Part("Text", event.sent),), (event.message_id,))
        case PlanChanged():
            entries = listed([f"[{entry.status}] {entry.content}" for entry in event.entries])
            return Told("plan", "Plan", (Part("Entries", entries),))
        case SessionStarted():
            folders = listed((event.cwd, *event.additional_directories))
            marks = (event.mode, event.model, event.thought_level)
            return Told("setting", "Session started", (Part("Folders", folders),), marks)
        case SessionForked():
            folders = listed((event.cwd, *event.additional_directories))
            return Told("setting", f"Forked from {event.source} at entry {event.at}", (Part("Folders", folders),))
        case InstructionsLoaded():
            sources = (Part("Files", listed(event.sources)),) if event.sources else ()
            return Told("setting", "Instructions loaded", (*sources, Part("System prompt", event.text)))
        case ModeChanged():
            return Told("setting", f"Mode: {event.mode}")
        case ModelChanged():
            return Told("setting", f"Model: {event.model}")
        case ThoughtLevelChanged():
            return Told("setting", f"Thought level: {event.level}")
        case AutoCompactionChanged():
            return Told("setting", f"Automatic compaction: {'on' if event.on else 'off'}")
        case DirectoriesChanged():
            return Told("setting", "Additional directories", (Part("Folders", listed(event.additional_directories)),))
        case PermissionGranted():
            return Told("setting", f"Allowed for the {event.scope}: {event.subject}")
        case TitleChanged():
            return Told("setting", f"Title: {event.title}")
        case _:
            assert_never(event)
