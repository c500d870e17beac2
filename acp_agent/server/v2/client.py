"""`EditorClient` of version 2, which offers neither files nor terminals, and is sent the session's state.

ACP v2, "Prompt Lifecycle"; "Tool Calls", "Requesting Permission".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from acp_agent.errors import ToolError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol import JsonObject, JsonValue, as_object, methods, v2
from acp_agent.protocol.updates import given
from acp_agent.server.channel import EditorServers
from acp_agent.server.handshake import Capabilities
from acp_agent.server.v1 import client
from acp_agent.server.v2.presenter import Presenter, State
from acp_agent.server.v2.terminals import ShownCommands
from acp_agent.tools.paths import absolute
from acp_agent.tools.text import one_line


class EditorClient(client.EditorClient):
    """One session's editor.

    :param session_id: as the editor knows it.
    :param cwd: the session's working directory, absolute.
    :ivar terminals: the running commands.
    """

    def __init__(
        self, peer: Peer, session_id: str, cwd: str, capabilities: Capabilities, servers: EditorServers
    ) -> None:
        super().__init__(peer, session_id, capabilities, servers)
        self.terminals = ShownCommands(self)
        self._messages = Presenter(capabilities)
        self.commands, self._presenter = self.terminals, self._messages
        self._cwd = Path(cwd)
        self._open_questions = 0

    @property
    def state(self) -> JsonObject:
        """Whether the session works, as the editor was told last."""
        return self._messages.state

    async def show_state(self, state: State) -> None:
        """Tell whether the session works: it waits for the user while it `requires_action`."""
        await self.send(self._messages.state_update(state))

    @asynccontextmanager
    async def replaying(self) -> AsyncGenerator[None]:
        """Take what is shown meanwhile as what was shown before."""
        self._messages.begin_replay()
        yield
        for wire in self._messages.end_replay():
            await self.send(wire)

    def cancel_call(self, call_id: str) -> bool:
        """End the command that a call runs.

        :returns: False where it runs none.
        """
        terminal_id = self._messages.terminals.get(call_id)
        return terminal_id is not None and self.terminals.cancel(terminal_id)

    async def ask(self, method: str, params: JsonObject, *, timeout: float | None = None) -> JsonValue:
        """Ask the user through the editor, for as long as it takes; it is asked nothing else."""
        self._open_questions += 1
        try:
            if self._open_questions == 1:
                await self.show_state("requires_action")
            return await super().ask(method, params, timeout=timeout)
        finally:
            self._open_questions -= 1
            if not self._open_questions:
                await self.show_state("running")

    def _dialog(self, tool_call: JsonObject, description: str) -> JsonObject:
        """Return the params of a permission dialog but for its options: a command is asked about as such."""
        subject: JsonObject = {"type": "tool_call", "toolCall": tool_call}
        arguments = as_object(tool_call.get("rawInput"))
        command, cwd = arguments.get("command"), arguments.get("cwd")
        if tool_call.get("kind") == "execute" and isinstance(command, str):
            place = absolute(cwd, self._cwd) if isinstance(cwd, str) else self._cwd
            subject = {"type": "command", "command": command, "cwd": str(place), "toolCallId": tool_call["toolCallId"]}
        return {"title": tool_call["title"], **given(description=description or None), "subject": subject}

    def _chosen(self, answer: JsonValue) -> str | None:
        """Return the id of the option that was selected; None where the user has ended the turn."""
        match v2.RequestPermissionResponse.from_result(answer, methods.SESSION_REQUEST_PERMISSION).outcome:
            case v2.SelectedPermissionOutcome(option_id=chosen):
                return chosen
            case v2.CancelledPermissionOutcome():
                return None
            case other:  # such as one of a later draft: no consent
                raise ToolError(f"The editor's answer is of an unknown kind, {one_line(other.outcome, 40)!r}.")
