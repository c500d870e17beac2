"""What an editor shows besides text: tool calls, the files that they touch, the plan. Plain values, parts of events.

Knows nothing of the log, of models, or of the editor's wire form.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from acp_agent.conversation.messages import JsonValue
from acp_agent.frozen import frozen

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]
PlanPriority: TypeAlias = Literal["high", "medium", "low"]


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
class FileVersion:
    """The contents of a file that the model has seen, by digest; None where the file is gone."""

    path: str
    digest: str | None


@frozen
class CallView:
    """What an editor shows of a tool call besides the result's text."""

    title: str
    kind: ToolKind = "other"
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()
    raw_output: JsonValue = None
