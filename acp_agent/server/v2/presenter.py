"""`Presenter`: the domain's updates as version 2's `session/update`, where they are not the same as in version 1.

Messages are streamed in chunks while they are written, and sent whole where they are there already: a live prompt, and
all that is replayed, so that an editor that has them shows nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from acp_agent.conversation.updates import (
    AgentSaid,
    AgentThought,
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
from acp_agent.jsonrpc.messages import error_object
from acp_agent.protocol import JsonObject, JsonValue
from acp_agent.protocol.updates import given, message_chunk, text_content
from acp_agent.server.agent import to_rpc_error
from acp_agent.server.content import MAX_TEXT, block_from_part, cut, size
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1 import presenter
from acp_agent.server.v1.presenter import plan_update
from acp_agent.server.v2.diffs import change_items, diff_items

CANCEL: JsonObject = {"cancel": {}}
"""Capabilities of a call or a terminal that the client may cancel."""
State: TypeAlias = Literal["running", "requires_action", "idle"]
_Said: TypeAlias = UserSaid | AgentSaid | AgentThought


class Presenter(presenter.Presenter):
    """Makes the updates; remembers running calls, and the messages that are replayed.

    :param capabilities: of the client.
    :ivar state: whether the session works, as the client was told last.
    :ivar open_questions: how many the user has to answer.
    """

    _announcement = "tool_call_update"
    _diffs = staticmethod(diff_items)

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(capabilities)
        self.state: JsonObject = {"state": "idle"}
        self.open_questions = 0
        self._replayed: dict[tuple[str, str], list[JsonObject]] | None = None
        self._unsent: tuple[str, str] | None = None

    def state_update(self, state: State, **more: JsonValue) -> JsonObject:
        """Return the update that tells whether the session works: it waits for the user while it `requires_action`."""
        self.state = {"state": state, **more}
        return {"sessionUpdate": "state_update", **self.state}

    def begin_replay(self) -> None:
        """Take what comes now as what was shown before."""
        self._replayed = {}

    def end_replay(self) -> Iterator[JsonObject]:
        """Yield the rest of what was shown before; what comes from now on is new."""
        yield from self._rest()
        self._replayed = None

    def present(self, update: Update) -> Iterator[JsonObject]:
        """Yield the update as it goes over the wire; see version 1's."""
        if self._replayed is not None and isinstance(update, _Said):
            key, block = _said(update)
            if self._unsent != key:
                yield from self._rest()
            self._replayed.setdefault(key, []).append(block)
            self._unsent = key
            return
        yield from self._rest()
        match update:
            case TurnBegan():
                yield self.state_update("running")
            case TurnOver(stop, None):
                yield self.state_update("idle", **given(stopReason=stop))
            case TurnOver(error=Exception() as error):
                yield self.state_update("idle", stopReason="error", error=error_object(to_rpc_error(error)))
            case PromptTaken(message_id, parts):
                yield from whole("user_message", message_id, [block_from_part(part) for part in parts])
            case OptionsUpdated(options):
                yield {"sessionUpdate": "config_option_update", "configOptions": config_options(options)}
            case CommandsUpdated(commands):
                yield {"sessionUpdate": "available_commands_update", "availableCommands": available_commands(commands)}
            case PlanUpdated(entries):
                yield plan_update(entries)
            case ModeUpdated():
                pass  # it is one of the options
            case _:
                yield from super().present(update)

    def _progress(self, update: CallStarted | CallTerminal | CallOutput) -> JsonObject:
        wire = super()._progress(update)
        return {**wire, "capabilities": CANCEL} if isinstance(update, CallTerminal) else wire

    def _finished(self, update: CallFinished, *, standalone: bool) -> Iterator[JsonObject]:
        in_terminal, changes = update.call_id in self.terminals, change_items(update.view)
        [wire] = super()._finished(update, standalone=standalone)
        if in_terminal:
            wire["capabilities"] = None
            # A list would replace the terminal. And not every editor looks at what is behind the last status.
            for item in changes:
                yield {"sessionUpdate": "tool_call_content_chunk", "toolCallId": update.call_id, "content": item}
        elif changes:
            shown = wire.get("content")
            wire["content"] = [*(shown if isinstance(shown, list) else []), *changes]
        yield {**wire, "status": update.status}

    def _rest(self) -> Iterator[JsonObject]:
        """Yield a message that was replayed, as a whole: it may have begun before something else came in between."""
        key, self._unsent = self._unsent, None
        if key is not None and self._replayed is not None:
            yield from whole(*key, self._replayed[key])


def _said(update: _Said) -> tuple[tuple[str, str], JsonObject]:
    """Return the kind and the id of a message, and what is said."""
    match update:
        case UserSaid(message_id, part):
            return ("user_message", message_id), block_from_part(part)
        case AgentSaid(message_id, text):
            return ("agent_message", message_id), text_content(cut(text))
        case AgentThought(message_id, text):
            return ("agent_thought", f"{message_id}_thought"), text_content(cut(text))


def whole(kind: str, message_id: str, blocks: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield a message as a whole; what does not fit into one line comes in chunks behind it.

    :param blocks: each fits into a line.
    """
    taken, length = 1, size([*blocks[:1]])
    while taken < len(blocks) and (length := length + size(blocks[taken])) <= MAX_TEXT:
        taken += 1
    yield {"sessionUpdate": kind, "messageId": message_id, "content": [*blocks[:taken]]}
    for block in blocks[taken:]:
        yield message_chunk(f"{kind}_chunk", message_id, block)


# --- the session's state ---


def available_commands(commands: Sequence[Command]) -> list[JsonValue]:
    """Return the slash commands on offer."""
    return [
        {
            "type": "command",
            "name": command.name,
            "description": command.description,
            **given(input=None if command.hint is None else {"type": "text", "hint": command.hint}),
        }
        for command in commands
    ]


def config_options(options: Sequence[Option]) -> list[JsonValue]:
    """Return the options of a session; a menu without anything to choose from is none."""
    return [_config_option(option) for option in options if option.choices]


def _config_option(option: Option) -> JsonObject:
    """Return an option with its values by their groups, where there are some."""
    wire = presenter.config_option(option, switches=True)
    wire["configId"] = wire.pop("id")
    values = wire.get("options")
    if not isinstance(values, list):  # it is on or off
        return wire
    groups: dict[str | None, list[JsonValue]] = {}
    for choice, value in zip(option.choices, values, strict=True):
        groups.setdefault(choice.group, []).append(value)
    if len(groups) > 1 and None not in groups:
        wire["options"] = [{"groupId": name, "name": name, "options": group} for name, group in groups.items()]
    return wire
