"""What a hook's matcher says of an event: a few words with wildcards, for the one thing by which such events differ."""

from __future__ import annotations

from fnmatch import fnmatchcase

from acp_agent.hooks.events import (
    AfterCompaction,
    AfterToolCall,
    BeforeCompaction,
    BeforeToolCall,
    HookEvent,
    SessionEnd,
    SessionStart,
)


def matches(matcher: str, event: HookEvent) -> bool:
    """Whether an event is one of those that a matcher names.

    :param matcher: names with wildcards, `|` between them (`write|edit`); empty for all. Compared with the tool of a
        call, the source of a session's start, and the reason of a compaction or of a session's end; other events fit
        every matcher.
    """
    match event:
        case BeforeToolCall() | AfterToolCall():
            word = event.tool
        case SessionStart():
            word = event.source
        case BeforeCompaction() | AfterCompaction() | SessionEnd():
            word = event.reason
        case _:
            return True
    names = [name.strip() for name in matcher.split("|")]
    return names == [""] or any(fnmatchcase(word, name) for name in names)
