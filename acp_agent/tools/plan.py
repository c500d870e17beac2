"""The `plan` tool: shows the user what the agent intends to do."""

from __future__ import annotations

from pydantic import Field

from acp_agent.conversation.events import CallView, PlanEntry
from acp_agent.conversation.messages import Text
from acp_agent.conversation.views import PlanPriority, PlanStatus
from acp_agent.tools.arguments import Arguments, BuiltIn, titled
from acp_agent.tools.environment import Environment, Report
from acp_agent.tools.text import clean, counted
from acp_agent.tools.tool import Access, CallResult, PreparedCall

_MOST_ENTRIES = 100
_TITLE = "Update plan"


class _Entry(Arguments):
    content: str = Field(min_length=1, max_length=1000)
    status: PlanStatus = "pending"
    priority: PlanPriority = "medium"


class _Plan(Arguments):
    entries: list[_Entry] = Field(max_length=_MOST_ENTRIES)


async def _prepare(asked: _Plan, environment: Environment) -> PreparedCall:
    entries = tuple(
        PlanEntry(clean(entry.content), entry.status, entry.priority)
        for entry in asked.entries
    )
    done = f"The plan has {counted(len(entries), 'step')}." if entries else "No plan."
    view = CallView(_TITLE, "think")

    async def run(report: Report) -> CallResult:
        return CallResult((Text(done),), view, plan=entries)

    return PreparedCall(view, Access("none"), run)


PLAN = BuiltIn(
    "plan",
    "Show the user your plan for a task of several steps. Each call replaces the whole plan; an empty list removes it. "
    "Keep one entry in_progress, and mark it completed as soon as it is done.",
    _Plan,
    _prepare,
    title=titled(_TITLE, ""),
    kind="think",
)
