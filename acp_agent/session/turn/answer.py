"""What an answer leads to: `ToolCalls` announces, allows, runs, appends and shows its calls, in the order of the model;
`StopHooks` asks the hooks of `turn_end` and `agent_stop` about one without calls, and does what they want.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import anyio

from acp_agent.compaction.estimate import estimate_messages
from acp_agent.conversation.closing import was_cancelled
from acp_agent.conversation.context import Context
from acp_agent.conversation.events import (
    CallView,
    ContextAdded,
    ContextSwapped,
    Event,
    MessageSupplied,
    PlanChanged,
    ToolReturned,
)
from acp_agent.conversation.messages import Message, ResultPart, Text, ToolCall, ToolResult, UserMessage, new_id
from acp_agent.conversation.swaps import Receipt
from acp_agent.conversation.updates import (
    CallAnnounced,
    CallFinished,
    CallOutput,
    CallStarted,
    CallStatus,
    CallTerminal,
    PlanUpdated,
    Show,
)
from acp_agent.errors import AgentError, HookError, ToolError
from acp_agent.hooks.outcomes import Compact, Continue, Replace, Summarize, cut
from acp_agent.hooks.outcomes import Outcome as HookOutcome
from acp_agent.llm.parts import arguments_fault
from acp_agent.logfile import log_failure
from acp_agent.session.compact.control import SessionCompaction
from acp_agent.session.compact.report import finished
from acp_agent.session.log import SessionLog
from acp_agent.session.permissions import Permissions
from acp_agent.session.project.hooks import SessionHooks
from acp_agent.session.project.mcp import SessionMcp
from acp_agent.session.project.requests import Requests
from acp_agent.session.source import REPLACE
from acp_agent.session.turn.record import TurnRecord
from acp_agent.tools.environment import Environment, OutputArrived, Progress, TerminalStarted
from acp_agent.tools.shell.allow import refusal
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Outcome, Tool

if TYPE_CHECKING:
    from acp_agent.recipes.model import Recipe

SHOWN_OUTPUT = 20_000
"""Characters of a running command's output that an editor is shown; the newest."""
OUTPUT_SECONDS = 0.1
"""Seconds between two updates of a command's output; each sends all of it."""

MAX_CONTINUES = 5
"""Maximum times that hooks may continue one prompt, so that a hook that always continues has a bounded cost."""


T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class ToolCalls:
    """Runs the tool calls of one session."""

    _record: TurnRecord
    _log: SessionLog
    _mcp: SessionMcp
    _environment: Callable[[str], Environment]
    _permissions: Permissions
    _hooks: SessionHooks
    _show: Show
    _stop_reason: str = ""  # of the hook that has ended the turn

    async def run(self, calls: Sequence[ToolCall], recipe: Recipe | None) -> Literal["end_turn", "cancelled"] | None:
        """Run every call and append its result.

        :param recipe: what runs, which may allow less than all calls; definitions of tools are sent all the same.
        :returns: why the turn ends: `end_turn` if a hook has ended it, `cancelled` if the user answered a permission
            request by ending it; the calls left over have no result then, which the turn's closing adds.
        """
        view_of = self._record.view_of
        for call in calls:
            await self._show(CallAnnounced(call.id, call.name, view_of(call), call.arguments))
        for number, call in enumerate(calls, 1):
            ending = await self._run_call(call, recipe)
            if ending == "end_turn":
                for left in calls[number:]:
                    error = ToolError(_stopped(self._stop_reason))
                    await self._finish(left, _failure(left, view_of(left), error))
                await self._record.note(f"A hook ended the turn. {self._stop_reason}".rstrip(), apart=True)
            if ending is not None:
                return ending
        return None

    async def _run_call(self, call: ToolCall, recipe: Recipe | None) -> Literal["end_turn", "cancelled"] | None:
        tools, view = self._mcp.tools, self._record.view_of(call)
        stop: str | None = None
        added: tuple[str, ...] = ()
        try:
            _allowed_tool(tools, call, recipe)
            hooked = await self._hooks.before_call(call, view)
            stop, added = hooked.stop, hooked.context
            if hooked.blocks:
                raise ToolError(f"A hook refused this call. {hooked.reason}".rstrip())
            if stop is not None:
                raise ToolError(_stopped(stop))
            asked = call
            if hooked.tool_input is not None:
                asked = replace(call, arguments=hooked.tool_input)
                arguments = cut(json.dumps(asked.arguments, ensure_ascii=False))
                added = (f"A hook changed the arguments of this call to: {arguments}", *added)
            tool, view = _allowed_tool(tools, asked, recipe), self._record.view_of(asked)
            outcome = await _or_failure(asked, view, tool.prepare(asked.arguments, self._environment(call.id)))
            if not isinstance(outcome, Outcome):
                prepared, view = outcome, outcome.view
                if not await self._permissions.check(asked, prepared, hooked):
                    return "cancelled"
                if not prepared.asks:
                    await self._show(CallStarted(call.id, view))
                self._record.begun_call = call.id
                outcome = await _or_failure(asked, view, prepared.run(_reporter(self._show, call.id)))
            try:
                after = await self._hooks.after_call(asked, outcome)
            except anyio.get_cancelled_exc_class():
                await self._finish(call, _with_texts(outcome, added))  # it has run, and what it did is not undone
                raise
            stop = after.stop
            if after.tool_output is not None:
                outcome = replace(outcome, parts=(Text(after.tool_output),))
            objection = (f"A hook objects to this result. {after.reason}".rstrip(),) if after.blocks else ()
            added = (*objection, *after.context, *added)
        except Exception as error:
            outcome = _failure(call, view, error)
        await self._finish(call, _with_texts(outcome, added))
        self._stop_reason = stop or ""
        return None if stop is None else "end_turn"

    async def _finish(self, call: ToolCall, outcome: Outcome) -> None:
        result = ToolResult(call.id, outcome.parts, outcome.is_error)
        plan = () if outcome.plan is None else (PlanChanged(outcome.plan),)
        status: CallStatus = "failed" if outcome.is_error else "completed"
        if was_cancelled(result):
            status = "cancelled"
        # A cancel in between would leave the user untold of what is in the log.
        with anyio.CancelScope(shield=True):
            await self._log.append(ToolReturned(result, outcome.view, outcome.files, outcome.before), *plan)
            await self._show(CallFinished(call.id, call.name, outcome.view, call.arguments, status, outcome.parts))
            if outcome.plan is not None:
                await self._show(PlanUpdated(outcome.plan))


async def _or_failure(call: ToolCall, view: CallView, work: Awaitable[T]) -> T | Outcome:
    """Await one step of a permitted call; return its result, or its failure as an `Outcome` that hooks see too."""
    try:
        return await work
    except Exception as error:
        return _failure(call, view, error)


def _stopped(reason: str) -> str:
    return f"A hook ended the turn before this call ran. {reason}".rstrip()


def _allowed_tool(tools: Mapping[str, Tool], call: ToolCall, recipe: Recipe | None) -> Tool:
    """Return the tool of a call that may be made at all.

    :raises ToolError: it may not.
    """
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(f"There is no tool {one_line(call.name)!r}. The tools are: {', '.join(tools)}.")
    allowed, commands = (recipe.allowed_tools, recipe.allowed_commands) if recipe else (None, None)
    server = "__".join(call.name.split("__")[:2])  # a recipe names tools, or the MCP server that they are of
    if allowed is not None and call.name not in allowed and not (call.name.startswith("mcp__") and server in allowed):
        names = ", ".join(sorted(allowed)) or "none"
        raise ToolError(f"{call.name} may not run in this recipe. Tools that may: {names}.")
    if call.invalid is not None:
        raise ToolError(f"{call.name}: {arguments_fault(call.invalid)}")
    if call.name == "shell" and commands is not None:
        reason = refusal(str(call.arguments.get("command", "")), commands)
        if reason:
            raise ToolError(f"This command may not run in this recipe: {reason}.")
    return tool


def _with_texts(outcome: Outcome, texts: Sequence[str]) -> Outcome:
    added: tuple[ResultPart, ...] = tuple(Text(text) for text in texts)
    return replace(outcome, parts=(*outcome.parts, *added)) if added else outcome


def _failure(call: ToolCall, view: CallView, error: Exception) -> Outcome:
    """Return what the model reads of a call that did not run, or that failed."""
    said = (
        str(error) if isinstance(error, ToolError) else log_failure(_log, f"{call.name} failed inside the agent", error)
    )
    return Outcome((Text(said),), CallView(view.title, view.kind, view.locations), is_error=True)


def _reporter(show: Show, call_id: str) -> Callable[[Progress], Awaitable[None]]:
    """Return what shows a running call's progress."""
    output, shown_at = "", -OUTPUT_SECONDS

    async def report(progress: Progress) -> None:
        nonlocal output, shown_at
        match progress:
            case TerminalStarted(terminal_id):
                await show(CallTerminal(call_id, terminal_id))
            case OutputArrived(text):
                output, now = (output + text)[-SHOWN_OUTPUT:], anyio.current_time()
                if now - shown_at >= OUTPUT_SECONDS:
                    shown_at = now
                    await show(CallOutput(call_id, output))

    return report


@dataclass(eq=False, slots=True)
class StopHooks:
    """Decides whether the agent goes on once it has answered without tool calls."""

    _log: SessionLog
    _hooks: SessionHooks
    _requests: Requests
    _compaction: SessionCompaction
    _record: TurnRecord
    _show: Show
    _continues: int = 0

    def begin(self) -> None:
        """Begin to count for a new prompt."""
        self._continues = 0

    async def after(self, response: str) -> bool:
        """Ask the hooks about an answer; return whether the model is to be asked again."""
        for ask in (self._hooks.turn_end, self._hooks.agent_stop):
            outcome = await ask(response)
            try:
                await self._do(outcome)
            except AgentError as error:
                # The model has answered: a failure of what a hook wanted is no failure of the turn.
                await self._record.note(f"What a hook wanted was not done. {error}", apart=True)
            if outcome.stop is not None:
                await self._record.note(f"A hook ended the turn. {outcome.stop}".rstrip(), apart=True)
                return False
            await self._hooks.add(outcome.context)
            if ask == self._hooks.agent_stop and isinstance(outcome.action, Compact):
                return False  # it ends the turn, even if another hook wants the agent to go on
            if await self._continue(outcome):
                return True
        return False

    async def _do(self, outcome: HookOutcome) -> None:
        match outcome.action:
            case Compact():
                await self._compaction.for_hook(outcome.action)
            case Summarize():
                if summary := await self._compaction.summary(outcome.action.instructions):
                    await self._record.note(summary, apart=True)
            case Replace():
                await self._replace(outcome.action.messages)
            case _:
                pass

    async def _replace(self, messages: Sequence[Message]) -> None:
        """Put a hook's messages in the place of the conversation.

        :raises HookError: they cannot stand there.
        """
        used, prefix = self._requests.used(await self._requests.active()), self._requests.prefix_tokens()
        self._compaction.background.drop()
        with anyio.CancelScope(shield=True):
            build = partial(replacement, messages, used, prefix)
            *_, swap = await self._log.append_built(build)
            await self._show(finished(swap))
            await self._record.show_usage()

    async def _continue(self, outcome: HookOutcome) -> bool:
        messages = list(outcome.action.messages) if isinstance(outcome.action, Continue) else []
        if outcome.blocks:
            messages.append(outcome.reason or "A hook does not want you to stop yet. Go on.")
        if not messages:
            return False
        if self._continues == MAX_CONTINUES:
            text = f"Hooks have let the agent go on {MAX_CONTINUES} times for this prompt; it ends here."
            await self._record.note(text, apart=True)
            return False
        self._continues += 1
        await self._log.append(*(ContextAdded(new_id("msg"), message) for message in messages))
        return True


def replacement(
    messages: Sequence[Message], used: int, prefix_tokens: int, context: Context
) -> tuple[*tuple[Event, ...], ContextSwapped]:
    """Return the events that put a hook's messages in the place of a context.

    The first stands where a summary would; the others are logged before the swap, as the tail that it keeps.

    :param messages: legal history, whose first is the user's.
    :param used: tokens of the context as it is.
    :param prefix_tokens: estimate of the system prompt and the tools.
    :raises HookError: they begin with no message of the user's.
    """
    first, others = messages[0] if messages else None, messages[1:]
    if not isinstance(first, UserMessage):
        raise HookError("A hook wanted to replace the conversation by messages that do not begin with the user's.")
    swap = ContextSwapped(
        compaction_id=new_id("cmp"),
        message_id=new_id("msg"),
        trigger="hook",
        summary=f"A hook replaced the conversation by {len(messages)} of its own messages.",
        sent=first.parts,
        keep_from=context.head + 1,
        carried=context.carried(),
        tokens_before=used,
        tokens_after=prefix_tokens + estimate_messages(messages),
        strategy=REPLACE,
        earlier=context.swaps,
        receipt=Receipt(summarised=len(context.entries)),
    )
    return (*(MessageSupplied(message) for message in others), swap)
