"""The names of the events that a hook may be bound to, ours and those that Claude Code has for them; and what the
failure of a hook may mean.

They stand here because configuration files name them; what happens at them is `hooks.events`' matter, which gives these
names to everyone else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

EventName: TypeAlias = Literal[
    "session_start",
    "user_message_send",
    "before_tool_call",
    "after_tool_call",
    "turn_end",
    "agent_stop",
    "before_compaction",
    "after_compaction",
    "session_end",
]
OnError: TypeAlias = Literal["ask", "allow", "block"]
"""What a hook's failure means: that the user is asked about the call that it guards, and nothing at other events; that
it wants nothing; or that what it was asked about may not happen."""
OF_CALLS: frozenset[EventName] = frozenset({"before_tool_call", "after_tool_call"})
"""Where nothing runs a tool, they do not happen."""
EVENT_NAMES: Mapping[str, EventName] = {name: name for name in get_args(EventName)}

ALIASES: Mapping[str, EventName] = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "user_message_send",
    "PreToolUse": "before_tool_call",
    "PostToolUse": "after_tool_call",
    "Stop": "agent_stop",
    "PreCompact": "before_compaction",
    "SessionEnd": "session_end",
}
"""The names that Claude Code has for some of them; `turn_end` and `after_compaction` are ours alone."""


_ELSEWHERE = """
    ConfigChange CwdChanged Elicitation ElicitationResult FileChanged InstructionsLoaded Notification PermissionDenied
    PermissionRequest PostCompact PostToolBatch PostToolUseFailure Setup StopFailure SubagentStart SubagentStop
    TaskCompleted TaskCreated TeammateIdle UserPromptExpansion WorktreeCreate WorktreeRemove
"""
ELSEWHERE = frozenset(_ELSEWHERE.split())
"""Events that Claude Code has and we do not: hooks that people bring may be bound to them."""


def event_name(word: str) -> EventName | None:
    """The event that a word means, by our name or by Claude Code's; None where there is no such event."""
    return EVENT_NAMES.get(word) or ALIASES.get(word)
