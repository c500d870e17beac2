"""Running the calls of one answer: announce, allow, run, append, show. In the order in which the model asked."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar

import anyio

from acp_agent.conversation.closing import was_cancelled
from acp_agent.conversation.events import CallView, PlanChanged, ToolReturned
from acp_agent.conversation.messages import ResultPart, Text, ToolCall, ToolResult
from acp_agent.errors import SessionConflictError, SessionNotFoundError, ToolError
from acp_agent.frozen import frozen
from acp_agent.hooks.outcomes import Outcome as HookOutcome
from acp_agent.hooks.outcomes import cut
from acp_agent.llm.arguments import arguments_fault
from acp_agent.logfile import log_failure
from acp_agent.tools.registry import ToolRegistry
from acp_agent.tools.text import one_line
from acp_agent.tools.tool import Outcome, OutputArrived, PreparedCall, Progress, TerminalStarted, Tool
from acp_agent.turn.host import TurnHost, TurnLimits
from acp_agent.turn.permission import grant_subject, judge
from acp_agent.turn.updates import (
    CallAnnounced,
    CallFinished,
    CallOutput,
    CallStarted,
    CallStatus,
    CallTerminal,
    PlanUpdated,
)

SHOWN_OUTPUT = 20_000
"""Characters of a running command's output that an editor is shown; the newest."""
OUTPUT_SECONDS = 0.1
"""At least so long between two pictures of a command's output, each of which is sent whole."""


@frozen
class Stopped:
    """A hook has ended the turn."""

    reason: str


T = TypeVar("T")
Ending: TypeAlias = Literal["answered", "cancelled"] | Stopped

_log = logging.getLogger(__name__)


async def run_calls(host: TurnHost, tools: ToolRegistry, calls: Sequence[ToolCall], limits: TurnLimits) -> Ending:
    """Run every call and append its result.

    :returns: `cancelled` where the user answered a permission request by ending the turn; the calls left over have no
        result then, which the turn's closing adds. `Stopped` where a hook has ended it.
    """
    for call in calls:
        await host.show(CallAnnounced(call.id, call.name, view_of(tools, call), call.arguments))
    for number, call in enumerate(calls, 1):
        ending = await _run_call(host, tools, call, limits)
        if isinstance(ending, Stopped):
            for left in calls[number:]:
                reason = f"A hook ended the turn before this call ran. {ending.reason}".rstrip()
                await _finish(host, left, _failure(left, view_of(tools, left), ToolError(reason)))
        if ending != "answered":
            return ending
    return "answered"


def view_of(tools: ToolRegistry, call: ToolCall) -> CallView:
    """What an editor shows of a call before anything is known of it but its arguments."""
    tool = tools.get(call.name)
    return tool.preview(call.arguments) if tool else CallView(one_line(call.name) or "(no name)")


async def _run_call(host: TurnHost, tools: ToolRegistry, call: ToolCall, limits: TurnLimits) -> Ending:
    view = view_of(tools, call)
    stop: str | None = None
    added: tuple[str, ...] = ()
    try:
        _allowed_tool(tools, call, limits)
        hooked = await host.before_call(call, view)
        stop, added = hooked.stop, hooked.context
        if hooked.blocks:
            raise ToolError(f"A hook refused this call. {hooked.reason}".rstrip())
        if stop is not None:
            raise ToolError(f"A hook ended the turn before this call ran. {stop}".rstrip())
        asked = call
        if hooked.tool_input is not None:
            asked = replace(call, arguments=hooked.tool_input)
            arguments = cut(json.dumps(asked.arguments, ensure_ascii=False))
            added = (f"A hook changed the arguments of this call to: {arguments}", *added)
        tool, view = _allowed_tool(tools, asked, limits), view_of(tools, asked)
        outcome = await _or_failure(asked, view, tool.prepare(asked.arguments, host.environment(call.id)))
        if not isinstance(outcome, Outcome):
            view = outcome.view
            if await _refusal(host, asked, outcome, hooked) == "cancelled":
                return "cancelled"
            if not outcome.asks:
                await host.show(CallStarted(call.id, view))
            host.begin_call(call.id)
            outcome = await _or_failure(asked, view, outcome.run(_Reporter(host, call.id).report))
        try:
            after = await host.after_call(asked, outcome)
        except anyio.get_cancelled_exc_class():
            await _finish(host, call, _with_texts(outcome, added))  # it has run, and what it did is not undone
            raise
        stop = after.stop
        outcome = _after_hooks(outcome, after)
    except (SessionConflictError, SessionNotFoundError):
        raise
    except Exception as error:
        outcome = _failure(call, view, error)
    await _finish(host, call, _with_texts(outcome, added))
    return "answered" if stop is None else Stopped(stop)


async def _or_failure(call: ToolCall, view: CallView, doing: Awaitable[T]) -> T | Outcome:
    """What comes of a part of a call that nobody has refused; its failure is a result, of which hooks are told, too."""
    try:
        return await doing
    except (SessionConflictError, SessionNotFoundError):
        raise
    except Exception as error:
        return _failure(call, view, error)


def _allowed_tool(tools: ToolRegistry, call: ToolCall, limits: TurnLimits) -> Tool:
    """The tool of a call that may be made at all.

    :raises ToolError: it may not.
    """
    tool = tools.get(call.name)
    if tool is None:
        raise ToolError(f"There is no tool {one_line(call.name)!r}. The tools are: {', '.join(tools.names)}.")
    if limits.allowed_tools is not None and not _is_allowed(call.name, limits.allowed_tools):
        allowed = ", ".join(sorted(limits.allowed_tools)) or "none"
        raise ToolError(f"{call.name} may not run in this recipe. Tools that may: {allowed}.")
    if call.invalid is not None:
        raise ToolError(f"{call.name}: {arguments_fault(call.invalid)}")
    if call.name == "shell" and limits.allowed_commands is not None:
        from acp_agent.tools.command_patterns import refusal

        if reason := refusal(str(call.arguments.get("command", "")), limits.allowed_commands):
            raise ToolError(f"This command may not run in this recipe: {reason}.")
    return tool


def _is_allowed(name: str, allowed: Collection[str]) -> bool:
    """Whether a recipe names this tool, or the MCP server that it is of."""
    server = "__".join(name.split("__")[:2])
    return name in allowed or (name.startswith("mcp__") and server in allowed)


async def _refusal(
    host: TurnHost, call: ToolCall, prepared: PreparedCall, hooked: HookOutcome
) -> Literal["cancelled"] | None:
    """Ask where the mode demands it, or a hook; a hook may answer in the user's place.

    :raises ToolError: the call may not run.
    """
    verdict = await _verdict(host, call, prepared)
    if hooked.decision is not None:
        verdict = "allow" if hooked.decision.verdict == "allow" else "ask"
    if verdict == "ask":
        subject = grant_subject(prepared.access)
        try:
            answer = await host.ask_permission(
                call.id, call.name, prepared.view, call.arguments, subject, hooked.reason
            )
        except ToolError as error:
            raise ToolError(f"{error} {hooked.reason}".rstrip()) from error
        if answer == "cancelled":
            return "cancelled"
        if answer == "reject_once":
            raise ToolError("The user did not allow this call. Do not try it again; ask what they want instead.")
        await _verdict(host, call, prepared)  # in the mode as it is by now: who answers may have changed it first
    return None


async def _verdict(host: TurnHost, call: ToolCall, prepared: PreparedCall) -> Literal["allow", "ask"]:
    """Whether the mode lets it run, or wants the user to be asked.

    :raises ToolError: the mode does not let it run at all.
    """
    verdict = judge(host.mode, prepared.access, frozenset())
    if verdict == "ask":
        verdict = judge(host.mode, prepared.access, await host.grants())
    if verdict == "deny":
        raise ToolError(
            f"{call.name} may not run in {host.mode} mode, which only reads. Describe the change instead; the user "
            "can switch the mode."
        )
    return verdict


def _after_hooks(outcome: Outcome, after: HookOutcome) -> Outcome:
    """The result as the model reads it after the hooks: theirs in its place, and what they say below it."""
    if after.tool_output is not None:
        outcome = replace(outcome, parts=(Text(after.tool_output),))
    objection = (f"A hook objects to this result. {after.reason}".rstrip(),) if after.blocks else ()
    return _with_texts(outcome, (*objection, *after.context))


def _with_texts(outcome: Outcome, texts: Sequence[str]) -> Outcome:
    added: tuple[ResultPart, ...] = tuple(Text(text) for text in texts)
    return replace(outcome, parts=(*outcome.parts, *added)) if added else outcome


async def _finish(host: TurnHost, call: ToolCall, outcome: Outcome) -> None:
    result = ToolResult(call.id, outcome.parts, outcome.is_error)
    plan = () if outcome.plan is None else (PlanChanged(outcome.plan),)
    status: CallStatus = "failed" if outcome.is_error else "completed"
    if was_cancelled(result):
        status = "cancelled"
    # A cancel that comes now is too late: what is in the log is what the user is told, however slow the editor is.
    with anyio.CancelScope(shield=True):
        await host.append(ToolReturned(result, outcome.view, outcome.files, outcome.before), *plan)
        await host.show(CallFinished(call.id, call.name, outcome.view, call.arguments, status, outcome.parts))
        if outcome.plan is not None:
            await host.show(PlanUpdated(outcome.plan))


def _failure(call: ToolCall, view: CallView, error: Exception) -> Outcome:
    """What the model reads of a call that did not run, or that failed."""
    said = (
        str(error) if isinstance(error, ToolError) else log_failure(_log, f"{call.name} failed inside the agent", error)
    )
    return Outcome((Text(said),), CallView(view.title, view.kind, view.locations), is_error=True)


class _Reporter:
    """Passes a running call's progress on to the user."""

    def __init__(self, host: TurnHost, call_id: str) -> None:
        self._host = host
        self._call_id = call_id
        self._output = ""
        self._shown_at = -OUTPUT_SECONDS

    async def report(self, progress: Progress) -> None:
        match progress:
            case TerminalStarted(terminal_id):
                await self._host.show(CallTerminal(self._call_id, terminal_id))
            case OutputArrived(text):
                self._output = (self._output + text)[-SHOWN_OUTPUT:]
                now = anyio.current_time()
                if now - self._shown_at >= OUTPUT_SECONDS:
                    self._shown_at = now
                    await self._host.show(CallOutput(self._call_id, self._output))
