"""What a whole log has come to, told at once."""

from __future__ import annotations

from collections.abc import Iterable

from acp_agent.cli.inspect.story import Story
from acp_agent.conversation.events import LoggedEvent


def inspected(events: Iterable[LoggedEvent]) -> Story:
    story = Story()
    for logged in events:
        story.feed(logged)
    return story
