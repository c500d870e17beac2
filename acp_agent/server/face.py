"""`Face`: what the methods of an agent share, whichever version of the protocol they are of.

Owns the sessions of one connection, the order of the wire among them, and the binding of params. Knows no method.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from acp_agent.conversation.messages import UserPart
from acp_agent.errors import AgentError, SessionClosedError, SessionNotFoundError
from acp_agent.frozen import frozen
from acp_agent.importing import given_up_at_the_end
from acp_agent.jsonrpc.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JsonObject,
    JsonValue,
    RpcError,
)
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Call, Router, ToLoad
from acp_agent.logfile import log_failure
from acp_agent.server.mcp_messages import EditorServers
from acp_agent.server.order import Place, WireOrder
from acp_agent.server.tracing import trace_context
from acp_agent.session.mailbox import Ticket
from acp_agent.session.manager import SessionManager
from acp_agent.session.session import Session

if TYPE_CHECKING:
    from acp_agent.protocol.wire import WireModel

P = TypeVar("P")
T = TypeVar("T")
Route: TypeAlias = tuple[Callable[[JsonObject], P], Callable[[Call, P], Awaitable[JsonValue]], ToLoad]

_log = logging.getLogger(__name__)


@frozen
class Traced(Generic[P]):
    """Params, and the trace context that came with them."""

    params: P
    trace: Mapping[str, str]


class Face(ABC):
    """Serves one editor in one version of the protocol.

    :param open_manager: opens the sessions; called again with the next request where it raised, since the user may
        have mended what was wrong meanwhile.
    :param over_network: the editor may be on another machine.
    """

    def __init__(self, open_manager: Callable[[], Awaitable[SessionManager]], *, over_network: bool = False) -> None:
        self._open_manager = open_manager
        self._over_network = over_network
        self._manager: SessionManager | None = None
        self._opening = anyio.Lock()
        self._order = WireOrder()
        self._peer: Peer | None = None
        self._servers: EditorServers | None = None
        self._greeted = False
        self._loaded: set[str] = set()

    def connect(self, peer: Peer) -> None:
        """Tell it the connection, which is made after the routes."""
        self._peer = peer

    def disconnected(self) -> None:
        """The connection has ended: nobody waits for what the sessions do."""
        if self._manager is not None:
            self._manager.stop()

    def initialized(self, params: JsonObject) -> None:
        """The connection was initialized with these params."""
        self._greeted = True

    @property
    def in_use(self) -> bool:
        """Whether sessions were asked for."""
        return self._manager is not None

    @abstractmethod
    def greet(self, params: JsonObject) -> JsonObject:
        """Answer `initialize`.

        :raises InvalidParamsError: the params are wrong.
        """

    def to_greet(self, params: JsonObject) -> Callable[[], None] | None:
        """What makes `greet` quick; None where it is."""
        return self._to_load("initialize")

    @abstractmethod
    def register(self, router: Router) -> None:
        """Add every method that an editor may call, but for `initialize`."""

    @abstractmethod
    def _params_model(self, method: str) -> type[WireModel]:
        """Load the model of a method's params."""

    @property
    @abstractmethod
    def _prompt_method(self) -> str:
        """The method whose params the first prompt is read with."""

    # --- sessions ---

    async def _sessions(self) -> SessionManager:
        async with self._opening:
            if self._manager is None:
                self._manager = await self._open_manager()
            return self._manager

    def _alone(self, place: Place, work: Callable[[SessionManager], Awaitable[JsonValue]]) -> Awaitable[JsonValue]:
        """Open or close a session when it is its turn; what names the session later on the wire waits for the end."""

        async def in_turn() -> JsonValue:
            async with place:
                return await work(await self._sessions())

        return in_turn()

    def _in_order(self, call: Call, session_id: str, work: Callable[[Session], T]) -> Awaitable[T]:
        """Do something short with an open session: while the line is read, where nothing that opens or closes the
        session is under way, otherwise when that is done."""

        def use(session: Session) -> T:
            if not session.offered:  # its opening was taken back when it was too late
                call.after_response(session.show_offers)
            return work(session)

        place = self._order.take_place(session_id)
        session = self._manager.find(session_id) if self._manager is not None and place.is_due else None
        if session is not None:
            try:
                return done(use(session))
            finally:
                place.leave()

        async def in_turn() -> T:
            async with place:
                return use(await (await self._sessions()).get(session_id))

        return in_turn()

    def _found(self, call: Call, session_id: str) -> Awaitable[Session]:
        """An open session, see `_in_order`."""
        return self._in_order(call, session_id, lambda session: session)

    def _submitted(
        self,
        call: Call,
        session_id: str,
        said: Callable[[Session], tuple[UserPart, ...]],
        trace: Mapping[str, str],
        *,
        provisional: bool = False,
    ) -> Awaitable[Ticket]:
        """Put a prompt into its session's queue: while the line is read, so that a `session/cancel` right behind it
        finds it. When its request is cancelled, it is taken out of the queue, or its turn ended in good order before
        the request is answered, as with `session/cancel`."""

        def submit(session: Session) -> Ticket:
            ticket = session.submit(said(session), trace, provisional=provisional)

            def withdraw() -> None:
                if session.withdraw(ticket):
                    ticket.answer("cancelled")

            call.on_cancel(withdraw)
            return ticket

        return self._in_order(call, session_id, submit)

    def _when_removed(self, work: Callable[[SessionManager], Awaitable[JsonValue]]) -> Awaitable[JsonValue]:
        """Do something with all sessions when those are gone that the wire has had removed so far."""
        removals = self._order.removals()  # as of now, while the line is read

        async def when_removed() -> JsonValue:
            for place in removals:
                await place.until_left()
            return await work(await self._sessions())

        return when_removed()

    def _connection(self) -> Peer:
        if self._peer is None or not self._greeted:
            raise RuntimeError("a session was asked for before there was a connection")
        return self._peer

    def _mcp_servers(self) -> EditorServers:
        if self._servers is None:
            self._servers = EditorServers(self._connection())
        return self._servers

    def _mcp_route(self) -> Route[JsonObject]:
        """What an MCP server of the editor's says: heard while the line is read, and so before what it answers."""

        def hear(call: Call, params: JsonObject) -> Awaitable[JsonValue]:
            if not call.is_notification:
                raise RpcError(METHOD_NOT_FOUND, "mcp/message is a request to an editor; an agent has no MCP servers.")
            if self._servers is not None:
                self._servers.hear(params)
            return done({})

        return lambda params: params, hear, lambda params: None

    def _after_opening(self, call: Call, session: Session) -> None:
        """Editors drop updates of a session whose id they have not been answered yet."""
        session.offered = True

        async def follow() -> None:
            await session.show_offers()
            session.host.mcp.start()
            (await self._sessions()).prewarm(session)
            # What the first prompt is read with, where it is more than text.
            load = self._to_load(self._prompt_method)
            if load is not None:
                await anyio.to_thread.run_sync(load, abandon_on_cancel=True)

        call.after_response(follow)

    # --- binding ---

    def _to_load(self, method: str) -> Callable[[], None] | None:
        """What makes the model of a method's params ready for use; None where it is."""

        @given_up_at_the_end()
        def load() -> None:
            self._params_model(method).model_rebuild()
            self._loaded.add(method)

        return None if method in self._loaded else load

    def _traced_route(
        self,
        method: str,
        handler: Callable[[Call, Traced[P]], Awaitable[JsonValue]],
        plain: Callable[[JsonObject], P | None] | None = None,
    ) -> Route[Traced[P]]:
        """A route whose handler is told the trace context as well, which the models leave out with all of `_meta`."""

        def untraced(call: Call, params: P) -> Awaitable[JsonValue]:
            return handler(call, Traced(params, {}))

        bind, _, to_load = self._route(method, untraced, plain)
        return lambda params: Traced(bind(params), trace_context(params.get("_meta"))), handler, to_load

    def _route(
        self,
        method: str,
        handler: Callable[[Call, P], Awaitable[JsonValue]],
        plain: Callable[[JsonObject], P | None] | None = None,
    ) -> Route[P]:
        # The model's class is looked up with the first request: building all of them would delay the first answer.
        def bind(params: JsonObject) -> P:
            if not self._greeted:
                raise RpcError(INVALID_REQUEST, f"{method} came before initialize. Send initialize first.")
            if plain is not None and (found := plain(params)) is not None:
                return found
            from acp_agent.protocol.wire import parse

            return parse(self._params_model(method), params, method)  # pyright: ignore[reportReturnType]

        def to_load(params: JsonObject) -> Callable[[], None] | None:
            return None if plain is not None and plain(params) is not None else self._to_load(method)

        return bind, handler, to_load


def to_rpc_error(error: Exception) -> RpcError:
    """An error on the wire: the same sentence in `message` and in `data.details`; editors show one or the other."""
    if isinstance(error, SessionNotFoundError | SessionClosedError):
        return RpcError(error.code, str(error), {"details": str(error), "sessionId": error.session_id})
    if isinstance(error, AgentError):
        return RpcError(error.code, str(error))
    return RpcError(INTERNAL_ERROR, log_failure(_log, "The agent failed inside", error))


async def done(value: T) -> T:
    """What is there already, to be awaited."""
    return value


async def nothing(work: Awaitable[None]) -> JsonValue:
    """Do it, and answer with an empty object."""
    await work
    return {}
