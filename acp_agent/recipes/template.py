"""Rendering: a recipe and the words that were typed become one prompt.

Templates may be a stranger's, so they are a small part of Jinja2: text, `if`, one level of `for`, comparisons, and a
few filters that cannot make a long text of a short one. Jinja2's sandbox keeps them away from Python's insides; it
does not keep them from filling the memory, which assignments, macros, method calls and multiplication all do in a few
characters. So only those nodes of its syntax are let through that cannot, and of calls `shell(...)` alone, which obeys
the recipe's `allowed_commands`. Knows no files but by name.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from acp_agent.config.document import did_you_mean
from acp_agent.errors import RecipeArgumentError, RecipeError
from acp_agent.recipes.arguments import missing_arguments
from acp_agent.recipes.model import Recipe
from acp_agent.recipes.placeholders import (
    command_failed,
    has_positions,
    mentions_words,
    pieces,
    render_command,
    words_of,
)
from acp_agent.recipes.surroundings import FACTS, CommandError, Surroundings

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from jinja2.nodes import Node
    from jinja2.nodes import Template as Tree

RESERVED_NAMES = ("instructions", "arguments")
"""Both stand for the rest of the command line."""

GIT, SHELL = "git", "shell"
PLACE_NAMES = ("conversation_id", "cwd", "date", GIT, SHELL)
"""What a template may ask of the place that it is rendered in."""

MAX_OUTPUT = 256 * 1024
"""Characters of a prompt, not counting what the user typed."""
MAX_TEMPLATE = 64 * 1024
"""Characters of a text with template syntax, which takes Jinja2 a second to understand."""

_WORDS_TYPED = tuple(f"word_{number}_typed" for number in range(1, 10))
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
    "Call": "function calls but shell(...) of texts",
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
    if recipe.is_template and any(mark in recipe.body for mark in ("{{", "{%", "{#")):
        if len(recipe.body) > MAX_TEMPLATE:
            message = f"a text with {{{{ }}}} or {{% %}} may have {MAX_TEMPLATE // 1024} KiB; make it shorter"
            raise RecipeError(message, source=str(recipe.source), line=recipe.body_line)
        with _named_errors(recipe):
            _compiled(recipe)


def render(recipe: Recipe, arguments: Mapping[str, str], extra: str, around: Surroundings | None = None) -> str:
    """Make the prompt.

    The template sees the declared arguments, and the rest of the command line as `instructions` and `arguments`;
    `$ARGUMENTS` in its text stands for it as well, and `$1` to `$9` for its words. Where it mentions none of these, a
    rest that is not empty is put below its text, so that nothing typed is lost. All are values: template syntax in them
    stays text.

    :param recipe: what to render.
    :param arguments: values by name.
    :param extra: the rest of the command line.
    :param around: what else it may ask for; None where there is nothing, and it is an error to.
    :raises RecipeError: an argument is missing or unknown, or the template is wrong; names file and line.
    """
    extra = extra.strip()
    typed = {**_values(recipe, arguments), **dict.fromkeys(RESERVED_NAMES, extra)}
    limit = MAX_OUTPUT + sum(map(len, typed.values()))
    chunks: list[str] = []
    given = {*arguments, *(RESERVED_NAMES if extra else ())}
    with _named_errors(recipe):
        text, mentioned = _rendering(recipe, typed, given, around)
        for chunk in text:
            chunks.append(chunk)
            limit -= len(chunk)
            if limit < 0:
                message = f"renders to more than {MAX_OUTPUT // 1024} KiB; make it shorter"
                raise RecipeError(message, source=str(recipe.source))
    whole = "".join(chunks).strip()
    if extra and not mentioned:
        whole = f"{whole}\n\nAdditional instructions from the user:\n\n{extra}"
    return whole


def _rendering(
    recipe: Recipe, typed: Mapping[str, str], given: Collection[str], around: Surroundings | None
) -> tuple[Iterator[str], bool]:
    """The text, piece by piece, and whether it says where the rest of the command line goes.

    :param given: the names of the values that are no defaults.
    """
    extra = typed[RESERVED_NAMES[0]]
    if not recipe.is_template:
        return render_command(recipe, extra, around), mentions_words(recipe)
    values: dict[str, object] = {**_place(around), **typed}
    if has_positions(recipe):
        values |= dict.fromkeys(_WORDS_TYPED, "") | dict(zip(_WORDS_TYPED, words_of(extra), strict=False))
    template, mentioned = _compiled(recipe, given)
    return template.generate(values), mentioned


def _place(around: Surroundings | None) -> dict[str, object]:
    if around is None:
        return {}
    values = (around.conversation_id, around.cwd, around.date, around.git, around.shell)
    return dict(zip(PLACE_NAMES, values, strict=True))


@contextmanager
def _named_errors(recipe: Recipe) -> Generator[None]:
    """Name file and line in whatever goes wrong."""
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
    except CommandError as error:
        raise command_failed(error, source, _line(recipe, error)) from error
    except Exception as error:  # whatever an expression of the template may raise
        raise RecipeError(f"the template failed: {error}", source=source, line=_line(recipe, error)) from error


def _compiled(recipe: Recipe, given: Collection[str] = ()) -> tuple[Template, bool]:
    """The template, and whether it says where the rest of the command line goes.

    :param given: see `_rendering`.
    """
    from jinja2.nodes import Name

    environment = _environment()
    tree = environment.parse(recipe.body)
    _check(tree)
    _check_names(tree, (*RESERVED_NAMES, *PLACE_NAMES, *(argument.name for argument in recipe.arguments)))
    _check_commands(tree, recipe)
    _mark_typed(tree, given)
    _put_in_placeholders(tree, positions=has_positions(recipe))
    mentioned = any(node.name in (*RESERVED_NAMES, *_WORDS_TYPED) for node in tree.find_all(Name))
    return environment.from_string(tree), mentioned


def _put_in_placeholders(tree: Tree, *, positions: bool) -> None:
    """Make names of the placeholders in a template's text, so that what was typed is a value like all others."""
    from jinja2.nodes import Expr, Name, Output, TemplateData

    for output in tree.find_all(Output):
        nodes: list[Expr] = []
        for node in output.nodes:
            if not isinstance(node, TemplateData):
                nodes.append(node)
                continue
            for piece in pieces(node.data, positions=positions):
                if isinstance(piece, str):
                    nodes.append(TemplateData(piece, lineno=node.lineno))
                else:
                    name = _WORDS_TYPED[piece - 1] if piece else RESERVED_NAMES[0]
                    nodes.append(Name(name, "load", lineno=node.lineno))
        output.nodes = nodes
    tree.set_environment(_environment())


def _mark_typed(tree: Tree, given: Collection[str]) -> None:
    """Tell `shell` which of its words are made of something that was typed."""
    from jinja2.nodes import Call, Const, For, Keyword, Name

    def is_made_of(node: Node, names: Collection[str]) -> bool:
        return any(name.name in names for name in (node, *node.find_all(Name)) if isinstance(name, Name))

    loops = [loop for loop in tree.find_all(For) if is_made_of(loop.iter, given)]
    named = {
        name.name for loop in loops for name in (loop.target, *loop.target.find_all(Name)) if isinstance(name, Name)
    }
    for call in tree.find_all(Call):
        places = tuple(place for place, word in enumerate(call.args) if is_made_of(word, {*given, *named}))
        call.kwargs = [Keyword("typed", Const(places, lineno=call.lineno), lineno=call.lineno)]


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
    for argument in missing_arguments(recipe, given):
        what = f" ({argument.description})" if argument.description else ""
        raise RecipeArgumentError(
            f"the recipe `{recipe.name}` needs the argument `{argument.name}`{what}; "
            f"begin with it, as in `/{recipe.command} {argument.name}=…`, or in a terminal `--arg {argument.name}=…`",
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
    from jinja2.nodes import Call, Const, Filter, For, Getattr, Getitem, Name

    kind = type(node).__name__
    if isinstance(node, Call) and isinstance(node.node, Name) and node.node.name == SHELL:
        if node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise TemplateSyntaxError("shell() takes the command and its arguments as texts alone", node.lineno)
        for argument in node.args:
            _check(argument, inside_loop)
        return
    if isinstance(node, Getattr) and isinstance(node.node, Name) and node.node.name == GIT:
        if node.attr not in FACTS:
            raise TemplateSyntaxError(f"git has no `{node.attr}`; {did_you_mean(node.attr, FACTS)}", node.lineno)
        return
    if isinstance(node, Name) and node.name in (GIT, SHELL):
        form = 'shell("git", "log")' if node.name == SHELL else ", ".join(f"git.{fact}" for fact in FACTS)
        raise TemplateSyntaxError(f"`{node.name}` is no value by itself; write {form}", node.lineno)
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


def _check_commands(tree: Tree, recipe: Recipe) -> None:
    """Refuse commands in a recipe that allows none.

    :raises TemplateSyntaxError: there is one.
    """
    from jinja2 import TemplateSyntaxError
    from jinja2.nodes import Call

    call = None if recipe.allowed_commands else tree.find(Call)
    if call is not None:
        message = "shell() needs `allowed_commands` in the front matter, with a pattern for each command that it runs"
        raise TemplateSyntaxError(message, call.lineno)


def _line(recipe: Recipe, error: Exception) -> int | None:
    """The line of the file at which a template failed; Jinja2 writes the template's lines into the traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
    return recipe.body_line + frames[-1].lineno - 1 if frames and frames[-1].lineno else None
