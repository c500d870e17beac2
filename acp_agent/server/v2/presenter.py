"""`V2Presenter`: converts the updates whose `session/update` objects differ between
versions 1 and 2.

A message is sent in chunks while it is being written. Prompts and the messages of a
replay are sent as a whole, so that an editor that already has them does not show them
twice.
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
"""The capabilities of a tool call or terminal that the client may cancel."""
State: TypeAlias = Literal["running", "requires_action", "idle"]
_MessageUpdate: TypeAlias = UserSaid | AgentSaid | AgentThought


class V2Presenter(presenter.Presenter):
    """Converts the updates of one session, and remembers running calls and the messages
    of a replay.

    :param capabilities: the client's capabilities.
    :ivar state: the session's state that was last sent to the client.
    :ivar open_questions: the number of questions that wait for the user.
    """

    _announcement = "tool_call_update"
    _sets_messages_apart = False
    _diffs = staticmethod(diff_items)

    def __init__(self, capabilities: Capabilities) -> None:
        super().__init__(capabilities)
        self.state: JsonObject = {"state": "idle"}
        self.open_questions = 0
        self._replayed: dict[tuple[str, str], list[JsonObject]] | None = None
        self._pending: tuple[str, str] | None = None

    def state_update(self, state: State, **more: JsonValue) -> JsonObject:
        """Change the session's state, and return the update that reports it."""
        self.state = {"state": state, **more}
        return {"sessionUpdate": "state_update", **self.state}

    def begin_replay(self) -> None:
        """Begin a replay, and join the chunks of each message from now on."""
        self._replayed = {}

    def end_replay(self) -> Iterator[JsonObject]:
        """Yield the last message of the replay, and end it."""
        yield from self._flush_replayed()
        self._replayed = None

    def present(self, update: Update) -> Iterator[JsonObject]:
        """Yield the `session/update` objects for an update; see `Presenter.present`."""
        if self._replayed is not None and isinstance(update, _MessageUpdate):
            key, block = _message_block(update)
            if self._pending != key:
                yield from self._flush_replayed()
            self._replayed.setdefault(key, []).append(block)
            self._pending = key
            return
        yield from self._flush_replayed()
        match update:
            case TurnBegan():
                yield self.state_update("running")
            case TurnOver(stop, None):
                yield self.state_update("idle", **given(stopReason=stop))
            case TurnOver(error=Exception() as error):
                yield self.state_update(
                    "idle", stopReason="error", error=error_object(to_rpc_error(error))
                )
            case PromptTaken(message_id, parts):
                yield from _whole_message(
                    "user_message",
                    message_id,
                    [block_from_part(part) for part in parts],
                )
            case OptionsUpdated(options):
                yield {
                    "sessionUpdate": "config_option_update",
                    "configOptions": config_options(options),
                }
            case CommandsUpdated(commands):
                yield {
                    "sessionUpdate": "available_commands_update",
                    "availableCommands": available_commands(commands),
                }
            case PlanUpdated(entries):
                yield plan_update(entries)
            case ModeUpdated():
                pass  # the mode is one of the config options
            case _:
                yield from super().present(update)

    def _progress(self, update: CallStarted | CallTerminal | CallOutput) -> JsonObject:
        wire = super()._progress(update)
        return (
            {**wire, "capabilities": CANCEL}
            if isinstance(update, CallTerminal)
            else wire
        )

    def _finished(
        self, update: CallFinished, *, standalone: bool
    ) -> Iterator[JsonObject]:
        in_terminal = update.call_id in self.terminals
        changes = change_items(update.view)
        [wire] = super()._finished(update, standalone=standalone)
        if in_terminal:
            wire["capabilities"] = None
            # Content would replace the terminal, so send chunks instead. They come
            # before the final status, since some editors ignore later ones.
            for item in changes:
                yield {
                    "sessionUpdate": "tool_call_content_chunk",
                    "toolCallId": update.call_id,
                    "content": item,
                }
        elif changes:
            shown = wire.get("content")
            wire["content"] = [*(shown if isinstance(shown, list) else []), *changes]
        yield {**wire, "status": update.status}

    def _flush_replayed(self) -> Iterator[JsonObject]:
        """Yield the pending message of a replay, including the chunks before another
        update interrupted it.
        """
        key = self._pending
        self._pending = None
        if key is not None and self._replayed is not None:
            yield from _whole_message(*key, self._replayed[key])


def _message_block(update: _MessageUpdate) -> tuple[tuple[str, str], JsonObject]:
    """Return the kind and id of a message, and the content block of its chunk."""
    match update:
        case UserSaid(message_id, part):
            return ("user_message", message_id), block_from_part(part)
        case AgentSaid(message_id, text):
            return ("agent_message", message_id), text_content(cut(text))
        case AgentThought(message_id, text):
            return ("agent_thought", f"{message_id}_thought"), text_content(cut(text))


def _whole_message(
    kind: str, message_id: str, blocks: Sequence[JsonObject]
) -> Iterator[JsonObject]:
    """Yield a message in one update. Blocks that do not fit into its line follow in
    chunks.

    :param blocks: the content blocks, each of which fits into a line.
    """
    taken = 1
    length = size([*blocks[:1]])
    while taken < len(blocks) and (length := length + size(blocks[taken])) <= MAX_TEXT:
        taken += 1
    yield {"sessionUpdate": kind, "messageId": message_id, "content": [*blocks[:taken]]}
    for block in blocks[taken:]:
        yield message_chunk(f"{kind}_chunk", message_id, block)


# --- the session's state ---


def available_commands(commands: Sequence[Command]) -> list[JsonValue]:
    """Convert slash commands."""
    return [
        {
            "type": "command",
            "name": command.name,
            "description": command.description,
            **given(
                input=None
                if command.hint is None
                else {"type": "text", "hint": command.hint}
            ),
        }
        for command in commands
    ]


def config_options(options: Sequence[Option]) -> list[JsonValue]:
    """Convert the options of a session, without menus that have no choices."""
    return [_config_option(option) for option in options if option.choices]


def _config_option(option: Option) -> JsonObject:
    """Convert an option. Its values are grouped if all of them have a group."""
    wire = presenter.config_option(option, switches=True)
    wire["configId"] = wire.pop("id")
    values = wire.get("options")
    if not isinstance(values, list):  # a boolean option
        return wire
    groups: dict[str | None, list[JsonValue]] = {}
    for choice, value in zip(option.choices, values, strict=True):
        groups.setdefault(choice.group, []).append(value)
    if len(groups) > 1 and None not in groups:
        wire["options"] = [
            {"groupId": name, "name": name, "options": group}
            for name, group in groups.items()
        ]
    return wire
