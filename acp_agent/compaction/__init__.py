"""Compaction of a long context: measures how full the window is, chooses where to cut
the history, and builds what replaces the removed part.

The code is pure: state in, plan or result out. The names below are public, for Python
code without an agent (docs/library.md) and for strategies of other packages
(docs/strategies.md). Each is imported on first use, so that the agent starts quickly.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from acp_agent.lazy import on_demand

if TYPE_CHECKING:
    from acp_agent.compaction.budget import TokenBudget
    from acp_agent.compaction.calls import ModelCall, ModelCalls
    from acp_agent.compaction.cuts import Cut
    from acp_agent.compaction.estimate import estimate_messages, estimate_text
    from acp_agent.compaction.service import CompactionService
    from acp_agent.compaction.shortening import Rewrite
    from acp_agent.compaction.state import (
        CompactedState,
        CompactionPolicy,
        ConversationState,
        Workspace,
    )
    from acp_agent.compaction.strategies import by_name, installed_strategies
    from acp_agent.compaction.strategy import (
        ENTRY_POINTS,
        Draft,
        Strategy,
        Task,
        Writer,
    )
    from acp_agent.conversation.messages import Entry
    from acp_agent.conversation.swaps import Memory

__all__ = [
    "ENTRY_POINTS",
    "CompactedState",
    "CompactionPolicy",
    "CompactionService",
    "ConversationState",
    "Cut",
    "Draft",
    "Entry",
    "Memory",
    "ModelCall",
    "ModelCalls",
    "Rewrite",
    "Strategy",
    "Task",
    "TokenBudget",
    "Workspace",
    "Writer",
    "by_name",
    "estimate_messages",
    "estimate_text",
    "installed_strategies",
]

_MODULES = (
    "budget",
    "calls",
    "cuts",
    "estimate",
    "shortening",
    "state",
    "strategy",
    "strategies",
    "service",
)
# A library does not log unless the program configures logging. This is here and not in
# `acp_agent`, because `initialize` is answered before `logging` is imported.
logging.getLogger("acp_agent").addHandler(logging.NullHandler())

if not TYPE_CHECKING:  # otherwise a type checker would accept every name
    __getattr__ = on_demand(__name__, _MODULES, __all__)
