"""`ToolCalls`: announces, authorizes, runs, logs and shows an answer's tool calls, in
the model's order.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import anyio

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import ResultPart, Text, ToolCall
from acp_agent.conversation.updates import (
    CallAnnounced,
    CallOutput,
    CallStarted,
    CallTerminal,
    Show,
)
from acp_agent.errors import CallRefusedError, ToolError
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome, cut
from acp_agent.llm.parts import arguments_fault
from acp_agent.logfile import log_failure
from acp_agent.session.hooks import SessionHooks
from acp_agent.session.permissions import Permissions
from acp_agent.session.toolbox import Toolbox
from acp_agent.session.turn.record import TurnRecord
from acp_agent.tools.environment import OutputArrived, Progress, TerminalStarted
from acp_agent.tools.shell.allow import refusal
from acp_agent.tools.shell.screen import ShownOutput
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import CallResult, PreparedCall, Tool

if TYPE_CHECKING:
    from acp_agent.recipes.model import Recipe

SHOWN_OUTPUT = 20_000
"""How many characters of a running command's newest output an editor shows."""
OUTPUT_SECONDS = 0.1
"""Seconds between two updates of a command's output. Each update sends the whole
output.
"""

T = TypeVar("T")

_log = logging.getLogger(__name__)


@frozen
class _Stopped:
    """A hook ended the turn.

    :ivar reason: the reason that the hook gave; may be empty.
    """

    reason: str


@dataclass(eq=False, slots=True)
class ToolCalls:
    """Runs the tool calls of one session."""

    _toolbox: Toolbox
    _permissions: Permissions
    _hooks: SessionHooks
    _record: TurnRecord
    _show: Show

    async def run(
        self, calls: Sequence[ToolCall], recipe: Recipe | None
    ) -> Literal["end_turn", "cancelled"] | None:
        """Run every call and append its result.

        :param recipe: the running recipe, which may allow only some tools although the
            request defines all of them.
        :returns: why the turn ends: `end_turn` if a hook ended it, or `cancelled` if
            the user cancelled it at a permission request. Closing a cancelled turn adds
            results for the remaining calls. None if the turn goes on.
        """
        view_of = self._toolbox.view_of
        for call in calls:
            await self._show(
                CallAnnounced(call.id, call.name, view_of(call), call.arguments)
            )
        for number, call in enumerate(calls, 1):
            ending = await self._run_call(call, recipe)
            if ending == "cancelled":
                return "cancelled"
            if ending is not None:
                for left in calls[number:]:
                    error = CallRefusedError(_stopped(ending.reason), by="hook")
                    await self._record.finish_call(
                        left, _failure(left, view_of(left), error)
                    )
                await self._record.note(
                    f"A hook ended the turn. {ending.reason}".rstrip(), "veto"
                )
                return "end_turn"
        return None

    async def _run_call(
        self, call: ToolCall, recipe: Recipe | None
    ) -> _Stopped | Literal["cancelled"] | None:
        """Run one call and append its result.

        :returns: `_Stopped` if a hook ended the turn, `cancelled` if the user did; None
            if the turn goes on.
        """
        tools = self._toolbox.tools
        view_of = self._toolbox.view_of
        view = view_of(call)
        stop: str | None = None
        added: tuple[str, ...] = ()
        try:
            if call.name not in tools and self._toolbox.was_told_of(call.name):
                raise ToolError(
                    f"The tool {one_line(call.name)!r} is no longer available. Continue without it."
                )
            _allowed_tool(tools, call, recipe)
            hooked = await self._hooks.before_call(call, view)
            stop = hooked.stop
            added = hooked.context
            if hooked.blocks:
                raise CallRefusedError(
                    f"A hook refused this call. {hooked.reason}".rstrip(), by="hook"
                )
            if stop is not None:
                raise CallRefusedError(_stopped(stop), by="hook")
            effective = call
            if hooked.tool_input is not None:
                effective = replace(call, arguments=hooked.tool_input)
                arguments = cut(json.dumps(effective.arguments, ensure_ascii=False))
                added = (
                    f"A hook changed the arguments of this call to: {arguments}",
                    *added,
                )
            tool = _allowed_tool(tools, effective, recipe)
            view = view_of(effective)
            environment = self._toolbox.environment(call.id)
            prepared = await _or_failure(
                effective, view, tool.prepare(effective.arguments, environment)
            )
            if isinstance(prepared, CallResult):
                result = prepared
            else:
                view = prepared.view
                # `_allowed_tool` has checked the command.
                if recipe and recipe.allowed_commands is not None:
                    prepared = replace(
                        prepared, access=replace(prepared.access, by_recipe=True)
                    )
                if not await self._permissions.check(effective, prepared, hooked):
                    return "cancelled"
                if not prepared.asks:
                    await self._show(CallStarted(call.id, view))
                self._record.started_call = call.id
                result = await _or_failure(
                    effective, view, prepared.run(_reporter(self._show, call.id))
                )
                if result.again is not None:
                    again = await self._run_again(effective, result.again, hooked)
                    if again == "cancelled":
                        # The first run has a result.
                        await self._record.finish_call(call, _with_texts(result, added))
                        return "cancelled"
                    result = (
                        _with_texts(result, (again,))
                        if isinstance(again, str)
                        else again
                    )
            try:
                after = await self._hooks.after_call(effective, result)
            except anyio.get_cancelled_exc_class():
                # The call has run, and its effects are not undone.
                await self._record.finish_call(call, _with_texts(result, added))
                raise
            stop = after.stop
            if after.tool_output is not None:
                result = replace(result, parts=(Text(after.tool_output),))
            objection = (
                (f"A hook objects to this result. {after.reason}".rstrip(),)
                if after.blocks
                else ()
            )
            added = (*objection, *after.context, *added)
        except Exception as error:
            result = _failure(call, view, error)
        await self._record.finish_call(call, _with_texts(result, added))
        return None if stop is None else _Stopped(stop)

    async def _run_again(
        self, call: ToolCall, prepared: PreparedCall, hooked: Outcome
    ) -> CallResult | str:
        """Run a call that failed because of the sandbox again, if the user allows it.

        :returns: the result of the second run; or `cancelled`; or why the call was not
            run again.
        """
        await self._show(CallStarted(call.id, prepared.view, asks=True))
        try:
            if not await self._permissions.check(call, prepared, hooked):
                return "cancelled"
        except ToolError as error:
            return f"{prepared.access.demand} {error}"
        await self._show(CallStarted(call.id, prepared.view))
        return await _or_failure(
            call, prepared.view, prepared.run(_reporter(self._show, call.id))
        )


async def _or_failure(
    call: ToolCall, view: CallView, work: Awaitable[T]
) -> T | CallResult:
    """Await one step of a permitted call. Return its result, or its failure as a
    `CallResult`, which hooks see too.
    """
    try:
        return await work
    except Exception as error:
        return _failure(call, view, error)


def _stopped(reason: str) -> str:
    return f"A hook ended the turn before this call ran. {reason}".rstrip()


def _allowed_tool(
    tools: Mapping[str, Tool], call: ToolCall, recipe: Recipe | None
) -> Tool:
    """Return the tool of a call, if the call is valid and the recipe allows it.

    :raises ToolError: if the tool is unknown, the recipe does not allow it, or its
        arguments are invalid.
    """
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(
            f"There is no tool {one_line(call.name)!r}. The tools are: {', '.join(tools)}."
        )
    allowed, commands = (
        (recipe.allowed_tools, recipe.allowed_commands) if recipe else (None, None)
    )
    # A recipe names tools or whole MCP servers.
    server = "__".join(call.name.split("__")[:2])
    if (
        allowed is not None
        and call.name not in allowed
        and not (call.name.startswith("mcp__") and server in allowed)
    ):
        names = ", ".join(sorted(allowed)) or "none"
        raise CallRefusedError(
            f"{call.name} may not run in this recipe. Tools that may: {names}.",
            by="recipe",
        )
    if call.invalid is not None:
        raise ToolError(f"{call.name}: {arguments_fault(call.invalid)}")
    if call.name == "shell" and commands is not None:
        reason = refusal(str(call.arguments.get("command", "")), commands)
        if reason:
            raise CallRefusedError(
                f"This command may not run in this recipe: {reason}.", by="recipe"
            )
    return tool


def _with_texts(result: CallResult, texts: Sequence[str]) -> CallResult:
    added: tuple[ResultPart, ...] = tuple(Text(text) for text in texts)
    return replace(result, parts=(*result.parts, *added)) if added else result


def _failure(call: ToolCall, view: CallView, error: Exception) -> CallResult:
    """Return the result that the model reads for a call that failed or did not run."""
    said = (
        str(error)
        if isinstance(error, ToolError)
        else log_failure(_log, f"{call.name} failed inside the agent", error)
    )
    return CallResult(
        (Text(said),),
        CallView(view.title, view.kind, view.locations),
        is_error=True,
        refused_by=error.by if isinstance(error, CallRefusedError) else None,
    )


def _reporter(show: Show, call_id: str) -> Callable[[Progress], Awaitable[None]]:
    """Return a callback that shows the progress of a running call."""
    # `ShownOutput` cuts out the middle. Keep four times the text, so that the end that
    # is shown has no cut in it.
    output = ShownOutput(4 * SHOWN_OUTPUT)
    shown_at = -OUTPUT_SECONDS

    async def report(progress: Progress) -> None:
        nonlocal shown_at
        match progress:
            case TerminalStarted(terminal_id):
                await show(CallTerminal(call_id, terminal_id))
            case OutputArrived(text):
                output.add(text)
                now = anyio.current_time()
                if now - shown_at >= OUTPUT_SECONDS:
                    shown_at = now
                    await show(CallOutput(call_id, output.text[-SHOWN_OUTPUT:]))

    return report
