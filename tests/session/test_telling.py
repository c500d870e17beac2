"""When the user is told what belongs to no answer, in an editor that has no notices."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import anyio

from acp_agent.session.host import SessionHost
from acp_agent.session.telling import Telling
from acp_agent.turn.updates import AgentSaid, Notice, Update


@dataclass
class Screen:
    """What a session shows."""

    client: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(shows_notices=False))
    shown: list[Update] = field(default_factory=list[Update])

    async def show(self, update: Update) -> None:
        self.shown.append(update)

    @property
    def texts(self) -> list[str]:
        return [update.text.strip() for update in self.shown if isinstance(update, AgentSaid)]


def telling(screen: Screen) -> Telling:
    return Telling(cast("SessionHost", screen))


async def test_nothing_is_told_between_turns_or_amid_an_answer_and_all_of_it_by_the_end() -> None:
    screen = Screen()
    told = telling(screen)
    await told.tell("before")
    assert screen.texts == []
    async with told.turn():
        assert screen.texts == ["before"]
        told.streams = True
        await told.tell("amid")
        assert screen.texts == ["before"]
        await told.streamed()
        assert screen.texts == ["before", "amid"]
        told.streams = True
        await told.tell("broken off")
    assert screen.texts == ["before", "amid", "broken off"]
    await told.tell("after")
    assert screen.texts == ["before", "amid", "broken off"]
    assert len({update.message_id for update in screen.shown if isinstance(update, AgentSaid)}) == 3


async def test_a_cancelled_turn_tells_what_is_left() -> None:
    screen = Screen()
    told = telling(screen)
    with anyio.CancelScope() as scope:
        async with told.turn():
            told.streams = True
            await told.tell("left")
            scope.cancel()
            await anyio.sleep_forever()
    assert screen.texts == ["left"]


async def test_an_editor_with_notices_is_told_at_once() -> None:
    screen = Screen()
    screen.client.shows_notices = True
    await telling(screen).tell("now")
    assert screen.shown == [Notice("warning", "now")]
