"""The options of a session that an editor shows as menus: mode, model, thought level,
automatic compaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from acp_agent.config.settings import MODES as MODE_IDS
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    AutoCompactionChanged,
    Event,
    ModeChanged,
    ModelChanged,
    ThoughtLevelChanged,
)
from acp_agent.conversation.updates import (
    Choice,
    ModeUpdated,
    Option,
    OptionsUpdated,
    PlanUpdated,
    Show,
    TitleUpdated,
)
from acp_agent.errors import InvalidParamsError, sentence
from acp_agent.llm.names import display_name
from acp_agent.session.models.models import SessionModels
from acp_agent.session.notices import SHOWING_SECONDS
from acp_agent.session.services import SessionServices
from acp_agent.session.state import SessionState

if TYPE_CHECKING:
    from acp_agent.recipes.model import Recipe

MODE = "mode"
MODEL = "model"
THOUGHT_LEVEL = "thought_level"
AUTO_COMPACTION = "auto_compaction"
ON = "on"
OFF = "off"
NO_MODEL = "none"
"""The current value of the model menu while no model is configured. The protocol
requires a value.
"""

MODES = (
    Choice("ask", "Ask", "Reads freely; asks before every edit and command."),
    Choice(
        "accept-edits",
        "Accept edits",
        "Reads and edits files and runs sandboxed commands freely; asks before every other command.",
    ),
    Choice("plan", "Plan", "Reads only: no edits and no commands."),
    Choice(
        "full-access",
        "Full access",
        "Reads, edits and runs commands anywhere without asking.",
    ),
)
"""The permission modes."""
# Many editors show the name of the current value without the name of its menu.
_THOUGHT_LEVELS = (
    Choice(
        "default",
        "Thinking: provider default",
        "The model thinks as much as the provider's default allows.",
    ),
    Choice("off", "Thinking: off", "No extended thinking."),
    Choice("low", "Thinking: low"),
    Choice("medium", "Thinking: medium"),
    Choice("high", "Thinking: high"),
)
_AUTO_COMPACTION = (Choice(ON, "Auto-compact on"), Choice(OFF, "Auto-compact off"))


class SessionOptions:
    """Shows and changes the options of one session, and reads its settings again.

    :ivar is_stale: whether the settings are read again at the next turn, since a turn
        failed for a reason that the user may fix in a file.
    """

    def __init__(
        self,
        state: SessionState,
        models: SessionModels,
        services: SessionServices,
        show: Show,
    ) -> None:
        self._state = state
        self._models = models
        self._services = services
        self._show = show
        self.is_stale = False
        self._version = models.registry.version()

    async def all(self) -> tuple[Option, ...]:
        """Return all options with their current values."""
        model = await self._models.name(self._state.model)
        auto = self._state.compaction(model or "").auto
        current = model or NO_MODEL
        names = dict.fromkeys(
            [*await self._models.registry.available_models(), current]
        )
        level = self._state.context.thought_level or "default"
        about_auto = "Whether the conversation is compacted automatically before the context window is full."
        return (
            Option(
                MODE,
                "Mode",
                "mode",
                self._state.mode,
                MODES,
                "What the agent may do without asking.",
            ),
            Option(MODEL, "Model", "model", current, self._model_choices(names)),
            Option(THOUGHT_LEVEL, "Thinking", "thought_level", level, _THOUGHT_LEVELS),
            Option(
                AUTO_COMPACTION,
                "Automatic compaction",
                None,
                ON if auto else OFF,
                _AUTO_COMPACTION,
                about_auto,
                is_switch=True,
            ),
        )

    def _model_choices(self, models: Iterable[str]) -> tuple[Choice, ...]:
        """Return the choices of the model menu: each model's name, with its price if
        known.
        """
        registry = self._models.registry
        named = {model: display_name(model.partition("/")[2]) for model in models}
        times = Counter(named.values())
        choices: list[Choice] = []
        for model, name in named.items():
            if model == NO_MODEL:
                choices.append(Choice(model, "No model configured"))
                continue
            # Two providers may offer the same model, and one provider may offer two
            # dated versions of it.
            shown = (
                name if times[name] == 1 and name != model.partition("/")[2] else model
            )
            prices = registry.profile(model).prices
            described = model
            if prices is not None:
                shown += f" · ${prices.input:g} / ${prices.output:g}"
                described += f"; per million tokens, ${prices.input:g} for input and ${prices.output:g} for output"
            choices.append(
                Choice(model, shown, described, group=model.partition("/")[0])
            )
        return tuple(choices)

    async def threshold(self) -> tuple[str, int | None]:
        """Return the name of the model in use, and the number of tokens that triggers
        automatic compaction, or None if it is off.

        :raises AgentError: if there is no such model.
        """
        active = await self._models.active(self._state.model)
        settings = self._state.compaction(active.name)
        return active.name, int(
            active.budget.usable * settings.threshold
        ) if settings.auto else None

    async def change(self, option_id: str, value: str) -> tuple[Option, ...]:
        """Change an option and show it. The user's choice also replaces the running
        recipe's.

        :returns: all options.
        :raises InvalidParamsError: if there is no such option or value.
        :raises SessionConflictError: if another process has worked on the session
            during the turn.
        """
        option = self._checked(await self.all(), option_id, value)
        if value != option.current:
            async with self._showing(force=True):
                is_at_home = self._state.is_at_home
                await self.append(
                    _change_event(option_id, value, is_at_home=is_at_home)
                )
                if option_id == MODE:
                    self._state.recipe_mode = ""
                    self._state.mode_elsewhere = "" if is_at_home else value
                elif option_id == MODEL:
                    self._state.recipe_model = ""
        return await self.all()

    async def append(self, event: Event) -> None:
        """Log a change made by the user."""
        log = self._state.log
        await (log.append(event) if self._state.in_turn else log.change(event))

    @asynccontextmanager
    async def of_recipe(self, recipe: Recipe | None) -> AsyncGenerator[None]:
        """Apply a recipe's model and mode while the recipe runs. They are not logged,
        so that a killed process leaves the session as its user set it. A project's
        recipe can make the mode stricter, but never freer.

        :param recipe: the recipe; None for a prompt without one.
        """
        state = self._state
        try:
            async with self._showing():
                if recipe is not None:
                    state.recipe_model = recipe.model or ""
                    state.recipe_mode = _recipe_mode(recipe, state.chosen_mode)
            yield
        finally:
            with anyio.move_on_after(SHOWING_SECONDS, shield=True):
                async with self._showing():
                    state.recipe_model = state.recipe_mode = ""

    @asynccontextmanager
    async def _showing(self, *, force: bool = False) -> AsyncGenerator[None]:
        """Show the mode and the options if the `async with` block has changed them.

        :param force: show the options in any case.
        """
        state = self._state
        model = state.model
        mode = state.mode
        yield
        if state.mode != mode:
            await self._show(ModeUpdated(state.mode))
        if force or (state.model, state.mode) != (model, mode):
            await self._show(OptionsUpdated(await self.all()))

    async def catch_up(self) -> None:
        """Read and show the changes that another process has appended."""
        log = self._state.log
        await (log.confirm() if self._state.in_turn else log.refresh())
        await self.show_missed()

    async def show_missed(self) -> None:
        """Show changes by another process: the mode, the options, the title and the
        plan.

        The other process's conversation is not shown in the middle of this one.
        Reopening the session shows it. A plan is shown only during a turn, since
        editors drop it otherwise.
        """
        context = self._state.context
        former = self._state.log.take_missed()
        if former is not None:
            if context.mode != former.mode:
                await self._show(ModeUpdated(self._state.mode))
            if chosen(context) != chosen(former):
                await self._show(OptionsUpdated(await self.all()))
            if context.title is not None and context.title != former.title:
                await self._show(TitleUpdated(context.title))
            if context.plan != former.plan and self._state.in_turn:
                await self._show(PlanUpdated(context.plan))

    # --- settings ---

    async def renew(self) -> bool:
        """Read the settings again if they are stale, and show the options if the
        available models may have changed. Ask again for context windows that are not
        settled.

        :returns: whether the settings were read again.
        :raises ConfigError: if the new settings are invalid. The session keeps its
            settings, which stay stale.
        """
        former = self._version
        self._version = self._models.registry.version()
        renewed = self.is_stale
        if renewed:
            state = self._state
            settings = await anyio.to_thread.run_sync(
                self._services.settings,
                state.cwd,
                state.settings.root,
                abandon_on_cancel=True,
            )
            self._state.settings = settings
            self.is_stale = False
            await self._models.use(self._services.models(settings))
        if renewed or self._version != former:
            await self._show(OptionsUpdated(await self.all()))
        await self._models.begin_turn()
        return renewed

    def _checked(self, options: Sequence[Option], option_id: str, value: str) -> Option:
        """Return the option, after checking that it may have this value.

        :raises InvalidParamsError: if there is no such option or value. The message
            says why and lists the valid ones.
        """
        option = next((option for option in options if option.id == option_id), None)
        if option is None:
            known = ", ".join(option.id for option in options)
            raise InvalidParamsError(
                f"There is no option {option_id!r}. The options are: {known}."
            )
        values = [choice.value for choice in option.choices]
        if value not in values:
            # The user may name a model that is in no list, such as a new one or one of
            # a local server.
            wrong = f"it is not a value of {option_id!r}"
            if option_id == MODEL:
                wrong = self._models.registry.unusable(value)
            if wrong:
                refused = sentence(
                    InvalidParamsError(f"{value!r} cannot be chosen: {wrong}")
                )
                raise InvalidParamsError(
                    f"{refused} The menu contains: {', '.join(values)}."
                )
        return option


def _change_event(option_id: str, value: str, *, is_at_home: bool) -> Event:
    match option_id:
        case "mode":
            return ModeChanged(value, "session" if is_at_home else "opening")
        case "model":
            return ModelChanged(value)
        case "auto_compaction":
            return AutoCompactionChanged(value == ON)
        case _:
            return ThoughtLevelChanged("" if value == "default" else value)


def _recipe_mode(recipe: Recipe, chosen: str) -> str:
    if recipe.mode is None:
        return ""
    # The strictest mode comes first.
    is_freer = MODE_IDS.index(recipe.mode) > MODE_IDS.index(chosen)
    return "" if recipe.origin == "project" and is_freer else recipe.mode


def chosen(context: Context) -> tuple[object, ...]:
    """Return the parts of a session's context that its options show."""
    return context.mode, context.model, context.thought_level, context.auto_compaction
