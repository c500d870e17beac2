"""Hooks: functions and programs that run at the events of a session. A hook returns an
`Outcome`, and the session carries it out.

The names below are the public API for hooks written in Python (docs/hooks-python.md).
Each is imported on first use, since the agent imports this package at startup.
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
    from acp_agent.hooks.python_hooks import ENTRY_POINTS, hook

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

if not TYPE_CHECKING:  # otherwise a type checker would accept every name
    __getattr__ = on_demand(
        __name__, ("outcomes", "events", "contract", "python_hooks"), __all__
    )
