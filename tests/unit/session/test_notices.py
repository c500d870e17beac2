"""Notices for clients that have no notices of their own."""

from __future__ import annotations

from acp_agent.conversation.updates import AgentSaid, Update
from acp_agent.session.notices import Notices


class Screen:
    """Collects what is shown."""

    def __init__(self) -> None:
        self.shown: list[Update] = []

    async def show(self, update: Update) -> None:
        self.shown.append(update)

    @property
    def texts(self) -> list[str]:
        return [
            update.text.strip()
            for update in self.shown
            if isinstance(update, AgentSaid)
        ]


async def test_notices_wait_between_turns_and_during_answers_but_none_is_lost() -> None:
    screen = Screen()
    notices = Notices(screen.show, as_messages=True)
    await notices.tell("before")
    assert screen.texts == []
    async with notices.shown_in_turn():
        assert screen.texts == ["before"]
        notices.streaming = True
        await notices.tell("amid")
        assert screen.texts == ["before"]
        notices.streaming = False
        await notices.flush()
        assert screen.texts == ["before", "amid"]
        notices.streaming = True
        await notices.tell("broken off")
    assert screen.texts == ["before", "amid", "broken off"]
    await notices.tell("after")
    assert screen.texts == ["before", "amid", "broken off"]
    assert (
        len(
            {
                update.message_id
                for update in screen.shown
                if isinstance(update, AgentSaid)
            }
        )
        == 3
    )
