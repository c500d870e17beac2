"""What the user is asked through an editor of version 2: permissions, choices, forms and addresses.

While somebody is asked, the session says that it waits for them. An answer of a kind that is not known yet is no
consent.

ACP v2, "Tool Calls", "Requesting Permission"; "Elicitation".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from acp_agent.errors import ToolError, sentence
from acp_agent.jsonrpc.messages import JsonObject, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.protocol.v2 import methods, requests, updates
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.questions import EditorQuestions as FirstQuestions
from acp_agent.tools.text import one_line

if TYPE_CHECKING:
    from acp_agent.protocol.v1 import CreateElicitationResponse


class EditorQuestions(FirstQuestions):
    """`Questions` over the wire, and the permission dialogs.

    :param send: sends an update of the session.
    :ivar taken_back: the last question was not answered but taken back, by the end of the turn or of who asked. The
        next update tells which.
    """

    def __init__(
        self,
        peer: Peer,
        session_id: str,
        capabilities: Capabilities,
        send: Callable[[JsonObject], Awaitable[None]],
    ) -> None:
        super().__init__(peer, session_id, capabilities)
        self._send = send
        self._asked = 0
        self.taken_back = False

    async def select(
        self, title: str, subject: JsonObject, options: list[JsonObject], description: str | None = None
    ) -> str | None:
        """Have one of some options selected.

        :param options: made by version 1's `permission_option`.
        :returns: its id; None where the user has ended the turn.
        :raises RpcError: the editor could not ask.
        :raises ToolError: its answer is none.
        """
        from acp_agent.protocol.v2 import (
            CancelledPermissionOutcome,
            RequestPermissionResponse,
            SelectedPermissionOutcome,
        )
        from acp_agent.protocol.wire import parse_result

        params = requests.request_permission(self._session_id, title, options, subject=subject, description=description)
        async with self._waiting():
            wire = await self._peer.request(methods.SESSION_REQUEST_PERMISSION, params)
        match parse_result(RequestPermissionResponse, wire, methods.SESSION_REQUEST_PERMISSION).outcome:
            case CancelledPermissionOutcome():
                return None
            case SelectedPermissionOutcome(option_id=chosen):
                return chosen
            case other:
                raise ToolError(f"The editor's answer is of an unknown kind, {one_line(other.outcome, 40)!r}.")

    async def _chosen(self, tool_call: JsonObject, options: list[JsonObject]) -> str | None:
        try:
            chosen = await self.select(str(tool_call["title"]), requests.tool_call_subject(tool_call), options)
        except RpcError as error:
            raise ToolError(f"The user could not be asked. {sentence(error)}") from error
        if chosen is not None and chosen not in [option["optionId"] for option in options]:
            raise ToolError(f"The editor chose the option {one_line(chosen)!r}, which it was not offered.")
        return chosen

    async def _elicit(self, params: JsonObject) -> CreateElicitationResponse:
        async with self._waiting():
            return await super()._elicit(params)

    @asynccontextmanager
    async def _waiting(self) -> AsyncGenerator[None]:
        self._asked += 1
        answered = True
        try:
            if self._asked == 1 and not self.taken_back:
                await self._send(updates.requires_action())
            self.taken_back = False
            yield
        except anyio.get_cancelled_exc_class():
            answered = False
            raise
        finally:
            self._asked -= 1
            if not self._asked:
                self.taken_back = not answered
                if answered:
                    await self._send(updates.running())
