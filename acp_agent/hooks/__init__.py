"""What may be asked or told at the events of a session's life. A hook returns actions and performs none.

The names below are the room's public ones, for hooks that are written in Python (docs/hooks-python.md). Each is loaded
with its first use, since the agent's start goes through here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
        Defer,
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
    "Defer",
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
    "outcomes": ("Compact", "Continue", "Decision", "Defer", "Outcome", "Replace", "Summarize", "SwapContext"),
    "plugins": ("ENTRY_POINTS",),
    "python_hooks": ("hook",),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

if not TYPE_CHECKING:  # a checker would take every name for one of ours

    def __getattr__(name: str) -> object:
        """Load a public name (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Everything that can be asked for."""
        return sorted({*globals(), *__all__})
