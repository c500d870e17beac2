"""What a recipe sets for its own run: the model and the permission mode, laid over what the session's user chose.

Nothing of it is logged: a process that is killed in a run leaves a session that is as its user set it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from acp_agent.config.settings import MODES
from acp_agent.conversation.events import Event, ModeChanged, ModelChanged
from acp_agent.session.telling import SHOWING_SECONDS
from acp_agent.turn.updates import ModeUpdated, OptionsUpdated

if TYPE_CHECKING:
    from acp_agent.recipes.model import Recipe
    from acp_agent.session.host import SessionHost


class RunSettings:
    """One session's.

    :ivar model: `provider/model` of the running recipe; empty where it names none.
    :ivar mode: likewise.
    """

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self.model = ""
        self.mode = ""

    @asynccontextmanager
    async def of(self, recipe: Recipe | None) -> AsyncGenerator[None]:
        """Let a recipe's settings hold, and the session's own again afterwards, however the run ends.

        A recipe that a project brought can make the mode stricter, and never freer.

        :param recipe: None for a prompt without one.
        """
        before = self._now
        if recipe is not None:
            self.model = recipe.model or ""
            self.mode = _mode(recipe, self._host.context.mode)
        try:
            await self._show(before)
            yield
        finally:
            before = self._now
            self.model = self.mode = ""
            if before != self._now:
                with anyio.move_on_after(SHOWING_SECONDS, shield=True):
                    await self._show(before)

    def chosen(self, event: Event) -> None:
        """The user changed a setting meanwhile: their choice holds, for the rest of the run as well."""
        if isinstance(event, ModeChanged):
            self.mode = ""
        elif isinstance(event, ModelChanged):
            self.model = ""

    @property
    def _now(self) -> tuple[str, str]:
        return self._host.model, self._host.mode

    async def _show(self, before: tuple[str, str]) -> None:
        host = self._host
        if self._now == before:
            return
        if host.mode != before[1]:
            await host.show(ModeUpdated(host.mode))
        await host.show(OptionsUpdated(await host.options()))


def _mode(recipe: Recipe, chosen: str) -> str:
    if recipe.mode is None or (recipe.origin == "project" and _freedom(recipe.mode) > _freedom(chosen)):
        return ""
    return recipe.mode


def _freedom(mode: str) -> int:
    return next(index for index, known in enumerate(MODES) if known == mode)
