"""The `Tool` Protocol: a call is prepared (nothing happens yet), allowed, then run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from acp_agent.conversation.events import CallView, FileVersion, PlanEntry
from acp_agent.conversation.messages import JsonObject, ResultPart
from acp_agent.frozen import frozen
from acp_agent.tools.environment import Environment, Report

Effect: TypeAlias = Literal["none", "read", "edit", "execute"]


@frozen
class Access:
    """What a call would touch, for the decision on it.

    :ivar effect: `none` touches nothing outside the conversation (the plan).
    :ivar outside: resolved paths that the mode says nothing about: outside of the roots, or, for an edit, in a
        guarded folder (see `paths.Target`).
    :ivar subject: what an "always allow" covers, such as `edit`, `grep` or `shell: git log`; short, for the option's
        name.
    :ivar sandboxed: whether it runs in the sandbox.
    :ivar by_recipe: whether the running recipe's `allowed_commands` allow it.
    :ivar words: the command's words where an "always allow" may cover all commands that begin as it does; else empty.
    :ivar demand: why the user is to be asked whatever was allowed before; empty where there is no reason.
    :ivar fault: why a command runs without the sandbox that the user wants; empty otherwise.
    """

    effect: Effect
    outside: tuple[Path, ...] = ()
    subject: str = ""
    sandboxed: bool = False
    by_recipe: bool = False
    words: tuple[str, ...] = ()
    demand: str = ""
    fault: str = ""


@frozen
class Fact:
    """Something that a permission request tells about a call, besides its title.

    :ivar text: shown whole.
    :ivar note: about the text, in a few words; empty to have its length told where it is long.
    """

    label: str
    text: str
    note: str = ""


@frozen
class CallResult:
    """How a call ended.

    :ivar parts: what the model reads.
    :ivar view: what the editor shows; its diffs come first there.
    :ivar files: file versions that the model has now seen.
    :ivar before: the versions that changed files had before, in the order of the view's diffs.
    :ivar plan: the new plan, where the call set one.
    :ivar again: the call as it could run outside of the sandbox or with the network, where it failed for want of it.
    """

    parts: tuple[ResultPart, ...]
    view: CallView
    is_error: bool = False
    files: tuple[FileVersion, ...] = ()
    before: tuple[FileVersion, ...] = ()
    plan: tuple[PlanEntry, ...] | None = None
    again: PreparedCall | None = None


@frozen
class PreparedCall:
    """A call whose arguments are sound and whose effect is known.

    :ivar view: title, kind, locations and the diff it would make, for the announcement and the permission request.
    :ivar run: does it. A `ToolError` from it goes back to the model.
    :ivar asks: it asks the user, and does nothing else: it stays pending meanwhile, since some editors take a question
        down when its call runs.
    :ivar asked_title: the title of a permission request; empty for that of the view.
    :ivar facts: what a permission request tells; empty for the places of the view and all arguments.
    """

    view: CallView
    access: Access
    run: Callable[[Report], Awaitable[CallResult]]
    asks: bool = False
    asked_title: str = ""
    facts: tuple[Fact, ...] = ()


class Tool(Protocol):
    """Something the model can call."""

    @property
    def name(self) -> str:
        """Return the name by which the model calls it."""
        ...

    @property
    def description(self) -> str:
        """Return the description that the model reads."""
        ...

    @property
    def input_schema(self) -> JsonObject:
        """Return the JSON Schema of the arguments, an object."""
        ...

    def preview(self, arguments: JsonObject) -> CallView:
        """Return title and kind for arguments that may be invalid or incomplete, without side effects or errors."""
        ...

    async def prepare(self, arguments: JsonObject, environment: Environment) -> PreparedCall:
        """Check the arguments against the schema and the files, without changing anything.

        :raises ToolError: what is wrong with the call, for the model to read.
        """
        ...
