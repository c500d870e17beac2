"""`Agent`: the methods that an editor calls in version 2. Binds params, calls the sessions, forms the results.

A prompt is answered when it has its place in the conversation; how its turn goes and ends, updates tell.

ACP v2, "Prompt Lifecycle" and "Session Setup".
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict, cast

from acp_agent.config.settings import McpServer
from acp_agent.errors import InvalidParamsError, SessionClosedError, SessionNotFoundError
from acp_agent.jsonrpc.messages import REQUEST_CANCELLED, JsonObject, JsonValue, RpcError
from acp_agent.jsonrpc.router import Call, Router
from acp_agent.protocol.v1.results import set_config_option_result
from acp_agent.protocol.v2 import SessionStatus, methods, results
from acp_agent.server.face import Traced
from acp_agent.server.handshake import AUTH_METHOD
from acp_agent.server.managing import ClientFor, Managing
from acp_agent.server.opening import Cancel, NewSession, Prompt, plain_cancel, plain_new_session, plain_prompt
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v2.capabilities import capabilities_of
from acp_agent.server.v2.client import EditorClient
from acp_agent.server.v2.content import parts_from_blocks
from acp_agent.server.v2.greeting import PAGE_METHOD, initialize_result
from acp_agent.server.v2.presenter import available_commands, config_options
from acp_agent.session.manager import SessionManager
from acp_agent.session.options import OFF, ON
from acp_agent.session.session import Session
from acp_agent.session.steering import says_anything

if TYPE_CHECKING:
    from acp_agent.protocol.v2 import (
        CancelSessionNotification,
        CancelTerminalRequest,
        CancelToolCallRequest,
        CloseSessionRequest,
        LoginAuthRequest,
        NewSessionRequest,
        PromptRequest,
        ResumeSessionRequest,
        SetSessionConfigOptionRequest,
    )
    from acp_agent.protocol.v2 import McpServer as WireServer
    from acp_agent.protocol.wire import WireModel


class _Told(TypedDict):
    """What may be chosen from in a session, as the answer to its opening has it."""

    config_options: list[JsonObject]
    available_commands: list[JsonObject]


class Agent(Managing):
    """Serves one editor in version 2."""

    _capabilities = Capabilities()

    def initialized(self, params: JsonObject) -> None:
        """The connection was initialized with these params."""
        super().initialized(params)
        self._capabilities = capabilities_of(params)

    def greet(self, params: JsonObject) -> JsonObject:
        """Answer `initialize`."""
        from acp_agent.protocol.wire import dump, parse

        read = dump(parse(self._params_model(methods.INITIALIZE), params, methods.INITIALIZE))
        self.initialized(read)
        return initialize_result(read, over_network=self._over_network)

    def register(self, router: Router) -> None:
        """Add every method that an editor may call, but for `initialize`."""
        self._register_managing(router)
        router.register(methods.AUTH_LOGIN, *self._route(methods.AUTH_LOGIN, self._login))
        router.register(methods.AUTH_LOGOUT, *self._route(methods.AUTH_LOGOUT, self._logout))
        router.register(methods.SESSION_NEW, *self._route(methods.SESSION_NEW, self._new, plain_new_session))
        router.register(methods.SESSION_RESUME, *self._route(methods.SESSION_RESUME, self._resume))
        router.register(methods.SESSION_CLOSE, *self._route(methods.SESSION_CLOSE, self._close))
        router.register(methods.MCP_MESSAGE, *self._mcp_route())
        router.register(methods.SESSION_PROMPT, *self._traced_route(methods.SESSION_PROMPT, self._prompt, plain_prompt))
        router.register(methods.SESSION_CANCEL, *self._route(methods.SESSION_CANCEL, self._cancel, plain_cancel))
        router.register(methods.TOOL_CALL_CANCEL, *self._route(methods.TOOL_CALL_CANCEL, self._cancel_call))
        router.register(methods.TERMINAL_CANCEL, *self._route(methods.TERMINAL_CANCEL, self._cancel_terminal))
        router.register(
            methods.SESSION_SET_CONFIG_OPTION,
            *self._route(methods.SESSION_SET_CONFIG_OPTION, self._set_config_option),
        )

    # --- the connection ---

    async def _login(self, call: Call, params: LoginAuthRequest) -> JsonValue:
        # But for the page nothing is to be done: keys are looked up whenever a model is asked, and it says whether they
        # are good. But `acp-agent login` may have run in a terminal of the editor's.
        paged = self._capabilities.urls and not self._over_network
        known = (AUTH_METHOD, PAGE_METHOD) if paged else (AUTH_METHOD,)
        if params.method_id not in known:
            raise InvalidParamsError(
                f"auth/login: there is no method {params.method_id!r}, only {' and '.join(known)}."
            )
        if params.method_id == PAGE_METHOD:
            from acp_agent.server.v2.signing_in import sign_in

            await sign_in(self._connection(), call.id, (await self._sessions()).accounts)
        call.after_response(self._tell_standing)
        return {}

    # --- sessions ---

    async def _new(self, call: Call, params: NewSessionRequest | NewSession) -> JsonValue:
        servers = self._given(params.mcp_servers)
        manager = await self._sessions()
        session = await manager.new(params.cwd, params.additional_directories, self._clients(params.cwd), servers)
        async with manager.kept_if_told(session.session_id):
            made = await self._made(session)
        self._after_opening(call, session)
        return made

    def _resume(self, call: Call, params: ResumeSessionRequest) -> Awaitable[JsonValue]:
        servers = self._given(params.mcp_servers)
        replayed = params.replay_from is not None
        if params.replay_from is not None and params.replay_from.type != "start":
            raise InvalidParamsError(
                "session/resume: a conversation is replayed from its `start`, or not at all: leave replayFrom out."
            )

        async def work(manager: SessionManager) -> JsonValue:
            session = await manager.open(
                params.session_id,
                params.cwd,
                params.additional_directories,
                self._clients(params.cwd),
                "load" if replayed else "resume",
                servers,
            )
            client = _client(session)
            if replayed:
                async with client.replaying():
                    await manager.replay(session)
            told = await _told(session)
            # Whoever ran it before was ended by the opening.
            await client.show_idle()
            self._after_opening(call, session)
            return results.session_result(**told)

        return self._alone(self._order.take_place(params.session_id), work)

    def _close(self, call: Call, params: CloseSessionRequest) -> Awaitable[JsonValue]:
        async def close(manager: SessionManager) -> JsonValue:
            with suppress(SessionClosedError, SessionNotFoundError):  # which is what was wanted
                await manager.close(params.session_id)
            return {}

        return self._alone(self._order.take_place(params.session_id), close)

    # --- turns ---

    def _prompt(self, call: Call, traced: Traced[PromptRequest | Prompt]) -> Awaitable[JsonValue]:
        params = traced.params
        parts = params.parts if isinstance(params, Prompt) else parts_from_blocks(params.prompt)
        if not says_anything(parts):
            raise InvalidParamsError("session/prompt: the prompt is empty.")

        submitted = self._submitted(call, params.session_id, lambda _: parts, traced.trace, provisional=True)

        async def wait() -> JsonValue:
            message_id = await (await submitted).taken()
            if not message_id:
                raise RpcError(REQUEST_CANCELLED, "The prompt was cancelled before it was taken.")
            return results.prompt_result(message_id)

        return wait()

    def _cancel(self, call: Call, params: CancelSessionNotification | Cancel) -> Awaitable[JsonValue]:
        return self._in_order(call, params.session_id, Session.cancel_all)

    def _cancel_call(self, call: Call, params: CancelToolCallRequest) -> Awaitable[JsonValue]:
        def cancel(session: Session) -> JsonValue:
            if not _client(session).cancel_call(params.tool_call_id):
                raise InvalidParamsError(f"tool_call/cancel: the call {params.tool_call_id!r} runs no command now.")
            return {}

        return self._in_order(call, params.session_id, cancel)

    def _cancel_terminal(self, call: Call, params: CancelTerminalRequest) -> Awaitable[JsonValue]:
        def cancel(session: Session) -> JsonValue:
            if not _client(session).cancel_terminal(params.terminal_id):
                raise InvalidParamsError(f"terminal/cancel: no command runs in {params.terminal_id!r} now.")
            return {}

        return self._in_order(call, params.session_id, cancel)

    def _set_config_option(self, call: Call, params: SetSessionConfigOptionRequest) -> Awaitable[JsonValue]:
        value = _option_value(params)
        found = self._found(call, params.session_id)

        async def change() -> JsonValue:
            session = await found
            options = await session.set_option(params.config_id, value)
            call.after_response(session.show_usage)
            return set_config_option_result(config_options(options))

        return change()

    # --- what `Face` and `Managing` ask for ---

    def _params_model(self, method: str) -> type[WireModel]:
        return methods.METHODS[method].params_model()

    @property
    def _prompt_method(self) -> str:
        return methods.SESSION_PROMPT

    def _clients(self, cwd: str) -> ClientFor:
        peer, servers = self._connection(), self._mcp_servers()
        return lambda session_id: EditorClient(peer, session_id, cwd, self._capabilities, servers)

    def _given(self, servers: Sequence[object]) -> tuple[McpServer, ...]:
        if not servers:
            return ()
        from acp_agent.server.v2.mcp import servers_from_wire

        return servers_from_wire(cast("Sequence[WireServer]", servers))

    async def _made(self, session: Session) -> JsonObject:
        return results.session_result(session_id=session.session_id, **await _told(session))

    def _status_result(self, session_id: str, status: SessionStatus) -> JsonObject:
        session = self._manager.find_anywhere(session_id) if self._manager is not None else None
        client = None if session is None else session.host.client
        return results.session_status_result(status, client.state if isinstance(client, EditorClient) else None)


async def _told(session: Session) -> _Told:
    return {
        "config_options": config_options(await session.options()),
        "available_commands": available_commands(await session.commands()),
    }


def _option_value(params: SetSessionConfigOptionRequest) -> str:
    match params.type, params.value:
        case "id", str() as value:
            return value
        case "boolean", bool() as on:
            return ON if on else OFF
        case _:
            raise InvalidParamsError(
                f"session/set_config_option: {params.config_id!r} takes the id of one of its values (type `id`, and a "
                "string), or whether it is on (type `boolean`, and true or false)."
            )


def _client(session: Session) -> EditorClient:
    client = session.host.client
    assert isinstance(client, EditorClient)
    return client
