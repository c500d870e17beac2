"""What may be asked or told at the events of a session's life. A hook returns actions and performs none.

The names below are the room's public ones, for hooks that are written in Python (docs/hooks-python.md). Each is loaded
with its first use, since the agent's start goes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_agent.lazy import on_demand

if TYPE_CHECKING:
    from acp_agent.hooks.contract import Services, Summary
    from acp_agent.hooks.events import (
        AfterCompaction,
        AfterToolCall,
        AgentStop,
        BeforeCompaction,
        BeforeToolCall,
        HookEvent,
        Moment,
        SessionEnd,
        SessionStart,
        TokenUsage,
        TurnEnd,
        UserMessageSend,
    )
    from acp_agent.hooks.outcomes import (
        Compact,
        Continue,
        Decision,
        Outcome,
        Replace,
        Summarize,
        SwapContext,
    )
    from acp_agent.hooks.plugins import ENTRY_POINTS
    from acp_agent.hooks.python_hooks import hook

__all__ = [
    "ENTRY_POINTS",
    "AfterCompaction",
    "AfterToolCall",
    "AgentStop",
    "BeforeCompaction",
    "BeforeToolCall",
    "Compact",
    "Continue",
    "Decision",
    "HookEvent",
    "Moment",
    "Outcome",
    "Replace",
    "Services",
    "SessionEnd",
    "SessionStart",
    "Summarize",
    "Summary",
    "SwapContext",
    "TokenUsage",
    "TurnEnd",
    "UserMessageSend",
    "hook",
]

_WHERE = {
    "events": (
        "AfterCompaction",
        "AfterToolCall",
        "AgentStop",
        "BeforeCompaction",
        "BeforeToolCall",
        "HookEvent",
        "Moment",
        "SessionEnd",
        "SessionStart",
        "TokenUsage",
        "TurnEnd",
        "UserMessageSend",
    ),
    "contract": ("Services", "Summary"),
    "outcomes": ("Compact", "Continue", "Decision", "Outcome", "Replace", "Summarize", "SwapContext"),
    "plugins": ("ENTRY_POINTS",),
    "python_hooks": ("hook",),
}

if not TYPE_CHECKING:  # a checker would take every name for one of ours
    __getattr__, __dir__ = on_demand(__name__, _WHERE, globals())
