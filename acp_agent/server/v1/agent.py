"""`AgentV1`: the methods that are specific to version 1."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from acp_agent.conversation.messages import UserPart, new_id
from acp_agent.conversation.updates import AgentSaid
from acp_agent.errors import AgentError, InvalidParamsError
from acp_agent.jsonrpc.messages import (
    REQUEST_CANCELLED,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import IncomingCall
from acp_agent.protocol import methods, v1
from acp_agent.protocol.updates import given
from acp_agent.server.agent import Agent, ManagerFactory, Route, to_rpc_error
from acp_agent.server.content import (
    as_context,
    parts_from_blocks,
    repeats_prompts,
    split_preamble,
    without_repeats,
)
from acp_agent.server.params import Cancel, Prompt, trace_context
from acp_agent.server.v1.client import EditorClient
from acp_agent.server.v1.presenter import config_options
from acp_agent.session.actor import Session
from acp_agent.session.commands import command_words
from acp_agent.session.manager import ClientFor, SessionManager
from acp_agent.session.options import MODE, MODES

if TYPE_CHECKING:
    from acp_agent.protocol.v1 import (
        CancelNotification,
        PromptRequest,
        SetSessionConfigOptionRequest,
        SetSessionModeRequest,
    )

CLOSING_SECONDS = 1.0
"""How long the answer to a prompt waits for the end of its turn after the editor has
disconnected.
"""


class AgentV1(Agent):
    """Serves one editor in version 1; see `Agent`."""

    version = 1
    models = v1

    def __init__(self, peer: Peer, create_manager: ManagerFactory) -> None:
        super().__init__(peer, create_manager)
        self._in_step: dict[Path, str | None] = {}
        self._is_avante = False
        self._preambles: dict[
            str, str
        ] = {}  # by session: the text to put before the next prompt for the model

    def routes(self) -> dict[str, Route]:
        return {
            **super().routes(),
            methods.AUTHENTICATE: ("AuthenticateRequest", self._sign_in),
            methods.LOGOUT: ("LogoutRequest", self._logout),
            methods.SESSION_LOAD: (
                "LoadSessionRequest",
                partial(self._open, replayed=True),
            ),
            methods.SESSION_RESUME: (
                "ResumeSessionRequest",
                partial(self._open, replayed=False),
            ),
            methods.SESSION_PROMPT: ("PromptRequest", self._prompt),
            methods.SESSION_CANCEL: ("CancelNotification", self._cancel),
            methods.SESSION_SET_MODE: ("SetSessionModeRequest", self._set_mode),
            methods.SESSION_SET_CONFIG_OPTION: (
                "SetSessionConfigOptionRequest",
                self._set_config_option,
            ),
        }

    async def _prompt(
        self, call: IncomingCall, params: PromptRequest | Prompt
    ) -> JsonValue:
        parts = (
            params.parts
            if isinstance(params, Prompt)
            else parts_from_blocks(params.prompt)
        )
        async with self._in_order(params.session_id) as manager:
            session = await self._opened(call, manager, params.session_id)
            if repeats_prompts(parts):
                self._is_avante = True
                parts = without_repeats(parts, await session.said())
            if self.capabilities.traits.adds_preamble:
                parts = self._with_context(session.session_id, parts)
            try:
                ticket = session.submit(parts, trace_context(call.params.get("_meta")))
            except AgentError as error:
                return await self._failed(session, error)
        call.on_cancel(partial(self._withdraw, session, ticket))
        try:
            await ticket.done.wait()
        except anyio.get_cancelled_exc_class():
            # The editor has disconnected. It may still read the remaining messages, so
            # end the turn's calls before the answer.
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await ticket.done.wait()
            if not ticket.done.is_set():
                raise
        try:
            stop = ticket.result()
        except Exception as error:
            return await self._failed(session, error)
        if stop == "cancelled" and call.cancel_requested:
            raise RpcError(REQUEST_CANCELLED, "The sender cancelled the prompt.")
        return {"stopReason": stop}

    async def _failed(self, session: Session, error: Exception) -> JsonValue:
        """Report a failed prompt as a message to an editor that does not display its
        error; otherwise raise it.
        """
        if self.capabilities.traits.shows_failed_prompts:
            raise error
        await session.client.show(
            AgentSaid(new_id("msg"), to_rpc_error(error).message, "failure")
        )
        return {"stopReason": "end_turn"}

    def _with_context(
        self, session_id: str, parts: tuple[UserPart, ...]
    ) -> tuple[UserPart, ...]:
        """Return a prompt with the editor's own text as its first part. If the prompt
        is a command, keep the text for the next prompt, since a command after other
        text would not be recognised.
        """
        preamble, parts = split_preamble(parts)
        told = "\n\n".join(
            filter(None, (self._preambles.pop(session_id, ""), preamble))
        )
        if not told:
            return parts
        if command_words(parts) is not None:
            self._preambles[session_id] = told
            return parts
        return (as_context(told), *parts)

    async def _cancel(
        self, call: IncomingCall, params: CancelNotification | Cancel
    ) -> JsonValue:
        (await self._find(call, params.session_id)).cancel()
        return None

    async def _set_mode(
        self, call: IncomingCall, params: SetSessionModeRequest
    ) -> JsonValue:
        await (await self._find(call, params.session_id)).set_option(
            MODE, params.mode_id
        )
        return {}

    async def _set_config_option(
        self, call: IncomingCall, params: SetSessionConfigOptionRequest
    ) -> JsonValue:
        if params.type == "boolean" and not isinstance(params.value, bool):
            raise InvalidParamsError(
                f"session/set_config_option: the value {params.value!r} is not a boolean."
            )
        options = await self._set_option(
            call, params.session_id, params.config_id, params.value
        )
        return {
            "configOptions": config_options(
                options, switches=self.capabilities.booleans
            )
        }

    # --- used by the shared methods ---

    def _client_for(self, cwd: str) -> ClientFor:
        return partial(
            EditorClient,
            self._peer,
            self.capabilities,
            self._servers,
            self._in_step,
            self._offers_always,
        )

    def _offers_always(self) -> bool:
        """Return whether questions offer "always". Once the user has chosen it, avante
        gives this answer to all later questions.
        """
        return not self._is_avante

    async def _session_result(self, session: Session) -> JsonObject:
        modes: list[JsonValue] = [
            {"id": mode.value, "name": mode.name, **given(description=mode.description)}
            for mode in MODES
        ]
        return {
            "modes": {"currentModeId": session.state.mode, "availableModes": modes},
            "configOptions": config_options(
                await session.options.all(), switches=self.capabilities.booleans
            ),
        }

    async def _show_opened(
        self, manager: SessionManager, session: Session, *, replayed: bool
    ) -> None:
        if replayed:
            await session.replay()
