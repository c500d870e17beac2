"""Discovery of recipes: their folders, the files in them, which file takes precedence, and errors in the others.

Everything here reads from disk; call it in a worker thread. A cloned repository is untrusted, so depth and number of
folders are limited, and a project's links may not lead out of it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from acp_agent.config.document import DocumentError, read_text
from acp_agent.config.state_file import file_signature
from acp_agent.errors import RecipeError
from acp_agent.frozen import frozen
from acp_agent.recipes.claude_commands import command_name, parse_command
from acp_agent.recipes.model import Known, Origin, Recipe
from acp_agent.recipes.parser import digest, parse_recipe
from acp_agent.recipes.template import check

SUFFIX = ".md"
MAX_DEPTH = 4
"""Folders in folders."""
MAX_FILES = 500
"""In one folder with all that are in it."""
MAX_NOTICES = 10
"""Files and folders of one folder that are reported as left out; an untrusted folder may hold very many."""
UNTRUSTED = "Came with this project, and runs once you have trusted it"
"""Description of a recipe whose file is not read before the user has trusted it."""
PACKAGE = Path(__file__).parents[1]

Form: TypeAlias = Literal["recipe", "claude"]

_WORD = r"[a-z0-9][a-z0-9_-]*"
_NAME = re.compile(rf"{_WORD}(?:/{_WORD}){{0,{MAX_DEPTH}}}")
_log = logging.getLogger(__name__)


@frozen
class RecipeFolder:
    """A folder with recipes; need not exist.

    :ivar form: whether its files are recipes, or commands as Claude Code reads them.
    """

    origin: Origin
    path: Path
    form: Form = "recipe"

    @property
    def within(self) -> Path | None:
        """Return the folder that must contain its files: the project, for `<project>/.acp-agent/recipes`."""
        return self.path.parents[1] if self.origin == "project" else None


@frozen
class RecipeLibrary:
    """The recipes of a session.

    :ivar recipes: by name, in alphabetical order.
    :ivar errors: one for each file or folder that could not be used.
    :ivar untrusted: those of a project that the user has not trusted, by name. They replace none of `recipes`, and
        nothing of their text is known.
    """

    recipes: Mapping[str, Recipe]
    errors: tuple[RecipeError, ...] = ()
    untrusted: Mapping[str, Recipe] = field(default_factory=dict[str, Recipe])

    @classmethod
    def read(
        cls,
        folders: Iterable[RecipeFolder],
        known: Known,
        reserved: Collection[str] = (),
        trusted: Callable[[Path], str | None] | None = None,
    ) -> RecipeLibrary:
        """Read the files of these folders; a later one replaces what an earlier one has of the same name.

        A file that cannot be used is reported, and leaves the recipe that it was to replace in use.

        :param reserved: names of commands that no recipe may take.
        :param trusted: returns the SHA-256, in hex, of the text that may be used of a project's file; None where the
            file may not be read. None in its place trusts all.
        """
        recipes: dict[str, Recipe] = {}
        untrusted: dict[str, Recipe] = {}
        errors: list[RecipeError] = []
        for folder in folders:
            files, unread = listing(folder)
            errors += [RecipeError(why, source=str(path)) for path, why in unread]
            for name, path in files.items():
                trusted_text = trusted(path) if trusted is not None and folder.origin == "project" else ""
                try:
                    recipe = read_recipe(folder, name, path, known, reserved, trusted_text)
                except RecipeError as error:
                    if folder.form == "claude" and isinstance(error.__cause__, DocumentError):
                        _log.info("left out: %s", error)  # what cannot be used here is no mistake in it
                    else:
                        errors.append(error)
                else:
                    (recipes if recipe.digest else untrusted)[recipe.name] = recipe
        return cls(dict(sorted(recipes.items())), tuple(errors), dict(sorted(untrusted.items())))

    def get(self, name: str) -> Recipe | None:
        """Return the recipe of this name, if there is one: `github/pr`, or `github:pr` as editors are told it."""
        return self.recipes.get(name.replace(":", "/"))

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what the user should be told of recipes that can be used."""
        return tuple(recipe.notice for recipe in self.recipes.values() if recipe.notice)

    @property
    def known(self) -> Mapping[str, Recipe]:
        """Return all recipes by name, also those that are not trusted yet."""
        return dict(sorted({**self.untrusted, **self.recipes}.items()))


def builtin_recipes_dir() -> Path:
    """Return the folder of the built-in recipes: inside the installed package, or at the root of a checkout."""
    installed = PACKAGE / "builtin_recipes"
    return installed if installed.is_dir() else PACKAGE.parent / "recipes"


def is_recipe_name(name: str) -> bool:
    """Return whether a file could give a recipe this name: `github/pr`."""
    return _NAME.fullmatch(name) is not None


def read_recipe(
    folder: RecipeFolder,
    name: str,
    path: Path,
    known: Known,
    reserved: Collection[str] = (),
    trusted: str | None = "",
) -> Recipe:
    """Read one file.

    :param folder: the folder of recipes that it is in.
    :param name: its name there: `github/pr` for `github/pr.md`.
    :param reserved: names of commands that no recipe may take.
    :param trusted: SHA-256, in hex, of the one text that may be used; empty for any, None for none.
    :returns: without a text and a digest where it may not be used.
    :raises RecipeError: it cannot be used; names the file, and the line where there is one.
    """
    try:
        name = _name(folder, name, known, reserved)
        text = None if trusted is None else read_text(path, within=folder.within)
        if trusted is None or (trusted and text is not None and digest(text) != trusted):
            return Recipe(name, UNTRUSTED, "", 1, path, folder.origin, "")
        if text is None:
            raise DocumentError("is a link to a file that does not exist")
        parse = parse_command if folder.form == "claude" else parse_recipe
        recipe = parse(text, name=name, source=path, origin=folder.origin, known=known)
        if folder.origin != "builtin":  # without them most sessions need no Jinja2
            check(recipe)
        return recipe
    except RecipeError:
        raise
    except DocumentError as error:
        message = f"{error.key}: {error.message}" if error.key else error.message
        raise RecipeError(message, source=str(path), line=error.line) from error
    except Exception as error:  # one file must not take the others with it
        _log.exception("the recipe %s could not be read", path)
        raise RecipeError(f"cannot be read ({type(error).__name__}: {error})", source=str(path)) from error


def _name(folder: RecipeFolder, name: str, known: Known, reserved: Collection[str]) -> str:
    """Return the name of the recipe that a file gives.

    :raises DocumentError: no recipe can have it.
    """
    if folder.form == "claude":
        name = command_name(name)
        if name in (*reserved, *known.compacting) or not is_recipe_name(name):
            raise DocumentError(f"cannot be called /{name} here")
    elif name in reserved:
        raise DocumentError(f"/{name} is a command of the agent's own; rename the file")
    elif not is_recipe_name(name):
        raise DocumentError(
            "a recipe's file and its folders are named with lower-case letters, digits, - and _ alone; rename it"
        )
    return name


def listing(folder: RecipeFolder) -> tuple[Mapping[str, Path], tuple[tuple[Path, str], ...]]:
    """List the Markdown files of a folder and of those in it, without hidden ones and READMEs.

    :returns: paths by name, `github/pr` for `github/pr.md`, in alphabetical order; and what is left out, and why.
    """
    files: dict[str, Path] = {}
    unread: list[tuple[Path, str]] = []

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            unread.append((Path(error.filename), f"cannot read this folder ({error.strerror})"))

    for at, inner, names in os.walk(folder.path, onerror=failed):
        path = Path(at)
        if len(path.relative_to(folder.path).parts) > MAX_DEPTH:
            unread.append((path, f"is more than {MAX_DEPTH} folders deep, where no recipe is looked for; move it up"))
            inner.clear()
            continue
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        links = (path / name for name in inner if (path / name).is_symlink())
        unread += [(link, "is a link to a folder, which is not followed; put a copy here") for link in links]
        for name in names:
            if name.endswith(SUFFIX) and not name.startswith(".") and name.lower() != "readme.md":
                files[(path / name).relative_to(folder.path).as_posix().removesuffix(SUFFIX)] = path / name
        if len(files) > MAX_FILES:
            unread.insert(0, (folder.path, f"has more than {MAX_FILES} files, and the others are left out"))
            break
    return dict(sorted(files.items())[:MAX_FILES]), tuple(unread[:MAX_NOTICES])


def signature(folders: Iterable[RecipeFolder]) -> Hashable:
    """Return a value that differs when a file was added, changed or removed."""
    found = ((folder, *listing(folder)) for folder in folders)
    return tuple(
        (folder, unread, *((path, file_signature(path)) for path in files.values())) for folder, files, unread in found
    )
