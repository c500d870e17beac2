"""`Presenter`: the domain's updates as version 2's `session/update`.

Messages are streamed in chunks while they are written, and sent whole where they are there already: a live prompt, and
all that is replayed, so that an editor that has them shows nothing twice. What is the same in version 1 is made there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from acp_agent.jsonrpc.messages import RpcError
from acp_agent.protocol import JsonObject, as_object
from acp_agent.protocol.v1 import content as common
from acp_agent.protocol.v1 import updates as common_updates
from acp_agent.protocol.v2 import content, updates
from acp_agent.server.bounds import MAX_TEXT, bounded, size
from acp_agent.server.face import to_rpc_error
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.content import block_from_part
from acp_agent.server.v1.presenter import PLAN, call_locations, fenced, result_items
from acp_agent.server.v1.presenter import Presenter as FirstPresenter
from acp_agent.server.v1.presenter import config_options as first_config_options
from acp_agent.server.v2.diffs import change_items, diff_items
from acp_agent.tools.text import one_line
from acp_agent.turn.updates import (
    AgentSaid,
    AgentThought,
    CallAnnounced,
    CallFinished,
    CallOutput,
    CallStarted,
    CallTerminal,
    Command,
    CommandsUpdated,
    ModeUpdated,
    Option,
    OptionsUpdated,
    PlanUpdated,
    PromptTaken,
    TurnBegan,
    TurnOver,
    Update,
    UserSaid,
)

Kind: TypeAlias = Literal["user", "agent", "thought"]
_Call: TypeAlias = CallAnnounced | CallStarted | CallTerminal | CallOutput | CallFinished
_Said: TypeAlias = UserSaid | AgentSaid | AgentThought


class Presenter:
    """Remembers what is needed to speak of running calls and of messages that are replayed.

    :param capabilities: of the client.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        self._first = FirstPresenter(capabilities)
        self._terminals: dict[str, str] = {}
        self._replayed: dict[tuple[Kind, str], list[JsonObject]] | None = None
        self._unsent: tuple[Kind, str] | None = None

    def begin_replay(self) -> None:
        """What comes now was shown before."""
        self._replayed = {}

    def end_replay(self) -> Iterator[JsonObject]:
        """What comes from now on is new; the rest of what was shown before."""
        yield from self._rest()
        self._replayed = None

    def terminal_of(self, call_id: str) -> str | None:
        """The terminal that a call runs in; None where it runs in none."""
        return self._terminals.get(call_id)

    def present(self, update: Update) -> Iterator[JsonObject]:
        """The update on the wire; nothing where the client is not to be told."""
        if self._replayed is not None and isinstance(update, _Said):
            yield from self._replay(update, self._replayed)
            return
        yield from self._rest()
        match update:
            case TurnBegan():
                yield updates.running()
            case TurnOver():
                yield _over(update)
            case PromptTaken():
                yield from whole("user", update.message_id, [block_from_part(part) for part in update.parts])
            case CallAnnounced() | CallStarted() | CallTerminal() | CallOutput() | CallFinished():
                yield from self._call(update)
            case PlanUpdated():
                yield common_updates.plan_update(PLAN, plan_entries(update))
            case ModeUpdated():
                return  # it is one of the options
            case OptionsUpdated():
                yield common_updates.config_option_update(config_options(update.options))
            case CommandsUpdated():
                yield common_updates.available_commands_update(available_commands(update.commands))
            case _:
                yield from self._common(update)

    def _common(self, update: Update) -> Iterator[JsonObject]:
        """What is the same in version 1."""
        wire = self._first.present(update)
        if wire is not None:
            yield wire

    def _call(self, update: _Call) -> Iterator[JsonObject]:
        match update:
            case CallAnnounced():
                wire = updates.tool_call_update(
                    update.call_id,
                    name=one_line(update.name),
                    title=update.view.title,
                    kind=update.view.kind,
                    status="pending",
                    rawInput=bounded(update.arguments),
                )
                yield {**wire, **lists(locations=call_locations(update.view))}
            case CallStarted():
                wire = updates.tool_call_update(
                    update.call_id, title=update.view.title, kind=update.view.kind, status="in_progress"
                )
                yield {**wire, **lists(content=diff_items(update.view), locations=call_locations(update.view))}
            case CallTerminal():
                self._terminals[update.call_id] = update.terminal_id
                yield updates.tool_call_update(
                    update.call_id, content=[common.terminal(update.terminal_id)], capabilities=updates.CANCEL
                )
            case CallOutput():
                yield updates.tool_call_update(
                    update.call_id, content=[common.tool_content(common.text_content(fenced(update.text)))]
                )
            case CallFinished():
                yield from self._finished(update)

    def _finished(self, update: CallFinished) -> Iterator[JsonObject]:
        view = update.view
        wire = updates.tool_call_update(update.call_id, title=view.title)
        if update.replayed:
            wire |= {"name": one_line(update.name), "kind": view.kind, "rawInput": bounded(update.arguments)}
        if view.raw_output is not None:
            wire["rawOutput"] = view.raw_output
        wire |= lists(locations=call_locations(view))
        if self._terminals.pop(update.call_id, None) is not None:
            # What the terminal shows stays there; a list sent now would take its place.
            wire["capabilities"] = None
            more = change_items(view)
        else:
            shown = [*result_items(update, diff_items(view)), *change_items(view)]
            taken = _fitting(shown)
            wire |= lists(content=shown[:taken])
            more = shown[taken:]
        if more:
            # What is behind the last status is not looked at by everybody.
            yield wire
            for item in more:
                yield updates.tool_call_content_chunk(update.call_id, item)
            wire = updates.tool_call_update(update.call_id)
        yield {**wire, "status": update.status}

    # --- messages that are there already ---

    def _replay(self, update: _Said, replayed: dict[tuple[Kind, str], list[JsonObject]]) -> Iterator[JsonObject]:
        key, block = _said(update)
        if self._unsent != key:
            yield from self._rest()
        replayed.setdefault(key, []).append(block)
        self._unsent = key

    def _rest(self) -> Iterator[JsonObject]:
        """A message that was replayed, as a whole: it may have begun before something else came in between."""
        key, self._unsent = self._unsent, None
        if key is not None and self._replayed is not None:
            yield from whole(*key, self._replayed[key])


def whole(kind: Kind, message_id: str, blocks: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """A message as a whole; what does not fit into one line comes in chunks behind it.

    :param blocks: each of which fits into a line.
    """
    taken = _fitting(blocks)
    build = {"user": updates.user_message, "agent": updates.agent_message, "thought": updates.agent_thought}[kind]
    yield build(message_id, blocks[:taken])
    chunks = {
        "user": common_updates.user_message_chunk,
        "agent": common_updates.agent_message_chunk,
        "thought": common_updates.agent_thought_chunk,
    }
    for block in blocks[taken:]:
        yield chunks[kind](block, message_id=message_id)


def _fitting(items: Sequence[JsonObject]) -> int:
    """How many go into one line, which is at least the first."""
    taken = 1
    length = sum(map(size, items[:1]))
    while taken < len(items) and length + size(items[taken]) <= MAX_TEXT:
        length += size(items[taken])
        taken += 1
    return taken


def available_commands(commands: Sequence[Command]) -> list[JsonObject]:
    """Slash commands on the wire."""
    return [content.available_command(command.name, command.description, hint=command.hint) for command in commands]


def plan_entries(update: PlanUpdated) -> list[JsonObject]:
    """A plan, entry by entry."""
    return [content.plan_entry(entry.content, priority=entry.priority, status=entry.status) for entry in update.entries]


def config_options(options: Sequence[Option]) -> list[JsonObject]:
    """The options of a session on the wire; a menu without anything to choose from is none."""
    chosen_from = [option for option in options if option.choices]
    wires = first_config_options(chosen_from, switches=True)
    return [content.config_option(wire, _groups(option, wire)) for option, wire in zip(chosen_from, wires, strict=True)]


def _groups(option: Option, wire: JsonObject) -> list[JsonObject]:
    """The values of a menu by their groups; none where they are of one, or some of none."""
    values = wire.get("options")
    if not isinstance(values, list):  # it is on or off
        return []
    grouped: dict[str, list[JsonObject]] = {}
    for choice, value in zip(option.choices, values, strict=True):
        if choice.group is None:
            return []
        grouped.setdefault(choice.group, []).append(as_object(value))
    return [content.config_group(name, group) for name, group in grouped.items()] if len(grouped) > 1 else []


def _error_object(error: RpcError) -> JsonObject:
    """An error as it stands in a response."""
    return {"code": error.code, "message": error.message, "data": error.data or {"details": error.message}}


def lists(**lists: list[JsonObject]) -> JsonObject:
    """Those that hold something; what is left out stays as it was."""
    return {name: [*items] for name, items in lists.items() if items}


def _over(update: TurnOver) -> JsonObject:
    if update.error is not None:
        return updates.idle("error", error=_error_object(to_rpc_error(update.error)))
    return updates.idle(update.stop)


def _said(update: _Said) -> tuple[tuple[Kind, str], JsonObject]:
    match update:
        case UserSaid():
            return ("user", update.message_id), block_from_part(update.part)
        case AgentSaid():
            return ("agent", update.message_id), common.text_content(update.text)
        case AgentThought():
            return ("thought", f"{update.message_id}_thought"), common.text_content(update.text)
