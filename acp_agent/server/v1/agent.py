"""`Agent`: the methods that an editor calls. Binds params, calls the sessions, forms the results."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, cast

from acp_agent.config.settings import McpServer
from acp_agent.conversation.messages import UserPart
from acp_agent.errors import InvalidParamsError
from acp_agent.jsonrpc.messages import REQUEST_CANCELLED, JsonObject, JsonValue, RpcError
from acp_agent.jsonrpc.router import Call, Router
from acp_agent.protocol.v1 import content, methods, results
from acp_agent.server.face import Traced, nothing
from acp_agent.server.handshake import AUTH_METHOD, LOGIN_METHOD, initialize_result
from acp_agent.server.managing import ClientFor, Managing
from acp_agent.server.opening import Cancel, NewSession, Prompt, plain_cancel, plain_new_session, plain_prompt
from acp_agent.server.v1.capabilities import Capabilities
from acp_agent.server.v1.client import EditorClient
from acp_agent.server.v1.content import parts_from_blocks
from acp_agent.server.v1.presenter import config_options
from acp_agent.server.v1.repeating import said_now
from acp_agent.session.client import SessionClient
from acp_agent.session.manager import SessionManager
from acp_agent.session.options import MODE, OFF, ON
from acp_agent.session.session import Session
from acp_agent.turn.permission import MODES

if TYPE_CHECKING:
    from acp_agent.protocol.v1 import (
        AuthenticateRequest,
        CancelNotification,
        CloseSessionRequest,
        LoadSessionRequest,
        NewSessionRequest,
        PromptRequest,
        ResumeSessionRequest,
        SetSessionConfigOptionRequest,
        SetSessionModeRequest,
    )
    from acp_agent.protocol.v1 import McpServer as WireServer
    from acp_agent.protocol.wire import WireModel


class Agent(Managing):
    """Serves one editor in version 1."""

    _capabilities = Capabilities()

    def initialized(self, params: JsonObject) -> None:
        """The connection was initialized with these params."""
        super().initialized(params)
        self._capabilities = Capabilities.of(params)

    def greet(self, params: JsonObject) -> JsonObject:
        """Answer `initialize`."""
        from acp_agent.protocol.wire import dump, parse

        self.initialized(dump(parse(self._params_model(methods.INITIALIZE), params, methods.INITIALIZE)))
        return initialize_result(params)

    def register(self, router: Router) -> None:
        """Add every method that an editor may call, but for `initialize`."""
        self._register_managing(router)
        router.register(methods.AUTHENTICATE, *self._route(methods.AUTHENTICATE, self._authenticate))
        router.register(methods.LOGOUT, *self._route(methods.LOGOUT, self._logout))
        router.register(methods.SESSION_NEW, *self._route(methods.SESSION_NEW, self._new, plain_new_session))
        router.register(methods.SESSION_LOAD, *self._route(methods.SESSION_LOAD, self._load))
        router.register(methods.SESSION_RESUME, *self._route(methods.SESSION_RESUME, self._resume))
        router.register(methods.SESSION_CLOSE, *self._route(methods.SESSION_CLOSE, self._close))
        router.register(methods.MCP_MESSAGE, *self._mcp_route())
        router.register(methods.SESSION_PROMPT, *self._traced_route(methods.SESSION_PROMPT, self._prompt, plain_prompt))
        router.register(methods.SESSION_CANCEL, *self._route(methods.SESSION_CANCEL, self._cancel, plain_cancel))
        router.register(methods.SESSION_SET_MODE, *self._route(methods.SESSION_SET_MODE, self._set_mode))
        router.register(
            methods.SESSION_SET_CONFIG_OPTION,
            *self._route(methods.SESSION_SET_CONFIG_OPTION, self._set_config_option),
        )

    # --- the connection ---

    async def _authenticate(self, call: Call, params: AuthenticateRequest) -> JsonValue:
        # Nothing is to be done: keys are looked up whenever a model is asked, and it says whether they are good. But
        # `acp-agent login` may have run in a terminal of the editor's.
        if params.method_id not in (AUTH_METHOD, LOGIN_METHOD):
            raise InvalidParamsError(
                f"authenticate: there is no method {params.method_id!r}, only {AUTH_METHOD!r} and {LOGIN_METHOD!r}."
            )
        call.after_response(self._tell_standing)
        return {}

    # --- sessions ---

    async def _new(self, call: Call, params: NewSessionRequest | NewSession) -> JsonValue:
        servers = self._given(params.mcp_servers)
        manager = await self._sessions()
        session = await manager.new(params.cwd, params.additional_directories, self._client, servers)
        async with manager.kept_if_told(session.session_id):
            made = await self._made(session)
        self._after_opening(call, session)
        return made

    def _load(self, call: Call, params: LoadSessionRequest) -> Awaitable[JsonValue]:
        return self._open(call, params, replayed=True)

    def _resume(self, call: Call, params: ResumeSessionRequest) -> Awaitable[JsonValue]:
        return self._open(call, params, replayed=False)

    def _open(
        self, call: Call, params: LoadSessionRequest | ResumeSessionRequest, *, replayed: bool
    ) -> Awaitable[JsonValue]:
        servers = self._given(params.mcp_servers)

        async def work(manager: SessionManager) -> JsonValue:
            source = "load" if replayed else "resume"
            session = await manager.open(
                params.session_id, params.cwd, params.additional_directories, self._client, source, servers
            )
            if replayed:
                await manager.replay(session)
            options = await session.options()
            self._after_opening(call, session)
            return results.session_result(
                modes=_modes(session), config_options=config_options(options, switches=self._capabilities.booleans)
            )

        return self._alone(self._order.take_place(params.session_id), work)

    def _close(self, call: Call, params: CloseSessionRequest) -> Awaitable[JsonValue]:
        place = self._order.take_place(params.session_id)
        return self._alone(place, lambda manager: nothing(manager.close(params.session_id)))

    # --- turns ---

    def _prompt(self, call: Call, traced: Traced[PromptRequest | Prompt]) -> Awaitable[JsonValue]:
        params = traced.params
        parts = params.parts if isinstance(params, Prompt) else parts_from_blocks(params.prompt)

        def said(session: Session) -> tuple[UserPart, ...]:
            return said_now(parts, begun=session.host.context.title is not None)

        submitted = self._submitted(call, params.session_id, said, traced.trace)

        async def wait() -> JsonValue:
            stop = await (await submitted).wait()
            if stop == "cancelled" and call.cancel_requested:
                raise RpcError(REQUEST_CANCELLED, "The prompt was cancelled by its sender.")
            return results.prompt_result(stop)

        return wait()

    def _cancel(self, call: Call, params: CancelNotification | Cancel) -> Awaitable[JsonValue]:
        return self._in_order(call, params.session_id, Session.cancel)

    def _set_mode(self, call: Call, params: SetSessionModeRequest) -> Awaitable[JsonValue]:
        found = self._found(call, params.session_id)

        async def change() -> JsonValue:
            await (await found).set_option(MODE, params.mode_id)
            return {}

        return change()

    def _set_config_option(self, call: Call, params: SetSessionConfigOptionRequest) -> Awaitable[JsonValue]:
        value = params.value
        if isinstance(value, bool):
            value = ON if value else OFF
        elif params.type == "boolean":
            raise InvalidParamsError(f"session/set_config_option: the value {value!r} is not a boolean.")
        found = self._found(call, params.session_id)

        async def change() -> JsonValue:
            session = await found
            options = await session.set_option(params.config_id, value)
            # Another model has another window; asking for its size may take a moment, which the response need not wait
            # for.
            call.after_response(session.show_usage)
            return results.set_config_option_result(config_options(options, switches=self._capabilities.booleans))

        return change()

    # --- what `Face` and `Managing` ask for ---

    def _params_model(self, method: str) -> type[WireModel]:
        return methods.METHODS[method].params_model()

    def _client(self, session_id: str) -> SessionClient:
        return EditorClient(self._connection(), session_id, self._capabilities, self._mcp_servers())

    def _clients(self, cwd: str) -> ClientFor:
        return self._client

    def _given(self, servers: Sequence[object]) -> tuple[McpServer, ...]:
        if not servers:
            return ()
        from acp_agent.server.v1.mcp import servers_from_wire

        return servers_from_wire(cast("Sequence[WireServer]", servers))

    async def _made(self, session: Session) -> JsonObject:
        options = config_options(await session.options(), switches=self._capabilities.booleans)
        return results.session_result(session_id=session.session_id, modes=_modes(session), config_options=options)

    @property
    def _prompt_method(self) -> str:
        return methods.SESSION_PROMPT


def _modes(session: Session) -> JsonObject:
    modes = [content.session_mode(mode.id, mode.name, description=mode.description) for mode in MODES]
    return content.session_mode_state(session.host.context.mode, modes)
