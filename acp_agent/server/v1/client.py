"""`EditorClient`: the `SessionClient` of an editor that speaks version 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from acp_agent.conversation.updates import Update
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol import JsonObject, JsonValue, methods, v1
from acp_agent.protocol.updates import tool_text
from acp_agent.server.channel import Channel, EditorServers
from acp_agent.server.handshake import Capabilities
from acp_agent.server.questions import EditorQuestions, PermissionDialogs
from acp_agent.server.v1.environment import EditorFiles, EditorTerminals
from acp_agent.server.v1.presenter import Presenter, diff_items
from acp_agent.tools.environment import CommandRunner
from acp_agent.tools.shell.run import LocalCommands


class EditorClient:
    """`SessionClient` over the wire.

    :param in_step: see `EditorFiles`.
    :param offers_always: see `PermissionDialogs`.
    :param session_id: the id by which the editor knows the session.
    :ivar ask_permission: see `PermissionDialogs`; `ask_trust` likewise.
    :ivar mcp_channel: sends messages to the MCP servers inside the editor.
    """

    def __init__(
        self,
        peer: Peer,
        capabilities: Capabilities,
        servers: EditorServers,
        in_step: dict[Path, str | None],
        offers_always: Callable[[], bool],
        session_id: str,
    ) -> None:
        self._channel = channel = Channel(peer, session_id)
        self._presenter = Presenter(capabilities)
        dialogs = PermissionDialogs(
            channel,
            diff_items,
            _dialog_params,
            _chosen_option,
            self._announce,
            offers_always,
        )
        self.ask_permission = dialogs.ask_permission
        self.ask_trust = dialogs.ask_trust
        self.questions = EditorQuestions(channel, dialogs, capabilities)
        self.files = EditorFiles(channel, capabilities, in_step)
        self.commands: CommandRunner = (
            EditorTerminals(channel) if capabilities.terminal else LocalCommands()
        )
        self.shows_notices = capabilities.notices
        self.mcp_channel = servers

    async def show(self, update: Update) -> None:
        """Send an update in the form that the editor supports, if there is one."""
        for wire in self._presenter.present(update):
            await self._channel.send(wire)

    async def _announce(self, call_id: str) -> None:
        for wire in self._presenter.reveal(call_id):
            await self._channel.send(wire)


def _dialog_params(tool_call: JsonObject, description: str, facts: str) -> JsonObject:
    """Return a permission request's params without its options. The facts come after a
    change, since some editors look for a change only in the first item of the content.
    """
    shown = tool_call.get("content")
    content: list[JsonValue] = [*shown] if isinstance(shown, list) else []
    if description:
        content.insert(0, tool_text(description))
    if facts:
        content.append(tool_text(facts))
    if content:
        tool_call = {**tool_call, "content": content}
    return {"toolCall": tool_call}


def _chosen_option(answer: JsonValue) -> str | None:
    outcome = v1.RequestPermissionResponse.from_result(
        answer, methods.SESSION_REQUEST_PERMISSION
    ).outcome
    return (
        outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None
    )
