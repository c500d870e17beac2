"""`OpenChunks`: what is streamed, recorded so that no secret stands in it once the pieces are put together.

Each piece is masked with what came before it in its stream, and so may show a word of the piece before and lack its own
last one. The newest piece waits for what comes next, since the last one of all shows the rest. Knows the form of ACP's
chunks, and no method.

ACP, "Prompt Turn": `session/update`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from acp_agent.jsonrpc.messages import JsonObject, JsonValue
from acp_agent.secrets.stream import StreamMask

_Stream: TypeAlias = tuple[str, str]
"""A session, and the kind of chunk."""
_CHUNK = "_chunk"


@dataclass(slots=True)
class _Newest:
    """The newest piece of a stream, which is still to be written."""

    entry: JsonObject
    content: JsonObject
    mask: StreamMask

    def ended(self) -> JsonObject:
        """It, as the last one."""
        self.content["text"] = f"{self.content['text']}{self.mask.flush()}"
        return self.entry


class OpenChunks:
    """The streams of one connection that may go on."""

    def __init__(self) -> None:
        self._open: dict[_Stream, _Newest] = {}

    def before(self, message: JsonValue) -> Iterator[JsonObject]:
        """The entries that are whole now that this message comes, to be written before it: streams of its session go
        on with pieces of their own kind alone.

        :param message: as it came.
        """
        session, stream = _session(message), _stream(message)
        if session is None and len(self._open) > 1:
            return  # nothing tells to which of the sessions this belongs
        for each in list(self._open):
            if each != stream and session in (None, each[0]):
                yield from self._ended(each)

    def taken(self, message: JsonValue, secrets: Sequence[str]) -> JsonValue:
        """The message, with the text of a piece as it is to be recorded; any other as it is.

        :param secrets: known values, as `StreamMask` takes them.
        """
        stream, content = _stream(message), _content(message)
        if stream is None or content is None:
            return message
        newest = self._open.get(stream)
        mask = newest.mask if newest else StreamMask(secrets)
        if newest is None:
            self._open[stream] = _Newest({}, {}, mask)
        return _with_content(message, {**content, "text": mask.feed(str(content["text"]))})

    def kept(self, message: JsonValue, entry: JsonObject) -> JsonObject | None:
        """Keep the entry of a piece until the next one comes.

        :param message: as it came.
        :param entry: what is to be written of it, under `message`.
        :returns: what is to be written instead, now; None where there is nothing.
        """
        stream = _stream(message)
        content = _content(entry.get("message"))
        if stream is None or content is None:
            return entry
        newest = self._open[stream]
        before = newest.entry
        self._open[stream] = _Newest(entry, content, newest.mask)
        return before or None

    def rest(self) -> Iterator[JsonObject]:
        """Nothing more comes: what is left."""
        for each in list(self._open):
            yield from self._ended(each)

    def _ended(self, stream: _Stream) -> Iterator[JsonObject]:
        newest = self._open.pop(stream)
        if newest.entry:  # there is none where the first piece could not be read to its depth
            yield newest.ended()


def _update(message: JsonValue) -> JsonObject | None:
    params = message.get("params") if isinstance(message, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    return update if isinstance(update, dict) else None


def _content(message: JsonValue) -> JsonObject | None:
    """The content of a chunk of text."""
    update = _update(message)
    content = update.get("content") if update is not None else None
    return content if isinstance(content, dict) and isinstance(content.get("text"), str) else None


def _session(message: JsonValue) -> str | None:
    params = message.get("params") if isinstance(message, dict) else None
    session = params.get("sessionId") if isinstance(params, dict) else None
    return session if isinstance(session, str) else None


def _stream(message: JsonValue) -> _Stream | None:
    session, update = _session(message), _update(message)
    kind = update.get("sessionUpdate") if update is not None else None
    if session is None or not isinstance(kind, str) or not kind.endswith(_CHUNK) or _content(message) is None:
        return None
    return session, kind


def _with_content(message: JsonValue, content: JsonObject) -> JsonValue:
    """A copy with another content; the message has the form of a chunk."""
    assert isinstance(message, dict)
    params, update = message["params"], _update(message)
    assert isinstance(params, dict)
    assert update is not None
    return {**message, "params": {**params, "update": {**update, "content": content}}}
