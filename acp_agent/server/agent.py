"""`Agent`: agrees on a version of the protocol with an editor, and is that version's face from then on.

Version 2 is loaded where an editor asks for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from acp_agent.jsonrpc.messages import INVALID_REQUEST, JsonObject, JsonValue, RpcError
from acp_agent.jsonrpc.peer import Peer
from acp_agent.jsonrpc.router import Call, Router
from acp_agent.protocol.v1 import methods
from acp_agent.server.face import Face, done
from acp_agent.server.v1.agent import Agent as FirstFace
from acp_agent.server.versions import UNSUPPORTED_VERSION, agreed, requested_version
from acp_agent.session.manager import SessionManager


class Agent:
    """Serves one editor.

    :param open_manager: opens the sessions; see `Face`.
    :param versions: tells which versions are spoken.
    :param over_network: the editor may be on another machine.
    """

    def __init__(
        self,
        open_manager: Callable[[], Awaitable[SessionManager]],
        versions: Callable[[], tuple[int, ...]],
        *,
        over_network: bool = False,
    ) -> None:
        self._open_manager = open_manager
        self._over_network = over_network
        self._versions = versions
        self._version = 1
        self._face: Face = FirstFace(open_manager, over_network=over_network)
        self._router: Router | None = None
        self._peer: Peer | None = None

    def connect(self, peer: Peer) -> None:
        """Tell it the connection, which is made after the routes."""
        self._peer = peer
        self._face.connect(peer)

    def disconnected(self) -> None:
        """The connection has ended: nobody waits for what the sessions do."""
        self._face.disconnected()

    def initialized(self, params: JsonObject, version: int) -> None:
        """The handshake was answered elsewhere; these were its params, and this the answer's version."""
        self._speak(version)
        self._face.initialized(params)

    def register(self, router: Router) -> None:
        """Add every method that an editor may call."""
        self._router = router
        router.clear()
        router.register(methods.INITIALIZE, _as_it_is, self._initialize, self._face.to_greet)
        self._face.register(router)

    def _initialize(self, call: Call, params: JsonObject) -> Awaitable[JsonValue]:
        # All of it before anything is awaited: the next line on the wire may already need it.
        requested = requested_version(params)
        if requested is not None:
            spoken = self._versions() if requested > 1 else (1,)
            version = agreed(requested, spoken)
            if version is None:
                raise _unsupported(requested, self._versions())
            self._speak(version)
        return done(self._face.greet(params))

    def _speak(self, version: int) -> None:
        if version == self._version:
            return
        if self._face.in_use:
            raise RpcError(INVALID_REQUEST, f"This connection speaks version {self._version}; open another one.")
        self._face, self._version = _face(version)(self._open_manager, over_network=self._over_network), version
        if self._peer is not None:
            self._face.connect(self._peer)
        if self._router is not None:
            self.register(self._router)


def _face(version: int) -> type[Face]:
    if version == 1:
        return FirstFace
    from acp_agent.server.v2.agent import Agent as SecondFace

    return SecondFace


def _as_it_is(params: JsonObject) -> JsonObject:
    return params


def _unsupported(requested: int, spoken: tuple[int, ...]) -> RpcError:
    versions = " or ".join(map(str, spoken))
    return RpcError(
        UNSUPPORTED_VERSION,
        f"This agent speaks version {versions} of the protocol, and not {requested}.",
        {"requested": requested, "supported": [*spoken]},
    )
