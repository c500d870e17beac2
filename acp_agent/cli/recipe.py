"""`acp-agent recipe`: list the recipes of this directory, render one, make a new one, and check files."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from acp_agent.app import RECIPES, RESERVED, recipe_folders, recipe_known
from acp_agent.cli.terminal.process import aside
from acp_agent.cli.terminal.safe import safe_for
from acp_agent.cli.trust import code_of
from acp_agent.config import Settings, load_settings
from acp_agent.config.home import PROJECT_FOLDER, project_dir
from acp_agent.config.trust import TrustStore, project_of
from acp_agent.errors import AgentError, RecipeError
from acp_agent.llm.registry import BUILT_IN_PROVIDERS
from acp_agent.recipes.arguments import named_values
from acp_agent.recipes.discovery import (
    MAX_DEPTH,
    SUFFIX,
    NotOursError,
    RecipeFolder,
    RecipeLibrary,
    builtin_recipes_dir,
    is_recipe_name,
    listing,
    read_recipe,
)
from acp_agent.recipes.model import FENCE
from acp_agent.recipes.parser import split
from acp_agent.recipes.template import render
from acp_agent.schemas import modeline, put_copy
from acp_agent.session.project.surroundings import CommandRunner, surroundings
from acp_agent.session.project.trust import advice

if TYPE_CHECKING:
    from acp_agent.recipes.model import Known, Recipe

_SCHEMAS = "schemas"
"""The folder next to the recipes into which `new` puts the schema that its files name."""
_NO_SESSION = "sess_show"
"""Stands for the session's id in what `show` prints."""
_TEMPLATE = """\
---
description: What it does, in one line for the editor's list
# arguments:
#   depth: {description: how deep to go, default: normal}
# allowed_tools: [read, list, glob, grep]
---
Say here what the model is to do, as you would tell a colleague who knows nothing of it yet.

{{ instructions }}
"""
"""What `new` writes for a name that no built-in recipe has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="the recipes of this directory, and what is wrong with others")
    listing.add_argument("--json", action="store_true", help="print it as JSON")
    show = actions.add_parser("show", help="a recipe's front matter, and what would be sent to the model")
    show.add_argument("name", metavar="NAME", help="as github/pr for one in a folder")
    show.add_argument("text", nargs="*", metavar="INSTRUCTIONS", help="what would be typed behind its name")
    show.add_argument(
        "--arg",
        action="append",
        default=[],
        dest="arguments",
        metavar="NAME=VALUE",
        help="an argument of the recipe; each may be given once",
    )
    new = actions.add_parser("new", help="write a file to begin with; one of a built-in recipe's name begins as that")
    new.add_argument("name", metavar="NAME", help="as github/pr for one in a folder; the file is NAME.md")
    where = new.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for you, in every project (the default)")
    where.add_argument("--project", action="store_true", help="for everybody who works on this project")
    check = actions.add_parser("check", help="say what is wrong with recipes, by file and line")
    check.add_argument(
        "paths", nargs="*", metavar="PATH", help="files or folders; all recipes of this directory if none"
    )


async def run(arguments: argparse.Namespace) -> int:
    """List, show, make or check recipes.

    :returns: 0; 1 where a file cannot be used.
    :raises AgentError: there is no such recipe, it cannot be rendered, or the new file is there already.
    """
    work = {"list": _list, "show": _show, "new": _new, "check": _check}[arguments.action]
    # A template may run commands, for which no event loop is to wait.
    return await to_thread.run_sync(work, arguments)


def _settings() -> tuple[Settings, Known]:
    from acp_agent.compaction.service import CompactionService

    strategies = CompactionService().choices
    settings = load_settings(os.environ, Path.cwd(), strategies=strategies, providers=BUILT_IN_PROVIDERS)
    return settings, recipe_known(settings, strategies)


def _library(*, untrusted: bool = False) -> RecipeLibrary:
    """Read the recipes as a session here has them.

    :param untrusted: a project's as well that the user has not trusted.
    """
    settings, known = _settings()
    folders = recipe_folders(os.environ, settings, Path.cwd())
    store = TrustStore(settings.home)
    allowed = [code for code in code_of(settings, Path.cwd()) if store.trusts(code)]

    def trusted(path: Path) -> str | None:
        return next((text for code in allowed if (text := code.text_of(path))), None)

    return RecipeLibrary.read(folders, known, RESERVED, None if untrusted else trusted)


def _advice(recipes: Iterable[Recipe]) -> str:
    projects = (str(project_of(recipe.source) or recipe.source.parent) for recipe in recipes)
    return advice(tuple(dict.fromkeys(projects)))


def _list(arguments: argparse.Namespace) -> int:
    library, safe = _library(), safe_for(os.environ)
    untrusted = library.untrusted.values()
    # Where a project's would take the place of another, that one comes first, since it is the one that runs.
    recipes = sorted([*library.recipes.values(), *untrusted], key=lambda recipe: recipe.name)
    if arguments.json:
        errors = [{"file": error.source, "line": error.line, "error": str(error)} for error in library.errors]
        entries = [
            {
                "name": recipe.name,
                "command": f"/{recipe.command}",
                "origin": recipe.origin,
                "description": recipe.description,
                "version": recipe.version,
                "file": str(recipe.source),
                "digest": recipe.digest,
                "trusted": recipe not in untrusted,
            }
            for recipe in recipes
        ]
        print(safe(json.dumps({"recipes": entries, "errors": errors}, indent=2)))
    else:
        for recipe in recipes:
            version = f" ({recipe.version})" if recipe.version else ""
            description = "(not trusted)" if recipe in untrusted else recipe.description
            print(safe(f"{recipe.origin:<8} {recipe.name}{version}  {description}\n         {recipe.source}"))
        if untrusted:
            print(_advice(untrusted))
    return _told(library.errors, library.notices)


def _told(errors: Sequence[RecipeError], notices: Sequence[str] = ()) -> int:
    """Say what is wrong, and return the exit status."""
    safe = safe_for(os.environ)
    for line in (*errors, *notices):
        aside(safe(f"acp-agent: {line}"))
    return 1 if errors else 0


def _show(arguments: argparse.Namespace) -> int:
    library, safe = _library(), safe_for(os.environ)
    recipe, untrusted = library.get(arguments.name), library.untrusted.get(arguments.name.replace(":", "/"))
    runner = None
    if recipe is None and untrusted is not None:  # no session reads it, but here the user asks for it
        recipe, runner = _library(untrusted=True).get(arguments.name), _NoRunner(str(Path.cwd()))
    if recipe is None:
        _told([error for error in library.errors if Path(error.source or "").stem == arguments.name])
        raise AgentError(f"There is no recipe {arguments.name!r}. The recipes are: {', '.join(library.known)}.")
    if untrusted is not None:
        which = "This recipe is not trusted" if runner else f"{untrusted.source} is not trusted, so that this one runs"
        aside(f"acp-agent: {which}. {_advice([untrusted])}")
    front_matter = split(recipe.source.read_text(encoding="utf-8-sig")).front_matter
    shown = f"{FENCE}\n{front_matter}\n{FENCE}\n" if front_matter else ""
    origin = f"{recipe.origin}{', not trusted' if runner else ''}, {recipe.digest[:12]}"
    print(safe(f"{recipe.source} ({origin})\n{shown}"), flush=True)
    around = surroundings(_NO_SESSION, str(Path.cwd()), recipe, runner)
    print(safe(render(recipe, named_values(recipe, arguments.arguments), " ".join(arguments.text), around)))
    return 0


class _NoRunner(CommandRunner):
    """Says what would be run, and runs nothing."""

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """See `CommandRunner.run`."""
        return 0, f"[what `{shlex.join(argv)}` prints, which runs once it is trusted]", ""


def _new(arguments: argparse.Namespace) -> int:
    name: str = arguments.name.replace(":", "/")
    if not is_recipe_name(name) or name.count("/") > MAX_DEPTH:
        raise AgentError(
            f"{name!r} is no recipe's name: it has lower-case letters, digits, - and _ alone, with / behind a "
            f"folder's, of which there are {MAX_DEPTH} at most."
        )
    if name in RESERVED:
        raise AgentError(f"/{name} is a command of the agent's own; take another name.")
    settings, known = _settings()
    folder = _project_folder() if arguments.project else RecipeFolder("user", settings.home / RECIPES)
    path = folder.path / f"{name}{SUFFIX}"
    builtin = builtin_recipes_dir() / f"{name}{SUFFIX}"
    text = builtin.read_text(encoding="utf-8") if builtin.is_file() else _TEMPLATE
    schemas = folder.path.with_name(_SCHEMAS)
    for place in (path.parent, schemas):
        if folder.within is not None and not place.resolve().is_relative_to(folder.within.resolve()):
            raise AgentError(f"{place} leads out of {folder.within}. Nothing was written.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if arguments.project else 0o700)
        schema = modeline(put_copy("recipe", schemas), path)
        with path.open("x", encoding="utf-8") as file:
            file.write(text.replace(f"{FENCE}\n", f"{FENCE}\n{schema}\n", 1))
    except FileExistsError as error:
        raise AgentError(f"{path} is there already, and was not changed.") from error
    except OSError as error:
        raise AgentError(f"{path} cannot be written: {error.strerror or error}.") from error
    read_recipe(folder, name, path, known, RESERVED)
    print(path)
    if builtin.is_file():
        aside(f"It begins as the built-in {name}, which it replaces.")
    return 0


def _project_folder() -> RecipeFolder:
    cwd = Path.cwd()
    root = next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)
    return RecipeFolder("project", (project_dir(cwd) or root / PROJECT_FOLDER) / RECIPES)


def _check(arguments: argparse.Namespace) -> int:
    settings, known = _settings()
    folders = recipe_folders(os.environ, settings, Path.cwd())
    paths = [Path(os.path.abspath(named)) for named in arguments.paths]  # noqa: PTH100 - a link is reported as named
    for path in paths:
        if not path.exists():
            raise AgentError(f"There is no file {shlex.quote(str(path))}.")
    found: dict[Path, RecipeError | str] = {}
    for path in paths or [folder.path for folder in folders]:
        within = [folder for folder in folders if folder.path.is_relative_to(path)]
        within = within or [folder for folder in folders if path.is_relative_to(folder.path)][-1:]
        for folder in within or [RecipeFolder("user", path if path.is_dir() else path.parent)]:
            found |= _checked(folder, path, known)
    errors = [error for error in found.values() if isinstance(error, RecipeError)]
    status = _told(errors, [notice for notice in found.values() if notice and isinstance(notice, str)])
    print(f"{len(found)} checked, {len(errors)} wrong.")
    return status


def _checked(folder: RecipeFolder, path: Path, known: Known) -> dict[Path, RecipeError | str]:
    """Check the files of a folder, or those of a part of it.

    :returns: by file, its mistake; where it has none its notice, which may be empty.
    """
    if path.is_file() and path.suffix != SUFFIX:
        return {path: RecipeError(f"is no recipe by its name, which has to end in {SUFFIX}", source=str(path))}
    part = path if path.is_relative_to(folder.path) else folder.path
    within, found = listing(folder), dict[Path, RecipeError | str]()
    for at, why in within.unread:
        if at.is_relative_to(part) or part.is_relative_to(at):
            found[at] = RecipeError(why, source=str(at))
    for name, file in within.files.items():
        if file.is_relative_to(part):
            try:
                found[file] = read_recipe(folder, name, file, known, RESERVED).notice
            except RecipeError as error:
                found[file] = "" if isinstance(error, NotOursError) and file != path else error
    return found
