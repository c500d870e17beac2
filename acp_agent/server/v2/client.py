"""`EditorClient`: one session's editor in version 2, as the session sees it.

It lends neither files nor terminals: those are the agent's own, and it shows them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.jsonrpc.messages import PeerClosedError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol.v1 import content as common
from acp_agent.protocol.v2 import requests, updates
from acp_agent.server.asking import answer_of, asked_by_editor, permission_options, trust_by_form, trust_options
from acp_agent.server.bounds import bounded, cut
from acp_agent.server.client import WireClient
from acp_agent.server.mcp_messages import EditorServers
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.presenter import call_locations
from acp_agent.server.v2.diffs import diff_items
from acp_agent.server.v2.presenter import Presenter, lists
from acp_agent.server.v2.questions import EditorQuestions
from acp_agent.server.v2.terminals import ShownCommands
from acp_agent.session.client import TrustQuestion
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.local_files import LocalFiles
from acp_agent.tools.paths import absolute
from acp_agent.tools.text import one_line
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Update

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions


class EditorClient(WireClient):
    """`SessionClient` over the wire.

    :param peer: the connection.
    :param session_id: as the editor knows it.
    :param cwd: the session's working directory, absolute.
    """

    def __init__(
        self, peer: Peer, session_id: str, cwd: str, capabilities: Capabilities, servers: EditorServers
    ) -> None:
        super().__init__(peer, session_id, servers)
        self._cwd = Path(cwd)
        self._presenter = Presenter(capabilities)
        self._state: JsonObject = {"state": "idle"}
        self._questions = EditorQuestions(peer, session_id, capabilities, self._send)
        self._files = LocalFiles()
        self._commands = ShownCommands(self._send)

    @property
    def files(self) -> FileAccess:
        """The disk."""
        return self._files

    @property
    def commands(self) -> CommandRunner:
        """Local processes, in terminals that the editor shows."""
        return self._commands

    @property
    def questions(self) -> Questions:
        """Forms where the editor has them, and what permission dialogs can ask."""
        return self._questions

    @property
    def shows_notices(self) -> bool:
        """Every editor of this version may be sent notices."""
        return True

    def _present(self, update: Update) -> Iterator[JsonObject]:
        return self._presenter.present(update)

    # --- what its requests ask for ---

    @asynccontextmanager
    async def replaying(self) -> AsyncGenerator[None]:
        """What is shown meanwhile was shown before."""
        self._presenter.begin_replay()
        yield
        for wire in self._presenter.end_replay():
            await self._send(wire)

    @property
    def state(self) -> JsonObject:
        """Whether the session works, as the editor was told last."""
        return self._state

    async def _send(self, wire: JsonObject) -> None:
        if wire["sessionUpdate"] == "state_update":
            self._questions.taken_back = False
            self._state = {name: value for name, value in wire.items() if name != "sessionUpdate"}
        elif self._questions.taken_back and wire.get("status") != "cancelled":
            await self._send(updates.running())  # the turn goes on, whoever has asked
        await super()._send(wire)

    async def show_idle(self) -> None:
        """Tell that the session does not work, as after it was opened."""
        await self._send(updates.idle())

    def cancel_terminal(self, terminal_id: str) -> bool:
        """End the command in a terminal.

        :returns: False where none runs in it.
        """
        return self._commands.cancel(terminal_id)

    def cancel_call(self, call_id: str) -> bool:
        """End the command that a call runs.

        :returns: False where it runs none.
        """
        terminal_id = self._presenter.terminal_of(call_id)
        return terminal_id is not None and self._commands.cancel(terminal_id)

    # --- questions ---

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask the user. Only a selected allow option is consent.

        :raises ToolError: the editor could not ask, or its answer is none.
        """
        command, cwd = arguments.get("command"), arguments.get("cwd")
        if view.kind == "execute" and isinstance(command, str):
            place = absolute(cwd, self._cwd) if isinstance(cwd, str) else self._cwd
            about = requests.command_subject(command, str(place), call_id)
        else:
            call = updates.tool_call(
                call_id,
                name=one_line(name),
                title=view.title,
                kind=view.kind,
                status="pending",
                rawInput=bounded(arguments),
            )
            shown = lists(content=diff_items(view), locations=call_locations(view))
            about = requests.tool_call_subject({**call, **shown})
        return await self._ask(view.title, about, permission_options(subject), description=cut(reason) or None)

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask the user whether what a project brings may run: by a form, or else by a permission dialog.

        :raises ToolError: the editor could not ask, or its answer is none.
        """
        if (answer := await trust_by_form(self._questions, question)) is not None:
            return answer
        text = cut(question.text)
        about = requests.tool_call_subject(
            updates.tool_call(
                question.call_id,
                name=one_line(question.name),
                title=question.view.title,
                kind=question.view.kind,
                status="pending",
                content=[common.tool_content(common.text_content(text))],
                rawInput={"folders": [*question.projects]},
            )
        )
        return await self._ask(question.view.title, about, trust_options(), description=text)

    async def _ask(
        self, title: str, about: JsonObject, options: list[JsonObject], *, description: str | None = None
    ) -> Answer:
        with asked_by_editor():
            try:
                chosen = await self._questions.select(title, about, options, description)
            except PeerClosedError:
                return "cancelled"  # who would answer has gone, and the turn is about to be ended for that
            return "cancelled" if chosen is None else answer_of(chosen, [option["optionId"] for option in options])
