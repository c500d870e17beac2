"""`EditorClient`: the `SessionClient` of an editor that speaks version 2.

Such an editor offers neither files nor terminals: it shows the commands that the agent runs, and whether the session
works.

ACP v2, "Prompt Lifecycle"; "Tool Calls", "Requesting Permission"; "Display-only Terminals" and "Cancelling Terminals".
"""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from acp_agent.conversation.messages import new_id
from acp_agent.conversation.updates import Update
from acp_agent.errors import ToolError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol import JsonObject, JsonValue, as_object, methods, v2
from acp_agent.protocol.updates import given
from acp_agent.server.channel import Channel, EditorServers
from acp_agent.server.handshake import Capabilities
from acp_agent.server.questions import EditorQuestions, PermissionDialogs
from acp_agent.server.v2.diffs import diff_items
from acp_agent.server.v2.presenter import CANCEL, Presenter, State
from acp_agent.tools.environment import CommandResult, Report, TerminalStarted
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.paths import absolute
from acp_agent.tools.shell.run import MISSING, STREAM_LIMIT, LocalCommands
from acp_agent.tools.text import HeadAndTail, one_line

TELL_SECONDS = 2.0
"""How long the end of a command that is being cancelled may take to be told."""


class EditorClient:
    """`SessionClient` over the wire.

    :param cwd: the session's working directory, absolute.
    :param session_id: as the editor knows it.
    :ivar ask_permission: see `PermissionDialogs`; `ask_trust` likewise.
    :ivar commands: also cancels the command that runs in a terminal.
    :ivar presenter: has the session's state, as the editor was told last.
    :ivar mcp_channel: sends messages to the MCP servers inside the editor.
    """

    def __init__(
        self, peer: Peer, capabilities: Capabilities, servers: EditorServers, cwd: str, session_id: str
    ) -> None:
        self._channel = channel = Channel(peer, session_id)
        self.presenter = presenter = Presenter(capabilities)
        asking = Channel(peer, session_id, partial(_waiting_for_user, channel, presenter))
        dialogs = PermissionDialogs(asking, diff_items, partial(_dialog_params, Path(cwd)), _chosen_option)
        self.ask_permission, self.ask_trust = dialogs.ask_permission, dialogs.ask_trust
        self.questions = EditorQuestions(asking, dialogs, capabilities)
        self.files = LocalFiles()
        self.commands = _ShownCommands(channel)
        self.shows_notices = True
        self.mcp_channel = servers

    async def show(self, update: Update) -> None:
        """Send an update as this editor understands it."""
        for wire in self.presenter.present(update):
            await self._channel.send(wire)

    async def show_state(self, state: State) -> None:
        """Tell whether the session works."""
        await self._channel.send(self.presenter.state_update(state))

    @asynccontextmanager
    async def replaying(self) -> AsyncGenerator[None]:
        """Take what is shown meanwhile as what was shown before."""
        self.presenter.begin_replay()
        yield
        for wire in self.presenter.end_replay():
            await self._channel.send(wire)

    def cancel_call(self, call_id: str) -> bool:
        """End the command that a call runs.

        :returns: False where it runs none.
        """
        terminal_id = self.presenter.terminals.get(call_id)
        return terminal_id is not None and self.commands.cancel(terminal_id)


@asynccontextmanager
async def _waiting_for_user(channel: Channel, presenter: Presenter) -> AsyncGenerator[None]:
    """Tell the editor that the session waits for its user, and that it works again after the last open question."""
    presenter.open_questions += 1
    try:
        if presenter.open_questions == 1:
            await channel.send(presenter.state_update("requires_action"))
        yield
    finally:
        presenter.open_questions -= 1
        if not presenter.open_questions:
            await channel.send(presenter.state_update("running"))


def _dialog_params(folder: Path, tool_call: JsonObject, description: str) -> JsonObject:
    """Return the params of a permission dialog but for its options: a command is asked about as such."""
    subject: JsonObject = {"type": "tool_call", "toolCall": tool_call}
    arguments = as_object(tool_call.get("rawInput"))
    command, cwd = arguments.get("command"), arguments.get("cwd")
    if tool_call.get("kind") == "execute" and isinstance(command, str):
        place = absolute(cwd, folder) if isinstance(cwd, str) else folder
        subject = {"type": "command", "command": command, "cwd": str(place), "toolCallId": tool_call["toolCallId"]}
    return {"title": tool_call["title"], **given(description=description or None), "subject": subject}


def _chosen_option(answer: JsonValue) -> str | None:
    match v2.RequestPermissionResponse.from_result(answer, methods.SESSION_REQUEST_PERMISSION).outcome:
        case v2.SelectedPermissionOutcome(option_id=chosen):
            return chosen
        case v2.CancelledPermissionOutcome():
            return None
        case other:  # such as one of a later draft: no consent
            raise ToolError(f"The editor's answer is of an unknown kind, {one_line(other.outcome, 40)!r}.")


# --- commands that the editor shows ---


class _ShownCommands:
    """`CommandRunner` with local processes, each in a terminal that the editor shows, and may cancel.

    What a command prints comes as bytes of the terminal, not as a part of the tool call; where that is more than an
    editor should be sent, the newest takes the place of all that was shown.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._local = LocalCommands()
        self._running: dict[str, anyio.CancelScope] = {}

    def cancel(self, terminal_id: str) -> bool:
        """End a command; the editor learns when it has ended.

        :returns: False where none runs in this terminal.
        """
        scope = self._running.get(terminal_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    async def run(
        self, command: str, cwd: Path, timeout: float, report: Report, *, exclude: Collection[str] = ()
    ) -> CommandResult:
        """Run one command line; see `CommandRunner.run`."""
        terminal_id = new_id("term")
        terminal = _Terminal(self._channel, terminal_id)
        await terminal.update(command=command, cwd=str(cwd), capabilities=CANCEL)
        try:
            await report(TerminalStarted(terminal_id))
            with anyio.CancelScope() as scope:
                self._running[terminal_id] = scope
                return await self._local.run_raw(command, cwd, timeout, terminal.print, terminal.end, exclude=exclude)
            return terminal.result()
        finally:
            self._running.pop(terminal_id, None)
            with anyio.move_on_after(TELL_SECONDS, shield=True):
                status = given(exitCode=terminal.exit_code, signal=terminal.signal)
                await terminal.update(exitStatus=status, capabilities=None)


class _Terminal:
    """What a command prints: shown to the editor, and kept for the model for the case that the user ends it.

    :ivar exit_code: of the command, as far as that is known; `signal` likewise.
    """

    def __init__(self, channel: Channel, terminal_id: str) -> None:
        self._channel = channel
        self._id = terminal_id
        self._kept = HeadAndTail(STREAM_LIMIT)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.exit_code: int | None = None
        self.signal: str | None = None

    async def update(self, **members: JsonValue) -> None:
        await self._channel.send({"sessionUpdate": "terminal_update", "terminalId": self._id, **members})

    async def print(self, data: bytes, gap: bool) -> None:
        self._kept.add((MISSING if gap else "") + self._decoder.decode(data))
        chunk = b64encode(data).decode()
        if gap:  # what is shown begins anew, with what is there of it
            await self.update(output={"data": chunk})
        else:
            await self._channel.send({"sessionUpdate": "terminal_output_chunk", "terminalId": self._id, "data": chunk})

    def end(self, exit_code: int | None, signal: str | None) -> None:
        self.exit_code, self.signal = exit_code, signal

    def result(self) -> CommandResult:
        """Return what came of a command that the user has ended."""
        return CommandResult(self._kept.text, "", self.exit_code, self.signal, merged=True, ended_by_user=True)
