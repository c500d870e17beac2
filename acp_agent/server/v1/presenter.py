"""`Presenter`: converts the domain's updates to the `session/update` objects that the
client supports.

A client that does not support the session updates for compaction gets a tool call of
kind `other` instead. A client always gets the start of a call or a compaction before
its end.

ACP, "Prompt Turn", "Tool Calls", "Agent Plan"; its RFDs, "Session Usage", "Compaction".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from acp_agent.conversation.events import CallView, PlanEntry
from acp_agent.conversation.messages import Image, ResultPart
from acp_agent.conversation.strict_json import get_objects, get_text
from acp_agent.conversation.updates import (
    AgentSaid,
    AgentThought,
    CallAnnounced,
    CallFinished,
    CallOutput,
    CallStarted,
    CallTerminal,
    Command,
    CommandsUpdated,
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    ModeUpdated,
    Notice,
    Option,
    OptionsUpdated,
    PlanUpdated,
    TitleUpdated,
    TurnBegan,
    Update,
    UsageUpdated,
    UserSaid,
)
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.updates import (
    given,
    message_chunk,
    text_content,
    tool_call,
    tool_text,
)
from acp_agent.server.content import (
    PLAN_TOOL,
    block_from_part,
    cut,
    locations,
    pending_call,
    raw_input,
)
from acp_agent.server.handshake import Capabilities
from acp_agent.tools.text import one_line

SHOWN_RESULT = 30_000
"""Maximum characters of a tool's result that are sent to an editor. The model gets
more.
"""
SUMMARY_STEP = 1_000
"""How many characters a summary grows before it is sent again to a client that sees it
as a tool call.
"""
PLAN = "plan"
"""The id of a session's only plan."""
COMPACTION_TITLE = "Compact conversation"
_PLAN_MARKS = {"completed": "✓", "in_progress": "▸", "cancelled": "✗"}
_PENDING = "○"
_FENCED_KINDS = ("read", "search", "execute")
_Compaction: TypeAlias = CompactionStarted | CompactionChunk | CompactionFinished


def diff_items(view: CallView) -> list[JsonObject]:
    """Return a call's file changes, whether made or proposed, as items of its content."""
    return [
        {
            "type": "diff",
            "path": diff.path,
            "oldText": diff.old_text,
            "newText": diff.new_text,
        }
        for diff in view.diffs
    ]


class Presenter:
    """Converts the updates of one session, and remembers which calls and compactions
    were announced.

    Many editors join the chunks of adjacent messages, whatever their ids. So each
    message of a turn after the first begins with an empty line, as does each thought.

    :param capabilities: the client's capabilities.
    :ivar terminals: the ids of terminals by the id of the call that runs in them.
    """

    _announcement = "tool_call"
    _sets_messages_apart = True
    _diffs = staticmethod(diff_items)

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._appends_output = capabilities.traits.appends_output
        self._shows_plans = capabilities.plans or capabilities.traits.shows_plans
        self.terminals: dict[str, str] = {}
        self._said: dict[
            str, set[str]
        ] = {}  # the ids of the turn's messages, by the kind of their chunks
        self._hidden: dict[str, CallAnnounced] = {}  # by the id of the call
        self._announced: set[str] = set()
        self._summary = ""
        self._summary_sent = 0

    def present(self, update: Update) -> Iterator[JsonObject]:
        """Yield the `session/update` objects for an update; none if the client does not
        support it.

        Send each object before taking the next one, since a call or a compaction counts
        as announced only then. A cancel can prevent the announcement. Editors show an
        update of an unknown call as a permanent failure, so the final update then also
        contains the announcement.
        """
        match update:
            case TurnBegan():
                self._said.clear()
            case AgentSaid():
                yield self._chunk("agent_message_chunk", update.message_id, update.text)
            case AgentThought():
                yield self._chunk(
                    "agent_thought_chunk", f"{update.message_id}_thought", update.text
                )
            case UserSaid():
                self._said.clear()
                yield message_chunk(
                    "user_message_chunk",
                    update.message_id,
                    block_from_part(update.part),
                )
            case CallAnnounced(call_id=id, name=name) if (
                name == PLAN_TOOL and self._shows_plans
            ):
                self._hidden[id] = update
            case CallAnnounced():
                yield from self._announce(update)
            case (
                CallStarted(call_id=id)
                | CallTerminal(call_id=id)
                | CallOutput(call_id=id)
            ) if id in self._hidden:
                pass
            case CallOutput() if self._appends_output:
                pass  # the call's final update contains all of it
            case CallStarted() | CallTerminal() | CallOutput():
                yield {"sessionUpdate": "tool_call_update", **self._progress(update)}
            case CallFinished(call_id=id):
                is_hidden = (
                    _is_plan(update) and self._shows_plans and id not in self._announced
                )
                if not is_hidden:
                    yield from self._finished(
                        update, standalone=update.replayed or id not in self._announced
                    )
                self._announced.discard(id)
                self._hidden.pop(id, None)
            case CompactionFinished(compaction_id=id, replayed=False) if (
                id not in self._announced
            ):
                yield from self.present(CompactionStarted(id, ""))
                yield from self.present(update)
            case CompactionStarted() | CompactionChunk() | CompactionFinished():
                if self._capabilities.compaction:
                    yield _compaction(update)
                else:
                    yield from self._compaction_as_call(update)
                if isinstance(update, CompactionStarted):
                    self._announced.add(update.compaction_id)
            case _:
                yield from self._state(update)

    def reveal(self, call_id: str) -> Iterator[JsonObject]:
        """Yield the announcement of a call that was not shown, since the user is asked
        about it.
        """
        if (hidden := self._hidden.pop(call_id, None)) is not None:
            yield from self._announce(hidden)

    def _announce(self, update: CallAnnounced) -> Iterator[JsonObject]:
        call = pending_call(update.call_id, update.name, update.view, update.arguments)
        yield {"sessionUpdate": self._announcement, **call}
        self._announced.add(update.call_id)

    def _chunk(self, kind: str, message_id: str, text: str) -> JsonObject:
        """Return a chunk of a message, after an empty line if it begins a later message
        of the turn.
        """
        said = self._said.setdefault(kind, set())
        if self._sets_messages_apart and said and message_id not in said:
            text = f"\n\n{text}"
        said.add(message_id)
        return message_chunk(kind, message_id, text_content(cut(text)))

    # --- tool calls ---

    def _progress(self, update: CallStarted | CallTerminal | CallOutput) -> JsonObject:
        match update:
            case CallStarted(call_id, view, asks):
                shown = self._diffs(view)
                places = locations(view)
                status = "pending" if asks else "in_progress"
                return tool_call(
                    call_id,
                    title=view.title,
                    kind=view.kind,
                    status=status,
                    content=shown,
                    locations=places,
                )
            case CallTerminal(call_id, terminal_id):
                self.terminals[call_id] = terminal_id
                return tool_call(
                    call_id, content=[{"type": "terminal", "terminalId": terminal_id}]
                )
            case CallOutput(call_id, text):
                return tool_call(call_id, content=[tool_text(_fenced(text))])

    def _finished(
        self, update: CallFinished, *, standalone: bool
    ) -> Iterator[JsonObject]:
        """Yield the end of a call.

        :param standalone: whether the update also announces the call.
        """
        view = update.view
        # Content sent now would replace the terminal in the editor, and its output
        # would be lost.
        in_terminal = self.terminals.pop(update.call_id, None) is not None
        wire = tool_call(
            update.call_id,
            title=view.title,
            status="completed" if update.status == "completed" else "failed",
            content=() if in_terminal else self._result(update),
            locations=locations(view),
            raw_output=_plan_text(update.arguments)
            if _is_plan(update)
            else view.raw_output,
        )
        if standalone:
            wire |= {"name": one_line(update.name), "kind": view.kind}
            wire |= given(rawInput=raw_input(update.name, update.arguments))
        yield {
            "sessionUpdate": self._announcement if standalone else "tool_call_update",
            **wire,
        }

    def _result(self, update: CallFinished) -> list[JsonObject]:
        """Return the content of a finished call. For a plan, this is its entries, since
        the editor shows them nowhere else.

        A plan's `rawOutput` contains them as well, since it is the only part of a
        call's result that Jupyter AI displays.
        """
        if _is_plan(update):
            return [tool_text(cut(_plan_text(update.arguments)))]
        return _result_items(update, self._diffs(update.view))

    def _compaction_as_call(self, update: _Compaction) -> Iterator[JsonObject]:
        call_id = update.compaction_id
        match update:
            case CompactionStarted():
                self._summary = ""
                self._summary_sent = 0
                call = tool_call(
                    call_id, title=COMPACTION_TITLE, kind="other", status="in_progress"
                )
                yield {"sessionUpdate": "tool_call", **call}
            case CompactionChunk():
                self._summary += update.text
                is_due = len(self._summary) - self._summary_sent >= SUMMARY_STEP
                if is_due and not self._appends_output:
                    self._summary_sent = len(self._summary)
                    call = tool_call(call_id, content=[tool_text(cut(self._summary))])
                    yield {"sessionUpdate": "tool_call_update", **call}
            case CompactionFinished():
                completed = update.status == "completed"
                texts = (
                    (update.summary, update.receipt)
                    if completed
                    else (update.error or "Cancelled.",)
                )
                call = tool_call(
                    call_id,
                    title=_compaction_title(update),
                    kind="other" if update.replayed else None,
                    status="completed" if completed else "failed",
                    content=[tool_text(cut(text)) for text in texts if text],
                )
                yield {
                    "sessionUpdate": "tool_call"
                    if update.replayed
                    else "tool_call_update",
                    **call,
                }

    # --- the session's state ---

    def _state(self, update: Update) -> Iterator[JsonObject]:
        """Yield the update for a change of the session's state. A turn's end needs
        none, since the response to `session/prompt` reports it.
        """
        match update:
            case PlanUpdated():
                if self._shows_plans:
                    yield self._plan(update)
            case UsageUpdated(used, size, cost):
                priced: JsonValue = (
                    None if cost is None else {"amount": cost, "currency": "USD"}
                )
                yield {
                    "sessionUpdate": "usage_update",
                    "used": used,
                    "size": size,
                    **given(cost=priced),
                }
            case ModeUpdated(mode):
                yield {"sessionUpdate": "current_mode_update", "currentModeId": mode}
            case OptionsUpdated(options):
                shown = config_options(options, switches=self._capabilities.booleans)
                yield {"sessionUpdate": "config_option_update", "configOptions": shown}
            case TitleUpdated(title):
                yield {"sessionUpdate": "session_info_update", "title": title}
            case CommandsUpdated(commands):
                yield {
                    "sessionUpdate": "available_commands_update",
                    "availableCommands": available_commands(commands),
                }
            case Notice():
                if self._capabilities.notices:
                    yield _notice(update)
            case _:
                pass

    def _plan(self, update: PlanUpdated) -> JsonObject:
        # The protocol has no status for a cancelled entry.
        entries = [entry for entry in update.entries if entry.status != "cancelled"]
        if not self._capabilities.plans:
            return {"sessionUpdate": "plan", "entries": _plan_entries(entries)}
        return (
            plan_update(entries)
            if entries
            else {"sessionUpdate": "plan_removed", "planId": PLAN}
        )


def _compaction(update: _Compaction) -> JsonObject:
    wire: JsonObject = {
        "sessionUpdate": "compaction_update",
        "compactionId": update.compaction_id,
    }
    if isinstance(update, CompactionChunk):
        return {
            **wire,
            "sessionUpdate": "compaction_summary_chunk",
            "content": text_content(cut(update.text)),
        }
    wire["status"] = (
        "in_progress" if isinstance(update, CompactionStarted) else update.status
    )
    match update:
        case CompactionFinished(status="completed"):
            wire["summary"] = [
                text_content(cut(text))
                for text in (update.summary, update.receipt)
                if text
            ]
            wire["_meta"] = {
                "tokensBefore": update.tokens_before,
                "tokensAfter": update.tokens_after,
            }
        case CompactionFinished(status="failed"):
            wire["error"] = update.error or ""
        case _:
            pass
    return wire


def _compaction_title(update: CompactionFinished) -> str:
    if update.tokens_before is None or update.tokens_after is None:
        return COMPACTION_TITLE
    # Use brackets, since CodeCompanion shows a title only up to its colon.
    return f"{COMPACTION_TITLE} ({update.tokens_before:,} → {update.tokens_after:,} tokens)"


def _notice(update: Notice) -> JsonObject:
    """Return a notice. Its title is the first sentence, and its description is the
    rest, such as advice.
    """
    title, *more = re.split(
        r"(?<=[.!?])\s+(?=[A-Z`'\"“(])|\s*\n\s*", update.text.strip(), maxsplit=1
    )
    description = more[0] if more else None
    return {
        "sessionUpdate": "notice",
        "severity": update.severity,
        "title": title,
        **given(description=description),
    }


def _plan_entries(entries: Sequence[PlanEntry]) -> list[JsonValue]:
    """Return the entries of a plan."""
    return [
        {"content": entry.content, "priority": entry.priority, "status": entry.status}
        for entry in entries
    ]


def _is_plan(update: CallFinished) -> bool:
    return update.name == PLAN_TOOL and update.status == "completed"


def _plan_text(arguments: JsonObject) -> str:
    """Return the entries in the arguments of a plan, one per line.

    The result is not a Markdown list, since CodeCompanion joins a list's lines.
    """
    lines = [
        f"{_PLAN_MARKS.get(get_text(entry, 'status'), _PENDING)} {one_line(get_text(entry, 'content'), 1_000)}"
        for entry in get_objects(arguments, "entries")
    ]
    return "  \n".join(lines) or "No plan."  # Markdown's hard line break


def plan_update(entries: Sequence[PlanEntry]) -> JsonObject:
    """Return a `plan_update` with these entries."""
    plan: JsonObject = {
        "type": "items",
        "planId": PLAN,
        "entries": _plan_entries(entries),
    }
    return {"sessionUpdate": "plan_update", "plan": plan}


def available_commands(commands: Sequence[Command]) -> list[JsonValue]:
    """Convert slash commands."""
    return [
        {
            "name": command.name,
            "description": command.description,
            **given(input=None if command.hint is None else {"hint": command.hint}),
        }
        for command in commands
    ]


def config_options(options: Sequence[Option], *, switches: bool) -> list[JsonValue]:
    """Convert the options of a session; see `config_option`."""
    return [config_option(option, switches=switches) for option in options]


def config_option(option: Option, *, switches: bool) -> JsonObject:
    """Convert an option of a session.

    :param switches: whether the client supports boolean options; otherwise a switch
        becomes a menu.
    """
    said = given(category=option.category, description=option.description)
    head: JsonObject = {"id": option.id, "name": option.name, **said}
    if option.is_switch and switches:
        return {
            "type": "boolean",
            **head,
            "currentValue": option.current == option.choices[0].value,
        }
    values: list[JsonValue] = [
        {
            "value": choice.value,
            "name": choice.name,
            **given(description=choice.description),
        }
        for choice in option.choices
    ]
    return {"type": "select", **head, "currentValue": option.current, "options": values}


def _result_items(update: CallFinished, diffs: list[JsonObject]) -> list[JsonObject]:
    """Return the content of a finished call: only its diffs if it completed and has
    some, otherwise also its result.

    Diffs come first, since some editors look only at the first item.
    """
    if diffs and update.status == "completed":
        return diffs
    as_code = update.status == "completed" and update.view.kind in _FENCED_KINDS
    return [
        *diffs,
        *(
            {"type": "content", "content": _result_block(part, as_code=as_code)}
            for part in update.parts
        ),
    ]


def _result_block(part: ResultPart, *, as_code: bool) -> JsonObject:
    if isinstance(part, Image):
        return block_from_part(part)
    text = cut(part.text, SHOWN_RESULT)
    return text_content(_fenced(text) if as_code else text)


def _fenced(text: str) -> str:
    """Return a text as a code block, since editors would render files and command
    output as Markdown.
    """
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
