"""Rendering: a recipe and the words that were typed become one prompt.

Templates may be a stranger's, so they are a small part of Jinja2: text, `if`, one level of `for`, comparisons, and a
few filters that cannot make a long text of a short one. Jinja2's sandbox keeps them away from Python's insides; it
does not keep them from filling the memory, which assignments, macros, method calls and multiplication all do in a few
characters. So only those nodes of its syntax are let through that cannot. Knows no files but by name.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from acp_agent.config.document import did_you_mean
from acp_agent.errors import RecipeArgumentError, RecipeError
from acp_agent.recipes.model import Recipe

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from jinja2.nodes import Node
    from jinja2.nodes import Template as Tree

RESERVED_NAMES = ("instructions", "arguments")
"""Both stand for the rest of the command line."""

MAX_OUTPUT = 256 * 1024
"""Characters of a prompt, not counting what the user typed."""

_FILTERS = {"capitalize", "d", "default", "first", "int", "last", "length", "lower", "title", "trim", "upper"}
_NODES = {
    *("Template", "Output", "TemplateData", "If", "For", "Name", "Const", "List", "Tuple", "Dict", "Pair"),
    *("Getattr", "Getitem", "Slice", "Filter", "Keyword", "Test", "CondExpr", "Compare", "Operand"),
    *("And", "Or", "Not", "Neg", "Add", "Sub", "Concat"),
}
_WORDS = {
    "Assign": "`{% set %}`",
    "AssignBlock": "`{% set %}`",
    "Block": "`{% block %}`",
    "Call": "function calls",
    "CallBlock": "`{% call %}`",
    "Div": "`/`",
    "Extends": "`{% extends %}`",
    "FilterBlock": "`{% filter %}`",
    "FloorDiv": "`//`",
    "FromImport": "`{% import %}`",
    "Import": "`{% import %}`",
    "Include": "`{% include %}`",
    "Macro": "`{% macro %}`",
    "Mod": "`%`",
    "Mul": "`*`",
    "Pos": "`+` before a value",
    "Pow": "`**`",
    "With": "`{% with %}`",
}


def check(recipe: Recipe) -> None:
    """Refuse a recipe of which no arguments could make a prompt. Loads Jinja2, unless the text is plain.

    :raises RecipeError: the template is wrong; names file and line.
    """
    if any(mark in recipe.body for mark in ("{{", "{%", "{#")):
        with _named_errors(recipe):
            _compiled(recipe)


def render(recipe: Recipe, arguments: Mapping[str, str], extra: str) -> str:
    """Make the prompt.

    The template sees the declared arguments, and the rest of the command line as `instructions` and `arguments`. Where
    it mentions neither of the two, a rest that is not empty is put below its text, so that nothing typed is lost. Both
    are values: template syntax in them stays text.

    :param recipe: what to render.
    :param arguments: values by name.
    :param extra: the rest of the command line.
    :raises RecipeError: an argument is missing or unknown, or the template is wrong; names file and line.
    """
    extra = extra.strip()
    values = {**_values(recipe, arguments), **dict.fromkeys(RESERVED_NAMES, extra)}
    limit = MAX_OUTPUT + sum(map(len, values.values()))
    chunks: list[str] = []
    with _named_errors(recipe):
        template, mentioned = _compiled(recipe)
        for chunk in template.generate(values):
            chunks.append(chunk)
            limit -= len(chunk)
            if limit < 0:
                message = f"renders to more than {MAX_OUTPUT // 1024} KiB; make it shorter"
                raise RecipeError(message, source=str(recipe.source))
    text = "".join(chunks).strip()
    if extra and not mentioned:
        text = f"{text}\n\nAdditional instructions from the user:\n\n{extra}"
    return text


@contextmanager
def _named_errors(recipe: Recipe) -> Generator[None]:
    from jinja2 import TemplateSyntaxError

    source = str(recipe.source)
    try:
        yield
    except RecipeError:
        raise
    except TemplateSyntaxError as error:
        # Some nodes of a template have no line.
        line = recipe.body_line + (error.lineno or 1) - 1
        raise RecipeError(f"the template is wrong: {error.message}", source=source, line=line) from error
    except Exception as error:  # whatever an expression of the template may raise
        raise RecipeError(f"the template failed: {error}", source=source, line=_line(recipe, error)) from error


def _compiled(recipe: Recipe) -> tuple[Template, bool]:
    """The template, and whether it says where the rest of the command line goes."""
    from jinja2.nodes import Name

    environment = _environment()
    tree = environment.parse(recipe.body)
    _check(tree)
    _check_names(tree, (*RESERVED_NAMES, *(argument.name for argument in recipe.arguments)))
    mentioned = any(node.name in RESERVED_NAMES for node in tree.find_all(Name))
    return environment.from_string(tree), mentioned


def _values(recipe: Recipe, given: Mapping[str, str]) -> dict[str, str]:
    from difflib import get_close_matches

    source = str(recipe.source)
    known = [argument.name for argument in recipe.arguments]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            takes = f"it takes: {', '.join(known)}" if known else "it takes none"
            hint = f"did you mean `{near[0]}`?" if near else takes
            raise RecipeArgumentError(f"the recipe `{recipe.name}` has no argument `{name}`; {hint}", source=source)
    for argument in recipe.arguments:
        if argument.required and argument.default is None and argument.name not in given:
            what = f" ({argument.description})" if argument.description else ""
            raise RecipeArgumentError(
                f"the recipe `{recipe.name}` needs the argument `{argument.name}`{what}; "
                f"begin with it, as in `/{recipe.name} {argument.name}=…`",
                source=source,
            )
    return {argument.name: given.get(argument.name, argument.default or "") for argument in recipe.arguments}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Prompts are not HTML: nothing is to be escaped.
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.clear()  # pyright: ignore[reportUnknownMemberType] - jinja2 does not say of what
    return environment


def _check(node: Node, inside_loop: bool = False) -> None:
    """Let only harmless syntax through.

    :raises TemplateSyntaxError: there is other.
    """
    from jinja2 import TemplateSyntaxError
    from jinja2.nodes import Const, Filter, For, Getattr, Getitem

    kind = type(node).__name__
    if kind not in _NODES:
        raise TemplateSyntaxError(f"recipes cannot use {_WORDS.get(kind, kind)}", node.lineno)
    name = node.attr if isinstance(node, Getattr) else node.arg if isinstance(node, Getitem) else None
    name = name.value if isinstance(name, Const) else name
    if isinstance(name, str) and name.startswith("_"):
        raise TemplateSyntaxError(f"recipes cannot use `{name}`", node.lineno)
    if isinstance(node, For):
        if inside_loop or node.recursive:
            raise TemplateSyntaxError("recipes cannot use loops in loops", node.lineno)
        inside_loop = True
    if isinstance(node, Filter) and node.name not in _FILTERS:
        known = ", ".join(sorted(_FILTERS))
        raise TemplateSyntaxError(f"recipes cannot use the filter `{node.name}`, only {known}", node.lineno)
    for child in node.iter_child_nodes():
        _check(child, inside_loop)


def _check_names(tree: Tree, known: Collection[str]) -> None:
    """Refuse `{{ name }}` of a name that there is not, where no condition could leave it out.

    :raises TemplateSyntaxError: there is one.
    """
    from jinja2 import TemplateSyntaxError
    from jinja2.nodes import Name, Output

    for output in tree.body:
        for part in output.nodes if isinstance(output, Output) else ():
            if isinstance(part, Name) and part.name not in known:
                raise TemplateSyntaxError(f"{part.name!r} is undefined; {did_you_mean(part.name, known)}", part.lineno)


def _line(recipe: Recipe, error: Exception) -> int | None:
    """The line of the file at which a template failed; Jinja2 writes the template's lines into the traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return recipe.body_line + frames[-1].lineno - 1 if frames and frames[-1].lineno else None
