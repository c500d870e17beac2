"""`V2EditorClient`: the `SessionClient` of an editor that speaks version 2.

Such an editor does not offer files or terminals. It shows the commands that the agent
runs, and the session's state.

ACP v2, "Prompt Lifecycle"; "Tool Calls", "Requesting Permission"; "Display-only
Terminals" and "Cancelling Terminals".
"""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import AsyncGenerator, Collection, Sequence
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
from acp_agent.server.v2.presenter import CANCEL, State, V2Presenter
from acp_agent.tools.environment import CommandResult, Report, TerminalStarted
from acp_agent.tools.files.local import LocalFiles
from acp_agent.tools.paths import absolute
from acp_agent.tools.shell.run import MISSING, STREAM_LIMIT, LocalCommands
from acp_agent.tools.shell.screen import ShownOutput
from acp_agent.tools.text import one_line
from acp_agent.visible import visible

_REPORT_SECONDS = 2.0
"""Time limit for reporting the end of a command, even while its turn is being
cancelled.
"""


class V2EditorClient:
    """`SessionClient` over the wire.

    :param cwd: absolute path of the session's working directory.
    :param session_id: the id by which the editor knows the session.
    :ivar ask_permission: see `PermissionDialogs`; `ask_trust` likewise.
    :ivar commands: runs commands, and can cancel the command in a terminal.
    :ivar presenter: converts updates, and holds the state that was last sent to the
        editor.
    :ivar mcp_channel: sends messages to the MCP servers inside the editor.
    """

    def __init__(
        self,
        peer: Peer,
        capabilities: Capabilities,
        servers: EditorServers,
        cwd: str,
        session_id: str,
    ) -> None:
        self._channel = channel = Channel(peer, session_id)
        self.presenter = presenter = V2Presenter(capabilities)
        asking = Channel(
            peer, session_id, partial(_waiting_for_user, channel, presenter)
        )
        params = partial(_dialog_params, Path(cwd))
        dialogs = PermissionDialogs(
            asking, diff_items, params, _chosen_option, self._announce
        )
        self.ask_permission = dialogs.ask_permission
        self.ask_trust = dialogs.ask_trust
        self.questions = EditorQuestions(asking, dialogs, capabilities)
        self.files = LocalFiles()
        self.commands = _ShownCommands(channel)
        self.shows_notices = True
        self.mcp_channel = servers

    async def show(self, update: Update) -> None:
        """Send an update in the form that the editor supports."""
        for wire in self.presenter.present(update):
            await self._channel.send(wire)

    async def _announce(self, call_id: str) -> None:
        for wire in self.presenter.reveal(call_id):
            await self._channel.send(wire)

    async def show_state(self, state: State) -> None:
        """Send the session's state."""
        await self._channel.send(self.presenter.state_update(state))

    @asynccontextmanager
    async def replaying(self) -> AsyncGenerator[None]:
        """Send messages that are shown inside the `async with` block as a replay, each
        as a whole.
        """
        self.presenter.begin_replay()
        yield
        for wire in self.presenter.end_replay():
            await self._channel.send(wire)

    def cancel_call(self, call_id: str) -> bool:
        """Kill the command that a tool call runs.

        :returns: whether the call was running a command.
        """
        terminal_id = self.presenter.terminals.get(call_id)
        return terminal_id is not None and self.commands.cancel(terminal_id)


@asynccontextmanager
async def _waiting_for_user(
    channel: Channel, presenter: V2Presenter
) -> AsyncGenerator[None]:
    """Set the session's state to `requires_action`, and back to `running` after the
    last open question.
    """
    presenter.open_questions += 1
    try:
        if presenter.open_questions == 1:
            await channel.send(presenter.state_update("requires_action"))
        yield
    finally:
        presenter.open_questions -= 1
        if not presenter.open_questions:
            await channel.send(presenter.state_update("running"))


def _dialog_params(
    folder: Path, tool_call: JsonObject, description: str, facts: str
) -> JsonObject:
    """Return a permission request's params without its options. The subject of a shell
    call is its command, with every character made visible.
    """
    subject: JsonObject = {"type": "tool_call", "toolCall": tool_call}
    arguments = as_object(tool_call.get("rawInput"))
    command = arguments.get("command")
    cwd = arguments.get("cwd")
    if tool_call.get("kind") == "execute" and isinstance(command, str):
        place = absolute(cwd, folder) if isinstance(cwd, str) else folder
        subject = {
            "type": "command",
            "command": visible(command),
            "cwd": visible(str(place)),
            "toolCallId": tool_call["toolCallId"],
        }
    told = "\n\n".join(filter(None, (description, facts)))
    return {
        "title": tool_call["title"],
        **given(description=told or None),
        "subject": subject,
    }


def _chosen_option(answer: JsonValue) -> str | None:
    match v2.RequestPermissionResponse.from_result(
        answer, methods.SESSION_REQUEST_PERMISSION
    ).outcome:
        case v2.SelectedPermissionOutcome(option_id=chosen):
            return chosen
        case v2.CancelledPermissionOutcome():
            return None
        case other:  # an outcome of a later draft, for example; it is not consent
            raise ToolError(
                f"The editor's answer has the unknown kind {one_line(other.outcome, 40)!r}."
            )


# --- commands that the editor shows ---


class _ShownCommands:
    """`CommandRunner` with local processes. The editor shows each one in a terminal,
    and may cancel it.

    Output is sent as bytes of the terminal, not as content of the tool call. If a
    command prints too much, its newest output replaces everything shown before.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._local = LocalCommands()
        self._running: dict[str, anyio.CancelScope] = {}

    def cancel(self, terminal_id: str) -> bool:
        """Kill the command in a terminal. `run` reports its end to the editor.

        :returns: whether a command was running.
        """
        scope = self._running.get(terminal_id)
        if scope is None:
            return False
        scope.cancel()
        return True

    async def run(
        self,
        argv: Sequence[str],
        cwd: Path,
        timeout: float,
        report: Report,
        *,
        shown: str,
        exclude: Collection[str] = (),
        try_out: Sequence[str] = (),
    ) -> CommandResult:
        """Run one command; see `CommandRunner.run`."""
        terminal_id = new_id("term")
        terminal = _Terminal(self._channel, terminal_id)
        await terminal.update(command=shown, cwd=str(cwd), capabilities=CANCEL)
        try:
            await report(TerminalStarted(terminal_id))
            with anyio.CancelScope() as scope:
                self._running[terminal_id] = scope
                return await self._local.run_raw(
                    argv, cwd, timeout, terminal.print, terminal.end, exclude=exclude
                )
            return terminal.result()
        finally:
            self._running.pop(terminal_id, None)
            with anyio.move_on_after(_REPORT_SECONDS, shield=True):
                status = given(exitCode=terminal.exit_code, signal=terminal.signal)
                await terminal.update(exitStatus=status, capabilities=None)


class _Terminal:
    """The output of a command. It is sent to the editor, and kept for the model in case
    the user ends the command.

    :ivar exit_code: the exit code; None until the command has exited with one.
    """

    def __init__(self, channel: Channel, terminal_id: str) -> None:
        self._channel = channel
        self._id = terminal_id
        self._kept = ShownOutput(STREAM_LIMIT)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.exit_code: int | None = None
        self.signal: str | None = None

    async def update(self, **members: JsonValue) -> None:
        await self._channel.send(
            {"sessionUpdate": "terminal_update", "terminalId": self._id, **members}
        )

    async def print(self, data: bytes, gap: bool) -> None:
        self._kept.add((MISSING if gap else "") + self._decoder.decode(data))
        chunk = b64encode(data).decode()
        if gap:  # this replaces everything shown before
            await self.update(output={"data": chunk})
        else:
            await self._channel.send(
                {
                    "sessionUpdate": "terminal_output_chunk",
                    "terminalId": self._id,
                    "data": chunk,
                }
            )

    def end(self, exit_code: int | None, signal: str | None) -> None:
        self.exit_code = exit_code
        self.signal = signal

    def result(self) -> CommandResult:
        """Return the result of a command that the user has ended."""
        return CommandResult(
            self._kept.text,
            "",
            self.exit_code,
            self.signal,
            merged=True,
            ended_by_user=True,
        )
