"""Where a session is to be forked: what `_meta` of `session/fork` says beyond the schema, in every version of it.

`{"acp-agent": {"at": 12}}` names the last entry of the log, `{"acp-agent": {"messageId": "msg_1"}}` the last message.
"""

from __future__ import annotations

from acp_agent.errors import InvalidParamsError
from acp_agent.protocol import JsonObject, JsonValue

KEY = "acp-agent"
ADVERTISED: JsonObject = {KEY: {"at": True, "messageId": True}}
"""What clients are told of it, in the capability's own `_meta`."""


def fork_point(meta: JsonValue) -> int | str | None:
    """The entry or the message's id; None where nothing is said.

    :param meta: what stood at `_meta`; what others put there is passed over.
    :raises InvalidParamsError: what stands at our key names no point.
    """
    ours = meta.get(KEY) if isinstance(meta, dict) else None
    if ours is None:
        return None
    at, message_id = (ours.get("at"), ours.get("messageId")) if isinstance(ours, dict) else (None, None)
    if isinstance(at, int) and not isinstance(at, bool) and message_id is None:
        return at
    if isinstance(message_id, str) and at is None:
        return message_id
    raise InvalidParamsError(
        f"session/fork: _meta.{KEY} names no point to fork at. Send `at`, the number of an entry, or `messageId`."
    )
