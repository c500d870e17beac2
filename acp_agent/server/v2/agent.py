"""`AgentV2`: the methods that are specific to version 2.

`session/prompt` is answered when the prompt is in the conversation. Updates report the
progress and end of its turn.

ACP v2, "Prompt Lifecycle" and "Session Setup".
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from acp_agent.errors import (
    InvalidParamsError,
    SessionClosedError,
    SessionNotFoundError,
)
from acp_agent.jsonrpc.messages import (
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.router import IncomingCall
from acp_agent.protocol import methods, v2
from acp_agent.server.agent import Agent, Route
from acp_agent.server.content import parts_from_blocks
from acp_agent.server.params import Cancel, Prompt, trace_context
from acp_agent.server.v2.client import V2EditorClient
from acp_agent.server.v2.presenter import available_commands, config_options
from acp_agent.session.actor import Session
from acp_agent.session.commands import is_blank
from acp_agent.session.manager import ClientFor, SessionManager

if TYPE_CHECKING:
    from acp_agent.protocol.v2 import (
        CancelSessionNotification,
        CancelTerminalRequest,
        CancelToolCallRequest,
        CloseSessionRequest,
        PromptRequest,
        ResumeSessionRequest,
        SessionStatusRequest,
        SetSessionConfigOptionRequest,
    )


class AgentV2(Agent):
    """Serves one editor in version 2; see `Agent`."""

    version = 2
    models = v2

    def routes(self) -> dict[str, Route]:
        return {
            **super().routes(),
            methods.AUTH_LOGIN: ("LoginAuthRequest", self._sign_in),
            methods.AUTH_LOGOUT: ("LogoutAuthRequest", self._logout),
            methods.SESSION_RESUME: ("ResumeSessionRequest", self._resume),
            methods.SESSION_PROMPT: ("PromptRequest", self._prompt),
            methods.SESSION_CANCEL: ("CancelSessionNotification", self._cancel),
            methods.TOOL_CALL_CANCEL: ("CancelToolCallRequest", self._cancel_call),
            methods.TERMINAL_CANCEL: ("CancelTerminalRequest", self._cancel_terminal),
            methods.SESSION_SET_CONFIG_OPTION: (
                "SetSessionConfigOptionRequest",
                self._set_config_option,
            ),
        }

    async def _resume(
        self, call: IncomingCall, params: ResumeSessionRequest
    ) -> JsonValue:
        if params.replay_from is not None and params.replay_from.type != "start":
            raise InvalidParamsError(
                "session/resume: replayFrom must be `start`. Leave it out to resume without a replay."
            )
        return await self._open(call, params, replayed=params.replay_from is not None)

    async def _close(
        self, call: IncomingCall, params: CloseSessionRequest
    ) -> JsonValue:
        # The session is closed, as requested.
        with suppress(SessionClosedError, SessionNotFoundError):
            await super()._close(call, params)
        return {}

    async def _prompt(
        self, call: IncomingCall, params: PromptRequest | Prompt
    ) -> JsonValue:
        parts = (
            params.parts
            if isinstance(params, Prompt)
            else parts_from_blocks(params.prompt)
        )
        if is_blank(parts):
            raise InvalidParamsError("session/prompt: the prompt is empty.")
        session = await self._find(call, params.session_id)
        ticket = session.submit(
            parts, trace_context(call.params.get("_meta")), provisional=True
        )
        call.on_cancel(partial(self._withdraw, session, ticket))
        await ticket.placed.wait()
        if not ticket.message_id:
            ticket.result()  # raises the reason, if it is an error
            raise RpcError(
                REQUEST_CANCELLED, "The prompt was cancelled before it was accepted."
            )
        return {"messageId": ticket.message_id}

    async def _cancel(
        self, call: IncomingCall, params: CancelSessionNotification | Cancel
    ) -> JsonValue:
        (await self._find(call, params.session_id)).cancel_all()
        return None

    async def _cancel_call(
        self, call: IncomingCall, params: CancelToolCallRequest
    ) -> JsonValue:
        if not _client(await self._find(call, params.session_id)).cancel_call(
            params.tool_call_id
        ):
            raise InvalidParamsError(
                f"tool_call/cancel: the call {params.tool_call_id!r} is not running a command."
            )
        return {}

    async def _cancel_terminal(
        self, call: IncomingCall, params: CancelTerminalRequest
    ) -> JsonValue:
        if not _client(await self._find(call, params.session_id)).commands.cancel(
            params.terminal_id
        ):
            raise InvalidParamsError(
                f"terminal/cancel: no command is running in {params.terminal_id!r}."
            )
        return {}

    async def _set_config_option(
        self, call: IncomingCall, params: SetSessionConfigOptionRequest
    ) -> JsonValue:
        if {"id": str, "boolean": bool}.get(params.type) is not type(params.value):
            raise InvalidParamsError(
                f"session/set_config_option: {params.config_id!r} takes the id of one of its values (type `id` with a "
                "string), or whether it is on (type `boolean` with true or false)."
            )
        options = await self._set_option(
            call, params.session_id, params.config_id, params.value
        )
        return {"configOptions": config_options(options)}

    async def _status(
        self, call: IncomingCall, params: SessionStatusRequest
    ) -> JsonObject:
        status = await super()._status(call, params)
        session = (await self._sessions()).find_anywhere(params.session_id)
        if session is not None and isinstance(session.client, V2EditorClient):
            status["state"] = session.client.presenter.state
        return status

    # --- used by the shared methods ---

    def _client_for(self, cwd: str) -> ClientFor:
        return partial(
            V2EditorClient, self._peer, self.capabilities, self._servers, cwd
        )

    async def _session_result(self, session: Session) -> JsonObject:
        return {
            "configOptions": config_options(await session.options.all()),
            "availableCommands": available_commands(await session.offer.commands()),
        }

    async def _show_opened(
        self, manager: SessionManager, session: Session, *, replayed: bool
    ) -> None:
        client = _client(session)
        if replayed:
            async with client.replaying():
                await session.replay()
        # Opening the session has ended its running turn.
        await client.show_state("idle")


def _client(session: Session) -> V2EditorClient:
    client = session.client
    assert isinstance(client, V2EditorClient)
    return client
