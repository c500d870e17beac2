"""The recipes of one session. They are read when needed, and again when a file has
changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from acp_agent.conversation.updates import Command
from acp_agent.errors import RecipeError
from acp_agent.llm.places import key_variables
from acp_agent.processes import environment_without
from acp_agent.session.commands import COMPACT, PREVIEW, STATUS, UNDO
from acp_agent.session.notices import Notices
from acp_agent.session.services import SessionServices
from acp_agent.session.state import SessionState
from acp_agent.session.trust import SessionTrust

if TYPE_CHECKING:
    from acp_agent.recipes.discovery import RecipeLibrary
    from acp_agent.recipes.model import Recipe
    from acp_agent.session.recipes.questions import RecipeQuestions
    from acp_agent.session.recipes.run import RecipeRun

_log = logging.getLogger(__name__)


def hint_of(recipe: Recipe) -> str:
    """Return the arguments that may follow a recipe's name, with optional ones in
    brackets.
    """
    if recipe.hint:
        return recipe.hint
    names: list[str] = []
    for argument in recipe.arguments:
        is_needed = argument.required and argument.default is None
        names.append(f"{argument.name}=…" if is_needed else f"[{argument.name}=…]")
    words = (
        f"[what to keep] | {PREVIEW} | {STATUS} | {UNDO}"
        if recipe.name == COMPACT
        else "[instructions]"
    )
    return " ".join([*names, words])


def commands(library: RecipeLibrary) -> tuple[Command, ...]:
    """Return the recipes as slash commands."""
    return tuple(
        Command(recipe.command, recipe.description, hint_of(recipe))
        for recipe in library.known.values()
    )


class SessionRecipes:
    """Keeps the recipes of one session up to date with the disk.

    :ivar due: set and replaced when the list of commands may have changed.
    """

    def __init__(
        self,
        state: SessionState,
        services: SessionServices,
        trust: SessionTrust,
        notices: Notices,
    ) -> None:
        self._state = state
        self._services = services
        self._trust = trust
        self._notices = notices
        self.due = anyio.Event()
        self._lock = anyio.Lock()
        self._library: RecipeLibrary | None = None
        self._version = ()

    async def library(self) -> RecipeLibrary:
        """Return the current recipes. The files are read again if one of them, the
        settings or the trusted code has changed.
        """
        async with self._lock:
            await self._trust.ensure_read()  # this also reads the project's settings
            # Take the signature before reading the files, so that a change in between
            # leads to a different one.
            settings = self._state.settings
            cwd = self._state.cwd
            signature = await anyio.to_thread.run_sync(
                self._services.recipe_signature, settings, cwd, abandon_on_cancel=True
            )
            version = signature, settings, self._trust.allowed
            if self._library is None or version != self._version:
                # The end of the process does not wait for this thread, which also
                # imports YAML and Jinja2.
                self._library = await anyio.to_thread.run_sync(
                    self._services.library,
                    settings,
                    cwd,
                    self._trust.trusted,
                    abandon_on_cancel=True,
                )
                self._version = version
                errors = (
                    f"A recipe was left out. {error}" for error in self._library.errors
                )
                for message in (*errors, *settings.notices, *self._library.notices):
                    _log.warning("%s", message)
                    await self._notices.tell_once(message)
            return self._library

    def wake(self) -> None:
        """Set and replace `due` if the settings or the trusted code have changed."""
        if self._version[1:] != (self._state.settings, self._trust.allowed):
            self.due.set()
            self.due = anyio.Event()

    async def render(
        self, run: RecipeRun, questions: RecipeQuestions | None = None
    ) -> str:
        """Return a recipe's text for the model. The recipe's commands do not inherit
        the keys of providers.

        :param questions: asks the user about the recipe's commands if there is no
            sandbox. If None, the commands do not run without a sandbox.
        :raises RecipeError: see `RecipeRun.rendered`; also if the user does not allow
            the recipe's commands.
        """
        from acp_agent.session.recipes.run import surroundings

        if questions is not None:
            await questions.allow(run.recipe)
        state = self._state
        env = environment_without(key_variables(state.settings))
        may_run = questions is not None
        around = surroundings(
            state.id,
            str(state.cwd),
            run.recipe,
            env,
            state.sandbox,
            unsandboxed=may_run,
        )
        return await run.rendered(around)

    async def compact_recipe(self) -> Recipe:
        """Return the recipe that automatic compaction runs.

        :raises RecipeError: if there is none.
        """
        recipe = (await self.library()).get(COMPACT)
        if recipe is None:
            raise RecipeError(f"There is no recipe `{COMPACT}`.")
        return recipe
