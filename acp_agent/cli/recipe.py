"""`acp-agent recipe`: list the recipes of this directory, render one, make a new one,
and check files. `acp-agent schema`: the JSON Schema of a file that people write.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from anyio import from_thread, to_thread

from acp_agent.app import (
    RECIPES,
    RESERVED,
    checked_settings,
    recipe_folders,
    recipe_known,
)
from acp_agent.cli.terminal.process import aside, complain
from acp_agent.cli.terminal.prompts import typed
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.cli.trust import code_of
from acp_agent.config import Settings
from acp_agent.config.document import MAX_FILE_BYTES
from acp_agent.config.home import CLAUDE_FOLDER, PROJECT_FOLDER
from acp_agent.config.permission_rules import PermissionRules
from acp_agent.config.project import Project
from acp_agent.config.sandbox import sandbox_of
from acp_agent.config.trust import ProjectCode, TrustStore, project_of
from acp_agent.errors import AgentError, RecipeError
from acp_agent.llm.places import key_variables
from acp_agent.processes import environment_without
from acp_agent.recipes.arguments import named_values
from acp_agent.recipes.discovery import (
    MAX_DEPTH,
    SUFFIX,
    RecipeFolder,
    RecipeLibrary,
    builtin_recipes_dir,
    is_recipe_name,
    read_recipe,
)
from acp_agent.recipes.model import FENCE, Known, Recipe
from acp_agent.recipes.parser import split
from acp_agent.recipes.template import render
from acp_agent.regular import read_regular
from acp_agent.sandbox.sandbox import Sandbox
from acp_agent.schemas import SCHEMA_NAMES, schema_path
from acp_agent.session.permissions import judge
from acp_agent.session.recipes.questions import access_of
from acp_agent.session.recipes.run import command_lines, surroundings
from acp_agent.session.trust import advice
from acp_agent.visible import on_one_line, visible

_NO_SESSION = "sess_show"
"""Replaces the session's ID in the output of `show`."""
_TEMPLATE = """\
---
description: What it does, in one line for the editor's list
# arguments:
#   depth: {description: how deep to go, default: normal}
# allowed_tools: [read, list, glob, grep]
---
Say what the model should do, as you would tell a colleague who is new to it.

{{ instructions }}
"""
"""What `new` writes for a name that no built-in recipe has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser(
        "list",
        help="list the recipes that this directory can use, and report invalid ones",
    )
    show = actions.add_parser(
        "show",
        help="show a recipe's front matter and the prompt that it sends to the model",
    )
    show.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="arguments",
        metavar="NAME=VALUE",
        help="argument of the recipe; each can be given once",
    )
    show.add_argument(
        "name", metavar="NAME", help="name, such as github/pr for a recipe in a folder"
    )
    show.add_argument(
        "text",
        nargs="*",
        metavar="INSTRUCTIONS",
        help="text that would follow the recipe's name",
    )
    new = actions.add_parser(
        "new",
        help="create a recipe to edit; with the name of a built-in recipe, a copy of it",
    )
    new.add_argument(
        "name",
        metavar="NAME",
        help="name, such as github/pr for a recipe in a folder; the file is NAME.md",
    )
    where = new.add_mutually_exclusive_group()
    where.add_argument(
        "--user",
        action="store_true",
        help="create it for yourself, in every project (the default)",
    )
    where.add_argument(
        "--project",
        action="store_true",
        help="create it for everybody who works on this project",
    )
    check = actions.add_parser(
        "check", help="report errors in recipes with file and line"
    )
    check.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files or folders (default: all recipes that this directory can use)",
    )


async def run(arguments: argparse.Namespace) -> int:
    """List, show, make or check recipes.

    :returns: 0, or 1 if a file cannot be used.
    :raises AgentError: if there is no such recipe, if it cannot be rendered, or if the
        new file already exists.
    """
    settings = checked_settings(os.environ, Path.cwd())
    work = {"list": _list, "show": _show, "new": _new, "check": _check}[
        arguments.action
    ]
    # A template may run commands, which must not block the event loop.
    return await to_thread.run_sync(work, arguments, settings, recipe_known(settings))


def _library(settings: Settings, known: Known) -> RecipeLibrary:
    """Read the recipes that a session in this directory would have."""
    store = TrustStore(settings.home)
    allowed = [code for code in code_of(settings, Path.cwd()) if store.trusts(code)]
    folders = recipe_folders(os.environ, settings, Path.cwd())
    return RecipeLibrary.read(
        folders,
        known,
        RESERVED,
        lambda path: next(
            (digest for code in allowed if (digest := code.file_digest(path))), None
        ),
    )


def _advice(recipes: Iterable[Recipe]) -> str:
    projects = (
        str(project_of(recipe.source) or recipe.source.parent) for recipe in recipes
    )
    return advice(tuple(dict.fromkeys(projects)))


def _list(_: argparse.Namespace, settings: Settings, known: Known) -> int:
    library = _library(settings, known)
    safe = safe_for()
    untrusted = library.untrusted.values()
    # If an untrusted recipe of the project would replace another one, that one comes
    # first, since it is used.
    for recipe in sorted(
        [*library.recipes.values(), *untrusted], key=lambda recipe: recipe.name
    ):
        version = f" ({recipe.version})" if recipe.version else ""
        description = "(not trusted)" if recipe in untrusted else recipe.description
        print(
            safe(
                f"{recipe.origin:<8} {recipe.name}{version}  {description}\n         {on_one_line(recipe.source)}"
            )
        )
    if untrusted:
        print(_advice(untrusted))
    return _told(library.errors, library.notices)


def _told(errors: Sequence[RecipeError], notices: Sequence[str] = ()) -> int:
    """Print errors and notices, and return the exit status."""
    safe = safe_for()
    for line in (*errors, *notices):
        complain(safe(str(line)))
    return 1 if errors else 0


def _show(arguments: argparse.Namespace, settings: Settings, known: Known) -> int:
    library = _library(settings, known)
    safe = safe_for()
    name = arguments.name.replace(":", "/")
    recipe = library.known.get(name)
    untrusted = library.untrusted.get(name)
    if recipe is None:
        _told(
            [error for error in library.errors if Path(error.source or "").stem == name]
        )
        raise AgentError(
            f"There is no recipe {arguments.name!r}. The recipes are: {', '.join(library.known)}."
        )
    if untrusted is not None:
        complain(
            f"{untrusted.source} is not trusted, and does not run. {_advice([untrusted])}"
        )
    text = read_regular(recipe.source, MAX_FILE_BYTES).decode("utf-8-sig")
    if recipe is untrusted:
        print(safe(f"{on_one_line(recipe.source)} (project, not trusted)\n{text}"))
        return 0
    front_matter, _, _ = split(text)
    shown = f"{FENCE}\n{front_matter}\n{FENCE}\n" if front_matter else ""
    print(safe(f"{on_one_line(recipe.source)} ({recipe.origin})\n{shown}"), flush=True)
    keys = key_variables(settings)
    notices: list[str] = []
    sandbox = sandbox_of(
        settings.sandbox, (Path.cwd().resolve(),), settings.home, keys, notices
    )
    may_run = _may_run(recipe, settings, sandbox)
    env = environment_without(keys)
    around = surroundings(
        _NO_SESSION, str(Path.cwd()), recipe, env, sandbox, unsandboxed=may_run
    )
    values = named_values(recipe, arguments.arguments)
    try:
        print(safe(render(recipe, values, " ".join(arguments.text), around)))
    finally:
        for notice in notices:
            complain(safe(notice))
    return 0


def _may_run(recipe: Recipe, settings: Settings, sandbox: Sandbox) -> bool:
    """Return whether the commands of a recipe's text may run without a sandbox, as in a
    session of this directory.

    :raises RecipeError: if they would run without one and the user does not allow it.
    """
    lines = command_lines(recipe)
    usable, fault = sandbox.usable() if lines else (sandbox, "")
    if usable is not None:
        return False
    access = access_of(recipe, settings.mode, fault)
    if (
        judge(settings.mode, access, PermissionRules(settings.home).of(Path.cwd()))
        == "allow"
    ):
        return True
    safe = safe_for()
    here = on_one_line(Path.cwd())
    aside(
        safe(
            f"Without a sandbox, the text of /{recipe.command} runs commands in {here}. {fault}".rstrip()
        )
    )
    for line in lines:
        aside(safe(f"  {visible(line)}"))
    if (from_thread.run(typed, "Run them? [y]es, [n]o: ") or "").lower() not in (
        "y",
        "yes",
    ):
        why = "its commands did not run: there is no sandbox for them, and you did not allow them"
        raise RecipeError(why, source=str(recipe.source))
    return True


def _new(arguments: argparse.Namespace, settings: Settings, known: Known) -> int:
    name: str = arguments.name.replace(":", "/")
    if not is_recipe_name(name):
        raise AgentError(
            f"{name!r} is not a valid recipe name. Use lower-case letters, digits, - and _, with / after the "
            f"name of a folder; at most {MAX_DEPTH} folders."
        )
    if name in RESERVED:
        raise AgentError(f"/{name} is a built-in command. Choose another name.")
    folder = RecipeFolder("user", settings.home / RECIPES)
    cwd = Path.cwd()
    if arguments.project:
        project = Project(cwd, settings.home, settings.root)
        folder = RecipeFolder(
            "project", (project.folder() or project.root / PROJECT_FOLDER) / RECIPES
        )
    path = folder.path / f"{name}{SUFFIX}"
    builtin = builtin_recipes_dir() / f"{name}{SUFFIX}"
    if folder.within is not None and not path.parent.resolve().is_relative_to(
        folder.within.resolve()
    ):
        raise AgentError(
            f"{path.parent} leads out of {folder.within}. Nothing was written."
        )
    before = code_of(settings, cwd) if arguments.project else ()
    try:
        path.parent.mkdir(
            parents=True, exist_ok=True, mode=0o755 if arguments.project else 0o700
        )
        with path.open("x", encoding="utf-8") as file:
            file.write(
                builtin.read_text(encoding="utf-8") if builtin.is_file() else _TEMPLATE
            )
    except FileExistsError as error:
        raise AgentError(f"{path} exists already, and was not changed.") from error
    print(on_one_line(path))
    if builtin.is_file():
        aside(f"It starts as a copy of the built-in {name}, which it replaces.")
    if arguments.project:
        aside(safe_for()(_trust_after(settings, before, path)))
    return 0


def _trust_after(settings: Settings, before: Sequence[ProjectCode], path: Path) -> str:
    """Keep a project trusted if a new recipe is all that has changed in it, and return
    what the user should know.

    :param before: the project's code before the recipe was written.
    :param path: the recipe.
    """
    store = TrustStore(settings.home)
    for code in code_of(settings, Path.cwd()):
        if code.file_digest(path) is None:
            continue
        others = tuple(file for file in code.files if code.place / file.name != path)
        earlier = replace(code, files=others)
        if any(store.trusts(each) and each.digest == earlier.digest for each in before):
            store.trust([code])
            return "The project stays trusted. Once you edit the recipe, you are asked to trust it again."
    return f"The recipe does not run until you trust the project. {advice([str(project_of(path) or path.parent)])}"


def _check(arguments: argparse.Namespace, settings: Settings, known: Known) -> int:
    folders: list[RecipeFolder] = (
        [] if arguments.paths else [*recipe_folders(os.environ, settings, Path.cwd())]
    )
    errors = list[RecipeError]()
    notices = list[str]()
    for path in map(Path.absolute, map(Path, arguments.paths)):
        form = "claude" if CLAUDE_FOLDER in path.parts else "recipe"
        if path.is_dir():
            folders.append(RecipeFolder("user", path, form))
        elif path.exists() and path.suffix == SUFFIX:
            try:
                folder = RecipeFolder("user", path.parent, form)
                notices.append(
                    read_recipe(folder, path.stem, path, known, RESERVED).notice
                )
            except RecipeError as error:
                errors.append(error)
        else:
            raise AgentError(
                f"There is no folder or recipe {path}. The names of recipe files end in {SUFFIX}."
            )
    # One by one, since a recipe replaces one with the same name in an earlier folder.
    for folder in folders:
        library = RecipeLibrary.read([folder], known, RESERVED)
        errors += library.errors
        notices += library.notices
    status = _told(errors, [*filter(None, notices)])
    print(f"{len(errors)} wrong.")
    return status


def add_schema_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `schema`."""
    parser.add_argument(
        "name",
        choices=SCHEMA_NAMES,
        help="which schema: the user's config.yaml, a project's config.yaml, a recipe's front matter, or "
        "a hook rule",
    )


async def run_schema(arguments: argparse.Namespace) -> int:
    """Print a schema."""
    print(schema_path(arguments.name).read_text(encoding="utf-8"), end="")
    return 0
