"""`EditorClient`: one session's editor, as the session sees it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from acp_agent.conversation.events import CallView
from acp_agent.conversation.messages import JsonObject
from acp_agent.jsonrpc.messages import JsonValue, PeerClosedError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol.v1 import content, methods, requests, updates
from acp_agent.server.asking import answer_of, asked_by_editor, permission_options, trust_by_form, trust_options
from acp_agent.server.bounds import bounded, cut
from acp_agent.server.client import WireClient
from acp_agent.server.mcp_messages import EditorServers
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.files import EditorFiles
from acp_agent.server.v1.presenter import Presenter, call_content, call_locations
from acp_agent.server.v1.questions import EditorQuestions
from acp_agent.server.v1.terminals import EditorTerminals
from acp_agent.session.client import TrustQuestion
from acp_agent.tools.environment import CommandRunner, FileAccess
from acp_agent.tools.local_commands import LocalCommands
from acp_agent.turn.permission import Answer
from acp_agent.turn.updates import Update

if TYPE_CHECKING:
    from acp_agent.tools.forms import Questions


class EditorClient(WireClient):
    """`SessionClient` over the wire.

    :param peer: the connection.
    :param session_id: as the editor knows it; every question carries it, also one of a nested piece of work.
    """

    def __init__(self, peer: Peer, session_id: str, capabilities: Capabilities, servers: EditorServers) -> None:
        super().__init__(peer, session_id, servers)
        self._presenter = Presenter(capabilities)
        self._shows_notices = capabilities.notices
        self._questions = EditorQuestions(peer, session_id, capabilities)
        self._files = EditorFiles(peer, session_id, capabilities)
        self._commands: CommandRunner = EditorTerminals(peer, session_id) if capabilities.terminal else LocalCommands()

    @property
    def files(self) -> FileAccess:
        """Files as the editor has them."""
        return self._files

    @property
    def commands(self) -> CommandRunner:
        """The editor's terminals, or local processes where it has none."""
        return self._commands

    @property
    def questions(self) -> Questions:
        """Forms where the editor has them, and what permission dialogs can ask."""
        return self._questions

    @property
    def shows_notices(self) -> bool:
        """Whether the editor has notices."""
        return self._shows_notices

    def _present(self, update: Update) -> Iterator[JsonObject]:
        wire = self._presenter.present(update)
        if wire is not None:
            yield wire

    async def ask_permission(
        self, call_id: str, name: str, view: CallView, arguments: JsonObject, subject: str, reason: str = ""
    ) -> Answer:
        """Ask the user. Only a selected allow option is consent.

        :raises ToolError: the editor could not ask, or its answer is none.
        """
        said = [content.tool_content(content.text_content(cut(reason)))] if reason else []
        tool_call = updates.tool_call_fields(
            call_id,
            view.title,
            name=name,
            kind=view.kind,
            status="pending",
            content=[*said, *call_content(view)] or None,
            locations=call_locations(view) or None,
            raw_input=bounded(arguments),
        )
        return await self._ask(tool_call, permission_options(subject))

    async def ask_trust(self, question: TrustQuestion) -> Answer:
        """Ask the user whether what a project brings may run: by a form, or else by a permission dialog.

        :raises ToolError: the editor could not ask, or its answer is none.
        """
        if (answer := await trust_by_form(self._questions, question)) is not None:
            return answer
        tool_call = updates.tool_call_fields(
            question.call_id,
            question.view.title,
            name=question.name,
            kind=question.view.kind,
            status="pending",
            content=[content.tool_content(content.text_content(cut(question.text)))],
            raw_input={"folders": [*question.projects]},
        )
        return await self._ask(tool_call, trust_options())

    async def _ask(self, tool_call: JsonObject, options: list[JsonObject]) -> Answer:
        with asked_by_editor():
            try:
                answer = await self._peer.request(
                    methods.SESSION_REQUEST_PERMISSION,
                    requests.request_permission(self._session_id, tool_call, options),
                )
            except PeerClosedError:
                return "cancelled"  # who would answer has gone, and the turn is about to be ended for that
            return _answer(answer, [option["optionId"] for option in options])


def _answer(wire: JsonValue, offered: Collection[JsonValue]) -> Answer:
    from acp_agent.protocol.v1 import CancelledPermissionOutcome, RequestPermissionResponse
    from acp_agent.protocol.wire import parse_result

    response = parse_result(RequestPermissionResponse, wire, methods.SESSION_REQUEST_PERMISSION)
    if isinstance(response.outcome, CancelledPermissionOutcome):
        return "cancelled"
    return answer_of(response.outcome.option_id, offered)
