"""`Guests`: all connections that are open, so that nobody can use up the descriptors of the process: where there is no
room for one more, the oldest over which nobody was let in is closed.

Does not know what is said over them, nor who is let in.
"""

from __future__ import annotations

import logging
import resource
from asyncio import WriteTransport
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hypercorn.typing import HTTPScope, WebsocketScope

MAX_CONNECTIONS = 1_000
SHARE = 2
"""Of the descriptors that the process may have, one in so many is for connections, the others for the agent's work."""

Ends: TypeAlias = tuple[object, object]
"""The addresses of a connection: the client's, and the one that it connected to."""

_log = logging.getLogger(__name__)


class Guests:
    """See above."""

    def __init__(self) -> None:
        self._strangers: dict[Ends, WriteTransport] = {}
        self._let_in: dict[Ends, WriteTransport] = {}
        self._told = False

    @contextmanager
    def hosted(self, transport: WriteTransport) -> Generator[bool]:
        """Count a connection as long as it is open.

        :returns: whether it can stay open.
        """
        ends = (_address(transport.get_extra_info("peername")), _address(transport.get_extra_info("sockname")))
        if len(self._strangers) + len(self._let_in) >= _most() and not self._make_room():
            transport.abort()
            yield False
            return
        self._strangers[ends] = transport
        try:
            yield True
        finally:
            for kept in (self._strangers, self._let_in):
                if kept.get(ends) is transport:
                    del kept[ends]

    def let_in(self, ends: Ends) -> None:
        """Somebody was let in over this connection: it is not closed for others from now on."""
        transport = self._strangers.pop(ends, None)
        if transport is not None:
            self._let_in[ends] = transport

    def cut_off(self, ends: Ends) -> None:
        """Close a connection, unless somebody was let in over it."""
        transport = self._strangers.pop(ends, None)
        if transport is not None:
            transport.abort()

    def _make_room(self) -> bool:
        for oldest in self._strangers:
            self.cut_off(oldest)
            return True
        if not self._told:
            _log.warning("%d connections are open, and no more can be", len(self._let_in))
        self._told = True
        return False


def ends_of(scope: HTTPScope | WebsocketScope) -> Ends:
    """The connection that a request came over."""
    return (_address(scope["client"]), _address(scope["server"]))


def _address(of_socket: tuple[object, ...] | None) -> object:
    """Without what there is beside host and port in version 6."""
    return of_socket[:2] if of_socket else None


def _most() -> int:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, allowed // SHARE)
