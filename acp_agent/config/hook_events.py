"""The names of hook events, ours and Claude Code's, and the possible effects of a
hook's failure.

No other module repeats these names. `hooks.events` defines the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from acp_agent.config.document import did_you_mean

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
"""The effect of a hook's failure. `ask`: the user is asked about the call that the hook
guards; at other events nothing happens. `allow`: nothing happens. `block`: the action
is refused.
"""
OF_CALLS: frozenset[EventName] = frozenset({"before_tool_call", "after_tool_call"})
"""The events of tool calls. They do not occur in a run without tools."""
OBSERVED: frozenset[EventName] = frozenset({"after_compaction", "session_end"})
"""Events that report something that has already happened, so that a hook's answer
cannot change it.
"""
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
"""Claude Code's names of events. It has no names for `turn_end` and `after_compaction`."""

CLAUDE_TOOLS: Mapping[str, str] = {
    "shell": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "list": "LS",
    "glob": "Glob",
    "grep": "Grep",
    "plan": "TodoWrite",
    "ask_user": "AskUserQuestion",
}
"""Claude Code's names of our tools."""
OUR_TOOLS: Mapping[str, str] = {
    "MultiEdit": "edit",
    **{theirs: ours for ours, theirs in CLAUDE_TOOLS.items()},
}


def event_name(word: str) -> EventName | None:
    """Return the event with this name, which may be ours or Claude Code's, or None for
    an unknown name.
    """
    return EVENT_NAMES.get(word) or ALIASES.get(word)


def unknown_event(word: str) -> str:
    """Return the error message for a word that is not the name of an event."""
    return f"there is no event {word[:50]!r}; {did_you_mean(word, (*EVENT_NAMES, *ALIASES))}"


def events_named(words: Iterable[str]) -> tuple[frozenset[EventName], list[str]]:
    """Return the events with these names, and an error message for each unknown name."""
    events: set[EventName] = set()
    unknown: list[str] = []
    for word in words:
        if event := event_name(word):
            events.add(event)
        else:
            unknown.append(unknown_event(word))
    return frozenset(events), unknown
