"""The names of the events that a hook may be bound to, ours and those that Claude Code has for them; and what the
failure of a hook may mean. This is the only table of them: `hooks.events` has what happens at each."""

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
"""What a hook's failure means: that the user is asked about the call that it guards, and nothing at other events; that
it wants nothing; or that what it was asked about may not happen."""
OF_CALLS: frozenset[EventName] = frozenset({"before_tool_call", "after_tool_call"})
"""Where nothing runs a tool, they do not happen."""
OBSERVED: frozenset[EventName] = frozenset({"after_compaction", "session_end"})
"""Events that happen after the fact: a hook's answer cannot change them."""
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
"""The names that it has for our tools."""
OUR_TOOLS: Mapping[str, str] = {"MultiEdit": "edit", **{theirs: ours for ours, theirs in CLAUDE_TOOLS.items()}}


def event_name(word: str) -> EventName | None:
    """Return the event that a word names, by our name or by Claude Code's; None where there is no such event."""
    return EVENT_NAMES.get(word) or ALIASES.get(word)


def unknown_event(word: str) -> str:
    """Return what to tell about a word that names no event."""
    return f"there is no event {word[:50]!r}; {did_you_mean(word, (*EVENT_NAMES, *ALIASES))}"


def events_named(words: Iterable[str]) -> tuple[frozenset[EventName], list[str]]:
    """Return the events that some words name, and what to tell about each word that names none."""
    events: set[EventName] = set()
    unknown: list[str] = []
    for word in words:
        if event := event_name(word):
            events.add(event)
        else:
            unknown.append(unknown_event(word))
    return frozenset(events), unknown
