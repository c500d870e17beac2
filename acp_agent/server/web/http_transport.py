"""`HttpTransport`: a connection over streamable HTTP. What a client says comes in by POST, what it is told waits in one
stream for the connection and one for each session, until the client fetches it.

Owns the routes: which stream a message belongs to. Knows of ACP where a message says its session.

ACP, RFD "Streamable HTTP & WebSocket Transport".
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import anyio

from acp_agent.frozen import frozen
from acp_agent.jsonrpc.messages import JsonObject, JsonValue
from acp_agent.protocol.v1 import methods
from acp_agent.server.web.streams import Reader, Streams

_OF_THE_CONNECTION = (methods.SESSION_NEW, methods.SESSION_LIST)
"""The methods about sessions that name none."""
_OPENS_WHAT_IT_NAMES = (methods.SESSION_LOAD, methods.SESSION_RESUME)
_OPENS_ANOTHER = (methods.SESSION_NEW, methods.SESSION_FORK)


class RouteError(Exception):
    """A message does not say which session it belongs to, or says it twice and differently. For the client to read."""


@frozen
class _Asked:
    """A request of the client's that is not answered yet.

    :ivar session_id: which it names.
    """

    method: JsonValue
    session_id: str | None

    @property
    def route(self) -> str | None:
        """The stream of the answer: what opens a session is answered where the client can be listening already."""
        return None if self.method == methods.SESSION_LOAD else self.session_id

    def opened(self, result: JsonValue) -> str | None:
        """The session that is open now that it has succeeded."""
        if self.method in _OPENS_ANOTHER:
            return _session_in(result)
        return self.session_id if self.method in _OPENS_WHAT_IT_NAMES else None


class HttpTransport:
    """See `Transport`.

    :param connection_id: as the client knows it.
    :param streams: for what it is told.
    :param clock: seconds, from anywhere.
    """

    def __init__(self, connection_id: str, streams: Streams, clock: Callable[[], float] = anyio.current_time) -> None:
        self.connection_id = connection_id
        self._streams = streams
        self._clock = clock
        self._last_heard = clock()
        self._sent, self._received = anyio.create_memory_object_stream[bytes](0)
        self._asked: dict[JsonValue, _Asked] = {}
        self._asking: dict[JsonValue, str] = {}
        self._greeting: tuple[JsonValue, anyio.Event] | None = None
        self._greeted: JsonObject | None = None
        self._sessions: set[str] = set()

    # --- what the peer reads and writes ---

    async def read_line(self) -> bytes | None:
        """See `Transport`."""
        try:
            return await self._received.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    async def write(self, data: bytes) -> None:
        """See `Transport`."""
        for line in data.split(b"\n"):
            if line:
                message: JsonValue = json.loads(line)
                assert isinstance(message, dict)  # a batch is nothing that came in, and so none that is answered
                await self._tell(message, line)

    async def aclose(self) -> None:
        """See `Transport`."""
        self._streams.close()
        self._sent.close()
        self._received.close()
        if self._greeting is not None:
            self._greeting[1].set()

    # --- what the endpoint hands in and takes out ---

    @property
    def silent_for(self) -> float:
        """Seconds since the client was last seen: it reads no stream, waits for nothing, and has sent nothing."""
        greeting = self._greeting is not None and not self._greeting[1].is_set()
        return 0.0 if self._streams.are_read or greeting else self._clock() - self._last_heard

    async def greet(self, message: JsonObject, line: bytes) -> JsonObject | None:
        """Hand in `initialize`, and wait for the answer.

        :param line: the same, as it came.
        :returns: None where the connection ended instead.
        """
        answered = anyio.Event()
        self._greeting = (message["id"], answered)
        with suppress(anyio.ClosedResourceError):
            await self._hand_in(line)
            await answered.wait()
        self._last_heard = self._clock()
        return self._greeted

    async def post(self, message: JsonObject, line: bytes, session_id: str | None) -> None:
        """Hand in what a client says; it is answered in a stream.

        :param line: the same, as it came.
        :param session_id: which the header named.
        :raises RouteError: the header is missing, or names another session.
        :raises anyio.ClosedResourceError: the connection has ended.
        """
        named = _session_of(message)
        if "method" not in message:
            named = self._asking.get(_key(message.get("id")))
        method = message.get("method")
        needed = isinstance(method, str) and method.startswith("session/") and method not in _OF_THE_CONNECTION
        if session_id is None and (named is not None or needed):
            raise RouteError("This belongs to a session: name it in the header Acp-Session-Id.")
        if session_id is not None and named is not None and session_id != named:
            raise RouteError("The header Acp-Session-Id names another session than the message.")
        if method is None:
            self._asking.pop(_key(message.get("id")), None)
        elif "id" in message:
            self._asked[_key(message["id"])] = _Asked(method, named or (session_id if needed else None))
        await self._hand_in(line)

    def reader(self, session_id: str | None) -> Reader:
        """Begin to read a session's stream, or the connection's own, in place of who has read it before."""
        return self._streams.reader(session_id)

    def left(self) -> None:
        """The client has stopped reading a stream."""
        self._last_heard = self._clock()

    async def _hand_in(self, line: bytes) -> None:
        self._last_heard = self._clock()
        try:
            await self._sent.send(line)
        except anyio.BrokenResourceError:
            raise anyio.ClosedResourceError from None

    async def _tell(self, message: JsonObject, line: bytes) -> None:
        if "method" in message:
            session_id = _session_of(message)
            if session_id is not None and "id" in message:
                self._asking[_key(message["id"])] = session_id
            await self._streams.put(session_id, line)
            return
        if self._greeting is not None and not self._greeting[1].is_set() and message.get("id") == self._greeting[0]:
            self._greeted = message
            self._greeting[1].set()
            return
        asked = self._asked.pop(_key(message.get("id")), None)
        if asked is None:
            await self._streams.put(None, line)
            return
        if "result" in message and (opened := asked.opened(message["result"])) is not None:
            self._sessions.add(opened)
        known = asked.route in self._sessions
        if "result" in message and asked.method == methods.SESSION_DELETE:
            self._sessions.discard(asked.session_id or "")
        route = asked.route
        if not known and not self._streams.is_read(route):
            route = None  # the client may have no way to the stream of a session that is not open here
        if route != asked.session_id:
            await self._streams.passed_on(asked.session_id)  # the replay comes first, though on another stream
        await self._streams.put(route, line)


def _session_of(message: JsonObject) -> str | None:
    """The session that a request or a notification names."""
    return _session_in(message.get("params"))


def _session_in(value: JsonValue) -> str | None:
    named = value.get("sessionId") if isinstance(value, dict) else None
    return named if isinstance(named, str) else None


def _key(id: JsonValue) -> str | int | float | None:
    """What an id is looked up by: one that is none, such as an object, is not found."""
    return id if isinstance(id, str | int | float) else None
