"""What a hook's matcher says of an event: names, or a pattern, for the one thing by which such events differ."""

from __future__ import annotations

import re

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
    """Whether an event is one of those that a matcher means.

    :param matcher: words and `|` mean exactly these names; anything else is a regular expression that is to be found in
        the name; empty, or `*`, it means all. Compared with the tool of a call, the source of a session's start, and
        the reason of a compaction or of a session's end; other events fit every matcher.
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
    if matcher in ("", "*"):
        return True
    if re.fullmatch(r"[\w|-]+", matcher):
        return word in matcher.split("|")
    return re.search(matcher, word) is not None
