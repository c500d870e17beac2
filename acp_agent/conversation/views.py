"""The values in events that an editor shows besides text: tool calls, the files that
they use, and the plan.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonValue
from acp_agent.frozen import frozen

ToolKind: TypeAlias = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
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
    """A place in a file that a call reads or changes. `line` counts from 1."""

    path: str
    line: int | None = None


@frozen
class Diff:
    """A change of one file, or of a part of it if the file is large.

    :ivar old_text: None for a new file.
    :ivar cut: whether the texts are only the beginning of the change.
    """

    path: str
    old_text: str | None
    new_text: str
    cut: bool = False


@frozen
class FileChange:
    """A file that was deleted, moved or copied.

    :ivar path: absolute path; the new path of a moved or copied file.
    :ivar former: absolute path from which it was moved or copied; None for a deleted
        file.
    :ivar kind: kind of the file; None if unknown.
    """

    operation: Literal["delete", "move", "copy"]
    path: str
    former: str | None = None
    kind: FileKind | None = None


@frozen
class FileVersion:
    """The version of a file that the model has seen, by digest. The digest is None if
    the file does not exist.
    """

    path: str
    digest: str | None


@frozen
class CallView:
    """A tool call as an editor shows it, without the text of its result.

    :ivar diffs: changes to the contents of files.
    :ivar changes: files that were deleted, moved or copied.
    """

    title: str
    kind: ToolKind = "other"
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()
    raw_output: JsonValue = None
    changes: tuple[FileChange, ...] = ()
