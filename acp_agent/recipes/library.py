"""Finding recipes: which folders, which file wins, and what is wrong with the others.

Reading is quick but touches the disk; call it from a worker thread. Knows nothing of what is in a file.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.config.document import DocumentError, read_text
from acp_agent.errors import RecipeError
from acp_agent.recipes.model import Known, KnownHandlers, Origin, Recipe, RequiredHooks
from acp_agent.recipes.template import check

if TYPE_CHECKING:
    from pydantic import BaseModel

SUFFIX = ".md"
PACKAGE = Path(__file__).parents[1]

_log = logging.getLogger(__name__)


def builtin_recipes_dir() -> Path:
    """The recipes that come with the agent: inside the installed package, or beside it in a checkout."""
    installed = PACKAGE / "builtin_recipes"
    return installed if installed.is_dir() else PACKAGE.parent / "recipes"


@dataclass(frozen=True, slots=True)
class RecipeLibrary:
    """The recipes of a session.

    :ivar recipes: by name, in alphabetical order.
    :ivar errors: one for each file or folder that could not be used.
    """

    recipes: Mapping[str, Recipe]
    errors: tuple[RecipeError, ...] = ()

    @classmethod
    def discover(
        cls,
        builtin_dir: Path,
        user_dir: Path | None,
        project_dir: Path | None,
        handlers: KnownHandlers,
        *,
        tools: Collection[str] | None = None,
        required_hooks: RequiredHooks | None = None,
        strategies: Collection[str] | None = None,
        providers: Collection[str] | None = None,
        reserved: Collection[str] = (),
        params: Mapping[str, type[BaseModel]] | None = None,
    ) -> RecipeLibrary:
        """Read the `*.md` files of up to three folders. Of equal names the later folder's recipe is taken.

        A file that cannot be used is reported and counts as absent, so a broken file leaves the recipe that it was to
        replace in use. A `README.md` is no recipe.

        :param builtin_dir: the agent's own folder.
        :param user_dir: the user's folder; need not exist.
        :param project_dir: `<project>/.acp-agent/recipes`; need not exist. Its files may be a stranger's: a link that
            leads out of the project is refused.
        :param handlers: what recipes may hook into.
        :param tools: names of the tools that recipes may allow; None does not check them.
        :param required_hooks: hooks that a recipe of a certain name must have.
        :param strategies: names of the compaction strategies; None does not check them.
        :param providers: names of the models' providers, those of the configuration included; None likewise.
        :param reserved: names of commands that no recipe may take.
        :param params: what the parameters of each handler have to be like; None does not check them.
        """
        known = Known(handlers, tools, required_hooks or {}, strategies, providers, params)
        recipes: dict[str, Recipe] = {}
        errors: list[RecipeError] = []
        folders: tuple[tuple[Origin, Path | None], ...] = (
            ("builtin", builtin_dir),
            ("user", user_dir),
            ("project", project_dir),
        )
        for origin, folder in folders:
            if folder is None:
                continue
            try:
                paths = _files(folder)
            except OSError as error:
                errors.append(RecipeError(f"cannot read this folder ({error.strerror})", source=str(folder)))
                continue
            for path in paths:
                try:
                    if path.stem in reserved:
                        raise DocumentError(f"/{path.stem} is a command of the agent's own; rename the file")
                    recipe = _read(path, origin, known)
                except RecipeError as error:
                    errors.append(error)
                except DocumentError as error:
                    message = f"{error.key}: {error.message}" if error.key else error.message
                    errors.append(RecipeError(message, source=str(path), line=error.line))
                except Exception as error:
                    # One file, which may be a stranger's, must not take the others with it.
                    _log.exception("the recipe %s could not be read", path)
                    message = f"cannot be read ({type(error).__name__}: {error})"
                    errors.append(RecipeError(message, source=str(path)))
                else:
                    recipes[recipe.name] = recipe
        return cls(dict(sorted(recipes.items())), tuple(errors))

    def get(self, name: str) -> Recipe | None:
        """The recipe of this name, if there is one."""
        return self.recipes.get(name)


def _files(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - Path.iterdir makes a path of every name
    except FileNotFoundError:
        return []
    return [
        folder / name
        for name in sorted(names)
        if name.endswith(SUFFIX) and not name.startswith(".") and name.lower() != "readme.md"
    ]


def _read(path: Path, origin: Origin, known: Known) -> Recipe:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", path.stem):
        raise DocumentError("a recipe's file is named with lower-case letters, digits, - and _ alone; rename it")
    # <project>/.acp-agent/recipes/name.md
    text = read_text(path, within=path.parents[2] if origin == "project" else None)
    if text is None:
        raise DocumentError("is a link to a file that does not exist")
    from acp_agent.recipes.front_matter import parse_recipe

    recipe = parse_recipe(text, name=path.stem, source=path, origin=origin, known=known)
    if origin != "builtin":  # ours are right, and without them most sessions need no Jinja2
        check(recipe)
    return recipe
