"""`acp-agent recipe`: the recipes of this directory, what one would send, a new one, and what is wrong with any."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from acp_agent.app import CLAUDE_COMMANDS, RECIPES, RESERVED, recipe_folders, recipe_known
from acp_agent.commands.trust import brought_by
from acp_agent.config import Settings, load_settings
from acp_agent.config.brought import project_of
from acp_agent.config.home import CLAUDE_FOLDER, PROJECT_FOLDER, project_dir
from acp_agent.config.trust import TrustStore
from acp_agent.conversation.messages import JsonObject
from acp_agent.errors import AgentError, RecipeError
from acp_agent.llm.registry import BUILT_IN_PROVIDERS
from acp_agent.recipes.arguments import named_values
from acp_agent.recipes.discovery import (
    MAX_DEPTH,
    SUFFIX,
    Form,
    Listing,
    NotOursError,
    RecipeFolder,
    RecipeLibrary,
    builtin_recipes_dir,
    is_recipe_name,
    listing,
    read_recipe,
    unlisted,
)
from acp_agent.recipes.model import FENCE
from acp_agent.recipes.parser import split
from acp_agent.recipes.template import render
from acp_agent.schemas import modeline, put_copy
from acp_agent.session.surroundings import CommandRunner, surroundings
from acp_agent.session.trusting import advice
from acp_agent.tools.text import clean, without_escapes

if TYPE_CHECKING:
    from acp_agent.recipes.model import Known, Recipe

_C1 = re.compile("[\x7f-\x9f]")
"""Control characters that some terminals obey and models take."""
SCHEMAS = "schemas"
"""The folder beside the recipes into which `new` puts the schema that its files name."""
NO_SESSION = "sess_show"
"""Stands for the session's id in what `show` prints."""
TEMPLATE = """\
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
    allowed = [brought for brought in brought_by(settings, Path.cwd()) if store.trusts(brought)]

    def trusted(path: Path) -> str | None:
        return next((text for brought in allowed if (text := brought.text_of(path))), None)

    return RecipeLibrary.read(folders, known, RESERVED, None if untrusted else trusted)


def _advice(recipes: Iterable[Recipe]) -> str:
    projects = (str(project_of(recipe.source) or recipe.source.parent) for recipe in recipes)
    return advice(tuple(dict.fromkeys(projects)))


# --- list ---


def _list(arguments: argparse.Namespace) -> int:
    library = _library()
    untrusted = library.untrusted.values()
    # Where a project's would take the place of another, that one comes first, since it is the one that runs.
    recipes = sorted([*library.recipes.values(), *untrusted], key=lambda recipe: recipe.name)
    if arguments.json:
        errors = [{"file": error.source, "line": error.line, "error": str(error)} for error in library.errors]
        entries = [_facts(recipe, trusted=recipe not in untrusted) for recipe in recipes]
        report = json.dumps({"recipes": entries, "errors": errors}, ensure_ascii=False, indent=2)
        print(_C1.sub(lambda sign: f"\\u{ord(sign[0]):04x}", report))
    else:
        for recipe in recipes:
            version = f" ({recipe.version})" if recipe.version else ""
            description = "(not trusted)" if recipe in untrusted else recipe.description
            print(_harmless(f"{recipe.origin:<8} {recipe.name}{version}  {description}\n         {recipe.source}"))
        if untrusted:
            print(_advice(untrusted))
    return _told(library.errors, library.notices)


def _facts(recipe: Recipe, *, trusted: bool) -> JsonObject:
    return {
        "name": recipe.name,
        "command": f"/{recipe.command}",
        "origin": recipe.origin,
        "description": recipe.description,
        "version": recipe.version,
        "file": str(recipe.source),
        "digest": recipe.digest,
        "trusted": trusted,
    }


def _told(errors: Sequence[RecipeError], notices: Sequence[str] = ()) -> int:
    for line in (*errors, *notices):
        print(_harmless(f"acp-agent: {line}"), file=sys.stderr)
    return 1 if errors else 0


# --- show ---


def _show(arguments: argparse.Namespace) -> int:
    library = _library()
    recipe, untrusted = library.get(arguments.name), library.untrusted.get(arguments.name.replace(":", "/"))
    runner = None
    if recipe is None and untrusted is not None:  # no session reads it, but here the user asks for it
        library, runner = _library(untrusted=True), _NoRunner(str(Path.cwd()))
        recipe = library.get(arguments.name)
    if recipe is None:
        _told([error for error in library.errors if Path(error.source or "").stem == arguments.name])
        raise AgentError(f"There is no recipe {arguments.name!r}. The recipes are: {', '.join(library.known)}.")
    if untrusted is not None:
        which = "This recipe is not trusted" if runner else f"{untrusted.source} is not trusted, so that this one runs"
        print(f"acp-agent: {which}. {_advice([untrusted])}", file=sys.stderr)
    front_matter = split(recipe.source.read_text(encoding="utf-8-sig")).front_matter
    shown = f"{FENCE}\n{front_matter}\n{FENCE}\n\n" if front_matter else "\n"
    print(_harmless(f"{recipe.source} ({recipe.origin}{', not trusted' if runner else ''}, {recipe.digest[:12]})"))
    print(_harmless(shown), end="", flush=True)
    around = surroundings(NO_SESSION, str(Path.cwd()), recipe, runner)
    print(_harmless(render(recipe, named_values(recipe, arguments.arguments), " ".join(arguments.text), around)))
    return 0


class _NoRunner(CommandRunner):
    """Says what would be run, and runs nothing."""

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        """See `CommandRunner.run`."""
        return 0, f"[what `{shlex.join(argv)}` prints, which runs once it is trusted]", ""


def _harmless(text: str) -> str:
    """A text, which may be a stranger's also where it is trusted, without what a terminal would obey."""
    return _C1.sub("\ufffd", clean(without_escapes(text)))


# --- new ---


def _new(arguments: argparse.Namespace) -> int:
    name: str = arguments.name.replace(":", "/")
    if name.count("/") > MAX_DEPTH:
        raise AgentError(f"{name!r} is in more folders than the {MAX_DEPTH} that recipes are looked for in.")
    if not is_recipe_name(name):
        raise AgentError(
            f"{name!r} is no recipe's name: it has lower-case letters, digits, - and _ alone, with / behind a folder's."
        )
    if name in RESERVED:
        raise AgentError(f"/{name} is a command of the agent's own; take another name.")
    settings, known = _settings()
    folder = _project_folder() if arguments.project else RecipeFolder("user", settings.home / RECIPES)
    path = folder.path / f"{name}{SUFFIX}"
    builtin = builtin_recipes_dir() / f"{name}{SUFFIX}"
    text = builtin.read_text(encoding="utf-8") if builtin.is_file() else TEMPLATE
    schemas = folder.path.with_name(SCHEMAS)
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
        print(f"It begins as the built-in {name}, which it replaces.", file=sys.stderr)
    return 0


def _project_folder() -> RecipeFolder:
    cwd = Path.cwd()
    root = next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)
    return RecipeFolder("project", (project_dir(cwd) or root / PROJECT_FOLDER) / RECIPES)


# --- check ---


def _check(arguments: argparse.Namespace) -> int:
    settings, known = _settings()
    folders = recipe_folders(os.environ, settings, Path.cwd())
    found: dict[Path, RecipeError | str] = {}
    for named in arguments.paths:
        path = Path(os.path.abspath(named))  # noqa: PTH100 - a link is told of by its own name
        if not path.exists():
            raise AgentError(f"There is no file {shlex.quote(str(path))}.")
        for folder in _folders_of(path, folders):
            found |= _checked(folder, path if path.is_relative_to(folder.path) else folder.path, known)
    for folder in () if arguments.paths else folders:
        found |= _checked(folder, folder.path, known)
    errors = [error for error in found.values() if isinstance(error, RecipeError)]
    status = _told(errors, [notice for notice in found.values() if notice and isinstance(notice, str)])
    print(f"{len(found)} checked, {len(errors)} wrong.")
    return status


def _checked(folder: RecipeFolder, path: Path, known: Known) -> dict[Path, RecipeError | str]:
    """Check a file of a folder, or all files below one of its folders.

    :returns: by file, its mistake; where it has none its notice, which may be empty.
    """
    if path == folder.path or path.is_dir():
        within = listing(folder, path)
    elif why := unlisted(folder, path):
        within = Listing({}, ((path, why),))
    else:
        within = Listing({str(path.relative_to(folder.path).with_suffix("")): path})
    found: dict[Path, RecipeError | str] = {at: RecipeError(why, source=str(at)) for at, why in within.unread}
    for name, file in within.files.items():
        try:
            found[file] = read_recipe(folder, name, file, known, RESERVED).notice
        except RecipeError as error:
            found[file] = "" if isinstance(error, NotOursError) and file != path else error
    return found


def _folders_of(path: Path, folders: Iterable[RecipeFolder]) -> list[RecipeFolder]:
    """Return the folders of recipes below a path, such as a project's; where there are none, the one that it is in."""
    parts: tuple[tuple[str, str, Form], ...] = (
        (CLAUDE_FOLDER, CLAUDE_COMMANDS, "claude"),
        (PROJECT_FOLDER, RECIPES, "recipe"),
    )
    places = [
        RecipeFolder("project", (path if path.name == name else path / name) / part, form) for name, part, form in parts
    ]
    known = {place.path: place for place in (*places, *folders)}
    below = [place for at, place in known.items() if at.is_dir() and at != path and at.is_relative_to(path)]
    above = [place for at, place in known.items() if path.is_relative_to(at)]
    return below or above[-1:] or [RecipeFolder("user", path if path.is_dir() else path.parent)]
