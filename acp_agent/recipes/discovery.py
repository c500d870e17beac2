"""Discovery of recipes: their folders and files, precedence between files, and errors
in files.

Everything here reads from disk, so call it in a worker thread. A cloned repository is
untrusted, so the depth and number of folders are limited, and a project's symbolic
links may not lead out of the project.
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
"""Maximum depth of nested folders."""
MAX_FILES = 500
"""Maximum number of files in one folder, including its subfolders."""
MAX_NOTICES = 10
"""Maximum number of skipped files and folders to report for one folder. An untrusted
folder may contain very many.
"""
UNTRUSTED = "Came with this project, and runs once you have trusted it"
"""Description of a recipe whose file is not read until the user has trusted it."""
PACKAGE = Path(__file__).parents[1]

Form: TypeAlias = Literal["recipe", "claude"]

_WORD = r"[a-z0-9][a-z0-9_-]*"
_NAME = re.compile(rf"{_WORD}(?:/{_WORD}){{0,{MAX_DEPTH}}}")
_log = logging.getLogger(__name__)


@frozen
class RecipeFolder:
    """A folder with recipes, which may be missing.

    :ivar form: whether its files are recipes, or commands for Claude Code.
    """

    origin: Origin
    path: Path
    form: Form = "recipe"

    @property
    def within(self) -> Path | None:
        """Return the folder that must contain its files: the project, for
        `<project>/.acp-agent/recipes`.
        """
        return self.path.parents[1] if self.origin == "project" else None


@frozen
class RecipeLibrary:
    """The recipes of a session.

    :ivar recipes: the recipes by name, in alphabetical order.
    :ivar errors: one for each file or folder that could not be used.
    :ivar untrusted: recipes of a project that the user has not trusted, by name. They
        do not replace any of `recipes`, and their text is not read.
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
        """Read the files of these folders. Recipes in later folders replace those of
        the same name in earlier ones.

        A file that cannot be used is reported, and the recipe that it would have
        replaced stays in use.

        :param reserved: names of commands that no recipe may have.
        :param trusted: returns the hexadecimal SHA-256 of the trusted text of a
            project's file, or None if the file may not be read. If this is None, all
            files are trusted.
        """
        recipes: dict[str, Recipe] = {}
        untrusted: dict[str, Recipe] = {}
        errors: list[RecipeError] = []
        for folder in folders:
            files, unread = listing(folder)
            errors += [RecipeError(why, source=str(path)) for path, why in unread]
            for name, path in files.items():
                trusted_text = (
                    trusted(path)
                    if trusted is not None and folder.origin == "project"
                    else ""
                )
                try:
                    recipe = read_recipe(
                        folder, name, path, known, reserved, trusted_text
                    )
                except RecipeError as error:
                    if folder.form == "claude" and isinstance(
                        error.__cause__, DocumentError
                    ):
                        # A file that is only unusable here is not faulty.
                        _log.info("left out: %s", error)
                    else:
                        errors.append(error)
                else:
                    (recipes if recipe.digest else untrusted)[recipe.name] = recipe
        return cls(
            dict(sorted(recipes.items())),
            tuple(errors),
            dict(sorted(untrusted.items())),
        )

    def get(self, name: str) -> Recipe | None:
        """Return the recipe of this name, if there is one: `github/pr`, or `github:pr`
        as in editors.
        """
        return self.recipes.get(name.replace(":", "/"))

    @property
    def notices(self) -> tuple[str, ...]:
        """Return notices for the user about recipes that can be used."""
        return tuple(recipe.notice for recipe in self.recipes.values() if recipe.notice)

    @property
    def known(self) -> Mapping[str, Recipe]:
        """Return all recipes by name, including untrusted ones."""
        return dict(sorted({**self.untrusted, **self.recipes}.items()))


def builtin_recipes_dir() -> Path:
    """Return the folder of the built-in recipes: inside the installed package, or at
    the root of a checkout.
    """
    installed = PACKAGE / "builtin_recipes"
    return installed if installed.is_dir() else PACKAGE.parent / "recipes"


def is_recipe_name(name: str) -> bool:
    """Return whether a recipe could have this name, such as `github/pr`."""
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

    :param folder: the recipe folder that contains it.
    :param name: its name in the folder: `github/pr` for `github/pr.md`.
    :param reserved: names of commands that no recipe may have.
    :param trusted: hexadecimal SHA-256 of the only text that may be used; empty for any
        text, None for none.
    :returns: the recipe; without text and digest if the text may not be used.
    :raises RecipeError: if the file cannot be used, with the file and, if known, the
        line.
    """
    try:
        name = _name(folder, name, known, reserved)
        text = None if trusted is None else read_text(path, within=folder.within)
        if trusted is None or (
            trusted and text is not None and digest(text) != trusted
        ):
            return Recipe(name, UNTRUSTED, "", 1, path, folder.origin, "")
        if text is None:
            raise DocumentError("is a link to a file that does not exist")
        parse = parse_command if folder.form == "claude" else parse_recipe
        recipe = parse(text, name=name, source=path, origin=folder.origin, known=known)
        # Skipping built-in recipes spares most sessions from importing Jinja2.
        if folder.origin != "builtin":
            check(recipe)
        return recipe
    except RecipeError:
        raise
    except DocumentError as error:
        message = f"{error.key}: {error.message}" if error.key else error.message
        raise RecipeError(message, source=str(path), line=error.line) from error
    except Exception as error:  # one bad file must not affect the others
        _log.exception("the recipe %s could not be read", path)
        raise RecipeError(
            f"cannot be read ({type(error).__name__}: {error})", source=str(path)
        ) from error


def _name(
    folder: RecipeFolder, name: str, known: Known, reserved: Collection[str]
) -> str:
    """Return the name of the recipe in a file.

    :raises DocumentError: if no recipe can have this name.
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


def listing(
    folder: RecipeFolder,
) -> tuple[Mapping[str, Path], tuple[tuple[Path, str], ...]]:
    """List the Markdown files of a folder and its subfolders, without hidden files and
    READMEs.

    :returns: paths by name (`github/pr` for `github/pr.md`) in alphabetical order, and
        skipped paths with the reason.
    """
    files: dict[str, Path] = {}
    unread: list[tuple[Path, str]] = []

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            unread.append(
                (Path(error.filename), f"cannot read this folder ({error.strerror})")
            )

    for at, inner, names in os.walk(folder.path, onerror=failed):
        path = Path(at)
        if len(path.relative_to(folder.path).parts) > MAX_DEPTH:
            unread.append(
                (
                    path,
                    f"is more than {MAX_DEPTH} folders deep, where no recipe is looked for; move it up",
                )
            )
            inner.clear()
            continue
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        links = (path / name for name in inner if (path / name).is_symlink())
        unread += [
            (link, "is a link to a folder, which is not followed; put a copy here")
            for link in links
        ]
        for name in names:
            if (
                name.endswith(SUFFIX)
                and not name.startswith(".")
                and name.lower() != "readme.md"
            ):
                files[
                    (path / name)
                    .relative_to(folder.path)
                    .as_posix()
                    .removesuffix(SUFFIX)
                ] = path / name
        if len(files) > MAX_FILES:
            unread.insert(
                0,
                (
                    folder.path,
                    f"has more than {MAX_FILES} files, and the others are left out",
                ),
            )
            break
    return dict(sorted(files.items())[:MAX_FILES]), tuple(unread[:MAX_NOTICES])


def signature(folders: Iterable[RecipeFolder]) -> Hashable:
    """Return a value that changes when a file is added, changed or removed."""
    found = ((folder, *listing(folder)) for folder in folders)
    return tuple(
        (folder, unread, *((path, file_signature(path)) for path in files.values()))
        for folder, files, unread in found
    )
