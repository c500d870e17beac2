"""What an editor is told when another process has gone on with a session that it has open.

Only what its menus and panels show: the mode, the options, the title, the plan. The other process's conversation is not
shown in the middle of this one; opening the session anew shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acp_agent.conversation.context import Context
from acp_agent.turn.updates import ModeUpdated, OptionsUpdated, PlanUpdated, TitleUpdated

if TYPE_CHECKING:
    from acp_agent.session.host import SessionHost


async def show_caught_up(host: SessionHost, former: Context) -> None:
    """Show what is another one by now.

    :param former: the context that the editor knows.
    """
    context = host.context
    if context.mode != former.mode:
        await host.show(ModeUpdated(host.mode))
    if _chosen(context) != _chosen(former):
        await host.show(OptionsUpdated(await host.options()))
    if context.title is not None and context.title != former.title:
        await host.show(TitleUpdated(context.title))
    if context.plan != former.plan:
        await host.show(PlanUpdated(context.plan))


def _chosen(context: Context) -> tuple[object, ...]:
    return context.mode, context.model, context.thought_level, context.auto_compaction
