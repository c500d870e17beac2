"""`Presenter`: the domain's updates as `session/update`, for what this client understands.

Where a client lacks the session updates for compaction, it sees a tool call of kind `other` in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import Image, ResultPart
from acp_agent.protocol import JsonObject
from acp_agent.protocol.v1 import content, updates
from acp_agent.server.bounds import bounded, cut
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.content import block_from_part
from acp_agent.tools.text import one_line
from acp_agent.turn.updates import (
    AgentSaid,
    AgentThought,
    CallAnnounced,
    CallFinished,
    CallOutput,
    CallStarted,
    CallTerminal,
    CommandsUpdated,
    CompactionChunk,
    CompactionFinished,
    CompactionStarted,
    ModeUpdated,
    Notice,
    Option,
    OptionsUpdated,
    PlanUpdated,
    PromptTaken,
    TitleUpdated,
    TurnBegan,
    TurnOver,
    Update,
    UsageUpdated,
    UserSaid,
)

SHOWN_RESULT = 30_000
"""Characters of a tool's result that an editor is shown; the model has read more."""
SUMMARY_STEP = 1_000
"""Characters by which a summary grows before a client that sees it as a tool call is sent it again."""
PLAN = "plan"
"""A session has one plan."""
COMPACTION_TITLE = "Compact conversation"
_FENCED_KINDS = ("read", "search", "execute")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"“(])|\s*\n\s*")


class Presenter:
    """Remembers what is needed to speak of running calls and compactions.

    :param capabilities: of the client.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._in_terminal: set[str] = set()
        self._summary = ""
        self._summary_sent = 0

    def present(self, update: Update) -> JsonObject | None:
        """The update on the wire; None where this client is not to be told."""
        match update:
            case AgentSaid():
                return updates.agent_message_chunk(content.text_content(update.text), message_id=update.message_id)
            case AgentThought():
                return updates.agent_thought_chunk(
                    content.text_content(update.text), message_id=f"{update.message_id}_thought"
                )
            case TurnBegan() | TurnOver() | PromptTaken():
                return None  # the request of a prompt lasts as long as its turn, and its text stands in the editor
            case UserSaid():
                return updates.user_message_chunk(block_from_part(update.part), message_id=update.message_id)
            case CallAnnounced() | CallStarted() | CallTerminal() | CallOutput() | CallFinished():
                return self._call(update)
            case CompactionStarted() | CompactionChunk() | CompactionFinished():
                return self._compaction(update) if self._capabilities.compaction else self._compaction_as_call(update)
            case _:
                return self._state(update)

    def _call(self, update: CallAnnounced | CallStarted | CallTerminal | CallOutput | CallFinished) -> JsonObject:
        match update:
            case CallAnnounced():
                return updates.tool_call(
                    update.call_id,
                    update.view.title,
                    name=one_line(update.name),
                    kind=update.view.kind,
                    status="pending",
                    locations=_locations(update.view),
                    raw_input=bounded(update.arguments),
                )
            case CallStarted():
                return updates.tool_call_update(
                    update.call_id,
                    update.view.title,
                    kind=update.view.kind,
                    status="in_progress",
                    content=_diffs(update.view) or None,
                    locations=_locations(update.view),
                )
            case CallTerminal():
                self._in_terminal.add(update.call_id)
                return updates.tool_call_update(update.call_id, content=[content.terminal(update.terminal_id)])
            case CallOutput():
                return updates.tool_call_update(
                    update.call_id, content=[content.tool_content(content.text_content(fenced(update.text)))]
                )
            case CallFinished():
                return self._finished(update)

    def _finished(self, update: CallFinished) -> JsonObject:
        view = update.view
        status = "completed" if update.status == "completed" else "failed"
        shown: list[JsonObject] | None = result_items(update, _diffs(update.view)) or None
        if update.call_id in self._in_terminal:
            # What the terminal shows stays there; a list sent now would take its place.
            self._in_terminal.discard(update.call_id)
            shown = None
        if update.replayed:
            return updates.tool_call(
                update.call_id,
                view.title,
                name=one_line(update.name),
                kind=view.kind,
                status=status,
                content=shown,
                locations=_locations(view),
                raw_input=bounded(update.arguments),
                raw_output=view.raw_output,
            )
        return updates.tool_call_update(
            update.call_id,
            view.title,
            status=status,
            content=shown,
            locations=_locations(view),
            raw_output=view.raw_output,
        )

    def _compaction(self, update: CompactionStarted | CompactionChunk | CompactionFinished) -> JsonObject:
        match update:
            case CompactionStarted():
                return updates.compaction_update(update.compaction_id, "in_progress")
            case CompactionChunk():
                return updates.compaction_summary_chunk(update.compaction_id, update.text)
            case CompactionFinished(status="completed"):
                summary = [content.text_content(cut(text)) for text in (update.summary, update.receipt) if text]
                return updates.compaction_update(
                    update.compaction_id, "completed", summary=summary, meta=_token_meta(update)
                )
            case CompactionFinished(status="failed"):
                return updates.compaction_update(update.compaction_id, "failed", error=update.error or "")
            case CompactionFinished():
                return updates.compaction_update(update.compaction_id, update.status)

    def _compaction_as_call(
        self, update: CompactionStarted | CompactionChunk | CompactionFinished
    ) -> JsonObject | None:
        call_id = update.compaction_id
        match update:
            case CompactionStarted():
                self._summary, self._summary_sent = "", 0
                return updates.tool_call(call_id, COMPACTION_TITLE, kind="other", status="in_progress")
            case CompactionChunk():
                self._summary += update.text
                if len(self._summary) - self._summary_sent < SUMMARY_STEP:
                    return None
                self._summary_sent = len(self._summary)
                return updates.tool_call_update(call_id, content=_text(self._summary))
            case CompactionFinished():
                shown = _text(update.error or "Cancelled.")
                if update.status == "completed":
                    shown = [item for text in (update.summary, update.receipt) if text for item in _text(text)]
                status = "completed" if update.status == "completed" else "failed"
                build = updates.tool_call if update.replayed else updates.tool_call_update
                kind = "other" if update.replayed else None
                return build(call_id, _compaction_title(update), kind=kind, status=status, content=shown)

    def _state(
        self,
        update: PlanUpdated | UsageUpdated | ModeUpdated | OptionsUpdated | TitleUpdated | CommandsUpdated | Notice,
    ) -> JsonObject | None:
        match update:
            case PlanUpdated():
                return self._plan(update)
            case UsageUpdated():
                cost = None if update.cost is None else content.cost(update.cost, "USD")
                return updates.usage_update(update.used, update.size, cost=cost)
            case ModeUpdated():
                return updates.current_mode_update(update.mode)
            case OptionsUpdated():
                switches = self._capabilities.booleans
                return updates.config_option_update(config_options(update.options, switches=switches))
            case TitleUpdated():
                return updates.session_info_update(title=update.title)
            case CommandsUpdated():
                return updates.available_commands_update(
                    [
                        content.available_command(command.name, command.description, hint=command.hint)
                        for command in update.commands
                    ]
                )
            case Notice():
                return _notice(update) if self._capabilities.notices else None
            case _:
                assert_never(update)

    def _plan(self, update: PlanUpdated) -> JsonObject:
        entries = plan_entries(update)
        if self._capabilities.plan_removals and not entries:
            return updates.plan_removed(PLAN)
        return updates.plan_update(PLAN, entries) if self._capabilities.plans else updates.plan(entries)


def _notice(update: Notice) -> JsonObject:
    """The first sentence stands alone; what is behind it, as what to do, is the description."""
    title, *more = _SENTENCE_END.split(update.text.strip(), maxsplit=1)
    return updates.notice(update.severity, title, description=more[0] if more else None)


def plan_entries(update: PlanUpdated) -> list[JsonObject]:
    """A plan, entry by entry; what will not be done after all is no part of it, since there is no word for that."""
    return [
        content.plan_entry(entry.content, priority=entry.priority, status=entry.status)
        for entry in update.entries
        if entry.status != "cancelled"
    ]


def config_options(options: Sequence[Option], *, switches: bool) -> list[JsonObject]:
    """The options of a session on the wire.

    :param switches: whether the client has them; else a switch is a menu.
    """
    return [_config_option(option, switches=switches) for option in options]


def _config_option(option: Option, *, switches: bool) -> JsonObject:
    if option.is_switch and switches:
        return content.config_boolean(
            option.id,
            option.name,
            option.current == option.choices[0].value,
            category=option.category,
            description=option.description,
        )
    return content.config_select(
        option.id,
        option.name,
        option.current,
        [content.config_value(choice.value, choice.name, description=choice.description) for choice in option.choices],
        category=option.category,
        description=option.description,
    )


def call_content(view: CallView) -> list[JsonObject]:
    """What an editor shows of a call that has not run."""
    return _diffs(view)


def call_locations(view: CallView) -> list[JsonObject]:
    """The places that a call is about."""
    return _locations(view) or []


def _locations(view: CallView) -> list[JsonObject] | None:
    return [content.location(place.path, line=place.line) for place in view.locations] or None


def _diffs(view: CallView) -> list[JsonObject]:
    return [content.diff(diff.path, diff.old_text, diff.new_text) for diff in view.diffs]


def result_items(update: CallFinished, diffs: list[JsonObject]) -> list[JsonObject]:
    """What is shown of a call that has ended: diffs first, since some editors look at the first item only; without a
    diff, the result's text.

    :param diffs: those of its view.
    """
    if diffs and update.status == "completed":
        return diffs
    as_code = update.status == "completed" and update.view.kind in _FENCED_KINDS
    return [*diffs, *(content.tool_content(_result_block(part, as_code=as_code)) for part in update.parts)]


def _result_block(part: ResultPart, *, as_code: bool) -> JsonObject:
    if isinstance(part, Image):
        return block_from_part(part)
    text = cut(part.text, SHOWN_RESULT)
    return content.text_content(fenced(text) if as_code else text)


def fenced(text: str) -> str:
    """As a code block: editors render results as Markdown, and files and output are none."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _text(text: str) -> list[JsonObject]:
    return [content.tool_content(content.text_content(cut(text)))]


def _compaction_title(update: CompactionFinished) -> str:
    if update.tokens_before is None or update.tokens_after is None:
        return COMPACTION_TITLE
    # In brackets: CodeCompanion shows a title up to its colon.
    return f"{COMPACTION_TITLE} ({update.tokens_before:,} → {update.tokens_after:,} tokens)"


def _token_meta(update: CompactionFinished) -> JsonObject:
    return {"tokensBefore": update.tokens_before, "tokensAfter": update.tokens_after}
