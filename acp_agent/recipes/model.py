"""A recipe as plain data. Knows neither files nor templates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Origin: TypeAlias = Literal["builtin", "user", "project"]

KnownHandlers: TypeAlias = Mapping[str, Collection[str]]
"""The events that a recipe may hook into, each with the names of the handlers that exist for it."""

RequiredHooks: TypeAlias = Mapping[str, tuple[str, str]]
"""By recipe name, the event and the handler that a recipe of that name must bind, whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a recipe's front matter is checked against, given by whoever has the tools and the handlers.

    :ivar tools: names that `allowed_tools` may list; None where that is not known, and any will do.
    """

    handlers: KnownHandlers
    tools: Collection[str] | None = None
    required_hooks: RequiredHooks = field(default_factory=dict[str, tuple[str, str]])


@dataclass(frozen=True, slots=True)
class Argument:
    """A named value that the recipe's text asks for.

    :ivar default: used where none is given; None makes it the empty string.
    :ivar required: rendering without it is an error.
    """

    name: str
    description: str = ""
    default: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class HookBinding:
    """What a recipe wants done at an event of its own run.

    :ivar handler: name of a built-in handler.
    :ivar once: only at the run's first such event, so that a follow-up in the same run does not repeat it.
    """

    handler: str
    once: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe.

    :ivar name: what is typed after the slash.
    :ivar description: one line for lists of commands.
    :ivar body: the template, as in the file.
    :ivar body_line: the line of the file that `body` begins at, from 1.
    :ivar source: the file.
    :ivar digest: SHA-256 of the file's text, in hex; tells which version of a recipe has run.
    :ivar allowed_tools: the tools that may run; None for all, empty for none.
    :ivar allowed_commands: patterns of the commands that the shell tool may run; None for all.
    :ivar hooks: by event.
    """

    name: str
    description: str
    body: str
    body_line: int
    source: Path
    origin: Origin
    digest: str
    allowed_tools: tuple[str, ...] | None = None
    allowed_commands: tuple[str, ...] | None = None
    arguments: tuple[Argument, ...] = ()
    hooks: Mapping[str, HookBinding] = field(default_factory=dict[str, HookBinding])
