"""Finding recipes: which folders, which file wins, and what is wrong with the others.

Reading is quick but touches the disk; call it from a worker thread. Knows nothing of what is in a file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.config.document import DocumentError, read_text
from acp_agent.errors import RecipeError
from acp_agent.frozen import frozen
from acp_agent.recipes.folders import MAX_DEPTH, RecipeFolder, listing
from acp_agent.recipes.model import Known, KnownHandlers, Recipe, RequiredHooks
from acp_agent.recipes.template import check

if TYPE_CHECKING:
    from pydantic import BaseModel

PACKAGE = Path(__file__).parents[1]

MAX_FRONT_MATTER = 32 * 1024
"""Characters."""
MAX_TOGETHER = 1024 * 1024
"""Bytes of all files in a project's folder. What they say takes seconds to understand."""
UNKNOWN = "Came with this project, and runs once you have trusted it"
"""Description of a recipe that nobody has allowed, and nobody has looked into therefore."""

_WORD = r"[a-z0-9][a-z0-9_-]*"
_NAME = re.compile(rf"{_WORD}(?:/{_WORD}){{0,{MAX_DEPTH}}}")

_log = logging.getLogger(__name__)


def builtin_recipes_dir() -> Path:
    """The recipes that come with the agent: inside the installed package, or beside it in a checkout."""
    installed = PACKAGE / "builtin_recipes"
    return installed if installed.is_dir() else PACKAGE.parent / "recipes"


@frozen
class RecipeLibrary:
    """The recipes of a session.

    :ivar recipes: by name, in alphabetical order.
    :ivar errors: one for each file or folder that could not be used.
    :ivar untrusted: those that may not run, since a project brought them and nobody has allowed it; by name. They
        replace none of `recipes`, and nothing of their text is known.
    """

    recipes: Mapping[str, Recipe]
    errors: tuple[RecipeError, ...] = ()
    untrusted: Mapping[str, Recipe] = field(default_factory=dict[str, Recipe])

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
        claude_user_dir: Path | None = None,
        claude_project_dir: Path | None = None,
    ) -> RecipeLibrary:
        """Read the `*.md` files of the folders and of those in them. Of equal names the later folder's recipe is taken.

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
        :param claude_user_dir: `~/.claude/commands`; what is in our own folders goes first.
        :param claude_project_dir: `<project>/.claude/commands`; goes before the user's one.
        """
        known = Known(handlers, tools, required_hooks or {}, strategies, providers, params)
        folders = [RecipeFolder("builtin", builtin_dir)]
        folders += [RecipeFolder("user", claude_user_dir, "claude")] if claude_user_dir else []
        folders += [RecipeFolder("project", claude_project_dir, "claude")] if claude_project_dir else []
        folders += [RecipeFolder("user", user_dir)] if user_dir else []
        folders += [RecipeFolder("project", project_dir)] if project_dir else []
        return cls.read(folders, known, reserved)

    @classmethod
    def read(
        cls,
        folders: Iterable[RecipeFolder],
        known: Known,
        reserved: Collection[str] = (),
        trusted: Callable[[Path], str | None] | None = None,
    ) -> RecipeLibrary:
        """Read the files of these folders, of which a later one replaces what an earlier one has of the same name.

        :param trusted: SHA-256, in hex, of the text that may be used of a project's file; None for a file of which none
            may, which is not read then. None in its place uses all.
        """
        recipes: dict[str, Recipe] = {}
        untrusted: dict[str, Recipe] = {}
        errors: list[RecipeError] = []
        for folder in folders:
            found, room = listing(folder), MAX_TOGETHER
            errors += [RecipeError(why, source=str(path)) for path, why in found.unread]
            for name, path in found.files.items():
                digest = trusted(path) if folder.origin == "project" and trusted is not None else ""
                if digest is None:
                    untrusted |= _held(folder, name, path, known, reserved)
                    continue
                room -= _size(path) if folder.origin == "project" else 0
                if room < 0:
                    message = f"has more than {MAX_TOGETHER // 1024} KiB; {name} and all behind it are left out"
                    errors.append(RecipeError(message, source=str(folder.path)))
                    break
                try:
                    recipe = read_recipe(folder, name, path, known, reserved, digest)
                    recipes[recipe.name] = recipe
                except UntrustedError:
                    untrusted |= _held(folder, name, path, known, reserved)
                except NotOursError as error:
                    _log.info("left out: %s", error)
                except RecipeError as error:
                    errors.append(error)
        return cls(dict(sorted(recipes.items())), tuple(errors), dict(sorted(untrusted.items())))

    def get(self, name: str) -> Recipe | None:
        """The recipe of this name, if there is one: `github/pr`, or `github:pr` as editors are told it."""
        return self.recipes.get(name.replace(":", "/"))

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should be told of recipes that can be used."""
        return tuple(recipe.notice for recipe in self.recipes.values() if recipe.notice)

    @property
    def known(self) -> Mapping[str, Recipe]:
        """All that can be named, by name, also what may not run before somebody allows it."""
        return dict(sorted({**self.untrusted, **self.recipes}.items()))


class UntrustedError(RecipeError):
    """A file may not be used, since nobody has allowed the text that it has."""


class NotOursError(RecipeError):
    """A file of Claude Code's cannot be used here, which is no fault of it."""


def is_recipe_name(name: str) -> bool:
    """Whether a file could give a recipe this name: `github/pr`."""
    return _NAME.fullmatch(name) is not None


def read_recipe(
    folder: RecipeFolder, name: str, path: Path, known: Known, reserved: Collection[str] = (), digest: str = ""
) -> Recipe:
    """Read one file.

    :param folder: the folder of recipes that it is in.
    :param name: what it is called there: `github/pr` for `github/pr.md`.
    :param reserved: names of commands that no recipe may take.
    :param digest: SHA-256, in hex, of the one text that may be looked into; empty for any.
    :raises UntrustedError: it has another.
    :raises RecipeError: it cannot be used; names the file, and the line where there is one.
    """
    try:
        return _read(folder, name, path, known, reserved, digest)
    except RecipeError:
        raise
    except DocumentError as error:
        message = f"{error.key}: {error.message}" if error.key else error.message
        kind = NotOursError if folder.form == "claude" else RecipeError
        raise kind(message, source=str(path), line=error.line) from error
    except Exception as error:
        # One file, which may be a stranger's, must not take the others with it.
        _log.exception("the recipe %s could not be read", path)
        raise RecipeError(f"cannot be read ({type(error).__name__}: {error})", source=str(path)) from error


def _read(folder: RecipeFolder, name: str, path: Path, known: Known, reserved: Collection[str], digest: str) -> Recipe:
    if folder.form == "claude":
        return _read_command(folder, name, path, known, reserved, digest)
    if name in reserved:
        raise DocumentError(f"/{name} is a command of the agent's own; rename the file")
    *above, own = name.split("/")
    if not re.fullmatch(_WORD, own):
        raise DocumentError("a recipe's file is named with lower-case letters, digits, - and _ alone; rename it")
    if not all(re.fullmatch(_WORD, word) for word in above):
        raise DocumentError("a folder of recipes is named with lower-case letters, digits, - and _ alone; rename it")
    from acp_agent.recipes.front_matter import parse_recipe, split

    text = _text(folder, path, digest)
    if len(split(text).front_matter or "") > MAX_FRONT_MATTER:
        raise DocumentError(f"the front matter has more than {MAX_FRONT_MATTER // 1024} KiB", 1)
    recipe = parse_recipe(text, name=name, source=path, origin=folder.origin, known=known)
    if folder.origin != "builtin":  # ours are right, and without them most sessions need no Jinja2
        check(recipe)
    return recipe


def _read_command(
    folder: RecipeFolder, name: str, path: Path, known: Known, reserved: Collection[str], digest: str
) -> Recipe:
    from acp_agent.recipes.claude_commands import command_name, parse_command

    name = command_name(name)
    if name in reserved or not _NAME.fullmatch(name):
        raise DocumentError(f"cannot be called /{name} here")
    return parse_command(_text(folder, path, digest), name=name, source=path, origin=folder.origin, known=known)


def _text(folder: RecipeFolder, path: Path, digest: str) -> str:
    text = read_text(path, within=folder.within)
    if text is None:
        raise DocumentError("is a link to a file that does not exist")
    if digest:
        import hashlib  # loads OpenSSL

        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise UntrustedError("has changed since it was allowed to run", source=str(path))
    return text


def _held(folder: RecipeFolder, name: str, path: Path, known: Known, reserved: Collection[str]) -> dict[str, Recipe]:
    """What can be said by name of a file that nobody may look into; nothing where it could not be used."""
    if folder.form == "claude":
        from acp_agent.recipes.claude_commands import command_name

        name = command_name(name)
        reserved = (*reserved, *known.required_hooks)
    if name in reserved or not _NAME.fullmatch(name):
        return {}
    return {name: Recipe(name, UNKNOWN, "", 1, path, folder.origin, "")}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
