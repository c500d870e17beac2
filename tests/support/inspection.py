"""What a whole log has come to, told at once."""

from __future__ import annotations

from collections.abc import Iterable

from acp_agent.conversation.events import LoggedEvent
from acp_agent.inspection.story import Story
from acp_agent.inspection.views import Inspection


def inspected(events: Iterable[LoggedEvent]) -> Inspection:
    """The view of a log, from its first entry on."""
    story = Story()
    for logged in events:
        story.feed(logged)
    return story.view()
