"""`CommandOffer`: the slash commands that the client offers to its user: recipes,
built-in commands and prompts of MCP servers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import anyio

from acp_agent.conversation.updates import Command, CommandsUpdated, Show
from acp_agent.session.commands import BUILT_IN
from acp_agent.session.mcp import SessionMcp
from acp_agent.session.recipes.available import SessionRecipes, commands, hint_of

WATCH_SECONDS = 2.0
"""Seconds until the folders are checked again, which takes a millisecond. The interval
doubles after each check that finds no change.
"""
MAX_WATCH_SECONDS = 60.0
_ORIGINS = {"builtin": "", "user": " (yours)", "project": " (the project's)"}

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class CommandOffer:
    """Keeps the client's list of commands up to date.

    :ivar recipes: the recipes of the session.
    """

    recipes: SessionRecipes
    _mcp: SessionMcp
    _show: Show
    _shown: tuple[Command, ...] | None = None

    async def commands(self) -> tuple[Command, ...]:
        """Return the commands on offer."""
        return (
            *commands(await self.recipes.library()),
            *BUILT_IN,
            *self._mcp.commands(),
        )

    async def show(self, commands: tuple[Command, ...]) -> None:
        """Show the commands, and start the MCP servers, which may offer more."""
        self._shown = commands
        await self._show(CommandsUpdated(commands))
        self._mcp.start()

    async def help(self, rest: str) -> str:
        """Return the answer to `/help`: the list of slash commands."""
        del rest
        recipes = (await self.recipes.library()).known.values()
        lines = ["**Recipes** are prompts in Markdown files that you can replace:", ""]
        lines += [
            _line(each.command, hint_of(each), each.description + _ORIGINS[each.origin])
            for each in recipes
        ]
        parts = {
            "**Commands** do not call the model:": BUILT_IN,
            "**Prompts** of MCP servers:": self._mcp.commands(),
        }
        for title, offered in parts.items():
            if offered:
                lines += [
                    "",
                    title,
                    "",
                    *(
                        _line(each.name, each.hint or "", each.description)
                        for each in offered
                    ),
                ]
        return "\n".join(lines)

    async def watch(self) -> None:
        """Show changes of the commands. Check for changes at increasing intervals, and
        at once if `recipes.due` is set.
        """
        seconds = WATCH_SECONDS
        while True:
            with anyio.move_on_after(seconds) as waiting:
                await self.recipes.due.wait()
            seconds = (
                min(2 * seconds, MAX_WATCH_SECONDS)
                if waiting.cancelled_caught
                else WATCH_SECONDS
            )
            try:
                if (
                    self._shown is not None
                    and (now := await self.commands()) != self._shown
                ):
                    seconds = WATCH_SECONDS
                    await self.show(now)
            except Exception:  # the prompt that needs a recipe reports it to the user
                _log.exception("could not check for changed recipes")


def _line(name: str, hint: str, description: str) -> str:
    typed = f"/{name} {hint}".rstrip()
    return f"- `{typed}`: {description}"
