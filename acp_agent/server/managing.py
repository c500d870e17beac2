"""`Managing`: what is done with sessions, providers and accounts beside talking: list, fork, title, archive, delete,
status; routes; signing out. The same in every version of the protocol, but for how an opened session is told of.

ACP RFDs, "Session Fork", "Configurable LLM Providers"; ACP, "Session List", "Authentication".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from acp_agent.config.settings import McpServer
from acp_agent.errors import AgentError
from acp_agent.jsonrpc.messages import JsonObject, JsonValue
from acp_agent.jsonrpc.router import Call, Router
from acp_agent.protocol.v1 import SessionStatus, methods, results
from acp_agent.server.face import Face, Route, nothing
from acp_agent.server.forking import fork_point
from acp_agent.server.listing import list_sessions
from acp_agent.server.providers import listed
from acp_agent.session.client import SessionClient
from acp_agent.session.manager import SessionManager
from acp_agent.session.session import Session

ClientFor: TypeAlias = Callable[[str], SessionClient]


class OfSession(Protocol):
    """Params that name a session."""

    @property
    def session_id(self) -> str: ...


class _Title(OfSession, Protocol):
    @property
    def title(self) -> str: ...


class _Fork(OfSession, Protocol):
    @property
    def cwd(self) -> str: ...
    @property
    def additional_directories(self) -> Sequence[str]: ...
    @property
    def mcp_servers(self) -> Sequence[object]: ...


class _List(Protocol):
    @property
    def cwd(self) -> str | None: ...
    @property
    def cursor(self) -> str | None: ...
    @property
    def archived(self) -> str | None: ...


class _Provider(Protocol):
    @property
    def provider_id(self) -> str: ...


class _Route(_Provider, Protocol):
    @property
    def api_type(self) -> str: ...
    @property
    def base_url(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class Managing(Face):
    """The part of a face that is the same in every version."""

    _told: JsonObject | None = None
    """The standing that the editor was told of last; None where it has never asked, and may not know of such."""
    _looked = 0
    """How often it was looked whether that still holds."""

    @abstractmethod
    def _clients(self, cwd: str) -> ClientFor:
        """What makes the clients of sessions in this directory."""

    @abstractmethod
    def _given(self, servers: Sequence[object]) -> tuple[McpServer, ...]:
        """The MCP servers that a request names."""

    @abstractmethod
    async def _made(self, session: Session) -> JsonObject:
        """The answer to a request that has made a session."""

    def _status_result(self, session_id: str, status: SessionStatus) -> JsonObject:
        return results.session_status_result(status)

    def _register_managing(self, router: Router) -> None:
        router.register(methods.AUTH_STATUS, *self._route(methods.AUTH_STATUS, self._auth_status))
        router.register(methods.PROVIDERS_LIST, *self._route(methods.PROVIDERS_LIST, self._list_providers))
        router.register(methods.PROVIDERS_SET, *self._route(methods.PROVIDERS_SET, self._set_provider))
        router.register(methods.PROVIDERS_DISABLE, *self._route(methods.PROVIDERS_DISABLE, self._disable_provider))
        router.register(methods.SESSION_LIST, *self._route(methods.SESSION_LIST, self._list))
        router.register(methods.SESSION_DELETE, *self._route(methods.SESSION_DELETE, self._delete))
        router.register(methods.SESSION_FORK, *self._fork_route())
        router.register(methods.SESSION_SET_TITLE, *self._route(methods.SESSION_SET_TITLE, self._set_title))
        router.register(methods.SESSION_ARCHIVE, *self._route(methods.SESSION_ARCHIVE, self._archive))
        router.register(methods.SESSION_UNARCHIVE, *self._route(methods.SESSION_UNARCHIVE, self._unarchive))
        router.register(methods.SESSION_STATUS, *self._route(methods.SESSION_STATUS, self._status))

    # --- accounts and providers ---

    async def _logout(self, call: Call, params: object) -> JsonValue:
        try:
            return await self._changed(call, (await self._sessions()).accounts.log_out())
        except AgentError:
            await self._tell_standing()  # what was stored may be gone all the same
            raise

    async def _auth_status(self, call: Call, params: object) -> JsonValue:
        self._told = await self._standing()
        return self._told

    async def _standing(self) -> JsonObject:
        standing = await (await self._sessions()).accounts.standing()
        accounts = [results.account(each.label, active=each.active) for each in standing.accounts]
        return results.auth_status(standing.state, accounts)

    async def _changed(self, call: Call, work: Awaitable[None]) -> JsonValue:
        """Do what may change as whom the providers are asked; an editor that has asked is told so."""
        await work
        call.after_response(self._tell_standing)
        return {}

    async def _tell_standing(self) -> None:
        """Tell an editor that has asked as whom the providers are asked now, where that is another one."""
        if self._told is None:
            return
        self._looked += 1
        mine = self._looked
        standing = await self._standing()
        if mine != self._looked or standing == self._told:
            return  # whoever looks later tells what holds then
        self._told = standing
        await self._connection().notify(methods.AUTH_STATUS_UPDATE, standing)

    async def _list_providers(self, call: Call, params: object) -> JsonValue:
        return listed(await (await self._sessions()).accounts.providers())

    async def _set_provider(self, call: Call, params: _Route) -> JsonValue:
        accounts = (await self._sessions()).accounts
        route = accounts.set_route(params.provider_id, params.api_type, params.base_url, params.headers)
        return await self._changed(call, route)

    async def _disable_provider(self, call: Call, params: _Provider) -> JsonValue:
        return await self._changed(call, (await self._sessions()).accounts.disable(params.provider_id))

    # --- sessions ---

    def _list(self, call: Call, params: _List) -> Awaitable[JsonValue]:
        return self._when_removed(
            lambda manager: list_sessions(manager, params.cwd, params.cursor, params.archived or "exclude")
        )

    def _delete(self, call: Call, params: OfSession) -> Awaitable[JsonValue]:
        place = self._order.take_place_to_remove(params.session_id)
        return self._alone(place, lambda manager: nothing(manager.delete(params.session_id)))

    def _fork_route(self) -> Route[tuple[_Fork, int | str | None]]:
        def at_its_end(call: Call, params: _Fork) -> Awaitable[JsonValue]:
            return self._fork(call, (params, None))

        bind, _, to_load = self._route(methods.SESSION_FORK, at_its_end)
        return lambda params: (bind(params), fork_point(params.get("_meta"))), self._fork, to_load

    def _fork(self, call: Call, asked: tuple[_Fork, int | str | None]) -> Awaitable[JsonValue]:
        params, at = asked
        servers = self._given(params.mcp_servers)

        async def work(manager: SessionManager) -> JsonValue:
            clients = self._clients(params.cwd)
            session = await manager.fork(
                params.session_id, params.cwd, params.additional_directories, clients, servers, at
            )
            async with manager.kept_if_told(session.session_id):
                made = await self._made(session)
            self._after_opening(call, session)
            return made

        return self._alone(self._order.take_place(params.session_id), work)

    def _set_title(self, call: Call, params: _Title) -> Awaitable[JsonValue]:
        async def work(manager: SessionManager) -> JsonValue:
            return results.set_title_result(await manager.set_title(params.session_id, params.title))

        return self._alone(self._order.take_place(params.session_id), work)

    def _archive(self, call: Call, params: OfSession) -> Awaitable[JsonValue]:
        place = self._order.take_place_to_remove(params.session_id)
        return self._alone(place, lambda manager: nothing(manager.archive(params.session_id)))

    def _unarchive(self, call: Call, params: OfSession) -> Awaitable[JsonValue]:
        place = self._order.take_place_to_remove(params.session_id)
        return self._alone(place, lambda manager: nothing(manager.unarchive(params.session_id)))

    def _status(self, call: Call, params: OfSession) -> Awaitable[JsonValue]:
        async def work(manager: SessionManager) -> JsonValue:
            return self._status_result(params.session_id, await manager.status(params.session_id))

        return self._alone(self._order.take_place(params.session_id), work)
