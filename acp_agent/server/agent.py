"""`Agent`: serves one editor in one version of the protocol, and implements the methods
that both versions share.

Each request runs in its own task. Requests for the same session are handled in the
order in which they arrive, since their tasks start in that order and acquire a fair
lock. So a prompt directly after a `session/load` finds the session open, and a
`session/cancel` directly after the prompt finds the prompt.

ACP, "Session List", "Authentication"; ACP RFDs, "Session Fork", "Configurable LLM
Providers".
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from acp_agent.conversation.updates import Option
from acp_agent.errors import (
    AgentError,
    InvalidParamsError,
    SessionClosedError,
    SessionNotFoundError,
)
from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Handler, IncomingCall
from acp_agent.logfile import log_failure
from acp_agent.protocol import methods
from acp_agent.protocol.updates import given
from acp_agent.server.channel import EditorServers
from acp_agent.server.content import servers_from_wire
from acp_agent.server.handshake import AUTH_METHOD, LOGIN_METHOD, Capabilities
from acp_agent.server.params import ListSessions, NewSession, fork_point, read_params
from acp_agent.session.actor import Session
from acp_agent.session.mailbox import Ticket
from acp_agent.session.manager import ClientFor, SessionManager
from acp_agent.session.models.accounts import shown_url
from acp_agent.session.options import OFF, ON

if TYPE_CHECKING:
    from acp_agent.protocol import v1, v2

Route: TypeAlias = tuple[str, Handler]
"""The name of the model of a method's params, and the method's handler."""
ManagerFactory: TypeAlias = Callable[[TaskGroup], Awaitable[SessionManager]]
"""Creates the `SessionManager` of one connection. Its sessions run in the task group.
"""
_log = logging.getLogger(__name__)


class Agent(ABC):
    """Serves one editor.

    :param peer: the connection.
    :param create_manager: called by the first request that needs sessions. If it
        raises, the next request calls it again, since the user may have fixed the
        cause.
    :ivar version: the version of the protocol.
    :ivar models: the package with the models of this version.
    :ivar capabilities: the capabilities that the editor advertised in `initialize`.
    :ivar read_params: validates the params of a method; see `params.read_params`.
    """

    version: ClassVar[int]
    models: ClassVar[ModuleType]
    capabilities = Capabilities()

    def __init__(self, peer: Peer, create_manager: ManagerFactory) -> None:
        self._peer = peer
        self._create_manager = create_manager
        self.read_params = partial(
            read_params,
            self.models,
            {name: each for name, (each, _) in self.routes().items()},
        )
        self._servers = EditorServers(peer)
        self._manager: SessionManager | None = None
        self._manager_lock = anyio.Lock(fast_acquire=True)
        self._session_locks: WeakValueDictionary[str, anyio.Lock] = (
            WeakValueDictionary()
        )
        self._new_lock = anyio.Lock(fast_acquire=True)
        self._account_lock = anyio.Lock()
        # What the editor last received; None if it has never asked.
        self._reported_account: JsonObject | None = None

    @abstractmethod
    def _client_for(self, cwd: str) -> ClientFor:
        """Return a factory for the client of a session with this working directory."""

    @abstractmethod
    async def _session_result(self, session: Session) -> JsonObject:
        """Return the result of a request that has opened a session, without the
        session's id.
        """

    @abstractmethod
    async def _show_opened(
        self, manager: SessionManager, session: Session, *, replayed: bool
    ) -> None:
        """Show a stored session that has just been opened.

        :param replayed: whether to replay its whole log.
        """

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by method."""
        return {
            methods.MCP_MESSAGE: self._mcp_message,
            **{name: each for name, (_, each) in self.routes().items()},
        }

    def routes(self) -> dict[str, Route]:
        """Return the table of methods. Each version adds its own."""
        return {
            methods.AUTH_STATUS: ("AuthStatusRequest", self._auth_status),
            methods.PROVIDERS_LIST: ("ListProvidersRequest", self._list_providers),
            methods.PROVIDERS_SET: ("SetProviderRequest", self._set_provider),
            methods.PROVIDERS_DISABLE: (
                "DisableProviderRequest",
                self._disable_provider,
            ),
            methods.SESSION_NEW: ("NewSessionRequest", self._new),
            methods.SESSION_LIST: ("ListSessionsRequest", self._list),
            methods.SESSION_CLOSE: ("CloseSessionRequest", self._close),
            methods.SESSION_DELETE: (
                "DeleteSessionRequest",
                partial(self._apply_to_session, SessionManager.delete),
            ),
            methods.SESSION_FORK: ("ForkSessionRequest", self._fork),
            methods.SESSION_SET_TITLE: ("SetSessionTitleRequest", self._set_title),
            methods.SESSION_ARCHIVE: (
                "ArchiveSessionRequest",
                partial(self._apply_to_session, SessionManager.archive),
            ),
            methods.SESSION_UNARCHIVE: (
                "UnarchiveSessionRequest",
                partial(self._apply_to_session, SessionManager.unarchive),
            ),
            methods.SESSION_STATUS: ("SessionStatusRequest", self._status),
        }

    @property
    def in_use(self) -> bool:
        """Return whether a request has needed sessions yet."""
        return self._manager is not None

    def stop(self) -> None:
        """End all sessions, since the client is gone."""
        if self._manager is not None:
            self._manager.stop()

    # --- sessions, in the order of requests ---

    async def _sessions(self) -> SessionManager:
        async with self._manager_lock:
            if self._manager is None:
                self._manager = await self._create_manager(self._peer.background)
            return self._manager

    @asynccontextmanager
    async def _in_order(self, session_id: str) -> AsyncGenerator[SessionManager]:
        """Wait for earlier requests for a session, and make later ones wait for this
        one.
        """
        async with self._session_locks.setdefault(
            session_id, anyio.Lock(fast_acquire=True)
        ):
            yield await self._sessions()

    async def _find(self, call: IncomingCall, session_id: str) -> Session:
        """Return an open session after earlier requests have finished opening or
        closing it.

        Anything that the caller does with the session before its first await also
        happens in the order of requests.
        """
        async with self._in_order(session_id) as manager:
            return await self._opened(call, manager, session_id)

    async def _opened(
        self, call: IncomingCall, manager: SessionManager, session_id: str
    ) -> Session:
        """Return an open session. The caller must be inside `_in_order`."""
        session = await manager.get(session_id)
        # The request that opened the session was cancelled, but too late to undo it.
        if not session.offered:
            call.after_response(session.show_offers)
        return session

    def _withdraw(self, session: Session, ticket: Ticket) -> None:
        """Withdraw a prompt whose request was cancelled. Remove it from the queue, or
        cancel its turn.
        """
        if session.withdraw(ticket):
            ticket.answer("cancelled")

    async def _new(
        self, call: IncomingCall, params: v1.NewSessionRequest | NewSession
    ) -> JsonValue:
        servers = servers_from_wire(params.mcp_servers)
        client = self._client_for(params.cwd)
        # Answer in the order of requests. CodeCompanion may send two requests and
        # prompt in the session of the second one, but it uses the session of the last
        # answer.
        async with self._new_lock:
            manager = await self._sessions()
            session = await manager.new(
                params.cwd, params.additional_directories, client, servers
            )
            return await self._new_session_result(call, manager, session)

    async def _fork(
        self, call: IncomingCall, params: v1.ForkSessionRequest
    ) -> JsonValue:
        at = fork_point(call.params.get("_meta"))
        servers = servers_from_wire(params.mcp_servers)
        client = self._client_for(params.cwd)
        async with self._in_order(params.session_id) as manager:
            session = await manager.fork(
                params.session_id,
                params.cwd,
                params.additional_directories,
                client,
                servers,
                at,
            )
            return await self._new_session_result(call, manager, session)

    async def _new_session_result(
        self, call: IncomingCall, manager: SessionManager, session: Session
    ) -> JsonValue:
        async with manager.discard_on_failure(session.session_id):
            result = await self._session_result(session)
        self._after_opening(call, manager, session)
        return {"sessionId": session.session_id, **result}

    async def _open(
        self,
        call: IncomingCall,
        params: v1.LoadSessionRequest
        | v1.ResumeSessionRequest
        | v2.ResumeSessionRequest,
        *,
        replayed: bool,
    ) -> JsonValue:
        servers = servers_from_wire(params.mcp_servers)
        client = self._client_for(params.cwd)
        source = "load" if replayed else "resume"
        async with self._in_order(params.session_id) as manager:
            session = await manager.open(
                params.session_id,
                params.cwd,
                params.additional_directories,
                client,
                source,
                servers,
            )
            await self._show_opened(manager, session, replayed=replayed)
            result = await self._session_result(session)
            self._after_opening(call, manager, session)
            return result

    def _after_opening(
        self, call: IncomingCall, manager: SessionManager, session: Session
    ) -> None:
        """Show commands, title and usage after the response, since editors drop updates
        of an unknown session.
        """
        session.offered = True

        async def follow() -> None:
            await session.show_offers()
            # The session may have been closed or reopened in the meantime.
            if manager.find(session.session_id) is session:
                session.prewarm()

        call.after_response(follow)

    async def _close(
        self, call: IncomingCall, params: v1.CloseSessionRequest
    ) -> JsonValue:
        async with self._in_order(params.session_id) as manager:
            await manager.close(params.session_id)
        return {}

    async def _set_option(
        self, call: IncomingCall, session_id: str, option_id: str, value: str | bool
    ) -> tuple[Option, ...]:
        session = await self._find(call, session_id)
        options = await session.set_option(
            option_id, value if isinstance(value, str) else ON if value else OFF
        )
        # Another model has another context window. Its size may have to be requested,
        # so the response does not wait.
        call.after_response(session.show_usage)
        return options

    async def _set_title(
        self, call: IncomingCall, params: v1.SetSessionTitleRequest
    ) -> JsonValue:
        async with self._in_order(params.session_id) as manager:
            return {"title": await manager.set_title(params.session_id, params.title)}

    async def _status(
        self, call: IncomingCall, params: v1.SessionStatusRequest
    ) -> JsonObject:
        async with self._in_order(params.session_id) as manager:
            return {"status": await manager.status(params.session_id)}

    async def _list(
        self, call: IncomingCall, params: v1.ListSessionsRequest | ListSessions
    ) -> JsonValue:
        if params.cwd is not None and not Path(params.cwd).is_absolute():
            raise InvalidParamsError(
                f"session/list: cwd {params.cwd!r} is not an absolute path."
            )
        archived = params.archived or "exclude"
        if archived not in ("exclude", "include", "only"):
            raise InvalidParamsError(
                f"session/list: archived is {archived!r}, but must be `exclude`, `include` or `only`."
            )
        manager = await self._sessions()
        page = await manager.list(
            None if params.cwd is None else str(Path(params.cwd)),
            params.cursor,
            archived,
        )
        rows: list[JsonValue] = [
            {
                "sessionId": record.session_id,
                "cwd": record.cwd,
                **given(title=record.title, archived=record.archived),
                "updatedAt": datetime.fromtimestamp(
                    record.updated_at / 1000, UTC
                ).isoformat(),
                **given(additionalDirectories=[*record.additional_directories] or None),
            }
            for record in page.sessions
        ]
        return {"sessions": rows, **given(nextCursor=page.next_cursor)}

    async def _apply_to_session(
        self,
        change: Callable[[SessionManager, str], Awaitable[None]],
        call: IncomingCall,
        params: v1.DeleteSessionRequest
        | v1.ArchiveSessionRequest
        | v1.UnarchiveSessionRequest,
    ) -> JsonValue:
        async with self._in_order(params.session_id) as manager:
            await change(manager, params.session_id)
        return {}

    # --- accounts and providers ---

    async def _sign_in(
        self, call: IncomingCall, params: v1.AuthenticateRequest | v2.LoginAuthRequest
    ) -> JsonValue:
        # There is nothing to do: keys are looked up on each model request, and the
        # provider rejects bad ones. But `acp-agent login` may have run in the editor's
        # terminal.
        if params.method_id not in (AUTH_METHOD, LOGIN_METHOD):
            raise InvalidParamsError(
                f"{call.method}: there is no method {params.method_id!r}, only {AUTH_METHOD!r} and {LOGIN_METHOD!r}."
            )
        call.after_response(self._notify_account)
        return {}

    async def _logout(self, call: IncomingCall, params: object) -> JsonValue:
        try:
            await (await self._sessions()).accounts.log_out()
        finally:
            # Stored keys may be removed even if this failed.
            await self._notify_account()
        return {}

    async def _auth_status(self, call: IncomingCall, params: object) -> JsonValue:
        self._reported_account = await self._account()
        return self._reported_account

    async def _account(self) -> JsonObject:
        state, accounts = await (await self._sessions()).accounts.standing()
        return {
            "state": state,
            "accounts": [
                {"label": label, "active": active} for label, active in accounts.items()
            ],
        }

    async def _notify_account(self) -> None:
        """Notify an editor that has asked for the account, if the account has changed."""
        # Without the lock, an older account could be sent last.
        async with self._account_lock:
            if (
                self._reported_account is not None
                and (account := await self._account()) != self._reported_account
            ):
                self._reported_account = account
                await self._peer.notify(methods.AUTH_STATUS_UPDATE, account)

    async def _list_providers(self, call: IncomingCall, params: object) -> JsonValue:
        """Return the configurable providers. None of them is required, and `current` is
        null for a disabled one.
        """
        rows: list[JsonValue] = [
            {
                "providerId": place.name,
                "supported": [place.api],
                "required": False,
                "current": {
                    "apiType": place.api,
                    "baseUrl": shown_url(place.base_url or ""),
                }
                if place.enabled
                else None,
            }
            for place in await (await self._sessions()).accounts.providers()
        ]
        return {"providers": rows}

    async def _set_provider(
        self, call: IncomingCall, params: v1.SetProviderRequest
    ) -> JsonValue:
        accounts = (await self._sessions()).accounts
        await accounts.set_route(
            params.provider_id, params.api_type, params.base_url, params.headers
        )
        call.after_response(self._notify_account)
        return {}

    async def _disable_provider(
        self, call: IncomingCall, params: v1.DisableProviderRequest
    ) -> JsonValue:
        await (await self._sessions()).accounts.disable(params.provider_id)
        call.after_response(self._notify_account)
        return {}

    async def _mcp_message(self, call: IncomingCall, params: JsonObject) -> JsonValue:
        """Deliver a message from an MCP server in the editor, before the request that
        it belongs to can resume.
        """
        if not call.is_notification:
            raise RpcError(
                METHOD_NOT_FOUND,
                "mcp/message is a request for editors. An agent has no MCP servers.",
            )
        self._servers.receive(params)
        return None


def to_rpc_error(error: Exception) -> RpcError:
    """Convert an exception to a JSON-RPC error. Editors show its message, which is a
    sentence.
    """
    if isinstance(error, RpcError):
        return error
    if isinstance(error, ExceptionGroup):
        causes = cast("ExceptionGroup[Exception]", error).exceptions
        if len(causes) == 1:
            return to_rpc_error(causes[0])
    if isinstance(error, SessionNotFoundError | SessionClosedError):
        return RpcError(error.code, str(error), {"sessionId": error.session_id})
    if isinstance(error, AgentError):
        return RpcError(error.code, str(error))
    return RpcError(
        INTERNAL_ERROR,
        log_failure(_log, "The agent failed internally", cast("Exception", error)),
    )
