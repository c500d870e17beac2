"""What an editor is told when another process has gone on with a session that it has open.

Only what its menus and panels show: the mode, the options, the title, the plan. The other process's conversation is not
shown in the middle of this one; opening the session anew shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from acp_agent.conversation.context import Context
from acp_agent.turn.updates import ModeUpdated, OptionsUpdated, PlanUpdated, TitleUpdated

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost


class CatchingUp:
    """Tells the editor of one session.

    :param host: the session's log and client.
    :param in_turn: whether a turn runs. Editors drop a plan that comes outside of one, so it waits for the next.
    """

    def __init__(self, host: SessionHost, in_turn: Callable[[], bool]) -> None:
        self._host = host
        self._in_turn = in_turn
        self._plan_waits = False

    async def show(self, former: Context) -> None:
        """Show what is another one by now.

        :param former: the context that the editor knows.
        """
        host, context = self._host, self._host.context
        if context.mode != former.mode:
            await host.show(ModeUpdated(host.mode))
        if _chosen(context) != _chosen(former):
            await host.show(OptionsUpdated(await host.options()))
        if context.title is not None and context.title != former.title:
            await host.show(TitleUpdated(context.title))
        if context.plan != former.plan:
            self._plan_waits = True
        if self._in_turn():
            await self.show_plan()

    async def show_plan(self) -> None:
        """Show the plan where it waits for a turn, which runs now."""
        if self._plan_waits:
            await self._host.show(PlanUpdated(self._host.context.plan))
            self._plan_waits = False


def _chosen(context: Context) -> tuple[object, ...]:
    return context.mode, context.model, context.thought_level, context.auto_compaction
