"""`/help`: the commands and the recipes, as the user may type them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from acp_agent.recipes.model import Argument, Recipe
from acp_agent.session.commands import BUILT_IN, hint_of
from acp_agent.turn.updates import Command

_WHOSE = {"builtin": "", "user": "yours", "project": "the project's"}


def help_text(recipes: Iterable[Recipe], prompts: Sequence[Command] = ()) -> str:
    """What can be typed behind a slash.

    :param prompts: of MCP servers.
    """
    lines = ["**Recipes** are prompts, in Markdown files that you can replace:", ""]
    for recipe in recipes:
        lines.append(_line(recipe.command, hint_of(recipe), recipe.description, _WHOSE[recipe.origin]))
        lines += (f"  - `{argument.name}=`: {said}" for argument in recipe.arguments if (said := _said(argument)))
    lines += ["", "**Commands** ask no model:", ""]
    lines += (_line(command.name, command.hint or "", command.description, "") for command in BUILT_IN)
    if prompts:
        lines += ["", "**Prompts** of MCP servers:", ""]
        lines += (_line(command.name, command.hint or "", command.description, "") for command in prompts)
    return "\n".join(lines)


def _line(name: str, hint: str, description: str, whose: str) -> str:
    typed = f"/{name} {hint}".rstrip()
    return f"- `{typed}`: {description}{f' ({whose})' if whose else ''}"


def _said(argument: Argument) -> str:
    return "; ".join(_parts(argument))


def _parts(argument: Argument) -> Iterator[str]:
    if argument.description:
        yield argument.description
    if argument.default:
        yield f"by default {argument.default}"
    elif argument.required:
        yield "required"
