"""The settings of a session that an editor shows as menus: mode, model, thought level, automatic compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acp_agent.conversation.events import AutoCompactionChanged, Event, ModeChanged, ModelChanged, ThoughtLevelChanged
from acp_agent.errors import InvalidParamsError, sentence
from acp_agent.turn.permission import MODES
from acp_agent.turn.updates import Choice, Option

MODE = "mode"
MODEL = "model"
THOUGHT_LEVEL = "thought_level"
AUTO_COMPACTION = "auto_compaction"
ON, OFF = "on", "off"
NO_MODEL = "none"
"""Stands in the model menu while nothing is configured: the protocol asks for a current value among the choices."""

_THOUGHT_LEVELS = (
    Choice("default", "Default", "As the provider has it."),
    Choice("off", "Off", "No extended thinking."),
    Choice("low", "Low"),
    Choice("medium", "Medium"),
    Choice("high", "High"),
)


def session_options(
    mode: str, thought_level: str, model: str | None, models: Sequence[str], auto_compaction: bool
) -> tuple[Option, ...]:
    """All options with their current values.

    :param thought_level: empty for the default.
    :param model: the model in use; None where there is none.
    :param models: what else may be chosen.
    :param auto_compaction: whether it is compacted without being asked.
    """
    current = model or NO_MODEL
    names = [*models] if current in models else [current, *models]
    return (
        Option(
            MODE,
            "Mode",
            "mode",
            mode,
            tuple(Choice(known.id, known.name, known.description) for known in MODES),
            "What may be done without asking.",
        ),
        Option(
            MODEL,
            "Model",
            "model",
            current,
            tuple(_model(name) for name in names),
        ),
        Option(THOUGHT_LEVEL, "Thinking", "thought_level", thought_level or "default", _THOUGHT_LEVELS),
        Option(
            AUTO_COMPACTION,
            "Automatic compaction",
            None,
            ON if auto_compaction else OFF,
            (Choice(ON, "On"), Choice(OFF, "Off")),
            "Whether the conversation is made short by itself before the window is full.",
            is_switch=True,
        ),
    )


def _model(name: str) -> Choice:
    if name == NO_MODEL:
        return Choice(name, "No model configured")
    return Choice(name, name, group=name.partition("/")[0])


def change_event(options: Sequence[Option], option_id: str, value: str, unusable: Callable[[str], str]) -> Event | None:
    """The event that sets an option; None where it is set like that already.

    :param unusable: why a model that no list holds cannot be asked for; empty where it can.
    :raises InvalidParamsError: no such option or value; says why, and names those that there are.
    """
    option = next((option for option in options if option.id == option_id), None)
    if option is None:
        known = ", ".join(option.id for option in options)
        raise InvalidParamsError(f"There is no option {option_id!r}. The options are: {known}.")
    values = [choice.value for choice in option.choices]
    if value not in values:
        # A model may be named that no list holds: a new one, or one of a local server.
        wrong = unusable(value) if option_id == MODEL else f"it is no value of {option_id!r}"
        if wrong:
            near = next((known for known in values if known.endswith(f"/{value}")), "")
            refused = sentence(InvalidParamsError(f"{value!r} cannot be chosen: {wrong}"))
            hint = f" Did you mean `{near}`?" if near else ""
            raise InvalidParamsError(f"{refused}{hint} On the menu are: {', '.join(values)}.")
    if value == option.current:
        return None
    if option_id == MODE:
        return ModeChanged(value)
    if option_id == MODEL:
        return ModelChanged(value)
    if option_id == AUTO_COMPACTION:
        return AutoCompactionChanged(value == ON)
    return ThoughtLevelChanged("" if value == "default" else value)
