"""The `Tool` protocol: a call is prepared, which changes nothing, then allowed, then
run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from acp_agent.conversation.events import CallView, FileVersion, PlanEntry
from acp_agent.conversation.messages import JsonObject, ResultPart
from acp_agent.errors import Refuser
from acp_agent.frozen import frozen
from acp_agent.tools.environment import Environment, Report

Effect: TypeAlias = Literal["none", "read", "edit", "execute"]


@frozen
class Access:
    """What a call would access, for deciding whether it is allowed.

    :ivar effect: `none` changes nothing outside the conversation, like the plan.
    :ivar outside: resolved paths that the mode does not cover: outside the roots or,
        for an edit, in a guarded folder (see `paths.Target`).
    :ivar subject: what "always allow" covers, such as `edit`, `grep` or, for the shell,
        the whole command line: `shell: git log --oneline`.
    :ivar sandboxed: whether the call runs in the sandbox.
    :ivar by_recipe: whether the running recipe's `allowed_commands` allow it.
    :ivar words: the command's words if "always allow" may cover all commands that begin
        with them; otherwise empty.
    :ivar demand: why the user must be asked even if the call was allowed before; empty
        if there is no reason.
    :ivar fault: why a command runs without the sandbox that the user wants; otherwise
        empty.
    :ivar named: paths outside the roots that a sandboxed command names. They only help
        the user to decide. The sandbox limits which of them the command can access.
    """

    effect: Effect
    outside: tuple[Path, ...] = ()
    subject: str = ""
    sandboxed: bool = False
    by_recipe: bool = False
    words: tuple[str, ...] = ()
    demand: str = ""
    fault: str = ""
    named: tuple[Path, ...] = ()


@frozen
class Fact:
    """A detail that a permission request shows about a call, besides its title.

    :ivar text: always shown in full.
    :ivar note: a short note about the text. If it is empty, the length of a long text
        is shown.
    """

    label: str
    text: str
    note: str = ""


@frozen
class CallResult:
    """The result of a call.

    :ivar parts: what the model reads.
    :ivar view: what the editor shows, diffs first.
    :ivar files: file versions that the model has now seen.
    :ivar before: the versions that changed files had before, in the order of the view's
        diffs.
    :ivar plan: the new plan if the call set one.
    :ivar again: if the call seems to have failed because of the sandbox, the same call
        outside the sandbox or with network access.
    :ivar refused_by: what refused the call without asking the user; None if the call
        was allowed or the user was asked.
    """

    parts: tuple[ResultPart, ...]
    view: CallView
    is_error: bool = False
    files: tuple[FileVersion, ...] = ()
    before: tuple[FileVersion, ...] = ()
    plan: tuple[PlanEntry, ...] | None = None
    again: PreparedCall | None = None
    refused_by: Refuser | None = None


@frozen
class PreparedCall:
    """A call with valid arguments and a known effect.

    :ivar view: title, kind, locations and the diff it would make, for the announcement
        and the permission request.
    :ivar run: runs the call. A `ToolError` from it goes back to the model.
    :ivar asks: whether the call only asks the user a question. If so, it stays pending
        until the answer, since some editors remove a question when its call starts to
        run.
    :ivar asked_title: the title of the permission request; empty to use the view's
        title.
    :ivar facts: the details of the permission request; empty for the locations of the
        view and all arguments.
    :ivar leads_to: where symbolic links lead from the places of the view.
    :ivar hunks: all changed lines in unified format, if a diff of the view is cut;
        otherwise empty.
    """

    view: CallView
    access: Access
    run: Callable[[Report], Awaitable[CallResult]]
    asks: bool = False
    asked_title: str = ""
    facts: tuple[Fact, ...] = ()
    leads_to: tuple[Path, ...] = ()
    hunks: str = ""


class Tool(Protocol):
    """A tool that the model can call."""

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
        """Return title and kind without side effects or errors. The arguments may be
        invalid or incomplete.
        """
        ...

    async def prepare(
        self, arguments: JsonObject, environment: Environment
    ) -> PreparedCall:
        """Check the arguments against the schema and the files, without changing
        anything.

        :raises ToolError: if the call is invalid; the model reads the message.
        """
        ...
