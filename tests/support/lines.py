"""One line of the wire, and the error that an answer can be.

line.kind, line.method, line.params, line.update, line.label, line.raw
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["request", "notification", "response", "error", "invalid"]


class AgentError(Exception):
    """A JSON-RPC error: what `request` raises, and what a handler raises to answer with
    one.

    :ivar code: see the JSON-RPC and ACP tables of codes.
    """

    def __init__(self, code: int, message: str = "", data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{code}: {message}" + ("" if data is None else f" {data!r}"))


@dataclass(frozen=True, slots=True)
class Line:
    """One message, as it stood on the wire.

    :ivar index: position in `Wire.lines` (received) or `Wire.sent`.
    :ivar order: position in the traffic of both directions.
    :ivar message: the parsed object; empty where the line is not an object.
    :ivar method: the method; for an answer, that of the request which it answers; ""
        where there is none.
    """

    received: bool
    index: int
    order: int
    raw: bytes
    message: Mapping[str, Any]
    kind: Kind
    method: str

    @property
    def params(self) -> Mapping[str, Any]:
        """The params; empty where the message has none."""
        params = self.message.get("params")
        return params if isinstance(params, Mapping) else {}

    @property
    def update(self) -> Mapping[str, Any]:
        """The `update` of a `session/update`; empty for everything else."""
        update = self.params.get("update") if self.method == "session/update" else None
        return update if isinstance(update, Mapping) else {}

    @property
    def update_kind(self) -> str:
        return str(self.update.get("sessionUpdate", ""))

    @property
    def label(self) -> str:
        """What an assertion on order needs: `agent_message_chunk`, `fs/read_text_file`,
        `response session/new`.
        """
        if self.kind in ("response", "error"):
            return f"{self.kind} {self.method}".strip()
        return self.update_kind or self.method or self.kind


def parse(raw: bytes) -> list[tuple[Mapping[str, Any], Kind]]:
    """The messages of a line: one, or those of a batch; what is none is an empty object
    of the kind `invalid`.
    """
    try:
        value = json.loads(raw)
    except ValueError:
        return [({}, "invalid")]
    return (
        [_classify(message) for message in value]
        if isinstance(value, list) and value
        else [_classify(value)]
    )


def _classify(message: Any) -> tuple[Mapping[str, Any], Kind]:
    if not isinstance(message, dict):
        return {}, "invalid"
    if message.get("jsonrpc") != "2.0":
        return message, "invalid"
    if isinstance(message.get("method"), str):
        return message, "request" if "id" in message else "notification"
    if ("result" in message) == ("error" in message) or "id" not in message:
        return message, "invalid"
    if "error" in message:
        error = message["error"]
        whole = (
            isinstance(error, dict)
            and type(error.get("code")) is int
            and isinstance(error.get("message"), str)
        )
        return message, "error" if whole else "invalid"
    return message, "response"
