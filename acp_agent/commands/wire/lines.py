"""Recorded messages as lines to read: requests matched with their responses, each with its session. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, cast

from acp_agent.frozen import frozen
from acp_agent.protocol import JsonObject, JsonValue

Kind: TypeAlias = Literal["request", "response", "notification", "invalid"]
Direction: TypeAlias = Literal["in", "out"]
_LATEST = 253_402_214_400
"""Seconds since the epoch, the last day of the calendar; what is later, infinite or no number is no time."""
_OTHER: Mapping[Direction, Direction] = {"in": "out", "out": "in"}


@frozen
class WireLine:
    """One message.

    :ivar at: seconds since the epoch.
    :ivar process: which connection it is of.
    :ivar direction: `in` for what the client sent.
    :ivar method: of a response, that of its request; empty where nobody knows.
    :ivar id: as JSON has it; None for a notification.
    :ivar session: the id of the session that it is about; empty for none.
    :ivar seconds: of a response, how long it took; None where the request was not recorded.
    :ivar message: as it was sent, masked; a text for what was no JSON.
    """

    at: float
    process: str
    direction: Direction
    kind: Kind
    method: str
    id: JsonValue
    session: str
    seconds: float | None
    message: JsonValue

    @property
    def failed(self) -> bool:
        """Whether it is an error, or no message at all."""
        return self.kind == "invalid" or (self.kind == "response" and "error" in cast(JsonObject, self.message))


class Matcher:
    """Makes lines of one process's records, in their order."""

    def __init__(self, process: str) -> None:
        self._process = process
        self._open: dict[tuple[Direction, str], WireLine] = {}

    def lines(self, record: JsonObject) -> Iterator[WireLine]:
        """The lines of a record: one, or several for a batch; none for what is no record."""
        at, direction = record.get("at"), record.get("dir")
        if isinstance(at, bool) or not isinstance(at, int | float) or direction not in ("in", "out"):
            return
        if not 0 <= at < _LATEST:
            return
        if "message" not in record:
            yield self._line(at, direction, "invalid", record.get("invalid"))
            return
        message = record["message"]
        for each in message if isinstance(message, list) else [message]:
            yield self._one(at, direction, each)

    def _one(self, at: float, direction: Direction, message: JsonValue) -> WireLine:
        if not isinstance(message, dict):
            return self._line(at, direction, "invalid", message)
        method = message.get("method")
        if isinstance(method, str):
            kind: Kind = "request" if "id" in message else "notification"
            line = self._line(at, direction, kind, message, method, message.get("id"), _session(message.get("params")))
            if kind == "request":
                self._open[direction, _key(line.id)] = line
            return line
        if "result" not in message and "error" not in message:
            return self._line(at, direction, "invalid", message)
        request_id = message.get("id")
        asked = self._open.pop((_OTHER[direction], _key(request_id)), None)
        session = _session(message.get("result"))
        if asked is None:
            return self._line(at, direction, "response", message, "", request_id, session)
        seconds = max(0.0, at - asked.at)
        return self._line(
            at, direction, "response", message, asked.method, request_id, asked.session or session, seconds
        )

    def _line(
        self,
        at: float,
        direction: Direction,
        kind: Kind,
        message: JsonValue,
        method: str = "",
        id: JsonValue = None,
        session: str = "",
        seconds: float | None = None,
    ) -> WireLine:
        return WireLine(at, self._process, direction, kind, method, id, session, seconds, message)


class OneSession:
    """What is about a session, and what is about none in the processes that had it open: also what such a process said
    before, which waits until it is known to be one. The request about another session that made this one, as a fork is,
    comes with its response.

    :param session: the beginning of its id.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._had_it: set[str] = set()
        self._waiting: dict[str, list[WireLine]] = {}
        self._elsewhere: dict[tuple[str, Direction, str], WireLine] = {}
        """Requests about other sessions that have no response yet."""

    def lines(self, lines: Iterable[WireLine]) -> Iterator[WireLine]:
        """Those of the next lines that can be told to be shown, behind those that waited for them."""
        for line in lines:
            made_by: list[WireLine] = []
            if line.session and not line.session.startswith(self._session):
                if (request := self._made_by(line)) is None:
                    continue
                made_by = [request]
            if line.session:
                self._had_it.add(line.process)
                yield from self._waiting.pop(line.process, ())
            yield from made_by
            if line.process in self._had_it:
                yield line
            else:
                self._waiting.setdefault(line.process, []).append(line)

    def _made_by(self, line: WireLine) -> WireLine | None:
        """The request that a line about another session is the response of, where this session came of it."""
        if line.kind == "request":
            self._elsewhere[line.process, line.direction, _key(line.id)] = line
        if line.kind != "response":
            return None
        request = self._elsewhere.pop((line.process, _OTHER[line.direction], _key(line.id)), None)
        made = _session(cast(JsonObject, line.message).get("result"))
        return request if made and made.startswith(self._session) else None


def _session(value: JsonValue) -> str:
    session = value.get("sessionId") if isinstance(value, dict) else None
    return session if isinstance(session, str) else ""


def _key(id: JsonValue) -> str:
    """1 and "1" are two ids."""
    return repr(id)
