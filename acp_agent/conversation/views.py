"""What an editor shows besides text: tool calls, the files that they touch, the plan. Plain values, parts of events."""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonValue
from acp_agent.frozen import frozen

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed", "cancelled"]
PlanPriority: TypeAlias = Literal["high", "medium", "low"]
FileKind: TypeAlias = Literal["text", "binary", "directory", "symlink"]


@frozen
class PlanEntry:
    """One line of the plan that the agent follows."""

    content: str
    status: PlanStatus = "pending"
    priority: PlanPriority = "medium"


@frozen
class Location:
    """A place in a file that a call looks at or changes; `line` counts from 1."""

    path: str
    line: int | None = None


@frozen
class Diff:
    """A change of one file (or of a part of it, where the file is large); `old_text` is None for a new file."""

    path: str
    old_text: str | None
    new_text: str


@frozen
class FileChange:
    """A file that was deleted, moved or copied.

    :ivar path: absolute; for a move and a copy, where it is now.
    :ivar former: where it was moved or copied from, absolute; None for a file that was deleted.
    :ivar kind: of what is there, or was; None where that is not known.
    """

    operation: Literal["delete", "move", "copy"]
    path: str
    former: str | None = None
    kind: FileKind | None = None


@frozen
class FileVersion:
    """The contents of a file that the model has seen, by digest; None where the file is gone."""

    path: str
    digest: str | None


@frozen
class CallView:
    """What an editor shows of a tool call besides the result's text.

    :ivar diffs: changes of what is in files.
    :ivar changes: files that were deleted, moved or copied.
    """

    title: str
    kind: ToolKind = "other"
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()
    raw_output: JsonValue = None
    changes: tuple[FileChange, ...] = ()
