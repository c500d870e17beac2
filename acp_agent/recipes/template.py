"""Renders a recipe and its arguments into a prompt.

Templates are untrusted. Jinja2's sandbox denies access to Python's internals, and
`_check` denies operations that turn a short text into a long one, so that the output
can be counted while it is generated.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from acp_agent.config.document import did_you_mean
from acp_agent.errors import InvalidParamsError, RecipeError
from acp_agent.recipes.arguments import missing_arguments, pieces, words_of
from acp_agent.recipes.claude_commands import render_command
from acp_agent.recipes.model import (
    PLACE_NAMES,
    RESERVED_NAMES,
    CommandError,
    Recipe,
    RecipeSurroundings,
)

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from jinja2.nodes import Template as Tree

MAX_OUTPUT = 256 * 1024
"""Maximum number of characters in a prompt, not counting the user's input."""

_WORD_NAMES = tuple(f"word_{number}_typed" for number in range(1, 10))
_FILTERS = (
    "capitalize",
    "d",
    "default",
    "first",
    "int",
    "last",
    "length",
    "lower",
    "title",
    "trim",
    "upper",
)
_STOP = "stop"
_STATEMENTS = ("Output", "If", "For")
_TAGS = {
    "Assign": "set",
    "AssignBlock": "set",
    "CallBlock": "call",
    "FilterBlock": "filter",
    "FromImport": "import",
}
_OPERATORS = {"Mul": "*", "Pow": "**", "Mod": "%"}


def check(recipe: Recipe) -> None:
    """Check a recipe's template. This imports Jinja2 unless the text has no template
    syntax.

    :raises RecipeError: if the template is invalid, with file and line.
    """
    if recipe.is_template and any(mark in recipe.body for mark in ("{{", "{%", "{#")):
        with _located_errors(recipe):
            _template(
                recipe.body,
                tuple(each.name for each in recipe.arguments),
                bool(recipe.allowed_commands),
            )


def render(
    recipe: Recipe,
    arguments: Mapping[str, str],
    extra: str,
    around: RecipeSurroundings | None = None,
) -> str:
    """Render the prompt.

    The template has access to the declared arguments, and to the rest of the command
    line as `instructions`, `arguments` and `$ARGUMENTS`. `$1` to `$9` are the words of
    the rest. If the template uses none of these, the rest is appended to its text, so
    that no input is lost. All are plain values: template syntax in them is not
    evaluated.

    :param recipe: the recipe to render.
    :param arguments: values by name.
    :param extra: the rest of the command line.
    :param around: other values and functions for the template; None for none.
    :raises InvalidParamsError: if an argument is missing or unknown.
    :raises RecipeError: if a command failed, or the template is invalid.
    """
    extra = extra.strip()
    values = {
        **_argument_values(recipe, arguments),
        **dict.fromkeys(RESERVED_NAMES, extra),
    }
    limit = MAX_OUTPUT + sum(map(len, values.values()))
    chunks: list[str] = []
    with _located_errors(recipe):
        if recipe.is_template:
            names = tuple(each.name for each in recipe.arguments)
            template, mentioned = _template(
                recipe.body, names, bool(recipe.allowed_commands)
            )
            words = dict.fromkeys(_WORD_NAMES, "") | dict(
                zip(_WORD_NAMES, words_of(extra), strict=False)
            )
            place = (
                {}
                if around is None
                else {name: getattr(around, name) for name in PLACE_NAMES}
            )
            text = template.generate({_STOP: _stop, **place, **words, **values})
        else:
            mentioned = any(
                isinstance(piece, int) for piece in pieces(recipe.body, positions=True)
            )
            text = render_command(recipe, extra, around.shell if around else None)
        for chunk in text:
            chunks.append(chunk)
            limit -= len(chunk)
            if limit < 0:
                message = (
                    f"renders to more than {MAX_OUTPUT // 1024} KiB; make it shorter"
                )
                raise RecipeError(message, source=str(recipe.source))
    whole = "".join(chunks).strip()
    if extra and not mentioned:
        whole = f"{whole}\n\nAdditional instructions from the user:\n\n{extra}"
    return whole


def _stop(reason: object) -> NoReturn:
    """End the rendering of a recipe that has nothing to work on, before a model is
    asked.

    :raises RecipeError: always; the reason is the recipe's own sentence, without file
        and line.
    """
    raise RecipeError(str(reason))


def _argument_values(recipe: Recipe, given: Mapping[str, str]) -> dict[str, str]:
    known = [argument.name for argument in recipe.arguments]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) if known else "it takes none"
            raise InvalidParamsError(
                f"the recipe `{recipe.name}` has no argument `{name}`; {hint}"
            )
    for argument in missing_arguments(recipe, given):
        what = f" ({argument.description})" if argument.description else ""
        raise InvalidParamsError(
            f"the recipe `{recipe.name}` needs the argument `{argument.name}`{what}; "
            f"begin with it, as in `/{recipe.command} {argument.name}=…`, or in a terminal `--arg {argument.name}=…`"
        )
    return {
        argument.name: given.get(argument.name, argument.default or "")
        for argument in recipe.arguments
    }


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Prompts are not HTML, so nothing is escaped.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.clear()  # pyright: ignore[reportUnknownMemberType] - jinja2 does not say of what
    environment.filters = {name: environment.filters[name] for name in _FILTERS}  # pyright: ignore[reportUnknownMemberType]
    return environment


@lru_cache(maxsize=32)
def _template(
    body: str, arguments: tuple[str, ...], runs_commands: bool
) -> tuple[Template, bool]:
    """Check and compile a template. Return it, and whether it uses the rest of the
    command line.

    :param arguments: names of the arguments.
    :param runs_commands: whether the recipe allows any commands.
    """
    tree = _parse(body, arguments, runs_commands)
    return _environment().from_string(tree), _mentions(tree)


def _parse(body: str, arguments: tuple[str, ...], runs_commands: bool) -> Tree:
    """Parse a template, check it, and replace the placeholders in its text with names."""
    from jinja2.nodes import Expr, Name, Output, TemplateData

    tree = _environment().parse(body)
    _check(tree, arguments, runs_commands)
    # Without `$1`, or if the arguments have names, numbers after `$` are amounts of
    # money.
    positions = not arguments and 1 in pieces(body, positions=True)
    for output in tree.find_all(Output):
        nodes: list[Expr] = []
        for node in output.nodes:
            for piece in (
                pieces(node.data, positions=positions)
                if isinstance(node, TemplateData)
                else (node,)
            ):
                if isinstance(piece, str):
                    nodes.append(TemplateData(piece, lineno=node.lineno))
                elif isinstance(piece, int):
                    nodes.append(
                        Name(
                            (RESERVED_NAMES[0], *_WORD_NAMES)[piece],
                            "load",
                            lineno=node.lineno,
                        )
                    )
                else:
                    nodes.append(piece)
        output.nodes = nodes
    tree.set_environment(_environment())
    return tree


def _mentions(tree: Tree) -> bool:
    """Return whether a template uses the rest of the command line."""
    from jinja2.nodes import Name

    return any(
        node.name in (*RESERVED_NAMES, *_WORD_NAMES) for node in tree.find_all(Name)
    )


def _check(tree: Tree, arguments: tuple[str, ...], runs_commands: bool) -> None:
    """Refuse operations that could turn a short text into a long one, calls other than
    `shell` and `stop`, and unknown names.

    :raises TemplateSyntaxError: if the template contains any of these.
    """
    from jinja2 import TemplateSyntaxError
    from jinja2.nodes import BinExpr, Call, For, Name, Output, Stmt

    for statement in tree.find_all(Stmt):
        kind = type(statement).__name__
        if kind not in _STATEMENTS:
            message = f"recipes cannot use `{{% {_TAGS.get(kind, kind.lower())} %}}`"
            raise TemplateSyntaxError(message, getattr(statement, "lineno", None) or 1)
        if isinstance(statement, For) and (statement.recursive or statement.find(For)):
            raise TemplateSyntaxError(
                "recipes cannot use loops in loops", statement.lineno
            )
    for operation in tree.find_all(BinExpr):
        if sign := _OPERATORS.get(type(operation).__name__):
            raise TemplateSyntaxError(f"recipes cannot use `{sign}`", operation.lineno)
    for call in tree.find_all(Call):
        name = call.node.name if isinstance(call.node, Name) else ""
        if name not in ("shell", _STOP):
            raise TemplateSyntaxError(
                "recipes cannot call functions but shell(...) and stop(...)",
                call.lineno,
            )
        if name == _STOP and (len(call.args) != 1 or call.kwargs):
            raise TemplateSyntaxError(
                'stop() takes one text: the reason, as in stop("There is no commit.")',
                call.lineno,
            )
        if name == "shell" and not runs_commands:
            message = "shell() needs `allowed_commands` in the front matter, with a pattern for each command it runs"
            raise TemplateSyntaxError(message, call.lineno)
    known = (*RESERVED_NAMES, *PLACE_NAMES, *arguments)
    for output in tree.body:
        for part in output.nodes if isinstance(output, Output) else ():
            if isinstance(part, Name) and part.name not in known:
                raise TemplateSyntaxError(
                    f"{part.name!r} is undefined; {did_you_mean(part.name, known)}",
                    part.lineno,
                )


@contextmanager
def _located_errors(recipe: Recipe) -> Generator[None]:
    """Convert errors of a template into errors with file and line."""
    from jinja2 import TemplateSyntaxError

    source = str(recipe.source)
    try:
        yield
    except RecipeError:
        raise
    except TemplateSyntaxError as error:
        line = recipe.body_line + (error.lineno or 1) - 1
        raise RecipeError(
            f"the template is wrong: {error.message}", source=source, line=line
        ) from error
    except Exception as error:
        # Jinja2 adds the template's lines to the traceback.
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == "<template>"
        ]
        line = (
            recipe.body_line + frames[-1].lineno - 1
            if frames and frames[-1].lineno
            else None
        )
        message = (
            str(error)
            if isinstance(error, CommandError)
            else f"the template failed: {error}"
        )
        raise RecipeError(message, source=source, line=line) from error
