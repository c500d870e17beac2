"""`RecipeQuestions`: asks the user before the commands of a recipe's text run without a
sandbox.

Even `git status` and `git diff` run programs that a repository's settings name, such as
filters.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from anyio import to_thread

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import ResultPart, Text, ToolCall, new_id
from acp_agent.conversation.updates import CallAnnounced, CallFinished, CallStatus, Show
from acp_agent.errors import RecipeError, SandboxError, ToolError
from acp_agent.hooks.outcomes import NOTHING
from acp_agent.recipes.model import Recipe
from acp_agent.session.permissions import Permissions
from acp_agent.session.recipes.run import command_lines
from acp_agent.session.state import SessionState
from acp_agent.tools.environment import Report
from acp_agent.tools.text import digest
from acp_agent.tools.tool import Access, CallResult, PreparedCall

_TOOL = "shell"
"""The question is shown as a call of this tool."""
_DIGITS = 8


@dataclass(eq=False, slots=True)
class RecipeQuestions:
    """Asks the user about the commands in the recipes of one session."""

    _state: SessionState
    _permissions: Permissions
    _show: Show

    async def allow(self, recipe: Recipe) -> None:
        """Return when the commands of a recipe's text may run, either in the sandbox or
        with the user's permission.

        :raises RecipeError: if the user does not allow them.
        """
        lines = command_lines(recipe)
        sandbox = self._state.sandbox
        if not lines or sandbox is None:
            return
        try:
            usable, fault = await to_thread.run_sync(
                sandbox.usable, abandon_on_cancel=True
            )
        except SandboxError:
            return  # nothing runs, and rendering reports it
        if usable is None:
            await self._ask(recipe, lines, fault)

    async def _ask(self, recipe: Recipe, lines: tuple[str, ...], fault: str) -> None:
        name = f"/{recipe.command}"
        title = f"Run the commands in the text of {name} (outside of the sandbox)"
        prepared = PreparedCall(
            CallView(title, "execute"),
            access_of(recipe, self._state.mode, fault),
            _run_nothing,
        )
        call = ToolCall(new_id("call"), _TOOL, {"commands": [*lines]})
        await self._show(
            CallAnnounced(call.id, call.name, prepared.view, call.arguments)
        )
        status: CallStatus = "failed"
        said = f"The commands in the text of {name} were not run."
        try:
            if not await self._permissions.check(call, prepared, NOTHING):
                raise ToolError("The user ended the turn instead of answering.")
            status = "completed"
            said = "Allowed."
        except ToolError as error:
            why = f"its commands were not run: there is no sandbox for them, and you did not allow them. {fault}"
            raise RecipeError(why.rstrip(), source=str(recipe.source)) from error
        finally:
            parts: tuple[ResultPart, ...] = (Text(said),)
            with anyio.CancelScope(shield=True):
                await self._show(
                    CallFinished(
                        call.id, call.name, prepared.view, call.arguments, status, parts
                    )
                )


def access_of(recipe: Recipe, mode: str, fault: str) -> Access:
    """Return the access that the commands of a recipe's text would have without a
    sandbox.

    :param mode: the permission mode.
    :param fault: why there is no sandbox.
    """
    if mode == "plan":
        # This mode refuses commands, but these were written only to read.
        return Access("read", demand=f"There is no sandbox for them. {fault}".rstrip())
    subject = f"the commands in the text of /{recipe.command} ({digest(recipe.body)[:_DIGITS]})"
    return Access("execute", subject=subject, fault=fault)


async def _run_nothing(report: Report) -> CallResult:
    raise NotImplementedError("the commands are run by the rendering")
